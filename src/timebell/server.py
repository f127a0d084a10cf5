"""The composition root: settings, database, apps and engine, put together by hand and read from top to bottom."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from timebell.clock import Clock
from timebell.config import Settings, load_settings, mask_url, warn_of_retired
from timebell.db.embedded import EmbeddedServer, default_data_folder
from timebell.db.failures import DATABASE_ERRORS
from timebell.db.migrate import Migration, check_schema, migrate
from timebell.db.pool import Database, Limits
from timebell.db.probe import bare_connection, role_of
from timebell.engine import Engine
from timebell.engine.loop import Loop
from timebell.engine.node.outages import Outages
from timebell.engine.watch.watching import Watch
from timebell.errors import ConfigurationError, DataFolderInUse, EmbeddedServerError
from timebell.kernel.app import App, ConsumeFunction, Registry
from timebell.kernel.bell import Timebell
from timebell.kernel.insights import Insights
from timebell.loading import Loaded, load, slices_of
from timebell.logs import Logger
from timebell.notify import Provider
from timebell.notify.delivery.provider_store import ProviderStore
from timebell.providers.log import captured_providers
from timebell.web.sandbox import NewSandbox, clock_of, refuse_sandbox
from timebell.web.server.figures import FigureReader

log = Logger("timebell.server")

_LEAVE_SECONDS = 2.5
_CLOSE_SECONDS = 1.0
_READER_CONNECTIONS = 2
# The first start on a folder makes a database, which takes a while on a slow machine.
_STARTING_SECONDS = 60.0
_LOOK_AGAIN_SECONDS = 0.1

Whereabouts = Literal["start", "find", "either"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the database is: a server that the settings name, or an embedded one, perhaps started here.

    Without an `api_url` requests are answered as the role of the nodes, and without a `read_url` figures are read so.
    """

    url: str = field(repr=False)
    owner_url: str = field(repr=False)
    api_url: str | None = field(default=None, repr=False)
    read_url: str | None = field(default=None, repr=False)
    embedded: EmbeddedServer | None = None
    is_started_here: bool = False

    @property
    def shown(self) -> str:
        if self.embedded is not None:
            return f"PostgreSQL {self.embedded.version} in {self.embedded.folder}"
        return mask_url(self.url)


@asynccontextmanager
async def database_place(
    settings: Settings, whereabouts: Whereabouts, *, is_sandbox: bool = False
) -> AsyncIterator[Place]:
    """The server that the settings name; else the embedded one: found running, or started for as long as this."""
    if settings.database_url is not None:
        yield Place(
            url=settings.database_url,
            owner_url=settings.owner_url or settings.database_url,
            api_url=settings.api_url,
            read_url=settings.read_url,
        )
        return
    folder = settings.data or default_data_folder()
    # What a sandbox has written may be lost with the machine; not waiting for the disk lets time pass faster.
    tuning = {"synchronous_commit": "off"} if is_sandbox else {}
    server = await _embedded(folder, whereabouts, tuning)
    try:
        yield _place_of(server)
    finally:
        await server.stop()


async def _embedded(folder: Path, whereabouts: Whereabouts, tuning: Mapping[str, str]) -> EmbeddedServer:
    """Of two programs that come at once one starts the server, and the other waits until it is there."""
    patient_until = asyncio.get_running_loop().time() + _STARTING_SECONDS
    while True:
        found = None if whereabouts == "start" else await EmbeddedServer.find(folder)
        if found is not None:
            return found
        if whereabouts == "find":
            raise EmbeddedServerError(
                f"No server runs on the data folder {folder}. Start one with `timebell up --data {folder}`, name the "
                "folder of the one that runs with --data, or set DATABASE_URL."
            )
        try:
            return await EmbeddedServer.start(folder, settings=tuning)
        except DataFolderInUse:
            if whereabouts == "start" or asyncio.get_running_loop().time() >= patient_until:
                raise
        await asyncio.sleep(_LOOK_AGAIN_SECONDS)


