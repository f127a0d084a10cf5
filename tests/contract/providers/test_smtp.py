"""Conversations with a real SMTP server, and what each way of not succeeding is called."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from email import message_from_bytes, policy
from typing import Any

import pytest
import trustme
from aiosmtpd.smtp import LoginPassword

from tests.contract.providers.mail_server import mail_server, raw_server
from tests.contract.providers.parcels import DELIVERY, INVITATION, parcel
from timebell.errors import ConfigurationError
from timebell.notify.provider import Rejected, Sent, Unavailable, Uncertain
from timebell.providers.mail import Mail, build_mail
from timebell.providers.smtp import Smtp, SmtpServer
from timebell.testing import ManualClock

# Long enough for a machine that is busy to come as far as the test wants it to, and short enough to wait for.
SHORT = timedelta(seconds=1)


@asynccontextmanager
async def smtp(
    port: int, *, context: ssl.SSLContext | None = None, clock: ManualClock | None = None, **options: Any
) -> AsyncIterator[Smtp]:
    options.setdefault("security", "none")
    server = SmtpServer(host="127.0.0.1", port=port, hello_name="bell.example", **options)
    provider = Smtp(
        server, sender="no-reply@example.com", sender_name="Timebell", tls_context=context, clock=clock
    )
    try:
        yield provider
    finally:
        await provider.close()


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def server_tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


@pytest.fixture
def client_tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


@pytest.mark.req("M-5.8")
async def test_a_mail_arrives() -> None:
    async with mail_server() as server, smtp(server.port) as provider:
        answer = await provider.send(parcel(html="<p>Ten.</p>", text=".\n..dots\n.", recipient_name="Ann"))
        assert answer == Sent(provider_id=f"<{DELIVERY}@example.com>", detail={"reply": "2.0.0 queued as 42"})
        (mail,) = server.mails
        assert mail.mail_from == "no-reply@example.com"
        assert mail.rcpt_tos == ["ann@example.org"]
        assert isinstance(mail.content, bytes)
        message = message_from_bytes(mail.content, policy=policy.default)
        assert message["Subject"] == "Meeting at ten"
        assert message["Message-ID"] == f"<{DELIVERY}@example.com>"
        text = message.get_body(("plain",))
        assert text is not None
        assert text.get_content().replace("\r\n", "\n") == ".\n..dots\n.\n"


async def test_a_long_mail_is_built_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes up to a tenth of a second, in which nothing else would go on."""
    threads: list[bool] = []

    def build(*given: Any, **named: Any) -> Mail:
        threads.append(threading.current_thread() is threading.main_thread())
        return build_mail(*given, **named)

    monkeypatch.setattr("timebell.providers.smtp.build_mail", build)
    async with mail_server() as server, smtp(server.port) as provider:
        for text in ("short", "long\n" * 5_000):
            assert isinstance(await provider.send(parcel(text=text)), Sent)
    assert threads == [True, False]
    contents = [mail.content for mail in server.mails]
    assert [isinstance(each, bytes) and each.count(b"long") for each in contents] == [0, 5_000]


@pytest.mark.req("M-5.8")
async def test_an_invitation_arrives() -> None:
    async with mail_server() as server, smtp(server.port) as provider:
        assert isinstance(await provider.send(parcel(html="<p>Ten.</p>", calendar=INVITATION)), Sent)
        (mail,) = server.mails
        assert isinstance(mail.content, bytes)
        message = message_from_bytes(mail.content, policy=policy.default)
        (part,) = [part for part in message.walk() if part.get_content_type() == "text/calendar"]
        assert part.get_param("method") == "REQUEST"
        assert part.get_content().replace("\r\n", "\n") == INVITATION.replace("\r\n", "\n")


