"""Enqueueing: what is written, what is refused, and that a refusal leaves the transaction as it was."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import asyncpg
import pytest

from tests.store.support import APP, HOUR, NOW, StillClock, Tables
from timebell.config import QueueSettings, Settings
from timebell.db.pool import Database
from timebell.errors import (
    DatabaseError,
    InvalidInput,
    NaiveInstant,
    NoTransaction,
    PayloadTooLarge,
    UnknownKind,
    UnknownQueue,
)
from timebell.kernel import App, Enqueue, EnqueueOptions, Queue, Registry, Timebell


async def test_a_job_is_due_now_unless_told_otherwise(bell: Timebell, tables: Tables) -> None:
    async with bell.transaction() as tx:
        enqueued = await bell.enqueue(tx, "office.post")
    assert enqueued.created
    row = await tables.job(enqueued.id)
    assert (row["due_at"], row["run_at"], row["expires_at"]) == (NOW, NOW, None)
    assert (row["tenant"], row["queue"], row["lane"]) == ("default", "mail", 1)
    assert (row["version"], row["attempt"], row["started_by"]) == (1, 0, None)
    assert (row["subject"], row["key"], row["step"], row["payload_text"]) == (None, None, None, "{}")


async def test_everything_asked_for_is_written(bell: Timebell, tables: Tables) -> None:
    asked: EnqueueOptions = {
        "due_at": NOW + HOUR,
        "subject": "meeting:1",
        "key": "first",
        "queue": "slow",
        "expires_at": NOW + 2 * HOUR,
        "priority": -7,
        "urgency": "critical",
        "max_attempts": 5,
        "guard": "office.still_open",
        "correlation_id": "c-1",
    }
    async with bell.transaction(tenant="acme") as tx:
        enqueued = await bell.enqueue(tx, "office.ring", {"to": "Müller", "n": [1, 2.5, None]}, **asked)
    row = await tables.job(enqueued.id)
    assert {name: row[name] for name in asked} == asked
    assert json.loads(row["payload_text"]) == {"to": "Müller", "n": [1, 2.5, None]}
    assert (row["tenant"], row["lane"], row["run_at"]) == ("acme", 0, NOW + HOUR)


@pytest.mark.parametrize(
    ("asked", "due_at", "run_at"),
    [
        ({"due_at": NOW + HOUR}, NOW + HOUR, NOW + HOUR),
        ({"due_at": NOW - HOUR}, NOW - HOUR, NOW),
        ({"delay": timedelta(seconds=90)}, NOW + timedelta(seconds=90), NOW + timedelta(seconds=90)),
        ({"delay": timedelta(0)}, NOW, NOW),
        (
            {"due_at": datetime(2027, 3, 1, 12, tzinfo=ZoneInfo("Europe/Berlin"))},
            NOW + 2 * HOUR,
            NOW + 2 * HOUR,
        ),
    ],
)
async def test_when_a_job_is_due(
    bell: Timebell, tables: Tables, asked: dict[str, Any], due_at: datetime, run_at: datetime
) -> None:
    async with bell.transaction() as tx:
        enqueued = await bell.enqueue(tx, "office.ring", **asked)
    row = await tables.job(enqueued.id)
    assert (row["due_at"], row["run_at"]) == (due_at, run_at)


async def test_in_production_the_database_says_what_time_it_is(
    bell: Timebell, clock: StillClock, tables: Tables
) -> None:
    clock.now = None
    async with bell.transaction() as tx:
        enqueued = await bell.enqueue(tx, "office.ring", delay=HOUR)
        began = await tx.connection.fetchval("SELECT now()")
    assert (await tables.job(enqueued.id))["due_at"] == began + HOUR


async def test_a_job_without_a_subject_has_a_slot(bell: Timebell, tables: Tables) -> None:
    async with bell.transaction() as tx:
        many = await bell.enqueue_many(tx, [Enqueue(kind="office.ring") for _ in range(500)])
    slots = {row["slot"] for row in await tables.jobs()}
    assert len(many) == 500
    assert len(slots) > 150, "jobs without a subject spread over the slots"
    assert min(slots) >= 0
    assert max(slots) <= 255


async def test_jobs_of_one_subject_share_a_slot(bell: Timebell, tables: Tables) -> None:
    async with bell.transaction() as tx:
        await bell.enqueue_many(tx, [Enqueue(kind="office.ring", subject="meeting:1") for _ in range(50)])
    assert len({row["slot"] for row in await tables.jobs()}) == 1


async def test_many_are_answered_in_the_order_they_were_asked(bell: Timebell, tables: Tables) -> None:
    asked = [Enqueue(kind="office.ring", payload={"n": n}, delay=(500 - n) * HOUR) for n in range(500)]
    async with bell.transaction() as tx:
        enqueued = await bell.enqueue_many(tx, asked)
        assert await bell.enqueue_many(tx, []) == []
    stored = {row["id"]: json.loads(row["payload_text"])["n"] for row in await tables.jobs()}
    assert [stored[job.id] for job in enqueued] == list(range(500))


@pytest.mark.parametrize("mix", ["0123", "210213", "00", "11", "22", "33"])
async def test_many_that_are_alike_or_differ_in_everything_are_written_as_asked(
    bell: Timebell, tables: Tables, mix: str
) -> None:
    """What all rows have in common is sent once, and what none has is not sent: neither may reach another row."""
    ways: list[dict[str, Any]] = [
        {"kind": "office.post"},
        {"kind": "office.ring", "queue": "slow", "due_at": NOW + HOUR, "expires_at": NOW + 2 * HOUR},
        {"kind": "office.post", "subject": "s:1", "priority": 7, "delay": HOUR, "correlation_id": "c-1"},
        {"kind": "office.ring", "urgency": "critical", "max_attempts": 3, "guard": "office.still_open"},
    ]
    jobs = [Enqueue(payload={"n": number}, **ways[int(way)]) for number, way in enumerate(mix)]
    async with bell.transaction() as tx:
        answers = await bell.enqueue_many(tx, jobs)
    default_queue = {"office.post": "mail", "office.ring": "default"}
    for number, (job, answer) in enumerate(zip(jobs, answers, strict=True)):
        row = await tables.job(answer.id)
        written = {name: row[name] for name in ("kind", "subject", "priority", "urgency", "max_attempts")}
        assert written == {name: getattr(job, name) for name in written}
        assert (row["guard"], row["correlation_id"], row["expires_at"]) == (
            job.guard,
            job.correlation_id,
            job.expires_at,
        )
        assert row["queue"] == (job.queue or default_queue[job.kind])
        assert row["due_at"] == (job.due_at or NOW + (job.delay or timedelta(0)))
        assert row["lane"] == (0 if job.urgency == "critical" else 1)
        assert json.loads(row["payload_text"]) == {"n": number}


async def test_the_slots_to_wake_are_those_in_which_something_is_due_soon(bell: Timebell) -> None:
    async with bell.transaction() as tx:
        await bell.enqueue_many(
            tx,
            [
                Enqueue(kind="office.post", subject="a", delay=timedelta(seconds=1)),
                Enqueue(kind="office.post", subject="a"),
                Enqueue(kind="office.post", subject="b", delay=HOUR),
            ],
        )
        assert [at for _, at in tx.wakeups] == [NOW]


async def test_ten_thousand_at_once_and_not_one_more(bell: Timebell, tables: Tables) -> None:
    jobs = [Enqueue(kind="office.ring", payload={"n": n}, subject=f"s:{n % 7}") for n in range(10_001)]
    async with bell.transaction() as tx:
        with pytest.raises(InvalidInput, match="jobs: 10001 at once, the limit is 10000; send several"):
            await bell.enqueue_many(tx, jobs)
        assert len(await bell.enqueue_many(tx, jobs[:10_000])) == 10_000
    assert await tables.value("SELECT count(DISTINCT id) FROM timebell.jobs") == 10_000


async def test_ids_are_in_the_order_of_their_making(bell: Timebell) -> None:
    async with bell.transaction() as tx:
        ids = [job.id for job in await bell.enqueue_many(tx, [Enqueue(kind="office.ring")] * 1000)]
        ids.append((await bell.enqueue(tx, "office.ring")).id)
    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)


@pytest.mark.req("U-13")
async def test_a_rollback_leaves_no_job(bell: Timebell, tables: Tables) -> None:
    async def change_our_mind() -> None:
        async with bell.transaction() as tx:
            await bell.enqueue(tx, "office.ring", key="k")
            await bell.set_agenda(tx, subject="meeting:1", steps=[])
            await bell.record(tx, "meeting.denied")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await change_our_mind()
    assert set((await tables.counts()).values()) == {0}


async def test_a_swallowed_error_of_the_database_does_not_pass_for_a_commit(
    bell: Timebell, tables: Tables
) -> None:
    async def swallow() -> None:
        async with bell.transaction() as tx:
            await bell.enqueue(tx, "office.ring")
            with pytest.raises(asyncpg.DivisionByZeroError):
                await tx.connection.execute("SELECT 1/0")

    with pytest.raises(DatabaseError, match="nothing was committed"):
        await swallow()
    assert await tables.jobs() == []
    async with bell.transaction() as tx:
        await bell.enqueue(tx, "office.ring")
    assert len(await tables.jobs()) == 1


async def test_a_verb_after_the_end_of_its_transaction_is_refused(bell: Timebell, tables: Tables) -> None:
    async with bell.transaction() as tx:
        pass
    for verb in (
        bell.enqueue(tx, "office.ring"),
        bell.enqueue_many(tx, [Enqueue(kind="office.ring")]),
        bell.cancel(tx, subject="meeting:1"),
        bell.set_agenda(tx, subject="meeting:1", steps=[]),
        bell.clear_agenda(tx, subject="meeting:1"),
        bell.record(tx, "meeting.denied"),
        bell.revive(tx, kind="office.ring"),
        bell.discard(tx, kind="office.ring"),
        bell.pause(tx, "mail"),
        bell.resume(tx, "mail"),
    ):
        with pytest.raises(NoTransaction, match="has ended; open another"):
            await verb
    assert set((await tables.counts()).values()) == {0}


NAIVE = datetime(2027, 3, 1, 9, 0)
BEYOND = datetime(9999, 12, 31, 23, tzinfo=timezone(-timedelta(hours=5)))

REFUSED: list[tuple[dict[str, Any], type[InvalidInput], str]] = [
    ({"kind": "office.unknown"}, UnknownKind, "kind: no handler is registered for 'office.unknown'; load"),
    ({"kind": "ring"}, InvalidInput, "kind: 'ring' is not of the form app.verb"),
    ({"queue": "nowhere"}, UnknownQueue, "queue: 'nowhere' was not declared; add Queue"),
    ({"queue": "no\x00where"}, InvalidInput, "queue: 'no.x00where' is not a name in lower case"),
    ({"queue": ["mail"]}, InvalidInput, r"queue: \['mail'\] is not a name in lower case"),
    ({"payload": []}, InvalidInput, "payload: must be a mapping"),
    ({"payload": "{}"}, InvalidInput, "payload: must be a mapping"),
    ({"payload": {"x": object()}}, InvalidInput, "payload: cannot be written as JSON"),
    ({"payload": {1: "x"}}, InvalidInput, "payload: cannot be written as JSON"),
    ({"payload": {"x": "a\ud800"}}, InvalidInput, "payload: cannot be written as JSON"),
    ({"payload": {"x": "a\x00b"}}, InvalidInput, "payload: must not contain a NUL"),
    ({"payload": {"x\x00": 1}}, InvalidInput, "payload: must not contain a NUL"),
    ({"payload": {"x": "a" * 65_536}}, PayloadTooLarge, "payload: 65544 bytes, the limit is 65536; store"),
    ({"due_at": NAIVE}, NaiveInstant, "due_at: 2027-03-01T09:00:00 has no offset; give it one"),
    (
        {"due_at": "2027-03-01T09:00Z"},
        InvalidInput,
        "due_at: '2027-03-01T09:00Z' is not a datetime; give one",
    ),
    ({"due_at": BEYOND}, InvalidInput, "due_at: .* must lie in the years 1 to 9999"),
    ({"delay": timedelta(seconds=-1)}, InvalidInput, "delay: must not be negative"),
    ({"delay": timedelta(days=3_660, seconds=1)}, InvalidInput, "delay: must be at most 3660 days"),
    ({"delay": timedelta.max}, InvalidInput, "delay: must be at most 3660 days"),
    ({"delay": 60}, InvalidInput, "delay: 60 is not a timedelta; give one"),
    ({"due_at": NOW, "delay": HOUR}, InvalidInput, "delay: give due_at or delay, not both"),
    ({"expires_at": NAIVE}, NaiveInstant, "expires_at: .* has no offset"),
    ({"due_at": NOW + HOUR, "expires_at": NOW + HOUR}, InvalidInput, "expires_at: must be after due_at"),
    ({"expires_at": NOW}, InvalidInput, "expires_at: must be after due_at"),
    ({"delay": HOUR, "expires_at": NOW + HOUR}, InvalidInput, "expires_at: must be after due_at"),
    ({"priority": 101}, InvalidInput, "priority: must be between -100 and 100, was 101"),
    ({"priority": 1.5}, InvalidInput, "priority: must be a whole number, was 1.5"),
    ({"max_attempts": 0}, InvalidInput, "max_attempts: must be between 1 and 100, was 0"),
    ({"urgency": "high"}, InvalidInput, "urgency: must be 'normal', 'time_bound' or 'critical'"),
    ({"subject": ""}, InvalidInput, "subject: must have 1 to 200 characters, has 0"),
    ({"subject": "s\x00"}, InvalidInput, "subject: must not contain a NUL"),
    ({"key": "k" * 201}, InvalidInput, "key: must have 1 to 200 characters, has 201"),
    ({"key_lifetime": HOUR}, InvalidInput, "key_lifetime: needs a key"),
    ({"key": "k", "key_lifetime": timedelta.max}, InvalidInput, "key_lifetime: must be positive and at most"),
    ({"guard": "g\x00"}, InvalidInput, "guard: must not contain a NUL"),
    ({"correlation_id": "c" * 201}, InvalidInput, "correlation_id: must have 1 to 200"),
    ({"on_conflict": "ignore"}, InvalidInput, "on_conflict: must be 'same', 'keep' or 'replace'"),
    ({"colour": "red"}, InvalidInput, "enqueue: .*unexpected keyword argument 'colour'"),
]


async def test_bad_input_writes_nothing_and_spares_the_transaction(
    bell: Timebell, tables: Tables, subtests: pytest.Subtests
) -> None:
    async with bell.transaction() as tx:
        for asked, error, text in REFUSED:
            with subtests.test(asked=str(asked)[:60]):
                with pytest.raises(error, match=text) as refusal:
                    await bell.enqueue(tx, **{"kind": "office.ring", **asked})
                assert type(refusal.value) is error
        assert await tx.connection.fetchval("SELECT count(*) FROM timebell.jobs") == 0
        good = await bell.enqueue(tx, "office.ring", key="k")
    assert [row["id"] for row in await tables.jobs()] == [good.id]
    assert await tables.value("SELECT count(*) FROM timebell.job_keys") == 1


async def test_one_bad_job_refuses_the_many(bell: Timebell, tables: Tables) -> None:
    async with bell.transaction() as tx:
        with pytest.raises(UnknownQueue):
            await bell.enqueue_many(
                tx, [Enqueue(kind="office.ring", key="a"), Enqueue(kind="office.ring", queue="nowhere")]
            )
        with pytest.raises(InvalidInput, match="key: the same key stands twice in one call; leave one out"):
            await bell.enqueue_many(
                tx, [Enqueue(kind="office.ring", key="a"), Enqueue(kind="office.ring", key="a")]
            )
    assert set((await tables.counts()).values()) == {0}


@pytest.mark.parametrize(
    "jobs",
    [
        [{"kind": "office.ring"}],
        [Enqueue(kind="office.ring"), "office.ring"],
        (Enqueue(kind="office.ring") for _ in range(2)),
        Enqueue(kind="office.ring"),
        None,
    ],
    ids=["a mapping", "one text", "a generator", "one alone", "nothing"],
)
async def test_what_is_not_asked_for_as_many_is_told_the_way(
    bell: Timebell, tables: Tables, jobs: Any
) -> None:
    async with bell.transaction() as tx:
        with pytest.raises(InvalidInput, match=r"jobs: must be a sequence of Enqueue; give \[Enqueue\("):
            await bell.enqueue_many(tx, jobs)
        assert await bell.enqueue_many(tx, ()) == []
    assert await tables.jobs() == []


@pytest.mark.parametrize("verb", ["pause", "resume"])
async def test_what_cannot_name_a_queue_is_neither_paused_nor_resumed(bell: Timebell, verb: str) -> None:
    async with bell.transaction() as tx:
        with pytest.raises(InvalidInput, match=r"queue: \['mail'\] is not a name in lower case"):
            await getattr(bell, verb)(tx, ["mail"])


async def test_one_bad_job_refuses_also_those_that_were_on_their_way(bell: Timebell, tables: Tables) -> None:
    """So many go out in chunks, and the first ones are written when the bad one is found."""
    jobs = [Enqueue(kind="office.post", payload={"n": number}) for number in range(2_500)]
    jobs[2_400] = Enqueue(kind="office.post", payload={"text": "x" * 1_000_000})
    async with bell.transaction() as tx:
        await bell.enqueue(tx, "office.ring")
        with pytest.raises(PayloadTooLarge):
            await bell.enqueue_many(tx, jobs)
    assert [row["kind"] for row in await tables.jobs()] == ["office.ring"]


async def test_the_id_of_a_job_can_stand_in_a_payload(bell: Timebell, tables: Tables) -> None:
    """Whichever way the id came: the driver has a type of its own for it."""
    async with bell.transaction() as tx:
        first = (await bell.enqueue(tx, "office.post")).id
        same = await tx.connection.fetchval("SELECT $1::uuid", first)
        second = await bell.enqueue(tx, "office.post", {"first": first, "same": same})
    row = await tables.job(second.id)
    assert json.loads(row["payload_text"]) == {"first": str(first), "same": str(first)}


async def test_text_that_only_looks_like_a_nul_is_fine(bell: Timebell, tables: Tables) -> None:
    payload = {"regex": r"[\u0000-\u001f]", "twice": r"\\u0000"}
    async with bell.transaction() as tx:
        enqueued = await bell.enqueue(tx, "office.ring", payload)
        with pytest.raises(InvalidInput, match="NUL"):
            await bell.enqueue(tx, "office.ring", {"mixed": "\\\x00"})
    assert json.loads((await tables.job(enqueued.id))["payload_text"]) == payload


async def test_the_expiry_is_compared_as_an_instant(bell: Timebell, tables: Tables) -> None:
    berlin = ZoneInfo("Europe/Berlin")
    first = datetime(2027, 10, 31, 2, 30, tzinfo=berlin)
    second = datetime(2027, 10, 31, 2, 10, tzinfo=berlin, fold=1)
    async with bell.transaction() as tx:
        enqueued = await bell.enqueue(tx, "office.ring", due_at=first, expires_at=second)
    row = await tables.job(enqueued.id)
    assert row["due_at"] == datetime(2027, 10, 31, 0, 30, tzinfo=UTC)
    assert row["expires_at"] == datetime(2027, 10, 31, 1, 10, tzinfo=UTC)


async def test_kinds_and_queues_of_other_processes_can_be_used(
    bell: Timebell, database: Database, tables: Tables
) -> None:
    other = App(
        name="depot",
        handlers={"depot.pack": APP.handlers["office.ring"]},
        queues=[Queue(name="ramp"), Queue(name="yard")],
    )
    await Timebell(database, registry=Registry([other])).declare()
    async with bell.transaction() as tx:
        packed = await bell.enqueue(tx, "depot.pack")
        moved = await bell.enqueue(tx, "depot.pack", queue="yard")
    assert {row["id"]: row["queue"] for row in await tables.jobs()} == {
        packed.id: "default",
        moved.id: "yard",
    }


async def test_the_last_declaration_of_a_queue_counts(
    bell: Timebell, database: Database, tables: Tables
) -> None:
    changed = App(
        name="office", handlers={"office.ring": APP.handlers["office.ring"]}, queues=[Queue(name="mail")]
    )
    await Timebell(
        database, registry=Registry([changed]), settings=Settings(payload_bytes_max=2_000)
    ).declare()
    row = (await tables.rows("SELECT * FROM timebell.queues WHERE name = 'mail'"))[0]
    assert (row["rate_per_second"], row["burst"], row["concurrency"]) == (None, 1, None)
    limits = await tables.rows("SELECT kind, payload_bytes_max FROM timebell.kinds")
    assert {row["kind"]: row["payload_bytes_max"] for row in limits} == {
        "office.ring": 2_000,
        "office.book": 65_536,
        "office.post": 65_536,
    }


async def test_limits_of_the_settings_are_declared_in_the_place_of_the_apps(
    bell: Timebell, database: Database, tables: Tables
) -> None:
    limits = (
        QueueSettings(name="mail", rate_per_second=50),
        QueueSettings(name="alone", rate_per_second=2, concurrency=1),
    )
    await Timebell(database, registry=Registry([APP]), settings=Settings(queues=limits)).declare()
    rows = await tables.rows(
        "SELECT name, rate_per_second, burst, concurrency FROM timebell.queues WHERE name IN ('mail', 'alone')"
        " ORDER BY name"
    )
    assert [tuple(row.values()) for row in rows] == [("alone", 2.0, 1, 1), ("mail", 50.0, 1, None)]
    async with bell.transaction() as tx:
        await bell.enqueue(tx, "office.ring", queue="alone")
    await Timebell(database, registry=Registry([APP])).declare()
    assert await tables.value("SELECT rate_per_second FROM timebell.queues WHERE name = 'mail'") == 5.0


@pytest.mark.req("U-15")
@pytest.mark.parametrize("tenant", [None, "", "t" * 201, "a\x00", 7])
async def test_a_transaction_belongs_to_a_tenant(bell: Timebell, tenant: Any) -> None:
    with pytest.raises(InvalidInput, match="tenant: "):
        async with bell.transaction(tenant=tenant):
            raise AssertionError("no transaction opens for nobody")


@pytest.mark.req("U-15")
async def test_a_queue_paused_by_one_tenant_is_not_paused_for_another(bell: Timebell, tables: Tables) -> None:
    async with bell.transaction(tenant="a") as tx:
        await bell.pause(tx, "mail", reason="flood", actor="ops")
        await bell.pause(tx, "mail", reason="still", actor="ops")
    async with bell.transaction(tenant="b") as tx:
        assert not await bell.resume(tx, "mail")
        assert not await bell.resume(tx, "mail", everyone=True)
    rows = await tables.rows("SELECT queue, tenant, reason, actor, paused_at FROM timebell.queue_pauses")
    assert rows == [{"queue": "mail", "tenant": "a", "reason": "still", "actor": "ops", "paused_at": NOW}]
    async with bell.transaction(tenant="a") as tx:
        assert await bell.resume(tx, "mail")
        assert not await bell.resume(tx, "mail")
        await bell.pause(tx, "mail", everyone=True)
        with pytest.raises(UnknownQueue, match="queue: 'nowhere' was not declared"):
            await bell.pause(tx, "nowhere")
        with pytest.raises(InvalidInput, match=r"queue: 'no.x00where' is not a name in lower case"):
            await bell.resume(tx, "no\x00where")
    assert await tables.value("SELECT tenant FROM timebell.queue_pauses") == ""


async def test_the_answer_is_the_id_of_the_row(bell: Timebell, tables: Tables) -> None:
    async with bell.transaction() as tx:
        enqueued = await bell.enqueue(tx, "office.ring")
    assert isinstance(enqueued.id, UUID)
    assert (await tables.job(enqueued.id))["created_at"] is not None


async def test_what_is_no_transaction_is_refused(bell: Timebell) -> None:
    with pytest.raises(NoTransaction, match="NoneType is no transaction"):
        await bell.enqueue(None, "office.ring")  # type: ignore[arg-type]
