"""Cancelling: each job gets a truthful answer, whatever else happens to it at that moment."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.store.support import HOUR, NOW, StillClock, Tables
from timebell.config import Settings
from timebell.engine.store import EngineStore
from timebell.errors import InvalidInput
from timebell.kernel import AgendaDiff, Cancelled, Enqueue, Step, Timebell, Transaction


async def enqueue(bell: Timebell, *, tenant: str = "default", **options: Any) -> UUID:
    async with bell.transaction(tenant=tenant) as tx:
        return (await bell.enqueue(tx, **{"kind": "office.ring", "delay": HOUR, **options})).id


async def cancel(bell: Timebell, *, tenant: str = "default", **options: Any) -> list[tuple[str, str | None]]:
    async with bell.transaction(tenant=tenant) as tx:
        return [(answer.answer, answer.state) for answer in await bell.cancel(tx, **options)]


@pytest.mark.req("U-3", "U-20")
async def test_what_has_not_started_is_cancelled(bell: Timebell, tables: Tables) -> None:
    id = await enqueue(bell, subject="meeting:1", key="k", correlation_id="c-1", payload={"n": 1})
    async with bell.transaction() as tx:
        answers = await bell.cancel(tx, id=id, reason="denied", actor="maria")
    assert answers == [Cancelled(id=id, answer="cancelled", state="cancelled")]
    (logged,) = await tables.log(id)
    assert (logged["state"], logged["reason"], logged["actor"]) == ("cancelled", "denied", "maria")
    assert (logged["subject"], logged["key"], logged["correlation_id"]) == ("meeting:1", "k", "c-1")
    assert (logged["due_at"], logged["finished_at"], logged["payload"]) == (NOW + HOUR, NOW, '{"n": 1}')
    counts = await tables.counts()
    assert (counts["jobs"], counts["job_keys"], counts["job_log"]) == (0, 0, 1)


@pytest.mark.req("U-3")
async def test_a_second_cancel_finds_it_final(bell: Timebell, tables: Tables) -> None:
    id = await enqueue(bell)
    assert await cancel(bell, id=id) == [("cancelled", "cancelled")]
    assert await cancel(bell, id=id) == [("already_final", "cancelled")]
    assert len(await tables.log(id)) == 1


@pytest.mark.req("U-3")
async def test_what_runs_is_told_and_not_taken_back(
    bell: Timebell, clock: StillClock, tables: Tables
) -> None:
    id = await enqueue(bell)
    await tables.start(id)
    before = await tables.job(id)
    assert await cancel(bell, id=id) == [("too_late", "running")]
    clock.now = NOW + HOUR
    assert await cancel(bell, id=id) == [("too_late", "running")]
    assert await tables.job(id) == {**before, "cancel_requested_at": NOW}
    assert await tables.log(id) == []


@pytest.mark.req("U-3")
@pytest.mark.parametrize("state", ["done", "dead", "expired", "skipped"])
async def test_what_has_ended_answers_with_its_state(bell: Timebell, tables: Tables, state: str) -> None:
    id = await enqueue(bell)
    await tables.finish(id, state)
    assert await cancel(bell, id=id) == [("already_final", state)]
    assert [row["state"] for row in await tables.log(id)] == [state]


async def test_a_retry_in_the_log_is_no_end(bell: Timebell, tables: Tables) -> None:
    id, unknown = await enqueue(bell), uuid4()
    assert await cancel(bell, id=id) == [("cancelled", "cancelled")]
    for retried in (id, unknown):
        await tables.rows(
            "INSERT INTO timebell.job_log (id, tenant, queue, kind, version, attempt, state, due_at, "
            "finished_at) VALUES ($1, 'default', 'default', 'office.ring', 9, 1, 'pending', $2, $2)",
            retried,
            NOW,
        )
    assert await cancel(bell, id=id) == [("already_final", "cancelled")]
    assert await cancel(bell, id=unknown) == [("not_found", None)]


async def test_a_dead_job_is_final_even_when_its_log_was_pruned(bell: Timebell, tables: Tables) -> None:
    id = uuid4()
    await tables.bury(id)
    assert await cancel(bell, id=id) == [("already_final", "dead")]
    assert await cancel(bell, tenant="acme", id=id) == [("not_found", None)]
    assert (await tables.counts())["dead_jobs"] == 1


@pytest.mark.req("U-3")
async def test_nothing_is_found_under_an_unknown_name(bell: Timebell) -> None:
    assert await cancel(bell, id=uuid4()) == [("not_found", None)]
    assert await cancel(bell, kind="office.ring", key="nobody") == []
    assert await cancel(bell, subject="nobody") == []


@pytest.mark.req("U-3", "U-15")
async def test_another_tenant_finds_nothing_and_changes_nothing(bell: Timebell, tables: Tables) -> None:
    pending = await enqueue(bell, subject="meeting:1", key="k")
    started = await enqueue(bell, subject="meeting:1")
    ended = await enqueue(bell)
    await tables.start(started)
    await tables.finish(ended)
    before, counts = await tables.jobs(), await tables.counts()
    for id in (pending, started, ended):
        assert await cancel(bell, tenant="acme", id=id) == [("not_found", None)]
    assert await cancel(bell, tenant="acme", subject="meeting:1") == []
    assert await cancel(bell, tenant="acme", kind="office.ring", key="k") == []
    assert (await tables.jobs(), await tables.counts()) == (before, counts)


@pytest.mark.req("U-3")
async def test_by_key_and_only_with_its_kind(bell: Timebell, tables: Tables) -> None:
    id = await enqueue(bell, key="k")
    other = await enqueue(bell, key="k", kind="office.post")
    assert await cancel(bell, kind="office.book", key="k") == []
    assert await cancel(bell, kind="office.ring", key="k") == [("cancelled", "cancelled")]
    assert [row["id"] for row in await tables.jobs()] == [other]
    assert await cancel(bell, kind="office.ring", key="k") == []
    assert await cancel(bell, id=id) == [("already_final", "cancelled")]


async def test_by_a_key_that_outlived_its_job(bell: Timebell, tables: Tables) -> None:
    id = await enqueue(bell, key="k", key_lifetime=HOUR)
    await tables.finish(id, key_expires_at=NOW + HOUR)
    assert await cancel(bell, kind="office.ring", key="k") == [("already_final", "done")]


@pytest.mark.req("U-3")
async def test_by_subject_each_job_gets_its_own_answer(bell: Timebell, tables: Tables) -> None:
    async with bell.transaction() as tx:
        plain, started, ended = await bell.enqueue_many(
            tx, [Enqueue(kind="office.ring", subject="meeting:1", delay=HOUR) for _ in range(3)]
        )
        await bell.enqueue(tx, "office.ring", subject="meeting:2")
        agenda = await bell.set_agenda(
            tx,
            subject="meeting:1",
            anchor=NOW + 9 * HOUR,
            steps=[Step(key=key, kind="office.post", offset=-HOUR) for key in ("a", "b")],
        )
    await tables.start(started.id)
    await tables.finish(ended.id)
    step, running_step = (change.job_id for change in agenda.added)
    assert step is not None
    assert running_step is not None
    await tables.start(running_step)
    async with bell.transaction() as tx:
        answers = {answer.id: answer.answer for answer in await bell.cancel(tx, subject="meeting:1")}
    assert answers == {
        plain.id: "cancelled",
        started.id: "too_late",
        step: "cancelled",
        running_step: "too_late",
    }
    assert {row["id"] for row in await tables.jobs("subject = 'meeting:1'")} == {started.id, running_step}
    assert len(await tables.jobs("subject = 'meeting:2'")) == 1
    remembered = await tables.rows("SELECT step, state, job_id FROM timebell.agenda_done")
    assert remembered == [{"step": "a", "state": "cancelled", "job_id": step}]


async def test_a_handler_that_cancels_its_own_subject_goes_on(bell: Timebell, tables: Tables) -> None:
    own = await enqueue(bell, kind="office.book", subject="meeting:1")
    other = await enqueue(bell, subject="meeting:1")
    before = await tables.job(own)
    async with bell.database.transaction() as session:
        await session.connection.fetch("SELECT FROM timebell.jobs WHERE id = $1 FOR UPDATE", own)
        tx = Transaction(session, "default", running_job=own)
        answers = {answer.id: answer.answer for answer in await bell.cancel(tx, subject="meeting:1")}
    assert answers == {own: "too_late", other: "cancelled"}
    assert await tables.jobs() == [{**before, "cancel_requested_at": NOW}]


@pytest.mark.req("U-3")
@pytest.mark.parametrize("wait_seconds", [0.0, 0.05])
async def test_what_another_transaction_holds_too_long_is_undecided_and_the_wish_is_kept(
    bell: Timebell, tables: Tables, wait_seconds: float
) -> None:
    held = await enqueue(bell, subject="meeting:1")
    free = await enqueue(bell, subject="meeting:1")
    impatient = Timebell(
        bell.database,
        registry=bell.registry,
        settings=Settings(cancel_wait_seconds=wait_seconds),
        clock=bell.clock,
    )
    before = await tables.job(held)
    async with bell.database.transaction() as session:
        await session.connection.fetch("SELECT FROM timebell.jobs WHERE id = $1 FOR UPDATE", held)
        async with asyncio.timeout(4), impatient.transaction() as tx:
            limit = await tx.connection.fetchval("SHOW lock_timeout")
            answers = {answer.id: answer.answer for answer in await impatient.cancel(tx, subject="meeting:1")}
            assert await tx.connection.fetchval("SHOW lock_timeout") == limit
    assert answers == {held: "undecided", free: "cancelled"}
    assert await tables.jobs() == [before]
    assert await cancel(impatient, id=held) == [("cancelled", "cancelled")]


@pytest.mark.req("U-3")
async def test_what_was_asked_of_a_held_job_is_carried_out_when_it_is_free(
    bell: Timebell, tables: Tables
) -> None:
    """A pending job, a started one and one that ends meanwhile: nobody has to ask again for it to be done."""
    pending, started, ended = [await enqueue(bell, subject="meeting:1") for _ in range(3)]
    await tables.start(started)
    impatient = Timebell(
        bell.database, registry=bell.registry, settings=Settings(cancel_wait_seconds=0.0), clock=bell.clock
    )
    store = EngineStore(bell.clock)
    async with bell.database.transaction() as session:
        await session.connection.fetch("SELECT FROM timebell.jobs FOR UPDATE")
        async with impatient.transaction() as tx:
            answers = await impatient.cancel(tx, subject="meeting:1", reason="denied", actor="maria")
        async with bell.database.connection() as other:
            assert await store.carry_out_cancels(other, limit=10) == []
    assert {(one.id, one.answer, one.state) for one in answers} == {
        (pending, "undecided", None),
        (started, "too_late", "running"),
        (ended, "undecided", None),
    }
    await tables.finish(ended)
    async with bell.database.connection() as other:
        (carried_out,) = await store.carry_out_cancels(other, limit=10)
    assert carried_out["job_id"] == pending
    (left,) = await tables.jobs()
    assert (left["id"], left["cancel_requested_at"]) == (started, NOW)
    (logged,) = await tables.log(pending)
    assert (logged["state"], logged["reason"], logged["actor"]) == ("cancelled", "denied", "maria")
    assert await tables.value("SELECT count(*) FROM timebell.cancel_requests") == 0


async def test_a_job_that_is_replaced_or_revived_is_wanted_again(bell: Timebell, tables: Tables) -> None:
    replaced, dead = await enqueue(bell, key="k"), uuid4()
    await tables.bury(dead)
    await tables.rows(
        "INSERT INTO timebell.cancel_requests (job_id, tenant, requested_at) "
        "SELECT unnest($1::uuid[]), 'default', $2",
        [replaced, dead],
        NOW,
    )
    async with bell.transaction() as tx:
        await bell.enqueue(tx, "office.ring", {"n": 2}, key="k", delay=HOUR, on_conflict="replace")
        await bell.revive(tx, ids=[dead])
    async with bell.database.connection() as session:
        assert await EngineStore(bell.clock).carry_out_cancels(session, limit=10) == []
    assert {row["id"] for row in await tables.jobs()} == {replaced, dead}


async def test_processes_of_the_release_before_hear_a_word_that_they_know(
    bell: Timebell, tables: Tables
) -> None:
    id = await enqueue(bell)
    async with bell.database.transaction() as session:
        await session.connection.fetch("SELECT FROM timebell.jobs FOR UPDATE")
        old = "SELECT * FROM timebell.cancel_jobs('default', $1, NULL, NULL, NULL, 'r', NULL, NULL, 0, $2)"
        assert await tables.rows(old, id, NOW) == [{"job_id": id, "answer": "too_late", "state": "running"}]
    assert await tables.value("SELECT job_id FROM timebell.cancel_requests") == id


async def test_a_step_that_was_asked_to_be_cancelled_is_stated_anew(bell: Timebell, tables: Tables) -> None:
    """What is stated later decides; the job that somebody wanted gone is not moved along with the wish."""

    async def state(hours: int) -> AgendaDiff:
        step = Step(key="remind", kind="office.ring", offset=timedelta(0))
        async with bell.transaction() as tx:
            return await bell.set_agenda(tx, subject="meeting:1", anchor=NOW + hours * HOUR, steps=[step])

    (first,) = (await state(1)).added
    await tables.rows(
        "INSERT INTO timebell.cancel_requests (job_id, tenant, requested_at) VALUES ($1, 'default', $2)",
        first.job_id,
        NOW,
    )
    (second,) = (await state(2)).added
    async with bell.database.connection() as session:
        assert await EngineStore(bell.clock).carry_out_cancels(session, limit=10) == []
    assert [row["id"] for row in await tables.jobs()] == [second.job_id]


async def test_the_wait_leaves_the_limits_of_the_transaction_alone(bell: Timebell) -> None:
    id = await enqueue(bell)
    async with bell.transaction() as tx:
        await tx.connection.execute("SET LOCAL lock_timeout = '1234ms'")
        await bell.cancel(tx, id=id)
        assert await tx.connection.fetchval("SHOW lock_timeout") == "1234ms"


@pytest.mark.req("U-3")
@pytest.mark.parametrize("is_finished", [False, True])
async def test_a_cancel_waits_a_little_for_who_holds_the_job(
    bell: Timebell, tables: Tables, is_finished: bool
) -> None:
    patient = Timebell(
        bell.database,
        registry=bell.registry,
        settings=Settings(cancel_wait_seconds=10),
        clock=bell.clock,
    )
    id = await enqueue(bell)
    async with bell.database.transaction() as session:
        await session.connection.fetch("SELECT FROM timebell.jobs WHERE id = $1 FOR UPDATE", id)
        asking = asyncio.create_task(cancel(patient, id=id))
        await tables.until_someone_waits()
        if is_finished:
            await session.connection.execute("DELETE FROM timebell.jobs")
            await session.connection.execute(
                "INSERT INTO timebell.job_log (id, tenant, queue, kind, version, attempt, state, due_at, "
                "finished_at) VALUES ($1, 'default', 'default', 'office.ring', 2, 1, 'done', $2, $2)",
                id,
                NOW,
            )
    assert await asking == [("already_final", "done") if is_finished else ("cancelled", "cancelled")]


async def test_a_step_is_cancelled_although_its_agenda_is_held(bell: Timebell, tables: Tables) -> None:
    """A transactional step holds its agenda while it runs; the other steps of the subject can still be stopped."""
    steps = [Step(key=key, kind="office.book", offset=timedelta(0)) for key in ("runs", "waits")]
    async with bell.transaction() as tx:
        agenda = await bell.set_agenda(tx, subject="meeting:1", anchor=NOW + HOUR, steps=steps)
    runs, waits = (change.job_id for change in agenda.added)
    async with bell.database.transaction() as session:
        await session.connection.fetch("SELECT FROM timebell.agendas FOR NO KEY UPDATE")
        await session.connection.fetch("SELECT FROM timebell.jobs WHERE id = $1 FOR UPDATE", runs)
        async with asyncio.timeout(4):
            assert await cancel(bell, id=runs) == [("undecided", None)]
            assert await cancel(bell, id=waits) == [("cancelled", "cancelled")]
    assert [row["id"] for row in await tables.jobs()] == [runs]


async def test_by_subject_after_an_agenda_that_was_being_set(bell: Timebell, tables: Tables) -> None:
    """Whoever sets the agenda first decides what is owed; the cancel that waited for it stops all of that."""
    patient = Timebell(
        bell.database,
        registry=bell.registry,
        settings=Settings(cancel_wait_seconds=10),
        clock=bell.clock,
    )

    def steps(key: str) -> list[Step]:
        return [Step(key=key, kind="office.ring", offset=timedelta(0))]

    async with bell.transaction() as tx:
        await bell.set_agenda(tx, subject="meeting:1", anchor=NOW + HOUR, steps=steps("old"))
    async with bell.transaction() as tx:
        await bell.set_agenda(tx, subject="meeting:1", anchor=NOW + HOUR, steps=steps("new"))
        asking = asyncio.create_task(cancel(patient, subject="meeting:1"))
        await tables.until_someone_waits()
    assert await asking == [("cancelled", "cancelled")]
    assert await tables.jobs() == []
    assert await tables.value("SELECT step FROM timebell.agenda_done") == "new"


@pytest.mark.req("U-13")
async def test_a_rolled_back_cancel_has_not_happened(bell: Timebell, tables: Tables) -> None:
    id = await enqueue(bell, key="k")
    before, counts = await tables.jobs(), await tables.counts()
    connection = await bell.database.dedicated()
    await connection.execute("BEGIN")
    answers = await bell.cancel(bell.join(connection), id=id)
    await connection.execute("ROLLBACK")
    await connection.close()
    assert answers[0].answer == "cancelled"
    assert (await tables.jobs(), await tables.counts()) == (before, counts)


@pytest.mark.req("U-3")
async def test_with_a_kind_nothing_of_another_kind_is_meant(bell: Timebell, tables: Tables) -> None:
    ring = await enqueue(bell, subject="meeting:1")
    book = await enqueue(bell, kind="office.book", subject="meeting:1")
    async with bell.transaction() as tx:
        answers = await bell.cancel(tx, subject="meeting:1", kind="office.ring")
    assert answers == [Cancelled(id=ring, answer="cancelled", state="cancelled")]
    assert await cancel(bell, id=book, kind="office.ring") == [("not_found", None)]
    assert await cancel(bell, id=ring, kind="office.book") == [("not_found", None)]
    assert await cancel(bell, id=ring, kind="office.ring") == [("already_final", "cancelled")]
    assert [job["id"] for job in await tables.jobs()] == [book]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({}, "id: name what to cancel by id, by kind and key, or by subject"),
    ({"kind": "office.ring"}, "id: name what to cancel"),
    ({"id": uuid4(), "subject": "s"}, "id: name what to cancel"),
    ({"key": "k"}, "key: a key belongs to a kind; give both"),
    ({"id": "01a1dd2e"}, "id: '01a1dd2e' is not a UUID; give the id of a job"),
    ({"kind": "ring", "key": "k"}, "kind: 'ring' is not of the form app.verb"),
    ({"kind": "office.ring", "key": "k\x00"}, "key: must not contain a NUL"),
    ({"subject": "s" * 201}, "subject: must have 1 to 200 characters, has 201"),
    ({"subject": "s", "reason": "r" * 2_001}, "reason: must have 1 to 2000 characters, has 2001"),
    ({"subject": "s", "reason": None}, "reason: None is not a text"),
    ({"subject": "s", "actor": ""}, "actor: must have 1 to 200 characters, has 0"),
]


async def test_a_cancel_that_names_nothing_or_too_much_is_refused(
    bell: Timebell, tables: Tables, subtests: pytest.Subtests
) -> None:
    async with bell.transaction() as tx:
        for asked, text in REFUSED:
            with subtests.test(text), pytest.raises(InvalidInput, match=text):
                await bell.cancel(tx, **asked)
        await bell.enqueue(tx, "office.ring")
    assert len(await tables.jobs()) == 1
