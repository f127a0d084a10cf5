"""Mail through an SMTP server.

SMTP knows no keys: a server that goes away after the content may or may not have taken it. So the step that each mail
has reached is known at every moment, and `Uncertain` is said only from there on.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Final, Literal

from aiosmtplib import (
    SMTP,
    SMTPDataError,
    SMTPException,
    SMTPResponse,
    SMTPResponseException,
    SMTPServerDisconnected,
)

from timebell.clock import Clock, SystemClock
from timebell.errors import ConfigurationError, InvalidInput
from timebell.kernel.aside import Aside, Line
from timebell.notify.provider import Answer, Blame, Handover, Parcel, Rejected, Sent, Traits, Unavailable
from timebell.providers.deadlines import deadline_around
from timebell.providers.mail import Mail, build_mail, read_address
from timebell.providers.smtp_replies import (
    CLOSING,
    Stage,
    answer_to_reply,
    answer_to_silence,
    without_addresses,
)

CHECK_SECONDS_MAX: Final = 5.0
QUIT_SECONDS_MAX: Final = 2.0

# To build a mail of so many takes some milliseconds; of more, up to a tenth of a second.
_LONG_CHARS: Final = 10_000
_START_INPUT: Final = 354
_COMPLETED: Final = 250
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_NO_CONNECTION_FREE: Final = Unavailable(
    reason="no_connection_free", error_class="unavailable", about="nobody"
)
_BLAMED: Final[dict[str | None, Blame]] = {
    "address": "address",
    "sender": "account",
    "reply_to": "account",
    "unsubscribe_url": "account",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SmtpServer:
    """The server that takes our mail, and how much of it we use.

    `starttls` and `tls` never fall back to plain text. `hello_name` is the name by which we greet it.
    """

    host: str
    port: int = 587
    security: Literal["starttls", "tls", "none"] = "starttls"
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    hello_name: str | None = None
    connections_max: int = 4
    mails_per_connection_max: int = 100
    idle_seconds_max: float = 20.0
    rate_per_second: float | None = None
    timeout: timedelta = timedelta(seconds=30)
    when_uncertain: Literal["wait", "retry", "nothing"] = "wait"

    def __post_init__(self) -> None:
        if self.security not in {"starttls", "tls", "none"}:
            raise ConfigurationError(f"security: {self.security!r} is unknown; use starttls, tls or none")
        if self.username is not None and self.security == "none" and self.host not in _LOOPBACK:
            raise ConfigurationError(
                "security: a password would cross the network in plain text; use starttls"
            )
        if not 1 <= self.connections_max <= 100:
            raise ConfigurationError(f"connections_max: {self.connections_max} is not from 1 to 100")
        if not timedelta(0) < self.timeout <= timedelta(minutes=10):
            raise ConfigurationError(f"timeout: {self.timeout} is not from 0 to 10 minutes")


class _Step:
    """How far a mail has come."""

    def __init__(self, handover: Handover) -> None:
        self.stage: Stage = "connect"
        self._handover = handover

    def hand_over(self) -> None:
        self.stage = "content"
        self._handover.begin()


class Smtp:
    """Hands one mail at a time to a server, over a few connections that it keeps for the next ones."""

    def __init__(
        self,
        server: SmtpServer,
        *,
        sender: str,
        sender_name: str | None = None,
        name: str = "smtp",
        tls_context: ssl.SSLContext | None = None,
        clock: Clock | None = None,
    ) -> None:
        try:
            read_address(sender, field="sender")
        except InvalidInput as error:
            raise ConfigurationError(str(error)) from error
        self._server = server
        self._sender = sender
        self._sender_name = sender_name
        self._name = name
        self.aside = Aside()
        self._places = _Places(server.connections_max)
        self._connections = _Connections(server, tls_context, clock or SystemClock())
        self._traits = Traits(
            channels=frozenset({"email"}),
            when_uncertain=server.when_uncertain,
            rate_per_second=server.rate_per_second,
            marks_handover=True,
            # As long for one of our connections as for the server.
            timeout=deadline_around(2 * server.timeout),
        )

    @property
    def name(self) -> str:
        return self._name

    @property
    def traits(self) -> Traits:
        return self._traits

    async def send(self, parcel: Parcel) -> Answer:
        try:
            mail = await self._built(parcel)
        except InvalidInput as error:
            detail = {"field": error.field, "text": without_addresses(str(error))}
            return Rejected(reason="not_mailable", blame=_BLAMED.get(error.field, "content"), detail=detail)
        seconds = self._server.timeout.total_seconds()
        try:
            async with asyncio.timeout(seconds):
                await self._places.take(parcel.tenant)
        except TimeoutError:
            return _NO_CONNECTION_FREE
        try:
            return await self._talk(mail, _Step(parcel.handover), seconds)
        finally:
            self._places.give_back()

    async def look_up(self, parcel: Parcel) -> Answer:
        raise NotImplementedError("SMTP cannot be asked what became of a mail; its traits say so")

    async def close(self) -> None:
        self.aside.close()
        await self._connections.close()

    async def _built(self, parcel: Parcel) -> Mail:
        """The library encodes line by line, which takes a while where there are many."""
        work = partial(build_mail, parcel, sender=self._sender, sender_name=self._sender_name)
        content = parcel.content
        chars = sum(len(part or "") for part in (content.text, content.html, content.calendar))
        place = self.aside.short if chars > _LONG_CHARS else self.aside.turns
        return await place.run(parcel.tenant, "mail", work)

    async def _talk(self, mail: Mail, step: _Step, seconds: float) -> Answer:
        try:
            async with asyncio.timeout(seconds):
                return await self._send(mail, step)
        except TimeoutError:
            return answer_to_silence(step.stage, "timed_out")
        except ssl.SSLError:
            return answer_to_silence(step.stage, "tls_failed")
        except SMTPResponseException as reply:
            return answer_to_reply(step.stage, reply.code, reply.message)
        except (SMTPException, OSError):
            return answer_to_silence(
                step.stage, "connection_lost" if step.stage != "connect" else "not_connected"
            )

    async def _send(self, mail: Mail, step: _Step) -> Answer:
        async with self._connections.borrow() as connection:
            if mail.needs_utf8 and not connection.supports_extension("smtputf8"):
                return Rejected(reason="no_smtputf8", blame="address")
            reply = await _hand_over(connection, mail, step)
        return Sent(provider_id=mail.message_id, detail={"reply": without_addresses(reply.message)})


async def _hand_over(connection: SMTP, mail: Mail, step: _Step) -> SMTPResponse:
    encoding = "utf-8" if mail.needs_utf8 else "ascii"
    step.stage = "sender"
    options = ["SMTPUTF8"] if mail.needs_utf8 else []
    if connection.supports_extension("size"):
        options.append(f"SIZE={len(mail.content)}")
    await connection.mail(mail.sender.spec, options=options, encoding=encoding)
    step.stage = "recipient"
    await connection.rcpt(mail.recipient.spec, encoding=encoding)
    step.stage = "data"
    reply = await connection.execute_command(b"DATA")
    if reply.code != _START_INPUT:
        raise SMTPDataError(reply.code, reply.message)
    protocol = connection.protocol
    if protocol is None:
        raise SMTPServerDisconnected("the server is gone")
    # Written and awaited apart: only from the moment of the write on can the mail have been taken.
    content = re.sub(rb"(?m)^\.", b"..", mail.content) + b".\r\n"
    step.hand_over()
    protocol.write(content)
    reply = await protocol.read_response()
    if reply.code != _COMPLETED:
        raise SMTPDataError(reply.code, reply.message)
    return reply


@dataclass(slots=True)
class _Kept:
    """A connection between two mails."""

    connection: SMTP
    mails: int
    used_at: float


@dataclass(frozen=True, slots=True)
class _Waiter:
    """A mail that waits for a place."""

    answer: asyncio.Future[None]


class _Places:
    """As many as there may be connections. Where all are taken the tenants take turns, so that nobody's mail is behind
    all that another has to send."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._line: Line[_Waiter] = Line()

    async def take(self, tenant: str) -> None:
        if self._free:
            self._free -= 1
            return
        waiter = _Waiter(asyncio.get_running_loop().create_future())
        self._line.add(tenant, waiter)
        try:
            await waiter.answer
        except asyncio.CancelledError:
            if not waiter.answer.cancelled():
                # It came in the same moment in which nobody wanted it any more.
                self.give_back()
            raise

    def give_back(self) -> None:
        taken = self._line.take()
        if taken is None:
            self._free += 1
        else:
            taken[1].answer.set_result(None)


