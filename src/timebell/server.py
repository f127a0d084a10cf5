"""The composition root: settings, database, apps and engine, put together by hand and read from top to bottom."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import structlog

from timebell.config import Settings, load_settings, mask_url
from timebell.db.embedded import EmbeddedServer, default_data_folder
from timebell.db.failures import DATABASE_ERRORS
from timebell.db.migrate import Migration, check_schema, migrate
from timebell.db.pool import Database, Limits
from timebell.db.probe import bare_connection, role_of
from timebell.engine import Engine
from timebell.errors import ConfigurationError, DatabaseUnavailable, EmbeddedServerError
from timebell.kernel.app import App, Registry
from timebell.kernel.bell import Timebell
from timebell.loading import Loaded, load, slices_of
from timebell.notify import Provider
from timebell.notify.provider_store import ProviderStore
from timebell.providers.log import captured_providers
from timebell.web.health import HealthServer

log = structlog.get_logger("timebell.server")

_READY_SECONDS = 3.0
_LEAVE_SECONDS = 2.5
_CLOSE_SECONDS = 1.0
_LOOK_AT_SERVER_SECONDS = 0.5

Whereabouts = Literal["start", "find", "either"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the database is: a server that the settings name, or an embedded one, perhaps started here."""

    url: str = field(repr=False)
    owner_url: str = field(repr=False)
    embedded: EmbeddedServer | None = None
    is_started_here: bool = False

    @property
    def shown(self) -> str:
        if self.embedded is not None:
            return f"PostgreSQL {self.embedded.version} in {self.embedded.folder}"
        return mask_url(self.url)


@asynccontextmanager
async def database_place(settings: Settings, whereabouts: Whereabouts) -> AsyncIterator[Place]:
    """The server that the settings name; else the embedded one: found running, or started for as long as this."""
    if settings.database_url is not None:
        yield Place(url=settings.database_url, owner_url=settings.owner_url or settings.database_url)
        return
    folder = settings.data or default_data_folder()
    found = None if whereabouts == "start" else await EmbeddedServer.find(folder)
    if found is not None:
        yield _place_of(found)
    elif whereabouts == "find":
        raise EmbeddedServerError(
            f"No server runs on the data folder {folder}. Start one with `timebell up --data {folder}`, name the "
            "folder of the one that runs with --data, or set DATABASE_URL."
        )
    else:
        started = await EmbeddedServer.start(folder)
        try:
            yield _place_of(started, is_started_here=True)
        finally:
            await started.stop()


def _place_of(server: EmbeddedServer, *, is_started_here: bool = False) -> Place:
    return Place(
        url=server.url(),
        owner_url=server.url(role="owner"),
        embedded=server,
        is_started_here=is_started_here,
    )


async def apply_migrations(
    place: Place,
    settings: Settings,
    registry: Registry,
    *,
    phase: Literal["expand", "all"] = "all",
    dry_run: bool = False,
) -> list[Migration]:
    """Bring the schema up to this version, as the role that owns it."""
    owner, app = [
        await role_of(url, seconds=settings.connect_seconds) for url in (place.owner_url, place.url)
    ]
    async with bare_connection(place.owner_url, seconds=settings.connect_seconds) as connection:
        return await migrate(
            connection,
            slices_of(registry),
            phase=phase,
            dry_run=dry_run,
            app_role=None if owner == app else app,
        )


@asynccontextmanager
async def open_bell(place: Place, settings: Settings, registry: Registry) -> AsyncIterator[Timebell]:
    """The verbs on a database whose schema fits, without an engine."""
    limits = Limits(
        connect=settings.connect_seconds,
        statement=settings.statement_seconds,
        lock=settings.lock_seconds,
        idle_in_transaction=min(20.0, settings.lease_seconds * 2 / 3),
    )
    database = await Database.open(place.url, size=settings.pool_size, limits=limits, pooled=settings.pooled)
    try:
        async with database.connection() as session:
            await check_schema(session.connection, slices_of(registry))
        bell = Timebell(database, registry=registry, settings=settings)
        try:
            yield bell
        finally:
            await _bounded("closing", bell.close(), _CLOSE_SECONDS)
    finally:
        await _bounded("closing", database.close(), _CLOSE_SECONDS)


@asynccontextmanager
async def running(
    *apps: App,
    data: str | Path | None = None,
    settings: Settings | None = None,
    engine: bool = True,
    providers: Sequence[Provider] | None = None,
) -> AsyncIterator[Timebell]:
    """Timebell inside your own program, for as long as the block lasts.

    The database is the one that `DATABASE_URL` or the settings name, else an embedded PostgreSQL in the folder
    `data`; one that `timebell up` already runs there is shared. The schema is brought up to date. With
    `engine=False` this process writes what is owed and leaves it to others to pay it.

    `providers` take the place of those in the settings, and are closed at the end.
    """
    if settings is not None and data is not None:
        raise ConfigurationError("data: give it in the settings, or leave the settings out")
    settings = settings or load_settings(data=data)
    # Whoever only writes tells nobody, and need not know the secrets of those who do.
    given = providers if engine or providers else ()
    async with AsyncExitStack() as stack:
        loaded = await stack.enter_async_context(load(settings, apps, given=given))
        place = await stack.enter_async_context(database_place(settings, "either"))
        await apply_migrations(place, settings, loaded.registry)
        bell = await stack.enter_async_context(open_bell(place, settings, loaded.registry))
        if engine:
            await stack.enter_async_context(_engine(bell, place, loaded))
        else:
            await bell.declare()
        yield bell