@pytest.mark.parametrize(
    ("step", "reply", "expected"),
    [
        ("MAIL", "451 4.3.0 try later", (Unavailable, "sender_deferred", "transient")),
        ("MAIL", "421 4.4.2 closing", (Unavailable, "server_refused", "unavailable")),
        ("MAIL", "550 5.7.1 not you", (Rejected, "sender_refused", "account", False)),
        ("MAIL", "552 5.3.4 too big", (Rejected, "sender_refused", "content", False)),
        ("RCPT", "450 4.2.0 greylisted", (Unavailable, "recipient_deferred", "transient")),
        ("RCPT", "421 too busy", (Unavailable, "server_refused", "unavailable")),
        ("RCPT", "550 5.1.1 no such user", (Rejected, "recipient_refused", "address", True)),
        ("RCPT", "550 no", (Rejected, "recipient_refused", "address", False)),
        ("RCPT", "554 5.7.1 relay denied", (Rejected, "recipient_refused", "account", False)),
        ("DATA", "451 no room", (Unavailable, "data_deferred", "transient")),
        ("DATA", "554 no", (Rejected, "data_refused", "content", False)),
        ("content", "451 4.7.1 later", (Unavailable, "content_deferred", "transient")),
        ("content", "421 closing", (Unavailable, "server_refused", "unavailable")),
        ("content", "554 5.7.1 spam", (Rejected, "content_refused", "content", False)),
        ("content", "550 5.1.1 no such user", (Rejected, "content_refused", "address", True)),
    ],
)
async def test_what_the_server_says_is_what_we_say(step: str, reply: str, expected: tuple[Any, ...]) -> None:
    async with mail_server() as server, smtp(server.port) as provider:
        server.script[step] = reply
        answer = await provider.send(parcel())
        assert isinstance(answer, expected[0])
        assert answer.reason == expected[1]
        if isinstance(answer, Unavailable):
            assert answer.error_class == expected[2]
        if isinstance(answer, Rejected):
            assert (answer.blame, answer.is_gone) == expected[2:]
        assert answer.detail["code"] == int(reply[:3])
        server.script.clear()
        assert isinstance(await provider.send(parcel()), Sent), "a refusal leaves the next mail alone"


@pytest.mark.parametrize("step", ["MAIL", "RCPT", "DATA"])
@pytest.mark.parametrize("how", ["drop", "hang"])
async def test_before_the_content_nothing_was_taken(step: str, how: str) -> None:
    async with mail_server() as server, smtp(server.port, timeout=SHORT) as provider:
        server.script[step] = how
        answer = await provider.send(parcel())
        assert isinstance(answer, Unavailable)
        assert answer.error_class == "unavailable"
        assert answer.reason == ("timed_out" if how == "hang" else "connection_lost")
        assert server.mails == []


@pytest.mark.parametrize("how", ["drop", "hang"])
async def test_after_the_content_nobody_knows(how: str) -> None:
    async with mail_server() as server, smtp(server.port, timeout=SHORT) as provider:
        server.script["content"] = how
        answer = await provider.send(parcel())
        assert answer == Uncertain(
            reason="timed_out" if how == "hang" else "connection_lost", detail={"stage": "content"}
        )
        assert len(server.mails) == 1, "the server has it, and we must not say that it has not"
        server.script.clear()
        assert isinstance(await provider.send(parcel()), Sent)
        first, second = server.mails
        assert first.content == second.content, "whoever has both copies can tell that they are one"


async def test_a_caller_that_gives_up_leaves_nothing_half_said() -> None:
    async with mail_server() as server, smtp(server.port) as provider:
        server.script["content"] = "hang"
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(SHORT.total_seconds()):
                await provider.send(parcel())
        server.script.clear()
        assert isinstance(await provider.send(parcel()), Sent)
        assert server.connection_count == 2, "a connection with half a mail on it is not used again"


async def test_one_connection_serves_many_mails() -> None:
    async with mail_server() as server, smtp(server.port) as provider:
        for _ in range(5):
            assert isinstance(await provider.send(parcel()), Sent)
        assert server.connection_count == 1
        assert len(server.mails) == 5


