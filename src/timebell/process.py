"""One process in the foreground, from its port to its end: everything at once, or one half of it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from timebell.config import Settings
from timebell.db.failures import DATABASE_ERRORS
from timebell.db.migrate import check_schema
from timebell.engine import Engine
from timebell.errors import ConfigurationError, DatabaseUnavailable, EmbeddedServerError
from timebell.kernel.aside import Aside
from timebell.kernel.bell import Timebell
from timebell.kernel.insights import Insights, Pulse
from timebell.loading import Loaded, load, slices_of
from timebell.logs import Logger
from timebell.notify import Provider, Reporter
from timebell.server import (
    Place,
    Whereabouts,
    apply_migrations,
    database_place,
    open_bell,
    open_figures,
    open_walled_bell,
    opened_apps,
    started_engine,
    taking_in,
    watching,
    with_secret_key,
)
from timebell.web.access.keys import NewKey
from timebell.web.operation.remembered import Remembered
from timebell.web.operation.surface import surface_of
from timebell.web.sandbox import NewSandbox, Sandbox, refuse_sandbox, sandboxed
from timebell.web.server.health import health_of
from timebell.web.server.listening import Front, Listener
from timebell.web.server.metrics import Metrics
from timebell.web.server.serving import only_a_node, serving, settle_keys

log = Logger("timebell.process")

_READY_SECONDS = 3.0
_READY_FRESH_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """What a process says when it is ready. `key` is there once, when the very first API key was made; `apps` are the
    names of those that were loaded."""

    place: Place
    apps: frozenset[str] = frozenset()
    key: NewKey | None = None
    sandbox: Sandbox | None = None


Part = Literal["api", "engine", "intake"]
_EVERYTHING: Final = frozenset[Part]({"api", "engine", "intake"})


class Process:
    """One process in the foreground: everything (`up`), or one part of it for somebody else's database: the API
    (`serve`), a node (`work`), or what takes messages from a broker (`consume`)."""

    def __init__(
        self,
        settings: Settings,
        *,
        on_ready: Callable[[Ready], None],
        sandbox: NewSandbox | None = None,
        queues: Sequence[str] = (),
    ) -> None:
        self._settings = settings
        self._new_sandbox = sandbox
        self._queues = queues
        self._sandbox: Sandbox | None = None
        self._on_ready = on_ready
        self._stopping = asyncio.Event()
        self._bell: Timebell | None = None
        self._engine: Engine | None = None
        self._is_intake_alone = False
        self._metrics = Metrics()
        # Anybody may ask how the process is, as often as they like, and the connections are for its work.
        self._database_complaints = Remembered(self._ask_database, _READY_FRESH_SECONDS)
        self._pulse = Remembered(self._ask_pulse, _READY_FRESH_SECONDS)

    async def up(self) -> None:
        """The database, its schema, an engine and the API, until a signal."""
        await self._listening("start", _EVERYTHING)

    async def serve(self) -> None:
        """The API on a database whose schema is somebody else's care, until a signal."""
        await self._listening("find", frozenset({"api"}))

    async def work(self, *, has_port: bool = False) -> None:
        """An engine on a database whose schema is somebody else's care, until a signal. With a port it answers how it
        is and what it has counted."""
        await self._perhaps_listening(frozenset({"engine"}), has_port=has_port)

    async def consume(self, *, has_port: bool = False) -> None:
        """What takes messages from a broker, on a database whose schema is somebody else's care, until a signal."""
        if self._settings.broker_url is None:
            raise ConfigurationError(
                "broker_url: is missing, and there is nothing to take messages from; give that of the broker"
            )
        await self._perhaps_listening(frozenset({"intake"}), has_port=has_port)

    async def _perhaps_listening(self, parts: frozenset[Part], *, has_port: bool) -> None:
        if has_port:
            await self._listening("find", parts)
        else:
            await self._until_signal(self._run("find", None, parts))

    async def _listening(self, whereabouts: Whereabouts, parts: frozenset[Part]) -> None:
        """The port is taken first: it is soon told, and whoever asks hears that the process is starting."""
        front = Front(self.complaints, self._metrics.text, self.health)
        listener = Listener(front)
        await listener.start(self._settings.host, self._settings.port)
        try:
            await self._until_signal(self._run(whereabouts, front, parts))
        finally:
            await listener.close()

    async def complaints(self) -> list[str]:
        """What keeps this process from being ready; nothing when it is."""
        if self._stopping.is_set():
            return ["stopping"]
        bell, engine = self._bell, self._engine
        if bell is None:
            return ["starting"]
        worker = self._sandbox or engine
        complaints = [] if worker is None else worker.complaints()
        if self._is_intake_alone:
            complaints += bell.holds.reasons.values()
        complaints += await self._database_complaints()
        return ["stopping"] if self._stopping.is_set() else complaints

    async def health(self) -> tuple[bool, dict[str, object]]:
        """How the engine is: this process's own, or that of the nodes that pay for it."""
        complaints = await self.complaints()
        # Before there is a database, what was found out about it must not be remembered.
        pulse = None if self._bell is None else await self._pulse()
        return health_of(complaints, pulse, self._engine, self._settings)

    async def _ask_pulse(self) -> Pulse | None:
        bell = self._bell
        assert bell is not None
        try:
            async with asyncio.timeout(_READY_SECONDS):
                return await Insights(bell.database, bell.clock).pulse()
        except (*DATABASE_ERRORS, DatabaseUnavailable):
            return None

    async def _ask_database(self) -> list[str]:
        bell = self._bell
        assert bell is not None
        try:
            async with asyncio.timeout(_READY_SECONDS), bell.database.connection() as session:
                await check_schema(session.connection, slices_of(bell.registry))
        except (*DATABASE_ERRORS, DatabaseUnavailable):
            return ["the database does not answer"]
        except Exception as error:
            return [str(error)]
        return []

    async def _run(self, whereabouts: Whereabouts, front: Front | None, parts: frozenset[Part]) -> None:
        settings = self._settings
        self._is_intake_alone = parts == {"intake"}
        async with AsyncExitStack() as stack:
            loaded = await stack.enter_async_context(load(settings))
            if self._queues:
                loaded = replace(loaded, registry=loaded.registry.only(self._queues))
            new = self._new_sandbox
            place = await stack.enter_async_context(
                database_place(settings, whereabouts, is_sandbox=new is not None)
            )
            settings = with_secret_key(settings, place)
            if whereabouts == "start":
                for migration in await apply_migrations(place, settings, loaded.registry):
                    log.info("migrated", migration=str(migration))
            bell = await stack.enter_async_context(open_bell(place, settings, loaded.registry, sandbox=new))
            await self._open_engine(stack, place, loaded, bell, parts)
            taking = None
            if "intake" in parts:
                taking = await stack.enter_async_context(taking_in(bell))
            if loaded.providers:
                names = [provider.name for provider in loaded.providers]
                log.info("demo mode: nothing leaves" if settings.is_demo else "messages leave", through=names)
            key = None
            if front is not None:
                await self._open_metrics(stack, place, settings, loaded, bell)
                if "api" in parts:
                    key = await self._open_front(stack, front, place, settings, loaded, bell)
                else:
                    front.open(only_a_node())
            self._bell = bell
            apps = frozenset(app.name for app in loaded.registry.apps)
            self._on_ready(Ready(place=place, apps=apps, key=key, sandbox=self._sandbox))
            waits = [each.wait() for each in (self._engine, taking) if each is not None]
            await _first_of(_ended(place), self._stopping.wait(), *waits)

    async def _open_engine(
        self, stack: AsyncExitStack, place: Place, loaded: Loaded, bell: Timebell, parts: frozenset[Part]
    ) -> None:
        """What pays, where this process does; whoever takes messages in needs what the apps keep open, too."""
        if parts != {"api"}:
            await stack.enter_async_context(opened_apps(bell))
        if self._new_sandbox is not None:
            opening = sandboxed(bell, is_alone=place.is_started_here)
            self._sandbox = await stack.enter_async_context(opening)
            self._engine = self._sandbox.engine
        elif "engine" in parts:
            self._engine = await stack.enter_async_context(started_engine(bell, place, loaded))
        else:
            refuse_sandbox(bell.clock)
            await bell.declare()
            await stack.enter_async_context(watching(bell))

    async def _open_front(
        self,
        stack: AsyncExitStack,
        front: Front,
        place: Place,
        settings: Settings,
        loaded: Loaded,
        bell: Timebell,
    ) -> NewKey | None:
        """The API behind the port. Whoever has no engine here may be one of many, and makes no key by itself."""
        opening = open_walled_bell(place, settings, loaded.registry, bell)
        walled = await stack.enter_async_context(opening)
        reporters = _reporters(loaded.providers)
        surface = surface_of(walled, self.complaints, reporters=reporters, sandbox=self._sandbox)
        self._metrics.requests = surface.requests
        self._metrics.quotas = surface.quotas
        self._metrics.asides.append(walled.aside)
        key = await settle_keys(surface, may_make=self._engine is not None)
        await stack.enter_async_context(serving(front, surface, loaded.registry))
        return key

    async def _open_metrics(
        self, stack: AsyncExitStack, place: Place, settings: Settings, loaded: Loaded, bell: Timebell
    ) -> None:
        own = [getattr(provider, "aside", None) for provider in loaded.providers]
        self._metrics.asides = [bell.aside, *(aside for aside in own if isinstance(aside, Aside))]
        self._metrics.tallies = bell.tallies
        self._metrics.apps = bell.registry.apps
        self._metrics.holds = bell.holds
        self._metrics.engine = self._engine
        self._metrics.figures = await stack.enter_async_context(open_figures(place, settings, bell.clock))

    async def _until_signal(self, work: Coroutine[Any, Any, None]) -> None:
        """Run it; the first signal ends it in order, also while it starts, and a second one hastens the end."""
        loop = asyncio.get_running_loop()
        main = asyncio.create_task(work)

        def signalled() -> None:
            # Nothing that could fail stands before what the signal asks for.
            if self._stopping.is_set():
                if self._engine is not None:
                    self._engine.interrupt()
                log.info("what still runs is given back now")
                return
            self._stopping.set()
            if self._bell is None:
                main.cancel()
            if self._sandbox is not None:
                self._sandbox.halt()
            log.info("stopping")

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, signalled)
        try:
            await main
        except asyncio.CancelledError:
            if not self._stopping.is_set():
                raise
        finally:
            # A signal that comes now finds nothing left to hasten, and must not cut the last steps off.
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)
                signal.signal(number, signal.SIG_IGN)


def _reporters(providers: Sequence[Provider]) -> dict[str, Reporter]:
    """Those that report by webhook, by the name that is in the address of their reports."""
    return {each.name: each for each in providers if isinstance(each, Reporter)}


async def _ended(place: Place) -> None:
    """A server of our own that ends before us leaves nothing to do: whoever watches this process starts it again."""
    if place.embedded is None or not place.is_started_here:
        await asyncio.Event().wait()
        return
    await place.embedded.ended()
    raise EmbeddedServerError(
        f"The embedded server, {place.shown}, ended unexpectedly; its log lies beside the data. Start again."
    )


async def _first_of(*waits: Coroutine[Any, Any, Any]) -> None:
    """Until one of them ends; raises what that one raised."""
    waiting = [asyncio.ensure_future(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for ended in done:
            ended.result()
    finally:
        for each in waiting:
            each.cancel()
