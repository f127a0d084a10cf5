"""Taking part in a transaction that the caller has open, with whichever driver it was opened."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import asyncpg
import psycopg
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from tests.store.support import HOUR, NOW, Tables
from timebell.db.pool import Database
from timebell.errors import InvalidInput, KeyConflict, NoTransaction
from timebell.kernel import Enqueue, Step, Timebell
from timebell.testing.database import TestDatabase

DRIVERS = ("asyncpg", "psycopg")


class Joined:
    """A connection that the caller has opened, and how its transaction is begun and ended."""

    def __init__(self, connection: Any, begin: Any, commit: Any, rollback: Any) -> None:
        self.connection = connection
        self.begin = begin
        self.commit = commit
        self.rollback = rollback


Opener = Callable[[str], AbstractAsyncContextManager[Joined]]


@asynccontextmanager
async def asyncpg_connection(url: str) -> AsyncIterator[Joined]:
    connection = await asyncpg.connect(url)
    yield Joined(
        connection,
        lambda: connection.execute("BEGIN"),
        lambda: connection.execute("COMMIT"),
        lambda: connection.execute("ROLLBACK"),
    )
    await connection.close()


@asynccontextmanager
async def asyncpg_pool(url: str) -> AsyncIterator[Joined]:
    async with asyncpg.create_pool(url, min_size=1, max_size=1) as pool, pool.acquire() as connection:
        yield Joined(
            connection,
            lambda: connection.execute("BEGIN"),
            lambda: connection.execute("COMMIT"),
            lambda: connection.execute("ROLLBACK"),
        )


class OwnConnection(asyncpg.Connection):
    """What somebody may have derived for their own purposes."""


@asynccontextmanager
async def asyncpg_derived(url: str) -> AsyncIterator[Joined]:
    connection = await asyncpg.connect(url, connection_class=OwnConnection)
    yield Joined(
        connection,
        lambda: connection.execute("BEGIN"),
        lambda: connection.execute("COMMIT"),
        lambda: connection.execute("ROLLBACK"),
    )
    await connection.close()


@asynccontextmanager
async def psycopg_connection(url: str) -> AsyncIterator[Joined]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        yield Joined(
            connection,
            lambda: connection.execute("SELECT 1"),
            connection.commit,
            connection.rollback,
        )


@asynccontextmanager
async def psycopg_autocommit(url: str) -> AsyncIterator[Joined]:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        yield Joined(
            connection,
            lambda: connection.execute("BEGIN"),
            lambda: connection.execute("COMMIT"),
            lambda: connection.execute("ROLLBACK"),
        )


@asynccontextmanager
async def engine_on(url: str, driver: str) -> AsyncIterator[AsyncEngine]:
    # The options of the URL are spelt for libpq, and SQLAlchemy hands them to asyncpg as they are.
    plain, _, _ = url.partition("?")
    engine = create_async_engine(plain.replace("postgresql://", f"postgresql+{driver}://", 1))
    yield engine
    await engine.dispose()


def sqlalchemy_connection(driver: str) -> Opener:
    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[Joined]:
        async with engine_on(url, driver) as engine, engine.connect() as connection:
            yield Joined(connection, connection.begin, connection.commit, connection.rollback)

    return opened


def sqlalchemy_session(driver: str) -> Opener:
    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[Joined]:
        async with engine_on(url, driver) as engine, AsyncSession(engine) as session:
            yield Joined(session, session.begin, session.commit, session.rollback)

    return opened


OPENERS: dict[str, Opener] = {
    "asyncpg": asyncpg_connection,
    "asyncpg_pool": asyncpg_pool,
    "asyncpg_derived": asyncpg_derived,
    "psycopg": psycopg_connection,
    "psycopg_autocommit": psycopg_autocommit,
    **{f"sqlalchemy_connection_{driver}": sqlalchemy_connection(driver) for driver in DRIVERS},
    **{f"sqlalchemy_session_{driver}": sqlalchemy_session(driver) for driver in DRIVERS},
}


@pytest.fixture(params=OPENERS)
async def joined(request: pytest.FixtureRequest, database_url: TestDatabase) -> AsyncIterator[Joined]:
    async with OPENERS[request.param](database_url.url) as opened:
        yield opened


@pytest.mark.req("U-13")
async def test_a_commit_makes_the_job_exist_and_a_rollback_leaves_nothing(
    bell: Timebell, tables: Tables, joined: Joined
) -> None:
    await joined.begin()
    await bell.enqueue(bell.join(joined.connection), "office.ring", key="k")
    assert await tables.jobs() == [], "nobody sees it before the commit"
    await joined.rollback()
    assert set((await tables.counts()).values()) == {0}
    await joined.begin()
    enqueued = await bell.enqueue(bell.join(joined.connection), "office.ring", key="k")
    await joined.commit()
    assert enqueued.created
    assert [row["id"] for row in await tables.jobs()] == [enqueued.id]


@pytest.mark.req("U-13")
async def test_every_verb_works_on_every_driver(bell: Timebell, tables: Tables, joined: Joined) -> None:
    def steps(*keys: str) -> list[Step]:
        return [Step(key=key, kind="office.post", offset=-HOUR, payload={"n": 1}) for key in keys]

    await joined.begin()
    tx = bell.join(joined.connection, tenant="acme")
    many = await bell.enqueue_many(
        tx,
        [
            Enqueue(kind="office.ring", payload={"ü": [1, None]}, delay=HOUR, subject="s", key="k"),
            Enqueue(kind="office.ring", due_at=NOW, expires_at=NOW + HOUR, max_attempts=2),
        ],
    )
    replaced = await bell.enqueue(tx, "office.ring", {"n": 2}, key="k", on_conflict="replace")
    with pytest.raises(KeyConflict):
        await bell.enqueue_many(
            tx, [Enqueue(kind="office.ring", key="free"), Enqueue(kind="office.ring", key="k")]
        )
    first = await bell.set_agenda(tx, subject="m", anchor=NOW + 9 * HOUR, steps=steps("a", "b"))
    second = await bell.set_agenda(tx, subject="m", anchor=NOW + 9 * HOUR, steps=steps("a", "c"))
    third = await bell.set_agenda(tx, subject="m", anchor=NOW + 8 * HOUR, steps=steps("c"))
    late = await bell.set_agenda(tx, subject="n", anchor=NOW - HOUR, steps=steps("a"))
    cancelled = await bell.cancel(tx, kind="office.ring", key="k")
    event = await bell.record(tx, "meeting.denied", {"by": "maria"}, subject="m")
    await bell.pause(tx, "mail")
    assert await bell.resume(tx, "mail")
    assert await bell.revive(tx, kind="office.ring", per_second=5) == []
    assert await bell.discard(tx, ids=[many[0].id]) == []
    await joined.commit()
    assert replaced.id == many[0].id
    assert [answer.answer for answer in cancelled] == ["cancelled"]
    assert ([c.key for c in first.added], [c.key for c in late.skipped]) == (["a", "b"], ["a"])
    assert ([c.key for c in second.kept], [c.key for c in second.withdrawn]) == (["a"], ["b"])
    assert ([c.key for c in third.moved], [c.key for c in third.withdrawn]) == (["c"], ["a"])
    assert third.moved[0].was_due_at == NOW + 8 * HOUR
    left = {(row["tenant"], row["step"]): row["id"] for row in await tables.jobs()}
    assert left == {("acme", None): many[1].id, ("acme", "c"): third.moved[0].job_id}
    assert await tables.value("SELECT id FROM timebell.events WHERE tenant = 'acme'") == event
    assert await tables.value("SELECT count(*) FROM timebell.job_keys") == 0


async def test_who_is_in_no_transaction_cannot_be_joined(
    bell: Timebell, tables: Tables, joined: Joined
) -> None:
    with pytest.raises(NoTransaction, match=r"begin one before `bell\.join"):
        bell.join(joined.connection)
    await joined.begin()
    tx = bell.join(joined.connection)
    await joined.commit()
    with pytest.raises(NoTransaction, match="the transaction has ended"):
        await bell.enqueue(tx, "office.ring")
    assert await tables.jobs() == []


async def test_the_connection_that_was_joined_is_at_hand(bell: Timebell, joined: Joined) -> None:
    await joined.begin()
    tx = bell.join(joined.connection)
    assert tx.connection is joined.connection
    await joined.rollback()


@pytest.mark.parametrize("driver", DRIVERS)
async def test_autocommit_of_sqlalchemy_is_no_transaction(
    bell: Timebell, tables: Tables, database_url: TestDatabase, driver: str
) -> None:
    async with engine_on(database_url.url, driver) as engine, engine.connect() as plain:
        connection: AsyncConnection = await plain.execution_options(isolation_level="AUTOCOMMIT")
        async with connection.begin():
            with pytest.raises(NoTransaction):
                await bell.enqueue(bell.join(connection), "office.ring")
    assert await tables.jobs() == []


class Base(DeclarativeBase):
    pass


class Meeting(Base):
    __tablename__ = "meetings"
    id: Mapped[int] = mapped_column(primary_key=True)


@pytest.mark.req("U-13")
@pytest.mark.parametrize("driver", DRIVERS)
async def test_objects_and_jobs_are_committed_together(
    bell: Timebell, tables: Tables, database_url: TestDatabase, driver: str
) -> None:
    owner = await asyncpg.connect(database_url.owner_url)
    await owner.execute("CREATE TABLE public.meetings (id integer PRIMARY KEY)")
    await owner.execute("GRANT ALL ON public.meetings TO timebell")
    await owner.close()
    async with engine_on(database_url.url, driver) as engine:
        async with AsyncSession(engine) as session, session.begin():
            session.add(Meeting(id=1))
            tx = bell.join(session)
            await bell.enqueue(tx, "office.ring", subject="meeting:1")
            seen = await session.execute(text("SELECT count(*) FROM timebell.jobs"))
            assert seen.scalar_one() == 1
        async with AsyncSession(engine) as session:
            await session.begin()
            session.add(Meeting(id=2))
            await bell.enqueue(bell.join(session), "office.ring", subject="meeting:2")
            await session.rollback()
    assert [row["id"] for row in await tables.rows("SELECT id FROM public.meetings")] == [1]
    assert [row["subject"] for row in await tables.jobs()] == ["meeting:1"]


async def test_a_driver_that_answers_in_local_time_is_understood(
    bell: Timebell, tables: Tables, database_url: TestDatabase
) -> None:
    """The last Sunday of October: in Berlin the hour from two to three comes twice."""
    anchor = datetime(2027, 10, 31, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    steps = [Step(key="start", kind="office.ring", offset=0 * HOUR, expires_after=HOUR)]
    async with await psycopg.AsyncConnection.connect(database_url.url) as connection:
        await connection.execute("SET timezone = 'Europe/Berlin'")
        first = await bell.set_agenda(bell.join(connection), subject="m", anchor=anchor, steps=steps)
        again = await bell.set_agenda(bell.join(connection), subject="m", anchor=anchor, steps=steps)
        await connection.commit()
        job_id = first.added[0].job_id
        assert [change.job_id for change in again.kept] == [job_id]
        assert job_id is not None
        assert (await tables.job(job_id))["version"] == 1
        await tables.finish(job_id)
        await connection.execute("SELECT 1")
        done = await bell.set_agenda(bell.join(connection), subject="m", anchor=anchor, steps=steps)
    assert [change.key for change in done.done] == ["start"]
    assert await tables.jobs() == []


@pytest.mark.parametrize("kind", ["psycopg", "sqlalchemy_connection", "sqlalchemy_session", "cursor", "none"])
async def test_what_cannot_be_joined_is_told_the_way(
    bell: Timebell, database_url: TestDatabase, kind: str
) -> None:
    remedy = r"connection: .* cannot be joined; pass an asyncpg.*or call the SQL function timebell.enqueue"
    with psycopg.connect(database_url.url) as connection:
        connection.execute("SELECT 1")
        engine = create_engine("postgresql+psycopg://", creator=lambda: connection)
        with engine.connect() as sync_connection, Session(engine) as session:
            sync_connection.begin()
            session.begin()
            refused = {
                "psycopg": connection,
                "sqlalchemy_connection": sync_connection,
                "sqlalchemy_session": session,
                "cursor": connection.cursor(),
                "none": None,
            }[kind]
            with pytest.raises(InvalidInput, match=remedy):
                bell.join(refused)


async def test_a_joined_transaction_that_is_read_only_is_not_held_against_our_own_connections(
    bell: Timebell, database: Database, database_url: TestDatabase
) -> None:
    """For one caller's mistake the whole pool would be opened anew."""
    before = await server_pid(database)
    connection = await asyncpg.connect(database_url.url)
    with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
        async with connection.transaction(readonly=True):
            await bell.enqueue(bell.join(connection), "office.ring")
    await connection.close()
    assert await server_pid(database) == before