async def test_many_at_once_share_a_few_connections() -> None:
    async with mail_server() as server, smtp(server.port, connections_max=2) as provider:
        answers = await asyncio.gather(*(provider.send(parcel()) for _ in range(12)))
        assert all(isinstance(answer, Sent) for answer in answers)
        assert server.connection_count == 2


async def test_whoever_waited_for_a_connection_says_nothing_of_the_server() -> None:
    """It was never asked, so it is neither well nor away; and whoever gets the connection late has as long for it."""
    timeout = timedelta(milliseconds=200)
    async with mail_server() as server, smtp(server.port, connections_max=1, timeout=timeout) as provider:
        await provider._places.take("another")
        behind = parcel()
        answer = await provider.send(behind)
        assert isinstance(answer, Unavailable)
        assert (answer.reason, answer.about) == ("no_connection_free", "nobody")
        assert not behind.handover.has_begun
        assert server.connection_count == 0
        provider._places.give_back()
    async with mail_server() as server, smtp(server.port, connections_max=1) as provider:
        await provider._places.take("another")
        waiting = [asyncio.ensure_future(provider.send(parcel())) for _ in range(2)]
        await asyncio.sleep(0)
        provider._places.give_back()
        waiting[0].cancel()
        await asyncio.wait(waiting)
        assert isinstance(waiting[1].result(), Sent), "the place of one that was given up goes to the next"


async def test_tenants_take_turns_for_the_connections() -> None:
    async with mail_server() as server, smtp(server.port, connections_max=1) as provider:
        flood = [provider.send(parcel(tenant="a", address=f"a{number}@example.org")) for number in range(6)]
        sending = [asyncio.ensure_future(one) for one in flood]
        await asyncio.sleep(0)
        sending.append(asyncio.ensure_future(provider.send(parcel(tenant="b", address="b@example.org"))))
        assert all(isinstance(answer, Sent) for answer in await asyncio.gather(*sending))
    order = [mail.rcpt_tos[0] for mail in server.mails]
    assert order.index("b@example.org") <= 2
    assert [each for each in order if each != "b@example.org"] == [f"a{n}@example.org" for n in range(6)]


async def test_a_connection_grows_old() -> None:
    clock = ManualClock()
    async with (
        mail_server() as server,
        smtp(server.port, clock=clock, mails_per_connection_max=2) as provider,
    ):
        for _ in range(3):
            await provider.send(parcel())
        assert server.connection_count == 2
        clock.move(timedelta(seconds=21))
        await provider.send(parcel())
        assert server.connection_count == 3


async def test_a_connection_that_the_server_closed_is_not_used() -> None:
    async with mail_server() as server, smtp(server.port) as provider:
        await provider.send(parcel())
        assert isinstance(server.peers[0].transport, asyncio.Transport)
        server.peers[0].transport.close()
        assert isinstance(await provider.send(parcel()), Sent)
        assert server.connection_count == 2


@pytest.mark.parametrize("step", ["MAIL", "RCPT", "content"])
async def test_a_server_that_says_it_is_closing_is_believed(step: str) -> None:
    async with mail_server() as server, smtp(server.port) as provider:
        server.script[step] = "421 4.3.2 closing"
        assert isinstance(await provider.send(parcel()), Unavailable)
        server.script.clear()
        assert isinstance(await provider.send(parcel()), Sent)
        assert server.connection_count == 2


async def test_no_server() -> None:
    async with mail_server() as server:
        port = server.port
    async with smtp(port) as provider:
        answer = await provider.send(parcel())
        assert answer == Unavailable(
            reason="not_connected", error_class="unavailable", detail={"stage": "connect"}
        )


async def test_starttls_and_login(server_tls: ssl.SSLContext, client_tls: ssl.SSLContext) -> None:
    login: dict[str, Any] = {
        "security": "starttls",
        "username": "bell",
        "password": "right",
        "context": client_tls,
    }
    async with (
        mail_server(starttls=server_tls, require_starttls=True, auth_required=True) as server,
        smtp(server.port, **login) as provider,
    ):
        assert isinstance(await provider.send(parcel()), Sent)
        assert server.is_encrypted == [True]
        assert server.logins == [LoginPassword(b"bell", b"right")]


