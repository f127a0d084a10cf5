"""One Timebell and two tenants: one as loud as the public interface lets it be, one who watches the clock."""

from __future__ import annotations

import asyncio
import base64
import multiprocessing
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

import httpx2
from aiosmtpd.smtp import SMTP, Envelope, Session

from tests.acceptance.processes import Process, clean_environment, free_port
from tests.contract.providers.mail_server import MailServer, mail_server

ADMIN: Final = "tb_test_0123456789abcdef"
_SECRET: Final = "whsec_" + base64.b64encode(bytes(32)).decode()
# What a loud tenant's own programs cost is not what its neighbours are to be kept from.
_NICE: Final = 5
_SILENT_HOSTS: Final = [f"127.0.0.{number}" for number in range(2, 12)]
_ROWS: Final = "<tr><td>{{ name }}</td><td style='color: red'>{{ name | upcase }}</td></tr>"
_MAIL: Final[dict[str, Any]] = {
    "channel": "email",
    "language": "en",
    "subject": "Hello {{ name }}",
    "body": "Hello {{ name }}",
}
_APP: Final = """
from timebell import App


async def do_nothing(job):
    pass


app = App(name="trial", handlers={"trial.later": do_nothing})
"""
_SETTINGS: Final = """
apps = ["timebell.apps.reminders", "timebell.apps.meetings", "trial_app"]

[[providers]]
kind = "smtp"
name = "mail"
host = "127.0.0.1"
port = {mail_port}
security = "none"
sender = "bell@example.org"
rate_per_second = {rate}

[[providers]]
kind = "webhook"
networks = ["127.0.0.0/8"]
ports = [{silent_port}]
allow_http = true
"""