async def test_the_short_deadline_of_a_joined_connection_is_not_held_against_our_own(
    bell: Timebell, database: Database, database_url: TestDatabase
) -> None:
    before = await server_pid(database)
    connection = await asyncpg.connect(database_url.url)
    impatient = await asyncpg.connect(database_url.url, command_timeout=0.2)
    async with connection.transaction():
        await connection.execute("LOCK TABLE timebell.jobs IN SHARE MODE")
        with pytest.raises(TimeoutError):
            async with impatient.transaction():
                await bell.enqueue(bell.join(impatient), "office.ring")
    await impatient.close()
    await connection.close()
    assert await server_pid(database) == before


async def server_pid(database: Database) -> int:
    """The one behind the connection that the pool gives out next."""
    async with database.connection() as session:
        return int(session.connection.get_server_pid())


async def test_a_joined_transaction_wakes_the_engine_when_asked(bell: Timebell) -> None:
    heard: list[int] = []

    def listener(hints: Any) -> dict[int, datetime]:
        heard.extend(hints)
        return {}

    bell.wakeups.subscribe(listener)
    connection = await bell.database.dedicated()
    await connection.execute("BEGIN")
    tx = bell.join(connection)
    await bell.enqueue(tx, "office.ring")
    await connection.execute("COMMIT")
    await connection.close()
    assert heard == []
    bell.wake(tx)
    assert len(heard) == 1
    bell.wake(tx)
    assert len(heard) == 1, "a hint is given once"