@asynccontextmanager
async def _engine(bell: Timebell, place: Place, loaded: Loaded) -> AsyncIterator[Engine]:
    if loaded.is_demo_by_default:
        await _refuse_demo_by_accident(bell)
    engine = Engine(bell, is_alone=place.is_started_here)
    try:
        await engine.start()
        yield engine
    finally:
        await _bounded("stopping", engine.stop(), bell.settings.stop_seconds + _LEAVE_SECONDS)


async def _refuse_demo_by_accident(bell: Timebell) -> None:
    """One process without its settings, beside others that send, would keep their messages from leaving."""
    async with bell.database.connection() as session:
        last = await ProviderStore(bell.clock).read_last_provider(session)
    if last is not None and last not in {provider.name for provider in captured_providers()}:
        raise ConfigurationError(
            f"providers: there are none here, and messages of this database left through {last!r}; give this process "
            "the settings of the others, or say demo = true to keep messages from leaving"
        )


async def _bounded(doing: str, ending: Coroutine[Any, Any, None], seconds: float) -> None:
    """An end that the database may hold up must not hold up the end of the process."""
    try:
        async with asyncio.timeout(seconds):
            await ending
    except TimeoutError:
        log.warning("the database did not answer in time", doing=doing, seconds=seconds)
    except DATABASE_ERRORS as error:
        log.warning("the database is away", doing=doing, error=str(error) or type(error).__name__)


class Process:
    """One process in the foreground: everything (`up`), or a node for somebody else's database (`work`)."""

    def __init__(self, settings: Settings, *, on_ready: Callable[[Place], None]) -> None:
        self._settings = settings
        self._on_ready = on_ready
        self._stopping = asyncio.Event()
        self._engine: Engine | None = None

    async def up(self) -> None:
        """The database, its schema and an engine, until a signal. The port is taken first: it is soon told."""
        health = HealthServer(self.complaints)
        await health.start(self._settings.port)
        try:
            await self._until_signal(self._run("start"))
        finally:
            await health.close()

    async def work(self) -> None:
        """An engine on a database whose schema is somebody else's care, until a signal."""
        await self._until_signal(self._run("find"))

    async def complaints(self) -> list[str]:
        """What keeps this process from being ready; nothing when it is."""
        if self._stopping.is_set():
            return ["stopping"]
        engine = self._engine
        if engine is None:
            return ["starting"]
        complaints = engine.complaints()
        try:
            async with asyncio.timeout(_READY_SECONDS), engine.bell.database.connection() as session:
                await check_schema(session.connection, slices_of(engine.bell.registry))
        except (*DATABASE_ERRORS, DatabaseUnavailable):
            complaints.append("the database does not answer")
        except Exception as error:
            complaints.append(str(error))
        return complaints

    async def _run(self, whereabouts: Whereabouts) -> None:
        settings = self._settings
        async with AsyncExitStack() as stack:
            loaded = await stack.enter_async_context(load(settings))
            place = await stack.enter_async_context(database_place(settings, whereabouts))
            if whereabouts == "start":
                for migration in await apply_migrations(place, settings, loaded.registry):
                    log.info("migrated", migration=str(migration))
            bell = await stack.enter_async_context(open_bell(place, settings, loaded.registry))
            engine = await stack.enter_async_context(_engine(bell, place, loaded))
            if loaded.providers:
                names = [provider.name for provider in loaded.providers]
                log.info("demo mode: nothing leaves" if settings.is_demo else "messages leave", through=names)
            self._engine = engine
            self._on_ready(place)
            await _first_of(engine.wait(), _ended(place), self._stopping.wait())

    async def _until_signal(self, work: Coroutine[Any, Any, None]) -> None:
        """Run it; the first signal ends it in order, also while it starts, and a second one hastens the end."""
        loop = asyncio.get_running_loop()
        main = asyncio.create_task(work)

        def signalled() -> None:
            if self._stopping.is_set():
                log.info("what still runs is given back now")
                if self._engine is not None:
                    self._engine.interrupt()
                return
            log.info("stopping")
            self._stopping.set()
            if self._engine is None:
                main.cancel()

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


async def _ended(place: Place) -> None:
    """A server of our own that ends before us leaves nothing to do: whoever watches this process starts it again."""
    server = place.embedded if place.is_started_here else None
    while True:
        if server is not None and not server.is_running:
            break
        # It is a process of its own and tells nobody when it ends.
        await asyncio.sleep(_LOOK_AT_SERVER_SECONDS)
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