async def test_tls_from_the_start(server_tls: ssl.SSLContext, client_tls: ssl.SSLContext) -> None:
    async with (
        mail_server(tls=server_tls) as server,
        smtp(server.port, security="tls", context=client_tls) as provider,
    ):
        assert isinstance(await provider.send(parcel()), Sent)


async def test_a_wrong_password_can_be_mended(server_tls: ssl.SSLContext, client_tls: ssl.SSLContext) -> None:
    login: dict[str, Any] = {
        "security": "starttls",
        "username": "bell",
        "password": "wrong",
        "context": client_tls,
    }
    async with (
        mail_server(starttls=server_tls, auth_required=True) as server,
        smtp(server.port, **login) as provider,
    ):
        answer = await provider.send(parcel())
        assert isinstance(answer, Unavailable)
        assert (answer.reason, answer.error_class) == ("server_refused", "unavailable")
        assert answer.detail["code"] == 535
        assert server.mails == []


@pytest.mark.parametrize("security", ["starttls", "tls"])
async def test_a_certificate_of_somebody_else(security: str, server_tls: ssl.SSLContext) -> None:
    options: dict[str, Any] = {"starttls": server_tls} if security == "starttls" else {"tls": server_tls}
    async with (
        mail_server(**options) as server,
        smtp(server.port, security=security, context=ssl.create_default_context()) as provider,
    ):
        answer = await provider.send(parcel())
        assert isinstance(answer, Unavailable)
        assert answer.error_class == "unavailable"
        assert server.mails == []


async def test_a_server_without_starttls_gets_nothing(client_tls: ssl.SSLContext) -> None:
    async with (
        mail_server() as server,
        smtp(server.port, security="starttls", context=client_tls) as provider,
    ):
        assert isinstance(await provider.send(parcel()), Unavailable)
        assert server.mails == []


async def test_an_address_beyond_ascii_needs_a_server_that_takes_it() -> None:
    async with mail_server() as server, smtp(server.port) as provider:
        answer = await provider.send(parcel(address="jörg@example.org"))
        assert answer == Rejected(reason="no_smtputf8", blame="address")
    async with mail_server(enable_SMTPUTF8=True) as server, smtp(server.port) as provider:
        assert isinstance(await provider.send(parcel(address="jörg@example.org")), Sent)
        assert server.mails[0].rcpt_tos == ["jörg@example.org"]


@pytest.mark.parametrize(
    ("fields", "blame"),
    [
        ({"address": "ann@example.org\r\nRCPT TO:<eve@example.net>"}, "address"),
        ({"sender": {"email": "not an address"}}, "account"),
        ({"text": "x" * 2_000_001}, "content"),
    ],
)
async def test_what_cannot_be_a_mail_never_reaches_the_server(fields: dict[str, Any], blame: str) -> None:
    async with mail_server() as server, smtp(server.port) as provider:
        answer = await provider.send(parcel(**fields))
        assert isinstance(answer, Rejected)
        assert (answer.reason, answer.blame) == ("not_mailable", blame)
        assert server.connection_count == 0


async def test_a_size_is_announced_where_the_server_asks_for_it() -> None:
    async with mail_server(data_size_limit=500) as server, smtp(server.port) as provider:
        answer = await provider.send(parcel(text="x" * 1_000))
        assert isinstance(answer, Rejected)
        assert answer.detail["code"] == 552
        assert answer.detail["stage"] == "sender", "it is refused before it is sent"


