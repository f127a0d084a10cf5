"""Timebell's database as a simulated process has it: the real one, at the other end of the wire."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from importlib import resources
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import asyncpg

from tests.query_plans import queries_of
from tests.simulation.loop import LIFE, Life
from tests.simulation.planting import Spot
from tests.simulation.wire import IDLE_SECONDS, LOCK_SECONDS, Wire
from timebell.db.migrate import migrate
from timebell.db.pool import Database, Limits, Observer
from timebell.db.provision import ROLES
from timebell.db.queries import Query, load_queries, parse
from timebell.db.turns import Turns
from timebell.kernel import App, Registry
from timebell.kernel.statements import Statements
from timebell.loading import slices_of
from timebell.testing.database import DatabaseFactory, TestDatabase

# Waiting for locks and idle transactions are ended by the wire, in virtual time.
_SERVER_SETTINGS = {
    "application_name": "simulation",
    "timezone": "UTC",
    "jit": "off",
    # A plan that depends on how old a line is would give rows in another order when a seed is played again.
    "plan_cache_mode": "force_generic_plan",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
}
# The partitions of the log are of real days, also where everything else is years away.
_REAL = frozenset({"drop_log_partition"})
_UNITS = {"ms": 0.001, "s": 1.0}
_PATIENT_MS = 10_000_000


async def make_world(databases: DatabaseFactory, apps: Sequence[App]) -> TestDatabase:
    """A database with everything that a world may have in it."""
    database = await databases.create()
    owner = await asyncpg.connect(database.owner_url, timeout=10)
    try:
        await migrate(owner, slices_of(Registry(apps)), api_role=ROLES["api"], read_role=ROLES["read"])
    finally:
        await owner.close(timeout=10)
    return database


def know_queries(*packages: str) -> None:
    """Let the statements of these packages be told by their text."""
    for package in packages:
        QUERIES.update((query.text, query) for query in load_queries(package).values())


class SimulatedConnection(asyncpg.Connection):
    """A connection whose every statement goes over the wire, with virtual time in place of the server's."""

    wire: Wire
    life: Life
    pid: int
    url: str
    began_at: datetime | None = None
    idle: Any = None

    def handed_on(self) -> SimulatedConnection:
        """The same line to the server under a new connection, while this one is closed for whoever had it.

        A server spends most of its time on getting to know a connection and its statements, so that lines are kept.
        Nothing outlives its transaction here, and thus nobody can tell.
        """
        mine: Any = self
        protocol = mine._protocol
        heir: Any = SimulatedConnection(
            protocol, mine._transport, mine._loop, mine._addr, mine._config, mine._params
        )
        protocol.set_connection(heir)
        heir.pid, heir.url, heir.wire = self.pid, self.url, self.wire
        heir._stmt_cache, mine._stmt_cache = mine._stmt_cache, heir._stmt_cache
        mine._aborted, mine._protocol = True, None
        self.terminate()
        return cast("SimulatedConnection", heir)

    def rolled_back(self) -> Any:
        return asyncpg.Connection.execute(self, "ROLLBACK")

    def get_reset_query(self) -> str:
        return ""

    def has_old_plans(self, seconds: float) -> bool:
        """That goes by the time that really passes, and would make two runs of a seed differ."""
        return False

    async def _introspect_types(self, typeoids: Any, timeout: Any) -> Any:
        """Types are the same for every connection of a server; asking each time is a third of all round trips."""
        asked = frozenset(typeoids)
        if asked not in _TYPES:
            _TYPES[asked], _ = await super()._introspect_types(typeoids, timeout)  # type: ignore[misc]
        return _TYPES[asked], _NAMED

    async def fetch(self, query: str, *args: Any, **options: Any) -> Any:
        name, parameters = _name_and_parameters(query)
        is_patient = not ("wait_ms" in parameters and self.wire.is_impatient())
        lock_seconds = _lock_seconds(parameters, args) if is_patient else 0.0

        def perform() -> Any:
            # What asks the server for the time itself is not told when its transaction began.
            is_latest = "clock_timestamp()" in query
            given = self._arguments(name, parameters, args, is_patient=is_patient, is_latest=is_latest)
            return asyncpg.Connection.fetch(self, query, *given)

        return await self._carry(name, perform, args, lock_seconds)

    async def execute(self, query: str, *args: Any, **options: Any) -> Any:
        def perform() -> Any:
            if query.startswith("BEGIN"):
                self.began_at = self.wire.now()
            return asyncpg.Connection.execute(self, query, *args)

        return await self._carry(_name_and_parameters(query)[0], perform, args, LOCK_SECONDS)

    async def _carry(self, name: str, perform: Any, arguments: Any, lock_seconds: float | None) -> Any:
        return await self.wire.carry(
            name, self.life, perform, connection=self, arguments=arguments, lock_seconds=lock_seconds
        )

    def stir(self) -> None:
        """The server has the next statement. Until then it knows nothing of one that its client is about to send, and
        may freeze over."""
        if self.idle is not None:
            self.idle.cancel()
            self.idle = None

    def rest(self) -> None:
        """The server has answered. Inside a transaction it does not wait for ever for the next statement, be its client
        frozen by now."""
        if not self.is_closed() and self.is_in_transaction():
            self.idle = self.wire.loop.call_later(IDLE_SECONDS, self.wire.cut, self, context=self.wire.nobody)

    def _arguments(
        self,
        name: str,
        parameters: tuple[str, ...],
        given: tuple[Any, ...],
        *,
        is_patient: bool,
        is_latest: bool,
    ) -> list[Any]:
        """Where production lets the server say the time, and how long a lock is waited for, the simulation does."""
        now = self.wire.now()
        if self.is_in_transaction() and not is_latest and self.began_at is not None:
            now = self.began_at
        arguments = list(given)
        for position, parameter in enumerate(parameters):
            if parameter in ("now", "lease_now") and given[position] is None and name not in _REAL:
                arguments[position] = now
            elif parameter == "lock_timeout":
                arguments[position] = "0"
            elif parameter == "wait_ms":
                arguments[position] = _PATIENT_MS if is_patient else 0
        return arguments


