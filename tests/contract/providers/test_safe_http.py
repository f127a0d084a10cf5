"""A stranger's URL never leads inside, whatever it is written like and whatever its name comes to stand for."""

from __future__ import annotations

import asyncio
import logging
import ssl
import threading
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from ipaddress import ip_network

import pytest
import pytest_asyncio
import trustme

from tests.contract.providers.http_server import HttpServer, Request, Response
from timebell.errors import UnsafeUrl
from timebell.kernel.look_ups import LookUps
from timebell.providers.http import HttpCaller, NoReply, Reply
from timebell.providers.safe_addresses import is_outside
from timebell.providers.safe_http import PUBLIC, Reach, check_url, safe_caller

SECONDS = timedelta(seconds=5)
LOCAL = (ip_network("127.0.0.0/8"), ip_network("::1/128"))

INSIDE = [
    "127.0.0.1",
    "127.1.2.3",
    "0.0.0.0",
    "10.0.0.1",
    "100.64.0.1",
    "100.100.100.200",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.8",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "168.63.129.16",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:0:7f00:1::",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::1",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "not an address",
]
OUTSIDE = ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "2a00:1450:4001:800::200e", "64:ff9b::808:808"]

# What the system's resolver takes for the host's own address, however it is written.
SPELLINGS = [
    "127.0.0.1",
    "127.1",
    "0x7f000001",
    "0x7f.0.0.1",
    "2130706433",
    "017700000001",
    "0177.0.0.1",
    "0",
    "localhost",
    "localhost.",
    "LOCALHOST",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[0:0:0:0:0:0:0:1]",
    "①②⑦.0.0.1",
    "127。0。0。1",
]


@pytest.mark.parametrize("address", INSIDE)
def test_what_is_inside(address: str) -> None:
    assert not is_outside(address)


@pytest.mark.parametrize("address", OUTSIDE)
def test_what_is_outside(address: str) -> None:
    assert is_outside(address)


def test_a_network_may_be_allowed_by_name() -> None:
    assert is_outside("10.1.2.3", allowed=[ip_network("10.1.0.0/16")])
    assert not is_outside("10.2.2.3", allowed=[ip_network("10.1.0.0/16")])


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "gopher://example.com/",
        "//example.com/",
        "example.com",
        "",
        "https://",
        "https:///path",
        "https://user:password@example.com/",
        "https://user@example.com/",
        "https://example.com:22/",
        "https://example.com:80/",
        "https://example.com:0/",
        "https://example.com:99999/",
        "https://example.com\\@127.0.0.1/",
        "https://example.com /",
        "https://example.com/\r\nX-Injected: 1",
        "https://exa\tmple.com/",
        "https://[fe80::1%25eth0]/",
        "https://example.com/" + "x" * 2_000,
    ],
)
def test_urls_that_are_refused_as_they_stand(url: str) -> None:
    with pytest.raises(UnsafeUrl, match=r"^url: "):
        check_url(url)


@pytest.mark.parametrize(
    "url", ["https://example.com/hook?a=b", "https://example.com:8443/", "https://ümlaut.example/"]
)
def test_urls_that_are_fine(url: str) -> None:
    check_url(url)


class Canary:
    """A server inside that must never hear from us, and the names that lead to it."""

    def __init__(self) -> None:
        self.authority = trustme.CA()
        self.requests: list[Request] = []
        self.response = Response()
        self.server = HttpServer(self._serve, trusted=self.authority)
        self.resolved: list[str] = []

    def _serve(self, request: Request) -> Response:
        self.requests.append(request)
        return self.response

    def caller(self, *answers: Sequence[str], reach: Reach | None = None) -> HttpCaller:
        """One whose names resolve to each of the answers in turn."""
        remaining = list(answers)

        async def resolve(host: str, port: int) -> Sequence[str]:
            self.resolved.append(host)
            return remaining.pop(0)

        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        ports = Reach(ports=frozenset({self.server.port}))
        return safe_caller(reach=reach or ports, resolve=resolve if answers else None, verify=context)


@pytest_asyncio.fixture
async def canary() -> AsyncIterator[Canary]:
    made = Canary()
    await made.server.open()
    yield made
    await made.server.close()


@pytest.mark.parametrize("host", SPELLINGS)
async def test_no_spelling_reaches_inside(canary: Canary, host: str) -> None:
    caller = canary.caller()
    outcome = await caller.call("POST", f"https://{host}:{canary.server.port}/", timeout=SECONDS)
    assert isinstance(outcome, NoReply)
    assert not outcome.was_handed_over
    assert canary.server.connections == 0
    await caller.close()


@pytest.mark.parametrize("address", INSIDE[:-1])
async def test_no_name_leads_inside(canary: Canary, address: str) -> None:
    caller = canary.caller([address])
    outcome = await caller.call("POST", f"https://innocent.example:{canary.server.port}/", timeout=SECONDS)
    assert outcome == NoReply(reason="unsafe_url")
    assert canary.server.connections == 0
    await caller.close()