@pytest.mark.parametrize(
    ("greeting", "reason"),
    [
        (b"554 no service here\r\n", "server_refused"),
        (b"421 busy\r\n", "server_refused"),
        (b"hello\r\n", "garbled_reply"),
    ],
)
async def test_a_server_that_does_not_want_us(greeting: bytes, reason: str) -> None:
    async def talk(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)

    async with raw_server(talk) as port, smtp(port, timeout=SHORT) as provider:
        answer = await provider.send(parcel())
        assert isinstance(answer, Unavailable)
        assert answer.reason == reason


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        (b"250 OK\r\n", Sent),
        (b"what?\r\n", Uncertain),
        (b"250", Uncertain),
        (b"354 more\r\n", Uncertain),
        (b"x" * 70_000 + b"\r\n", Uncertain),
    ],
)
async def test_a_garbled_word_after_the_content_settles_nothing(last: bytes, expected: type) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 hi\r\n")
        for reply in (b"250 hi\r\n", b"250 ok\r\n", b"250 ok\r\n", b"354 go\r\n"):
            await reader.readline()
            writer.write(reply)
        await reader.readuntil(b"\r\n.\r\n")
        writer.write(last)
        await reader.readline()
        writer.write(b"221 bye\r\n")

    async with raw_server(talk) as port, smtp(port, timeout=SHORT) as provider:
        assert isinstance(await provider.send(parcel()), expected)


async def test_one_byte_at_a_time_is_cut_off_by_the_deadline() -> None:
    async def talk(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"2")
        await asyncio.Event().wait()

    async with raw_server(talk) as port, smtp(port, timeout=SHORT) as provider:
        answer = await provider.send(parcel())
        assert isinstance(answer, Unavailable)
        assert answer.reason == "timed_out"


async def test_what_is_kept_of_a_reply_names_nobody() -> None:
    async with mail_server() as server, smtp(server.port) as provider:
        server.script["RCPT"] = "550 5.1.1 <ann@example.org>: no such user; ask ann@example.org\x07"
        answer = await provider.send(parcel())
        assert answer.detail["text"] == "5.1.1 <<address>>: no such user; ask <address>"


def test_the_traits_say_what_smtp_can_do() -> None:
    provider = Smtp(SmtpServer(host="localhost", security="none"), sender="no-reply@example.com")
    assert provider.traits.channels == {"email"}
    assert provider.traits.key_lifetime is None
    assert not provider.traits.can_look_up
    assert provider.traits.timeout > timedelta(seconds=30), (
        "our own answer comes before the deadline around it"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"security": "none", "username": "bell", "host": "mail.example"},
            "security: a password would cross",
        ),
        ({"security": "ssl"}, "security: 'ssl' is unknown"),
        ({"connections_max": 0}, "connections_max: 0 is not from 1 to 100"),
        ({"timeout": timedelta(0)}, "timeout: 0:00:00 is not"),
    ],
)
def test_settings_that_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        SmtpServer(**{"host": "localhost", **options})


def test_a_sender_that_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="sender: "):
        Smtp(SmtpServer(host="localhost"), sender="Timebell")


def test_a_password_is_not_shown() -> None:
    assert "hunter2" not in repr(SmtpServer(host="localhost", username="bell", password="hunter2"))


@pytest.mark.parametrize("where", ["at the greeting", "between two mails"])
async def test_a_server_that_falls_silent_is_left(where: str) -> None:
    silent: list[asyncio.StreamReader] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 hi\r\n")
        replies = (b"250 hi\r\n", b"250 ok\r\n", b"250 ok\r\n", b"354 go\r\n", b"250 taken\r\n")
        for reply in replies if where == "between two mails" else ():
            await (reader.readuntil(b"\r\n.\r\n") if b"taken" in reply else reader.readline())
            writer.write(reply)
        silent.append(reader)
        await asyncio.Event().wait()

    async with raw_server(talk) as port, smtp(port, timeout=SHORT) as provider:
        if where == "between two mails":
            assert isinstance(await provider.send(parcel()), Sent)
        answer = await provider.send(parcel())
        assert isinstance(answer, Unavailable)
        assert answer.reason == "timed_out"
        async with asyncio.timeout(5):
            assert (await silent[0].read())[:4] in {b"EHLO", b"RSET"}, "to the end: we hung up"