class Mailbox(MailServer):
    """A mail server that notes whose mail came, and puts off every address that has `grey` in it."""

    def __init__(self) -> None:
        super().__init__()
        self._arrived: dict[str, asyncio.Event] = {}

    def expect(self, address: str) -> asyncio.Event:
        return self._arrived.setdefault(address, asyncio.Event())

    async def handle_RCPT(  # noqa: N802
        self, peer: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if "grey" in address:
            return "450 4.2.0 greylisted, come again in five minutes"
        return await super().handle_RCPT(peer, session, envelope, address, options)

    async def handle_DATA(self, peer: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        reply = await super().handle_DATA(peer, session, envelope)
        for address in envelope.rcpt_tos:
            self.expect(address).set()
        return reply


class Silent(asyncio.Protocol):
    """Takes the call and never answers."""

    calls: ClassVar[set[asyncio.BaseTransport]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self.calls.add(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.calls.discard(self._transport)


class Tenant:
    """What one tenant's programs do, with its key."""

    def __init__(self, http: httpx2.AsyncClient, key: str) -> None:
        self._http = http
        self._headers = {"authorization": f"Bearer {key}"}

    async def ask(self, method: str, path: str, *, actor: str | None = None, **options: Any) -> Any:
        """Its content, where the answer is what was hoped for."""
        response = await self.reply(method, path, actor=actor, **options)
        assert response.status_code < 300, f"{method} {path}: {response.status_code} {response.text[:300]}"
        return response.json() if response.content else None

    async def reply(
        self, method: str, path: str, *, actor: str | None = None, **options: Any
    ) -> httpx2.Response:
        return await self._http.request(method, path, headers=self._headers_for(actor), **options)

    def follow(self, path: str, *, actor: str) -> AbstractAsyncContextManager[httpx2.Response]:
        return self._http.stream("GET", path, headers=self._headers_for(actor))

    def _headers_for(self, actor: str | None) -> dict[str, str]:
        return self._headers | ({} if actor is None else {"timebell-actor": actor})

    async def person(self, name: str, **about: Any) -> str:
        made = await self.ask("POST", "/v1/recipients", json={"name": name, **about})
        id: str = made["id"]
        return id

    async def save(self, template: str, *texts: Mapping[str, Any]) -> None:
        content = {"topic": "trial", "texts": list(texts), "variables": [{"name": "name"}]}
        await self.ask("PUT", f"/v1/templates/{template}", json=content)

    async def tell(self, recipient: str, template: str, channel: str, **more: Any) -> str:
        told = await self.ask(
            "POST", "/v1/notifications", json=_telling(recipient, template, channel, **more)
        )
        id: str = told["id"]
        return id

    async def tell_many(
        self, recipients: list[str], template: str, channel: str, count: int, **more: Any
    ) -> None:
        """A thousand in each request, spread over the recipients."""
        for first in range(0, count, 1000):
            several = [
                _telling(recipients[number % len(recipients)], template, channel, **more)
                for number in range(first, min(count, first + 1000))
            ]
            with suppress(httpx2.HTTPError):
                await self.reply("POST", "/v1/notifications/bulk", json={"notifications": several})


def _telling(recipient: str, template: str, channel: str, **more: Any) -> dict[str, Any]:
    return {
        "recipient_id": recipient,
        "template": template,
        "context": {"name": "you"},
        "channels": [channel],
        **more,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Loud:
    """A tenant that does its worst, from a process of its own: it would slow down whoever watches the clock."""

    url: str
    key: str
    scale: float
    people: list[str] = field(default_factory=list)
    grey: list[str] = field(default_factory=list)
    hooked: list[str] = field(default_factory=list)

    async def settle(self, ask: Tenant, silent_port: int) -> None:
        self.people.extend([await ask.person(f"p{n}", email=f"p{n}@loud.example") for n in range(8)])
        self.grey.extend([await ask.person(f"g{n}", email=f"grey{n}@loud.example") for n in range(20)])
        self.hooked.extend([await ask.person(f"h{n}") for n in range(10)])
        for host, person in zip(_SILENT_HOSTS, self.hooked, strict=True):
            url = f"http://{host}:{silent_port}/hook"
            address = {"kind": "webhook", "value": url, "detail": {"secret": _SECRET}}
            await ask.ask("POST", f"/v1/recipients/{person}/addresses", json=address)
        await ask.save("loud.mail", _MAIL)
        await ask.save("loud.hook", {"channel": "webhook", "language": "en", "body": "Hello {{ name }}"})
        html = f"<style>td {{ padding: 4px }}</style><table>{_ROWS * 300}</table>"
        await ask.save("loud.html", {**_MAIL, "body": html, "format": "html"})

    async def act(self, *ways: str) -> None:
        """All of these at once, until they are over."""
        spawning = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, mp_context=spawning, initializer=os.nice, initargs=(_NICE,)) as apart:
            await asyncio.get_running_loop().run_in_executor(apart, _be_loud, self, ways)


def _be_loud(loud: Loud, names: Sequence[str]) -> None:
    async def be_loud() -> None:
        many = httpx2.Limits(max_connections=2_000, max_keepalive_connections=100)
        async with httpx2.AsyncClient(base_url=loud.url, timeout=30.0, limits=many) as http:
            ways = Ways(Tenant(http, loud.key), loud)
            await asyncio.gather(*(ways.named[name]() for name in names))

    asyncio.run(be_loud())


class Ways:
    """What a loud tenant does. Each is a coroutine that ends by itself."""

    NAMES: ClassVar = (
        *("calendars", "mails", "greylisted", "hooks"),
        *("heavy mails", "jobs", "schedules", "streams"),
    )

    def __init__(self, tenant: Tenant, loud: Loud) -> None:
        self.tenant = tenant
        self._scale = loud.scale
        self._people, self._grey, self._hooked = loud.people, loud.grey, loud.hooked
        self.named: dict[str, Callable[[], Awaitable[None]]] = {
            name: getattr(self, name.replace(" ", "_")) for name in self.NAMES
        }

    def _count(self, most: int) -> int:
        return max(1, round(most * self._scale))

    async def calendars(self) -> None:
        """Small files with one endless name of a timezone."""
        name = "/" * 50_000
        lines = (
            "BEGIN:VCALENDAR",
            "VERSION:2.0",
            "BEGIN:VEVENT",
            "UID:1",
            f"DTSTART;TZID={name}:20270304T120000",
        )
        file = "\r\n".join((*lines, "END:VEVENT", "END:VCALENDAR", ""))
        await self._at_once(
            self._count(12),
            lambda _: self.tenant.reply(
                "POST", "/api/calendar-import", actor=self._people[0], json={"name": "x", "ics": file}
            ),
        )

    async def mails(self) -> None:
        """More mail than the provider takes in a quarter of an hour."""
        await self.tenant.tell_many(
            self._people, "loud.mail", "email", self._count(2_000), urgency="critical"
        )

    async def greylisted(self) -> None:
        """Mail to people whose server puts everybody off."""
        await self.tenant.tell_many(self._grey, "loud.mail", "email", 20)

    async def hooks(self) -> None:
        """Endpoints that take the call and never answer."""
        await self.tenant.tell_many(
            self._hooked, "loud.hook", "webhook", self._count(250), urgency="critical"
        )

    async def heavy_mails(self) -> None:
        """Mail that takes long to write, in one request, and previews of it."""
        await self.tenant.tell_many(self._people, "loud.html", "email", self._count(400))
        preview = {"recipient_id": self._people[0], "channel": "email", "context": {"name": "you"}}
        await self._at_once(
            self._count(40),
            lambda _: self.tenant.reply("POST", "/v1/templates/loud.html/preview", json=preview),
        )

    async def jobs(self) -> None:
        """Many jobs for later, and lists of them, two dozen at a time."""
        later = {"kind": "trial.later", "due_at": "2099-01-01T00:00:00Z"}
        for _ in range(self._count(600)):
            await self._quietly(self.tenant.reply("POST", "/v1/jobs/bulk", json={"jobs": [later] * 1_000}))
        for _ in range(self._count(10)):
            await self._at_once(
                24, lambda n: self.tenant.reply("GET", f"/v1/jobs?limit=500&sort=-created_at&kind=x{n}")
            )

    async def schedules(self) -> None:
        """Every minute two hundred steps."""
        steps = [{"key": f"s{n}", "kind": "trial.later", "offset": f"-PT{n}S"} for n in range(200)]
        terms = {
            "timezone": "UTC",
            "start_local": "2027-01-01T00:00:00",
            "recurrence": "FREQ=MINUTELY",
            "steps": steps,
        }
        await self._at_once(self._count(8), lambda _: self.tenant.reply("POST", "/v1/schedules", json=terms))

    async def streams(self) -> None:
        """Streams that are opened and held, and the page that says whether Timebell is ready."""

        async def hold(number: int) -> None:
            path = "/v1/events/stream" if number % 2 else "/v1/inbox/stream"
            actor = self._people[number % len(self._people)]
            headers = self.tenant._headers | {"timebell-actor": actor}
            with suppress(httpx2.HTTPError, TimeoutError):
                async with (
                    asyncio.timeout(10),
                    self.tenant._http.stream("GET", path, headers=headers) as held,
                ):
                    async for _ in held.aiter_bytes():
                        pass

        async def is_ready(_: int) -> None:
            for _ in range(20):
                await self._quietly(self.tenant.reply("GET", "/readyz"))

        await asyncio.gather(self._at_once(self._count(400), hold), self._at_once(self._count(40), is_ready))

    async def _at_once(self, count: int, ask: Callable[[int], Awaitable[Any]]) -> None:
        await asyncio.gather(*(self._quietly(ask(number)) for number in range(count)))

    async def _quietly(self, asked: Awaitable[Any]) -> None:
        """Whatever the answer is: being refused is no reason to stop."""
        with suppress(httpx2.HTTPError, TimeoutError):
            await asked


class Watchful:
    """The other tenant: how long it waits for what it asked for, over and over."""

    def __init__(self, tenant: Tenant, mailbox: Mailbox) -> None:
        self.tenant = tenant
        self._mailbox = mailbox
        self._person = ""
        self._mail_count = 0
        self.waits: dict[str, list[float]] = {}

    async def settle(self) -> None:
        self._person = await self.tenant.person("Bea")
        await self.tenant.save("quiet.note", {**_MAIL, "channel": "inbox"})
        await self.tenant.save("quiet.mail", _MAIL)
        await self.tenant.ask(
            "POST", "/v1/jobs", json={"kind": "trial.later", "due_at": "2099-01-01T00:00:00Z"}
        )

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Ask for one thing of each sort after another, and note how long each takes."""
        self.waits.clear()
        is_over = asyncio.Event()
        asking = asyncio.gather(*(self._repeat(name, ask, is_over) for name, ask in self._asks.items()))
        try:
            yield
        finally:
            is_over.set()
            await asking

    async def _repeat(self, name: str, ask: Callable[[], Awaitable[Any]], is_over: asyncio.Event) -> None:
        while not is_over.is_set():
            await self._time(name, ask())
            with suppress(TimeoutError):
                await asyncio.wait_for(is_over.wait(), 0.1)

    @property
    def _asks(self) -> dict[str, Callable[[], Awaitable[Any]]]:
        return {
            "notification": self._is_told,
            "critical mail": self._gets_mail,
            "list": lambda: self.tenant.ask("GET", "/v1/jobs"),
            "request": lambda: self.tenant.ask("GET", f"/v1/recipients/{self._person}"),
            "health": lambda: self.tenant.ask("GET", "/healthz"),
        }

    async def _time(self, name: str, doing: Awaitable[Any]) -> None:
        """Whoever waits for so long gives up; how long it was says enough."""
        begun = time.monotonic()
        with suppress(TimeoutError):
            async with asyncio.timeout(20):
                await doing
        self.waits.setdefault(name, []).append(time.monotonic() - begun)

    async def _is_told(self) -> None:
        id = await self.tenant.tell(self._person, "quiet.note", "inbox", urgency="critical")
        while True:
            told = await self.tenant.ask("GET", f"/v1/notifications/{id}")
            if told["state"] == "settled" or any(one["state"] == "sent" for one in told["deliveries"]):
                return
            await asyncio.sleep(0.02)

    async def _gets_mail(self) -> None:
        self._mail_count += 1
        address = f"bea{self._mail_count}@quiet.example"
        someone = await self.tenant.person("Bea", email=address)
        await self.tenant.tell(someone, "quiet.mail", "email", urgency="critical")
        await self._mailbox.expect(address).wait()

    def worst(self) -> dict[str, float]:
        return {name: max(waits) for name, waits in self.waits.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbourhood:
    process: Process
    mailbox: Mailbox
    loud: Loud
    watchful: Watchful


@asynccontextmanager
async def _silent_hosts() -> AsyncIterator[int]:
    """Endpoints that never answer; their port."""
    port = free_port()
    server = await asyncio.get_running_loop().create_server(Silent, _SILENT_HOSTS, port, backlog=1_000)
    try:
        yield port
    finally:
        server.close()
        for call in list(Silent.calls):
            call.close()


@asynccontextmanager
async def neighbourhood(
    place: Path, folder: Path, processes: list[Process], *, scale: float, rate: float = 2.0
) -> AsyncIterator[Neighbourhood]:
    """Timebell with real providers, mail at `rate` a second, and both tenants in it."""
    mailbox = Mailbox()
    async with mail_server(server=mailbox), _silent_hosts() as silent_port:
        settings = place / "timebell.toml"
        settings.write_text(_SETTINGS.format(mail_port=mailbox.port, silent_port=silent_port, rate=rate))
        (place / "trial_app.py").write_text(_APP)
        port = free_port()
        environment = clean_environment(TIMEBELL_API_KEY=ADMIN)
        environment["PYTHONPATH"] += f":{place}"
        process = Process(
            place / "neighbourhood",
            *("up", "--data", folder, "--port", port, "--config", settings),
            port=port,
            environment=environment,
        )
        processes.append(process)
        await asyncio.to_thread(process.wait_ready)
        url = f"http://127.0.0.1:{port}"
        async with httpx2.AsyncClient(base_url=url, timeout=60.0) as http:
            admin = Tenant(http, ADMIN)
            loud = Loud(url=url, key=await _tenant_key(admin, "loud"), scale=scale)
            watchful = Watchful(Tenant(http, await _tenant_key(admin, "quiet")), mailbox)
            await loud.settle(Tenant(http, loud.key), silent_port)
            await watchful.settle()
            yield Neighbourhood(process=process, mailbox=mailbox, loud=loud, watchful=watchful)


async def _tenant_key(admin: Tenant, name: str) -> str:
    await admin.ask("POST", "/v1/tenants", json={"tenant": name, "name": name})
    made = await admin.ask("POST", f"/v1/tenants/{name}/keys", json={"name": "test", "scope": "write"})
    key: str = made["key"]
    return key