def _place_of(server: EmbeddedServer) -> Place:
    return Place(
        url=server.url(),
        owner_url=server.url(role="owner"),
        api_url=server.url(role="api"),
        read_url=server.url(role="read"),
        embedded=server,
        is_started_here=server.is_started_here,
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
    owner, app, api, read = [
        url and await role_of(url, seconds=settings.connect_seconds)
        for url in (place.owner_url, place.url, place.api_url, place.read_url)
    ]
    for name, role in (("api_url", api), ("read_url", read)):
        if role is not None and role in (owner, app):
            whose = "owner_url" if role == owner else "database_url"
            raise ConfigurationError(
                f"{name}: leads to {role}, the role of {whose}; give it a role of its own, or leave it out"
            )
    async with bare_connection(place.owner_url, seconds=settings.connect_seconds) as connection:
        return await migrate(
            connection,
            slices_of(registry),
            phase=phase,
            dry_run=dry_run,
            app_role=None if owner == app else app,
            api_role=api,
            read_role=read,
        )


@asynccontextmanager
async def open_bell(
    place: Place, settings: Settings, registry: Registry, *, sandbox: NewSandbox | None = None
) -> AsyncIterator[Timebell]:
    """The verbs on a database whose schema fits, without an engine, in the time that the database lives by."""
    async with _open_database(place.url, settings) as database:
        async with database.connection() as session:
            await check_schema(session.connection, slices_of(registry))
            clock = await (clock_of(session) if sandbox is None else sandbox.clock(session))
        bell = Timebell(database, registry=registry, settings=settings, clock=clock)
        try:
            yield bell
        finally:
            await _bounded("closing", bell.close(), _CLOSE_SECONDS)


@asynccontextmanager
async def open_walled_bell(
    place: Place, settings: Settings, registry: Registry, beside: Timebell
) -> AsyncIterator[Timebell]:
    """The verbs for requests, behind the wall between tenants where the place has a role for it."""
    async with _open_database(place.api_url or place.url, settings, is_walled=True) as database:
        bell = Timebell(database, registry=registry, settings=settings, clock=beside.clock, beside=beside)
        try:
            yield bell
        finally:
            await _bounded("closing", bell.close(), _CLOSE_SECONDS)


@asynccontextmanager
async def open_figures(place: Place, settings: Settings, clock: Clock) -> AsyncIterator[FigureReader]:
    """What the metrics show of the database, asked as the reader's role where the place has one."""
    url = place.read_url or place.url
    async with _open_database(url, settings, size=_READER_CONNECTIONS) as database:
        yield FigureReader(Insights(database, clock), clock, database)


@asynccontextmanager
async def _open_database(
    url: str, settings: Settings, *, is_walled: bool = False, size: int | None = None
) -> AsyncIterator[Database]:
    limits = Limits(
        connect=settings.connect_seconds,
        statement=settings.statement_seconds,
        lock=settings.lock_seconds,
        idle_in_transaction=min(20.0, settings.lease_seconds * 2 / 3),
    )
    database = await Database.open(
        url, size=size or settings.pool_size, limits=limits, pooled=settings.pooled, is_walled=is_walled
    )
    try:
        yield database
    finally:
        await _bounded("closing", database.close(), _CLOSE_SECONDS)


def with_secret_key(settings: Settings, place: Place) -> Settings:
    """The settings with the secret that an embedded server keeps beside its data, where they name none."""
    if settings.secret_key is not None or place.embedded is None:
        return settings
    previous = settings.previous_secret_keys or place.embedded.previous_secret_keys()
    return replace(settings, secret_key=place.embedded.secret_key(), previous_secret_keys=previous)


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
    if settings is None:
        settings = load_settings(data=data)
        warn_of_retired(settings)
    # Whoever only writes tells nobody, and need not know the secrets of those who do.
    given = providers if engine or providers else ()
    async with AsyncExitStack() as stack:
        loaded = await stack.enter_async_context(load(settings, apps, given=given))
        place = await stack.enter_async_context(database_place(settings, "either"))
        await stack.enter_async_context(_watched(place))
        settings = with_secret_key(settings, place)
        await apply_migrations(place, settings, loaded.registry)
        bell = await stack.enter_async_context(open_bell(place, settings, loaded.registry))
        if engine:
            await stack.enter_async_context(opened_apps(bell))
            await stack.enter_async_context(started_engine(bell, place, loaded))
            await stack.enter_async_context(taking_in(bell))
        else:
            await bell.declare()
        yield bell


@asynccontextmanager
async def _watched(place: Place) -> AsyncIterator[None]:
    """Say why the database is away for good: an embedded server ends with the process that started it."""

    async def watch(server: EmbeddedServer) -> None:
        await server.ended()
        log.warning(
            "the embedded server has ended, with the process that had started it; start this program again, or let "
            "`timebell up` run beside it",
            folder=str(server.folder),
        )

    watching = None if place.embedded is None else asyncio.create_task(watch(place.embedded))
    try:
        yield
    finally:
        if watching is not None:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)


@asynccontextmanager
async def opened_apps(bell: Timebell) -> AsyncIterator[None]:
    """What the apps keep open for as long as they pay, or take something in."""
    async with AsyncExitStack() as stack:
        for app in bell.registry.apps:
            if app.on_open is not None:
                await stack.enter_async_context(app.on_open(bell))
        yield


@asynccontextmanager
async def taking_in(bell: Timebell) -> AsyncIterator[Taking]:
    """What the apps take in by themselves, from a broker for example."""
    loops = [
        asyncio.create_task(_take_in(app.on_consume, bell), name=f"timebell intake {app.name}")
        for app in bell.registry.apps
        if app.on_consume is not None
    ]
    try:
        yield Taking(loops)
    finally:
        for loop in loops:
            loop.cancel()
        if loops:
            await asyncio.wait(loops, timeout=_CLOSE_SECONDS)


async def _take_in(consume: ConsumeFunction, bell: Timebell) -> None:
    await consume(bell)


class Taking:
    """The loops that take something in."""

    def __init__(self, loops: Sequence[asyncio.Task[None]]) -> None:
        self._loops = loops

    async def wait(self) -> None:
        """As long as they go on. None ends by itself but by a bug, and that is raised here."""
        if not self._loops:
            await asyncio.Event().wait()
        done, _ = await asyncio.wait(self._loops, return_when=asyncio.FIRST_COMPLETED)
        for ended in done:
            ended.result()


@asynccontextmanager
async def started_engine(bell: Timebell, place: Place, loaded: Loaded) -> AsyncIterator[Engine]:
    refuse_sandbox(bell.clock)
    if loaded.is_demo_by_default:
        await _refuse_demo_by_accident(bell)
    engine = Engine(bell, is_alone=place.is_started_here)
    try:
        await engine.start()
        yield engine
    finally:
        await _bounded("stopping", engine.stop(), bell.settings.stop_seconds + _LEAVE_SECONDS)


@asynccontextmanager
async def watching(bell: Timebell) -> AsyncIterator[None]:
    """Whoever pays nothing looks too what needs a person: it may be that no node lives."""
    loop = Loop("watch", Watch(bell).tick, chance=bell.chance, outages=Outages(bell.clock.monotonic))
    going = asyncio.create_task(loop.run(), name="timebell watch")
    try:
        yield
    finally:
        loop.stop()
        await asyncio.wait([going], timeout=_CLOSE_SECONDS)
        going.cancel()
        await asyncio.gather(going, return_exceptions=True)


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