async def test_one_address_inside_among_many_refuses_all(canary: Canary) -> None:
    caller = canary.caller(["8.8.8.8", "1.1.1.1", "127.0.0.1"])
    outcome = await caller.call("POST", f"https://innocent.example:{canary.server.port}/", timeout=SECONDS)
    assert outcome == NoReply(reason="unsafe_url")
    await caller.close()


async def test_a_name_that_changes_its_mind_gains_nothing(canary: Canary) -> None:
    """It is asked once. The system would say that this name leads to the canary, and must not be asked again."""
    reach = Reach(ports=frozenset({canary.server.port}), networks=(ip_network("192.0.2.0/24"),))
    caller = canary.caller(["192.0.2.1"], ["127.0.0.1"], reach=reach)
    url = f"https://localhost:{canary.server.port}/"
    outcome = await caller.call("POST", url, timeout=timedelta(seconds=0.3))
    assert isinstance(outcome, NoReply)
    assert canary.resolved == ["localhost"]
    assert await caller.call("POST", url, timeout=SECONDS) == NoReply(reason="unsafe_url")
    assert canary.server.connections == 0
    await caller.close()


async def test_the_checked_address_is_called_by_the_hosts_name(canary: Canary) -> None:
    reach = Reach(ports=frozenset({canary.server.port}), networks=LOCAL)
    caller = canary.caller(["127.0.0.1"], reach=reach)
    outcome = await caller.call("POST", f"https://localhost:{canary.server.port}/x?y=z", timeout=SECONDS)
    assert isinstance(outcome, Reply)
    assert canary.requests[0].headers["host"] == f"localhost:{canary.server.port}"
    assert (canary.requests[0].path, canary.requests[0].query) == ("/x", {"y": "z"})
    await caller.close()


async def test_no_connection_is_kept_for_another_name(canary: Canary) -> None:
    """It was encrypted for one name; another name at the same address must prove itself."""
    reach = Reach(ports=frozenset({canary.server.port}), networks=LOCAL)
    caller = canary.caller(["127.0.0.1"], ["127.0.0.1"], reach=reach)
    good = await caller.call("POST", f"https://localhost:{canary.server.port}/", timeout=SECONDS)
    bad = await caller.call("POST", f"https://other.example:{canary.server.port}/", timeout=SECONDS)
    assert isinstance(good, Reply)
    assert bad == NoReply(reason="unreachable")
    assert len(canary.requests) == 1
    await caller.close()


async def test_a_certificate_of_another_name_is_refused(canary: Canary) -> None:
    reach = Reach(ports=frozenset({canary.server.port}), networks=LOCAL)
    caller = canary.caller(["127.0.0.1"], reach=reach)
    outcome = await caller.call("POST", f"https://other.example:{canary.server.port}/", timeout=SECONDS)
    assert outcome == NoReply(reason="unreachable")
    assert canary.requests == []
    await caller.close()


async def test_the_next_address_is_tried(canary: Canary) -> None:
    reach = Reach(ports=frozenset({canary.server.port}), networks=LOCAL)
    caller = canary.caller(["127.0.0.9", "127.0.0.1"], reach=reach)
    outcome = await caller.call("POST", f"https://localhost:{canary.server.port}/", timeout=SECONDS)
    assert isinstance(outcome, Reply)
    await caller.close()


async def test_a_redirect_is_not_followed(canary: Canary) -> None:
    canary.response = Response(status=302, headers={"Location": f"https://localhost:{canary.server.port}/in"})
    reach = Reach(ports=frozenset({canary.server.port}), networks=LOCAL)
    caller = canary.caller(["127.0.0.1"], reach=reach)
    outcome = await caller.call("POST", f"https://localhost:{canary.server.port}/out", timeout=SECONDS)
    assert isinstance(outcome, Reply)
    assert outcome.status == 302
    assert [request.path for request in canary.requests] == ["/out"]
    await caller.close()


async def test_proxies_of_the_environment_are_not_used(
    canary: Canary, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "https_proxy", "all_proxy"]:
        monkeypatch.setenv(name, f"http://127.0.0.1:{canary.server.port}")
    caller = canary.caller(["192.0.2.1"], reach=Reach(networks=(ip_network("192.0.2.0/24"),)))
    await caller.call("POST", "https://outside.example/", timeout=timedelta(seconds=0.3))
    assert canary.server.connections == 0
    await caller.close()


async def test_a_long_answer_is_cut(canary: Canary) -> None:
    canary.response = Response(body=b"x" * 5_000_000)
    reach = Reach(ports=frozenset({canary.server.port}), networks=LOCAL)
    caller = canary.caller(["127.0.0.1"], reach=reach)
    outcome = await caller.call("POST", f"https://localhost:{canary.server.port}/", timeout=SECONDS)
    assert isinstance(outcome, Reply)
    assert outcome.is_cut
    assert len(outcome.body) == 65_536
    await caller.close()