class _Connections:
    """Each is used again while it is young, and closed after anything unexpected."""

    def __init__(self, server: SmtpServer, tls_context: ssl.SSLContext | None, clock: Clock) -> None:
        self._server = server
        self._clock = clock
        self._idle: list[_Kept] = []
        self._tls_context = tls_context
        if tls_context is None and server.security != "none":
            self._tls_context = ssl.create_default_context()

    @asynccontextmanager
    async def borrow(self) -> AsyncIterator[SMTP]:
        kept = await self._reuse() or await self._connect()
        is_in_step = False
        try:
            yield kept.connection
            is_in_step = True
        except SMTPResponseException as reply:
            is_in_step = 400 <= reply.code <= 599 and reply.code != CLOSING
            raise
        finally:
            kept.mails += 1
            kept.used_at = self._clock.monotonic()
            if is_in_step and kept.connection.is_connected:
                self._idle.append(kept)
            else:
                kept.connection.close()

    async def close(self) -> None:
        idle, self._idle = self._idle, []
        for kept in idle:
            try:
                async with asyncio.timeout(QUIT_SECONDS_MAX):
                    await kept.connection.quit()
            except (SMTPException, OSError):
                kept.connection.close()

    async def _reuse(self) -> _Kept | None:
        """A kept connection that still answers and has forgotten its last envelope."""
        while self._idle:
            kept = self._idle.pop()
            is_young = self._clock.monotonic() - kept.used_at <= self._server.idle_seconds_max
            is_usable = is_young and kept.mails < self._server.mails_per_connection_max
            if is_usable and kept.connection.is_connected and await _answers(kept.connection):
                return kept
            kept.connection.close()
        return None

    async def _connect(self) -> _Kept:
        server = self._server
        connection = SMTP(
            hostname=server.host,
            port=server.port,
            username=server.username,
            password=server.password,
            use_tls=server.security == "tls",
            start_tls=server.security == "starttls",
            tls_context=self._tls_context,
            local_hostname=server.hello_name or _own_name(),
            timeout=None,
        )
        try:
            await connection.connect()
            # Asked for now, since what the server supports decides what can be sent.
            if connection.is_ehlo_or_helo_needed:
                await connection.ehlo()
        except BaseException:
            connection.close()
            raise
        return _Kept(connection=connection, mails=0, used_at=self._clock.monotonic())


async def _answers(connection: SMTP) -> bool:
    try:
        async with asyncio.timeout(CHECK_SECONDS_MAX):
            await connection.rset()
        return True
    except (SMTPException, OSError):
        return False
    except asyncio.CancelledError:
        connection.close()
        raise


def _own_name() -> str:
    """The name of this host without asking DNS, which may take long; an address where it has none (RFC 5321, 4.1.3)."""
    name = socket.gethostname()
    return name if "." in name and name.isascii() else "[127.0.0.1]"
