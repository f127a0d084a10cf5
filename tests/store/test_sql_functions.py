"""The verbs in SQL: any language, or a trigger, takes part in its own transaction under the same rules."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest
import pytest_asyncio

from tests.store.support import HOUR, Tables
from timebell.kernel import Step, Timebell
from timebell.testing.database import TestDatabase


@pytest_asyncio.fixture
async def sql(bell: Timebell, database_url: TestDatabase) -> AsyncIterator[Any]:
    """A plain connection of the app role; `bell` has declared the kinds and queues."""
    connection = await asyncpg.connect(database_url.url)
    yield connection
    await connection.close()


async def test_the_least_that_can_be_said(sql: Any, tables: Tables) -> None:
    async with sql.transaction():
        id = await sql.fetchval("SELECT timebell.enqueue('office.post')")
        now = await sql.fetchval("SELECT now()")
    row = await tables.job(id)
    assert (row["tenant"], row["queue"], row["payload"], row["lane"]) == ("default", "mail", "{}", 1)
    assert (row["due_at"], row["run_at"]) == (now, now)
    assert id.version == 7


async def test_everything_that_can_be_said(sql: Any, tables: Tables) -> None:
    id = await sql.fetchval(
        "SELECT timebell.enqueue(kind => 'office.ring', payload => '{\"n\": 1}', due_at => '2100-01-01Z', "
        "tenant => 'acme', subject => 'meeting:1', key => 'k', queue => 'slow', expires_at => '2100-01-02Z', "
        "priority => 7, urgency => 'critical', max_attempts => 2, correlation_id => 'c-1')"
    )
    row = await tables.job(id)
    assert (row["tenant"], row["subject"], row["key"], row["queue"]) == ("acme", "meeting:1", "k", "slow")
    assert (row["priority"], row["urgency"], row["lane"], row["max_attempts"]) == (7, "critical", 0, 2)
    assert (row["payload"], row["correlation_id"]) == ('{"n": 1}', "c-1")
    assert row["expires_at"] - row["due_at"] == timedelta(days=1)
    assert row["run_at"] == row["due_at"]


async def test_a_job_of_sql_is_the_job_that_python_would_make(
    bell: Timebell, sql: Any, tables: Tables
) -> None:
    by_sql = await sql.fetchval(
        "SELECT timebell.enqueue('office.ring', '{\"n\": 1}', due_at => '2100-01-01Z', subject => 's', key => 'k')"
    )
    theirs = await tables.job(by_sql)
    async with bell.transaction() as tx:
        same = await bell.enqueue(tx, "office.ring", {"n": 1}, due_at=theirs["due_at"], subject="s", key="k")
        assert (same.id, same.created) == (by_sql, False), "the key means the same in both"
        await bell.cancel(tx, id=by_sql)
        ours = await bell.enqueue(tx, "office.ring", {"n": 1}, due_at=theirs["due_at"], subject="s", key="k")
    made = await tables.job(ours.id)
    assert {**theirs, "id": None, "created_at": None} == {**made, "id": None, "created_at": None}


async def test_what_was_due_before_is_tried_from_now_on(sql: Any, tables: Tables) -> None:
    async with sql.transaction():
        now = await sql.fetchval("SELECT now()")
        id = await sql.fetchval("SELECT timebell.enqueue('office.ring', due_at => now() - interval '1 hour')")
    row = await tables.job(id)
    assert (row["due_at"], row["run_at"]) == (now - HOUR, now)


async def test_ids_are_in_the_order_of_their_making(sql: Any) -> None:
    ids = [await sql.fetchval("SELECT timebell.new_id()") for _ in range(3)]
    assert {id.version for id in ids} == {7}
    assert {id.variant for id in ids} == {"specified in RFC 4122"}
    milliseconds = [id.int >> 80 for id in ids]
    assert milliseconds == sorted(milliseconds)
    now = await sql.fetchval("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")
    assert abs(now - milliseconds[-1]) < 10_000


REFUSED = [
    ("'office.unknown'", "kind: no handler is declared for office.unknown"),
    ("NULL", "kind: no handler is declared for <NULL>"),
    ("'office.ring', queue => 'nowhere'", "queue: nowhere was not declared"),
    ("'office.ring', payload => NULL", "payload: must be a JSON object"),
    ("'office.ring', payload => '[]'", "payload: must be a JSON object"),
    (
        "'office.ring', payload => jsonb_build_object('x', repeat('a', 65536))",
        "payload: 65545 bytes, the limit is 65536",
    ),
    ("'office.ring', due_at => 'infinity'", "due_at and expires_at: must lie in the years 1 to 9999"),
    ("'office.ring', due_at => '-infinity'", "due_at and expires_at: must lie in the years"),
    ("'office.ring', expires_at => '10000-01-01Z'", "due_at and expires_at: must lie in the years"),
    ("'office.ring', due_at => '0044-03-15Z BC'", "due_at and expires_at: must lie in the years"),
    ("'office.ring', expires_at => now()", "expires_at: must be after due_at"),
    (
        "'office.ring', due_at => '2100-01-02Z', expires_at => '2100-01-01Z'",
        "expires_at: must be after due_at",
    ),
    ("'office.ring', priority => 101", "priority: must be between -100 and 100"),
    ("'office.ring', urgency => 'high'", "urgency: must be normal, time_bound or critical"),
    ("'office.ring', max_attempts => 0", "max_attempts: must be between 1 and 100"),
    ("'office.ring', tenant => ''", "must have 1 to 200 characters"),
    ("'office.ring', tenant => NULL", "must have 1 to 200 characters"),
    ("'office.ring', subject => ''", "must have 1 to 200 characters"),
    ("'office.ring', key => repeat('k', 201)", "must have 1 to 200 characters"),
    ("'office.ring', correlation_id => repeat('c', 201)", "must have 1 to 200 characters"),
]


async def test_what_python_refuses_sql_refuses_too(
    sql: Any, tables: Tables, subtests: pytest.Subtests
) -> None:
    for arguments, text in REFUSED:
        with subtests.test(arguments), pytest.raises(asyncpg.InvalidParameterValueError, match=text):
            await sql.fetchval(f"SELECT timebell.enqueue({arguments})")
    assert set((await tables.counts()).values()) == {0}


@pytest.mark.req("U-1", "U-5")
async def test_to_answer_that_a_job_exists_is_as_safe_as_to_write_it(sql: Any) -> None:
    """A commit that wrote nothing does not wait for the standby, and what it saw might not survive."""
    await sql.fetchval("SELECT timebell.enqueue('office.post', key => 'k')")
    async with sql.transaction():
        await sql.fetchval("SELECT timebell.enqueue('office.post', key => 'k')")
        assert await sql.fetchval("SELECT pg_current_xact_id_if_assigned() IS NOT NULL")


@pytest.mark.req("U-5")
async def test_the_same_key_answers_with_the_same_job(sql: Any, tables: Tables) -> None:
    ask = "SELECT timebell.enqueue('office.ring', '{\"n\": 1}', key => 'k')"
    first = await sql.fetchval(ask)
    assert await sql.fetchval(ask) == first
    with pytest.raises(
        asyncpg.UniqueViolationError, match="key: k already stands for another job"
    ) as refusal:
        await sql.fetchval("SELECT timebell.enqueue('office.ring', '{\"n\": 2}', key => 'k')")
    assert refusal.value.hint == "Use another key, or cancel the job it stands for."
    assert await sql.fetchval("SELECT timebell.enqueue('office.ring', tenant => 'acme', key => 'k')") != first
    assert await sql.fetchval("SELECT timebell.enqueue('office.post', key => 'k')") != first
    assert len(await tables.jobs()) == 3


async def test_a_lapsed_key_is_free(sql: Any, tables: Tables) -> None:
    first = await sql.fetchval("SELECT timebell.enqueue('office.ring', key => 'k')")
    await tables.finish(first, key_expires_at=await sql.fetchval("SELECT now() + interval '1 hour'"))
    ask = "SELECT timebell.enqueue('office.ring', key => 'k', p_now => now() + $1::interval)"
    assert await sql.fetchval(ask, timedelta(minutes=59)) == first
    second = await sql.fetchval(ask, timedelta(minutes=61))
    assert second != first
    row = (await tables.rows("SELECT job_id, expires_at, lifetime_seconds FROM timebell.job_keys"))[0]
    assert row == {"job_id": second, "expires_at": None, "lifetime_seconds": None}


@pytest.mark.req("U-5")
async def test_of_two_that_ask_at_once_the_second_waits_and_gets_the_same_job(
    sql: Any, tables: Tables, database_url: TestDatabase
) -> None:
    ask = "SELECT timebell.enqueue('office.ring', key => 'k')"
    other = await asyncpg.connect(database_url.url)
    async with sql.transaction():
        first = await sql.fetchval(ask)
        second = asyncio.ensure_future(other.fetchval(ask))
        await tables.until_someone_waits()
    assert await second == first
    await other.close()
    assert len(await tables.jobs()) == 1


@pytest.mark.req("U-13")
async def test_a_rollback_leaves_nothing(sql: Any, tables: Tables) -> None:
    transaction = sql.transaction()
    await transaction.start()
    await sql.fetchval("SELECT timebell.enqueue('office.ring', key => 'k')")
    await transaction.rollback()
    assert set((await tables.counts()).values()) == {0}


@pytest.mark.req("U-13")
async def test_a_trigger_enqueues_with_the_row_that_it_is_about(
    sql: Any, tables: Tables, database_url: TestDatabase
) -> None:
    owner = await asyncpg.connect(database_url.owner_url)
    await owner.execute("""
        CREATE TABLE public.bookings (id integer PRIMARY KEY, kind text NOT NULL);
        GRANT ALL ON public.bookings TO timebell;
        CREATE FUNCTION public.on_booking() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF TG_OP = 'DELETE' THEN
                PERFORM timebell.cancel(subject => 'booking:' || OLD.id, reason => 'deleted');
            ELSE
                PERFORM timebell.enqueue(NEW.kind, jsonb_build_object('booking', NEW.id),
                    subject => 'booking:' || NEW.id, key => 'booking:' || NEW.id);
            END IF;
            RETURN NULL;
        END $$;
        CREATE TRIGGER on_booking AFTER INSERT OR DELETE ON public.bookings
            FOR EACH ROW EXECUTE FUNCTION public.on_booking();
    """)
    await owner.close()
    await sql.execute("INSERT INTO public.bookings VALUES (1, 'office.ring'), (2, 'office.post')")
    with pytest.raises(asyncpg.InvalidParameterValueError, match="kind: no handler is declared"):
        await sql.execute("INSERT INTO public.bookings VALUES (3, 'office.ring'), (4, 'office.unknown')")
    jobs = [(row["subject"], row["kind"], row["payload"]) for row in await tables.jobs()]
    assert sorted(jobs) == [
        ("booking:1", "office.ring", '{"booking": 1}'),
        ("booking:2", "office.post", '{"booking": 2}'),
    ]
    assert await sql.fetchval("SELECT count(*) FROM public.bookings") == 2
    await sql.execute("DELETE FROM public.bookings WHERE id = 1")
    assert [row["subject"] for row in await tables.jobs()] == ["booking:2"]
    assert await tables.value("SELECT reason FROM timebell.job_log") == "deleted"


async def answers(sql: Any, arguments: str, *values: object) -> list[tuple[UUID, str, str]]:
    rows = await sql.fetch(f"SELECT job_id, answer, state FROM timebell.cancel({arguments})", *values)
    return [tuple(row) for row in rows]


@pytest.mark.req("U-3")
async def test_cancelling_by_each_name(sql: Any, tables: Tables) -> None:
    ids = [
        await sql.fetchval(f"SELECT timebell.enqueue('office.ring', subject => 's', key => '{n}')")
        for n in range(4)
    ]
    await tables.start(ids[3])
    assert await answers(sql, "id => $1, reason => 'no'", ids[0]) == [(ids[0], "cancelled", "cancelled")]
    assert await answers(sql, "id => $1", ids[0]) == [(ids[0], "already_final", "cancelled")]
    assert await answers(sql, "kind => 'office.ring', key => '1'") == [(ids[1], "cancelled", "cancelled")]
    assert await answers(sql, "kind => 'office.post', key => '2'") == []
    # In the order of their ids, which two made by SQL within one millisecond need not share with their making.
    assert await answers(sql, "subject => 's'") == sorted(
        [(ids[2], "cancelled", "cancelled"), (ids[3], "too_late", "running")]
    )
    assert [row["reason"] for row in await tables.log(ids[0])] == ["no"]
    assert [row["id"] for row in await tables.jobs("cancel_requested_at IS NOT NULL")] == [ids[3]]


@pytest.mark.req("U-15")
async def test_cancelling_stays_within_the_tenant(sql: Any, tables: Tables) -> None:
    id = await sql.fetchval(
        "SELECT timebell.enqueue('office.ring', tenant => 'acme', subject => 's', key => 'k')"
    )
    for name in ("id => $1", "subject => 's'", "kind => 'office.ring', key => 'k'"):
        values = [id] if "$1" in name else []
        assert await answers(sql, name, *values) == []
    assert [row["id"] for row in await tables.jobs()] == [id]
    assert await answers(sql, "id => $1, tenant => 'acme'", id) == [(id, "cancelled", "cancelled")]


@pytest.mark.parametrize(
    "arguments", ["", "kind => 'office.ring'", "key => 'k'", "id => gen_random_uuid(), subject => 's'"]
)
async def test_a_cancel_that_names_nothing_or_too_much_is_refused(sql: Any, arguments: str) -> None:
    with pytest.raises(
        asyncpg.InvalidParameterValueError, match="name what to cancel by id, by kind and key"
    ):
        await answers(sql, arguments)


async def test_a_step_cancelled_in_sql_is_not_owed_again(bell: Timebell, sql: Any) -> None:
    steps = [Step(key="only", kind="office.ring", offset=HOUR)]
    anchor = await sql.fetchval("SELECT now() + interval '1 year'")
    async with bell.transaction() as tx:
        await bell.set_agenda(tx, subject="meeting:1", anchor=anchor, steps=steps)
    assert [answer for _, answer, _ in await answers(sql, "subject => 'meeting:1'")] == ["cancelled"]
    async with bell.transaction() as tx:
        again = await bell.set_agenda(tx, subject="meeting:1", anchor=anchor, steps=steps)
    assert [change.key for change in again.done] == ["only"]