async def test_a_compressed_bomb_is_not_unpacked(canary: Canary) -> None:
    canary.response = Response(headers={"Content-Encoding": "gzip"}, body=b"\x1f\x8b" + b"\0" * 100)
    reach = Reach(ports=frozenset({canary.server.port}), networks=LOCAL)
    caller = canary.caller(["127.0.0.1"], reach=reach)
    outcome = await caller.call("POST", f"https://localhost:{canary.server.port}/", timeout=SECONDS)
    assert isinstance(outcome, Reply)
    assert len(outcome.body) == 102
    await caller.close()


async def test_an_answer_that_breaks_off_still_has_its_status(canary: Canary) -> None:
    canary.server.manner = "cut"
    canary.response = Response(status=200, body=b"not all of it")
    reach = Reach(ports=frozenset({canary.server.port}), networks=LOCAL)
    caller = canary.caller(["127.0.0.1"], reach=reach)
    outcome = await caller.call("POST", f"https://localhost:{canary.server.port}/", timeout=SECONDS)
    assert isinstance(outcome, Reply)
    assert (outcome.status, outcome.is_cut) == (200, True)
    await caller.close()


async def test_nothing_that_a_stranger_leaves_with_us_is_brought_back(canary: Canary) -> None:
    """A cookie of one tenant's receiver would else reach that of another, and be kept for ever."""
    canary.response = Response(headers={"Set-Cookie": "left=behind; Path=/"})
    reach = Reach(ports=frozenset({canary.server.port}), networks=LOCAL)
    caller = canary.caller(["127.0.0.1"], ["127.0.0.1"], reach=reach)
    for _ in range(2):
        await caller.call("POST", f"https://localhost:{canary.server.port}/", timeout=SECONDS)
    assert [request.headers.get("cookie") for request in canary.requests] == [None, None]
    await caller.close()


async def test_no_log_has_a_url(canary: Canary, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever has the URL of a webhook or a browser can call it; here even the library is told to say all."""
    # What the command line has quietened in this process before speaks again.
    for name in (None, "httpcore2"):
        caplog.set_level(logging.DEBUG, logger=name)
    reach = Reach(ports=frozenset({canary.server.port}), networks=LOCAL)
    caller = canary.caller(["127.0.0.1"], reach=reach)
    url = f"https://localhost:{canary.server.port}/hook/s3cret?token=s3cret"
    assert isinstance(await caller.call("POST", url, timeout=SECONDS), Reply)
    assert "localhost" in caplog.text
    assert "s3cret" not in caplog.text
    await caller.close()


async def test_a_name_that_is_not_known_is_unreachable() -> None:
    async def fail(host: str, port: int) -> Sequence[str]:
        raise OSError("no such host")

    caller = safe_caller(resolve=fail)
    outcome = await caller.call("POST", "https://nowhere.example/", timeout=SECONDS)
    assert outcome == NoReply(reason="unreachable")
    await caller.close()


async def test_a_resolver_that_hangs_is_bounded() -> None:
    async def hang(host: str, port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    caller = safe_caller(resolve=hang)
    outcome = await caller.call("POST", "https://slow.example/", timeout=timedelta(seconds=0.05))
    assert outcome == NoReply(reason="timed_out")
    await caller.close()


async def test_names_of_one_tenant_that_hang_do_not_hold_up_another(canary: Canary) -> None:
    """More of them than there are places for."""
    released = threading.Event()

    def look_up(host: str) -> Sequence[str]:
        if host.startswith("slow"):
            assert released.wait(60)
        return ["127.0.0.1"]

    look_ups = LookUps(look_up, seconds=60)
    reach = Reach(ports=frozenset({canary.server.port}), networks=(ip_network("127.0.0.0/8"),))
    context = ssl.create_default_context()
    canary.authority.configure_trust(context)
    caller = safe_caller(reach=reach, look_ups=look_ups, verify=context)
    port = canary.server.port
    hanging = [
        asyncio.ensure_future(
            caller.call("POST", f"https://slow{number}.example:{port}/", timeout=10 * SECONDS, tenant="a")
        )
        for number in range(40)
    ]
    await asyncio.sleep(0)
    answered = await caller.call("POST", f"https://localhost:{port}/", timeout=SECONDS, tenant="b")
    assert isinstance(answered, Reply)
    assert not any(call.done() for call in hanging)
    released.set()
    for call in hanging:
        call.cancel()
    await caller.close()


async def test_a_name_with_no_address_or_too_many_is_refused() -> None:
    answers = [[], ["8.8.8.8"] * 65]

    async def resolve(host: str, port: int) -> Sequence[str]:
        return answers.pop(0)

    caller = safe_caller(resolve=resolve)
    assert await caller.call("POST", "https://a.example/", timeout=SECONDS) == NoReply(reason="unreachable")
    assert await caller.call("POST", "https://a.example/", timeout=SECONDS) == NoReply(reason="unsafe_url")
    await caller.close()


def test_what_is_public_is_encrypted_and_on_few_ports() -> None:
    assert Reach(ports=frozenset({443, 8443}), networks=(), is_plain_allowed=False) == PUBLIC