def _name_and_parameters(text: str) -> tuple[str, tuple[str, ...]]:
    known = QUERIES.get(text)
    if known is not None:
        return known.name, known.parameters
    named = re.match(r"/\* (\w+) \*/", text)
    return named[1] if named else re.split(r"[(;]", text)[0].strip(), ()


def _lock_seconds(parameters: tuple[str, ...], given: tuple[Any, ...]) -> float | None:
    """How long the statement may wait for a lock, in virtual time; None for as long as it takes."""
    if "wait_ms" in parameters:
        return None
    if "lock_timeout" not in parameters:
        return LOCK_SECONDS
    match = re.fullmatch(r"(\d+)(ms|s)", given[parameters.index("lock_timeout")])
    assert match is not None
    return int(match[1]) * _UNITS[match[2]]


QUERIES: dict[str, Query] = {}
for slice_name in ("kernel", "engine", "notify", "web"):
    QUERIES.update((query.text, query) for query in queries_of(slice_name).values())
_TYPES: dict[frozenset[int], Any] = {}
_NAMED = SimpleNamespace(name="known")


class SimulatedDatabase(Database):
    """The pool of one simulated process."""

    def __init__(self, pool: Any, url: str, wire: Wire, life: Life, turns: Turns | None) -> None:
        limits = Limits(idle_in_transaction=IDLE_SECONDS)
        super().__init__(pool, url, limits, Observer(), pooled=False, turns=turns)
        self._wire = wire
        self._life = life

    @classmethod
    async def made_for(
        cls, life: Life, url: str, wire: Wire, *, size: int, is_walled: bool = False
    ) -> SimulatedDatabase:
        async def opened(*_: Any, **__: Any) -> Any:
            return await connect(life, url, wire)

        pool = await asyncpg.create_pool(
            url,
            min_size=0,
            max_size=size,
            max_inactive_connection_lifetime=0,
            connection_class=SimulatedConnection,
            connect=opened,
        )
        return cls(pool, url, wire, life, Turns(size) if is_walled else None)

    async def dedicated(self, url: str | None = None) -> Any:
        return await connect(self._life, self.url, self._wire)


async def connect(life: Life, url: str, wire: Wire) -> SimulatedConnection:
    async def perform() -> SimulatedConnection:
        connection = wire.kept_line(url) or await _open(url)
        connection.wire, connection.life = wire, life
        wire.opened(life, connection)
        return connection

    assert LIFE.get() is life
    opened: SimulatedConnection = await wire.carry("connect", life, perform)
    return opened


async def _open(url: str) -> SimulatedConnection:
    connection: SimulatedConnection = await asyncpg.connect(
        url,
        connection_class=SimulatedConnection,
        server_settings=_SERVER_SETTINGS,
        timeout=30,
        # By virtual time a statement would be forgotten between any two uses of it.
        max_cached_statement_lifetime=0,
        statement_cache_size=1_000,
    )
    connection.pid, connection.url = connection.get_server_pid(), url
    return connection


class _Altered(Mapping[str, Query]):
    """The statements of a store, one of them changed."""

    def __init__(self, beneath: Mapping[str, Query], query: Query, spot: Spot) -> None:
        self._beneath = beneath
        self._query = query
        self._spot = spot

    def __getitem__(self, name: str) -> Query:
        if name != self._query.name:
            return self._beneath[name]
        self._spot.count += 1
        return self._query

    def __iter__(self) -> Iterator[str]:
        return iter(self._beneath)

    def __len__(self) -> int:
        return len(self._beneath)


@contextmanager
def altered(store: type[Statements], name: str, changes: Mapping[str, str]) -> Iterator[Sequence[Spot]]:
    """A store's statement with some of its text replaced while a run lasts; what is replaced must be there."""
    text = (resources.files(store.__module__.replace(".store", ".sql")) / f"{name}.sql").read_text("utf-8")
    for old, new in changes.items():
        assert old in text, f"{name}.sql has no {old!r}"
        text = text.replace(old, new)
    query, spot = parse(name, text), Spot(f"{name}.sql")
    with (
        patch.object(store, "queries", _Altered(store.queries, query, spot)),
        patch.dict(QUERIES, {query.text: query}),
    ):
        yield [spot]
