"""Agendas: state what should be owed about a subject, and exactly that is owed."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from tests.store.support import HOUR, NOW, StillClock, Tables
from timebell.config import Settings
from timebell.errors import InvalidInput, NaiveInstant, PayloadTooLarge, UnknownKind, UnknownQueue
from timebell.kernel import AgendaDiff, Step, Timebell, Transaction

ANCHOR = NOW + timedelta(days=2)
LISTS = ("kept", "moved", "added", "withdrawn", "skipped", "too_late", "done", "cut_off")


def step(key: str, hours: float = -1, **options: Any) -> Step:
    return Step(**{"key": key, "kind": "office.ring", "offset": timedelta(hours=hours), **options})


REMINDERS = [step("day", -24), step("hour", -1), step("start", 0)]


async def set_agenda(
    bell: Timebell,
    steps: list[Step],
    anchor: datetime | None = ANCHOR,
    *,
    subject: str = "meeting:1",
    tenant: str = "default",
    **options: Any,
) -> AgendaDiff:
    async with bell.transaction(tenant=tenant) as tx:
        return await bell.set_agenda(tx, subject=subject, anchor=anchor, steps=steps, **options)


async def clear(bell: Timebell, **options: Any) -> AgendaDiff:
    async with bell.transaction() as tx:
        return await bell.clear_agenda(tx, subject="meeting:1", **options)


def found(diff: AgendaDiff) -> dict[str, list[str]]:
    """The keys of the steps in each list that is not empty."""
    return {name: [change.key for change in getattr(diff, name)] for name in LISTS if getattr(diff, name)}


def ids(diff: AgendaDiff) -> dict[str, UUID]:
    changes = [change for name in LISTS for change in getattr(diff, name)]
    return {change.key: change.job_id for change in changes if change.job_id is not None}


async def pending(tables: Tables) -> dict[str, datetime]:
    return {row["step"]: row["due_at"] for row in await tables.jobs("started_by IS NULL")}


async def test_the_first_time_every_step_is_added(bell: Timebell, tables: Tables) -> None:
    diff = await set_agenda(bell, REMINDERS, correlation_id="c-1")
    assert diff.revision == 1
    assert found(diff) == {"added": ["day", "hour", "start"]}
    rows = {row["step"]: row for row in await tables.jobs()}
    assert {key: row["due_at"] for key, row in rows.items()} == {
        "day": ANCHOR - 24 * HOUR,
        "hour": ANCHOR - HOUR,
        "start": ANCHOR,
    }
    assert {key: row["id"] for key, row in rows.items()} == ids(diff)
    assert len({row["slot"] for row in rows.values()}) == 1
    assert {row["correlation_id"] for row in rows.values()} == {"c-1"}
    agenda = (await tables.rows("SELECT tenant, subject, revision, anchor FROM timebell.agendas"))[0]
    assert agenda == {"tenant": "default", "subject": "meeting:1", "revision": 1, "anchor": ANCHOR}


async def test_the_same_again_keeps_every_row(bell: Timebell, tables: Tables) -> None:
    first = await set_agenda(bell, REMINDERS)
    before = await tables.jobs()
    again = await set_agenda(bell, REMINDERS)
    assert found(again) == {"kept": ["day", "hour", "start"]}
    assert ids(again) == ids(first)
    assert again.revision == 2
    assert await tables.jobs() == [{**row, "revision": 2} for row in before]
    assert (await tables.counts())["job_log"] == 0


async def test_a_new_anchor_moves_every_step(bell: Timebell, tables: Tables) -> None:
    first = await set_agenda(bell, REMINDERS)
    later = await set_agenda(bell, REMINDERS, ANCHOR + HOUR)
    assert found(later) == {"moved": ["day", "hour", "start"]}
    assert ids(later) == ids(first)
    assert [change.was_due_at for change in later.moved] == [change.due_at for change in first.added]
    rows = await tables.jobs()
    assert [row["run_at"] for row in rows] == [ANCHOR - 23 * HOUR, ANCHOR, ANCHOR + HOUR]
    assert {(row["version"], row["revision"], row["attempt"]) for row in rows} == {(2, 2, 0)}
    logged = await tables.log(rows[0]["id"])
    assert [(row["state"], row["reason"]) for row in logged] == [("pending", "moved")]


async def test_steps_are_matched_by_key(bell: Timebell, tables: Tables) -> None:
    first = await set_agenda(bell, REMINDERS)
    diff = await set_agenda(
        bell,
        [step("start", 0), step("hour", -2), step("week", -40)],
        reason="rescheduled",
        actor="maria",
    )
    assert found(diff) == {"kept": ["start"], "moved": ["hour"], "added": ["week"], "withdrawn": ["day"]}
    assert await pending(tables) == {
        "week": ANCHOR - 40 * HOUR,
        "hour": ANCHOR - 2 * HOUR,
        "start": ANCHOR,
    }
    assert diff.withdrawn[0].reason == "rescheduled"
    (logged,) = await tables.log(ids(first)["day"])
    assert (logged["state"], logged["reason"], logged["actor"]) == ("cancelled", "rescheduled", "maria")
    assert (await tables.counts())["agenda_done"] == 0


@pytest.mark.parametrize(
    "change",
    [
        {"payload": {"n": 2}},
        {"kind": "office.post"},
        {"queue": "slow"},
        {"guard": "office.still_open"},
        {"priority": 3},
        {"urgency": "critical"},
        {"max_attempts": 9},
        {"ordered": True},
        {"expires_after": HOUR},
        {"expires_at": ANCHOR + HOUR},
    ],
    ids=str,
)
async def test_new_content_keeps_the_row_under_a_new_version(
    bell: Timebell, tables: Tables, change: dict[str, Any]
) -> None:
    first = await set_agenda(bell, [step("hour", payload={"n": 1, "f": 0.1})])
    diff = await set_agenda(bell, [step("hour", **{"payload": {"n": 1, "f": 0.1}, **change})])
    assert found(diff) == {"kept": ["hour"]}
    assert ids(diff) == ids(first)
    row = await tables.job(ids(first)["hour"])
    assert (row["version"], row["due_at"]) == (2, ANCHOR - HOUR)
    again = await set_agenda(bell, [step("hour", **{"payload": {"n": 1, "f": 0.1}, **change})])
    assert found(again) == {"kept": ["hour"]}
    assert (await tables.job(ids(first)["hour"]))["version"] == 2, "what is the same is not written again"


async def test_clear_and_set_again(bell: Timebell, tables: Tables) -> None:
    first = await set_agenda(bell, REMINDERS)
    cleared = await clear(bell, reason="denied", actor="maria")
    assert found(cleared) == {"withdrawn": ["day", "hour", "start"]}
    assert await tables.jobs() == []
    again = await set_agenda(bell, REMINDERS)
    assert found(again) == {"added": ["day", "hour", "start"]}
    assert (first.revision, cleared.revision, again.revision) == (1, 2, 3)
    assert not set(ids(again).values()) & set(ids(first).values())
    assert [row["reason"] for row in await tables.log(ids(first)["day"])] == ["denied"]


async def test_clearing_what_was_never_set_changes_nothing_owed(bell: Timebell, tables: Tables) -> None:
    assert found(await clear(bell)) == {}
    assert await tables.jobs() == []


async def test_an_agenda_leaves_other_jobs_of_the_subject_alone(bell: Timebell, tables: Tables) -> None:
    async with bell.transaction() as tx:
        plain = await bell.enqueue(tx, "office.ring", subject="meeting:1")
    await set_agenda(bell, REMINDERS)
    await clear(bell)
    assert [row["id"] for row in await tables.jobs()] == [plain.id]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"skipped": ["hour"]}),
        ({"late": "run"}, {"added": ["hour"]}),
        ({"late": "grace", "grace": 3 * HOUR}, {"added": ["hour"]}),
        ({"late": "grace", "grace": 3 * HOUR - timedelta(microseconds=1)}, {"skipped": ["hour"]}),
        ({"late": "run", "expires_after": 3 * HOUR}, {"skipped": ["hour"]}),
        ({"late": "run", "expires_at": NOW + HOUR}, {"added": ["hour"]}),
        ({"late": "run", "expires_at": NOW}, {"skipped": ["hour"]}),
    ],
    ids=str,
)
async def test_a_step_whose_time_has_passed(
    bell: Timebell, tables: Tables, options: dict[str, Any], expected: dict[str, list[str]]
) -> None:
    diff = await set_agenda(bell, [step("hour", **options)], NOW - 2 * HOUR, correlation_id="c-1")
    assert found(diff) == expected
    if "added" in expected:
        row = await tables.job(ids(diff)["hour"])
        assert (row["due_at"], row["run_at"]) == (NOW - 3 * HOUR, NOW)
        return
    reason = "expired" if "expires_at" in options or "expires_after" in options else "late"
    assert diff.skipped[0].reason == reason
    assert await tables.jobs() == []
    logged = (await tables.rows("SELECT state, reason, due_at, correlation_id FROM timebell.job_log"))[0]
    assert logged == {
        "state": "skipped",
        "reason": reason,
        "due_at": NOW - 3 * HOUR,
        "correlation_id": "c-1",
    }
    again = await set_agenda(bell, [step("hour", **options)], NOW - 2 * HOUR)
    assert found(again) == {"done": ["hour"]}
    assert (await tables.counts())["job_log"] == 1


async def test_a_step_that_waits_is_not_late_when_it_is_stated_again(
    bell: Timebell, clock: StillClock, tables: Tables
) -> None:
    await set_agenda(bell, [step("hour", late="skip")])
    clock.now = ANCHOR + HOUR
    assert found(await set_agenda(bell, [step("hour", late="skip")])) == {"kept": ["hour"]}
    assert await pending(tables) == {"hour": ANCHOR - HOUR}


async def test_a_step_moved_into_the_past_is_skipped_and_withdrawn(bell: Timebell, tables: Tables) -> None:
    await set_agenda(bell, REMINDERS)
    diff = await set_agenda(bell, REMINDERS, NOW + HOUR)
    assert found(diff) == {"moved": ["hour", "start"], "withdrawn": ["day"], "skipped": ["day"]}
    assert await pending(tables) == {"hour": NOW, "start": NOW + HOUR}


@pytest.mark.parametrize("state", ["done", "dead", "cancelled", "skipped", "expired"])
async def test_what_came_to_an_end_is_not_owed_again(bell: Timebell, tables: Tables, state: str) -> None:
    first = await set_agenda(bell, REMINDERS)
    await tables.finish(ids(first)["day"], state)
    again = await set_agenda(bell, REMINDERS)
    assert found(again) == {"kept": ["hour", "start"], "done": ["day"]}
    moved = await set_agenda(bell, REMINDERS, ANCHOR + HOUR)
    assert found(moved) == {"moved": ["hour", "start"], "added": ["day"]}
    back = await set_agenda(bell, REMINDERS)
    assert found(back) == {"moved": ["hour", "start"], "withdrawn": ["day"], "done": ["day"]}


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("done", {"done": ["day"]}),
        ("dead", {"done": ["day"]}),
        ("cancelled", {"done": ["day"]}),
        ("skipped", {"added": ["day"]}),
        ("expired", {"added": ["day"]}),
    ],
)
async def test_what_is_owed_once_is_not_owed_at_another_time_once_it_was_paid(
    bell: Timebell, tables: Tables, state: str, expected: dict[str, list[str]]
) -> None:
    first = await set_agenda(bell, [step("day", -24, once=True)])
    await tables.finish(ids(first)["day"], state)
    moved = await set_agenda(bell, [step("day", -24, once=True)], ANCHOR + HOUR)
    assert found(moved) == expected


async def test_a_step_that_runs_is_kept(bell: Timebell, tables: Tables) -> None:
    first = await set_agenda(bell, REMINDERS)
    await tables.start(ids(first)["day"])
    before = await tables.job(ids(first)["day"])
    again = await set_agenda(bell, [step("day", -24, payload={"n": 2}), *REMINDERS[1:]])
    assert found(again) == {"kept": ["day", "hour", "start"]}
    assert await tables.job(ids(first)["day"]) == {**before, "revision": 2}


async def test_what_runs_is_too_late_and_its_new_time_gets_a_new_row(bell: Timebell, tables: Tables) -> None:
    first = await set_agenda(bell, REMINDERS)
    running = ids(first)["day"]
    await tables.start(running)
    moved = await set_agenda(bell, REMINDERS, ANCHOR + HOUR)
    assert found(moved) == {"moved": ["hour", "start"], "too_late": ["day"], "added": ["day"]}
    assert moved.too_late[0].job_id == running != moved.added[0].job_id
    row = await tables.job(running)
    assert (row["cancel_requested_at"], row["started_by"], row["due_at"]) == (NOW, 7, ANCHOR - 24 * HOUR)
    assert await pending(tables) == {
        "day": ANCHOR - 23 * HOUR,
        "hour": ANCHOR,
        "start": ANCHOR + HOUR,
    }


async def test_what_is_owed_once_and_runs_is_not_owed_a_second_time(bell: Timebell, tables: Tables) -> None:
    first = await set_agenda(bell, [step("day", -24, once=True)])
    await tables.start(ids(first)["day"])
    moved = await set_agenda(bell, [step("day", -24, once=True)], ANCHOR + HOUR)
    assert found(moved) == {"kept": ["day"]}
    await tables.give_back(ids(first)["day"])
    again = await set_agenda(bell, [step("day", -24, once=True)], ANCHOR + HOUR)
    assert found(again) == {"moved": ["day"]}
    assert await pending(tables) == {"day": ANCHOR - 23 * HOUR}


async def test_what_was_given_up_while_it_ran_is_wanted_again(bell: Timebell, tables: Tables) -> None:
    first = await set_agenda(bell, [step("hour")])
    await tables.start(ids(first)["hour"])
    cleared = await clear(bell)
    assert found(cleared) == {"too_late": ["hour"]}
    assert (await tables.job(ids(first)["hour"]))["cancel_requested_at"] == NOW
    again = await set_agenda(bell, [step("hour")])
    assert found(again) == {"kept": ["hour"]}
    assert (await tables.job(ids(first)["hour"]))["cancel_requested_at"] is None


async def test_a_step_that_is_moved_begins_at_its_beginning(bell: Timebell, tables: Tables) -> None:
    """It failed once, and halfway, at the time at which it is not any more."""
    id = ids(await set_agenda(bell, [step("hour")]))["hour"]
    await tables.start(id)
    await tables.give_back(id)
    await tables.rows("UPDATE timebell.jobs SET cursor = '{\"at\": 1}' WHERE id = $1", id)
    assert found(await set_agenda(bell, [step("hour")], ANCHOR + HOUR)) == {"moved": ["hour"]}
    moved = await tables.job(id)
    assert (moved["attempt"], moved["cursor"]) == (0, None)


async def test_what_was_cancelled_while_it_ran_stays_cancelled(bell: Timebell, tables: Tables) -> None:
    first = await set_agenda(bell, [step("hour")])
    await tables.start(ids(first)["hour"])
    async with bell.transaction() as tx:
        assert [answer.answer for answer in await bell.cancel(tx, id=ids(first)["hour"])] == ["too_late"]
    for _ in range(2):
        assert found(await set_agenda(bell, [step("hour")])) == {"kept": ["hour"]}
    assert (await tables.job(ids(first)["hour"]))["cancel_requested_at"] == NOW


async def test_what_was_given_up_and_came_back_unfinished_is_replaced(bell: Timebell, tables: Tables) -> None:
    first = await set_agenda(bell, [step("hour")])
    await tables.start(ids(first)["hour"])
    await clear(bell)
    await tables.give_back(ids(first)["hour"])
    again = await set_agenda(bell, [step("hour")], reason="set again")
    assert found(again) == {"added": ["hour"]}
    assert [change.reason for change in again.added] == ["cut_off"]
    assert await tables.value("SELECT count(*) FROM timebell.agenda_done") == 0
    assert [row["id"] for row in await tables.jobs()] == [ids(again)["hour"]]
    assert [row["reason"] for row in await tables.log(ids(first)["hour"])] == ["set again"]


async def test_what_was_given_up_and_came_back_unfinished_is_left_where_the_step_says_so(
    bell: Timebell, tables: Tables
) -> None:
    first = await set_agenda(bell, [step("hour", cut_off="leave")])
    await tables.start(ids(first)["hour"])
    await clear(bell)
    await tables.give_back(ids(first)["hour"])
    for _ in range(2):
        assert found(await set_agenda(bell, [step("hour", cut_off="leave")])) == {"cut_off": ["hour"]}
    assert await tables.jobs() == []
    later = await set_agenda(bell, [step("hour", cut_off="leave", once=True)], ANCHOR + HOUR)
    assert found(later) == {"cut_off": ["hour"]}
    assert found(await set_agenda(bell, [step("hour")])) == {"added": ["hour"]}


async def test_what_was_cancelled_and_came_back_unfinished_stays_cancelled(
    bell: Timebell, tables: Tables
) -> None:
    first = await set_agenda(bell, [step("hour")])
    await tables.start(ids(first)["hour"])
    async with bell.transaction() as tx:
        await bell.cancel(tx, id=ids(first)["hour"])
    await tables.give_back(ids(first)["hour"])
    for _ in range(2):
        again = await set_agenda(bell, [step("hour")])
        assert found(again) == {"done": ["hour"]}
        assert [change.reason for change in again.done] == ["cancelled"]


async def test_a_step_that_was_cut_off_and_is_late_is_skipped_once(
    bell: Timebell, clock: StillClock, tables: Tables
) -> None:
    first = await set_agenda(bell, [step("hour")])
    await tables.start(ids(first)["hour"])
    await clear(bell)
    await tables.give_back(ids(first)["hour"])
    clock.now = ANCHOR
    assert found(await set_agenda(bell, [step("hour")])) == {"skipped": ["hour"]}
    again = await set_agenda(bell, [step("hour")])
    assert [(change.key, change.reason) for change in again.done] == [("hour", "skipped")]


@pytest.mark.parametrize("is_cleared", [False, True])
async def test_a_handler_that_sets_its_own_agenda_counts_as_running(
    bell: Timebell, tables: Tables, is_cleared: bool
) -> None:
    first = await set_agenda(bell, REMINDERS)
    own = ids(first)["day"]
    async with bell.database.transaction() as session:
        await session.connection.fetch("SELECT FROM timebell.jobs WHERE id = $1 FOR UPDATE", own)
        tx = Transaction(session, "default", running_job=own)
        steps = [] if is_cleared else REMINDERS
        diff = await bell.set_agenda(tx, subject="meeting:1", anchor=ANCHOR + HOUR, steps=steps)
    if is_cleared:
        assert found(diff) == {"withdrawn": ["hour", "start"], "too_late": ["day"]}
    else:
        assert found(diff) == {"moved": ["hour", "start"], "too_late": ["day"], "added": ["day"]}
    row = await tables.job(own)
    assert (row["version"], row["due_at"]) == (1, ANCHOR - 24 * HOUR)
    assert row["cancel_requested_at"] == NOW, "it must not be tried again beside its new row"


async def test_a_cancelled_step_is_not_owed_again_at_its_time(bell: Timebell) -> None:
    first = await set_agenda(bell, REMINDERS)
    async with bell.transaction() as tx:
        await bell.cancel(tx, id=ids(first)["hour"])
    assert found(await set_agenda(bell, REMINDERS)) == {"kept": ["day", "start"], "done": ["hour"]}


async def test_ordered_steps_carry_their_place(bell: Timebell, tables: Tables) -> None:
    await set_agenda(bell, [step("b", 1, ordered=True), step("free", 2), step("a", 3, ordered=True)])
    orders = {row["step"]: row["step_order"] for row in await tables.jobs()}
    assert orders == {"b": 0, "free": None, "a": 2}


async def test_steps_at_instants_need_no_anchor(bell: Timebell, tables: Tables) -> None:
    await set_agenda(bell, [Step(key="at", kind="office.ring", at=NOW + HOUR, expires_after=HOUR)], None)
    (row,) = await tables.jobs()
    assert (row["due_at"], row["expires_at"]) == (NOW + HOUR, NOW + 2 * HOUR)


async def test_an_offset_is_elapsed_time_whatever_the_clocks_do(bell: Timebell, tables: Tables) -> None:
    """At two in the night of 28 March 2027 the clocks of Berlin are put forward by an hour."""
    anchor = datetime(2027, 3, 28, 3, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    await set_agenda(bell, [step("hour", -1), step("day", -24)], anchor)
    assert await pending(tables) == {
        "day": datetime(2027, 3, 27, 1, 30, tzinfo=UTC),
        "hour": datetime(2027, 3, 28, 0, 30, tzinfo=UTC),
    }


async def test_an_hour_that_comes_twice_is_told_apart(bell: Timebell, tables: Tables) -> None:
    """Python calls two instants of such an hour unequal even when they are the same."""
    berlin = ZoneInfo("Europe/Berlin")
    first = await set_agenda(bell, REMINDERS, datetime(2027, 10, 31, 2, 30, tzinfo=berlin))
    again = await set_agenda(bell, REMINDERS, datetime(2027, 10, 31, 2, 30, tzinfo=berlin))
    assert found(again) == {"kept": ["day", "hour", "start"]}
    await tables.finish(ids(first)["start"])
    third = await set_agenda(bell, REMINDERS, datetime(2027, 10, 31, 2, 30, tzinfo=berlin))
    assert found(third) == {"kept": ["day", "hour"], "done": ["start"]}
    later = await set_agenda(bell, REMINDERS, datetime(2027, 10, 31, 2, 30, tzinfo=berlin, fold=1))
    assert later.added[0].due_at == datetime(2027, 10, 31, 1, 30, tzinfo=UTC)


@pytest.mark.req("U-15")
async def test_another_tenant_has_an_agenda_of_its_own(bell: Timebell, tables: Tables) -> None:
    ours = await set_agenda(bell, REMINDERS)
    await tables.finish(ids(ours)["hour"])
    before = await tables.jobs("tenant = 'default'")
    theirs = await set_agenda(bell, [step("hour", -1)], tenant="acme")
    assert (theirs.revision, found(theirs)) == (1, {"added": ["hour"]})
    await set_agenda(bell, [], tenant="acme")
    assert await tables.jobs("tenant = 'default'") == before
    assert await tables.value("SELECT revision FROM timebell.agendas WHERE tenant = 'default'") == 1


FAR = timedelta(days=3_661)
REFUSED: list[tuple[dict[str, Any], type[InvalidInput], str]] = [
    ({"steps": [step("a"), step("b"), step("a", 2)]}, InvalidInput, "steps: the step 'a' is stated twice"),
    ({"steps": [step(str(n)) for n in range(301)]}, InvalidInput, "steps: 301 steps, the limit is 300"),
    ({"steps": [step("a", offset=-FAR)]}, InvalidInput, "offset: step 'a': must be within 3660 days"),
    ({"steps": [step("a", offset=FAR)]}, InvalidInput, "offset: step 'a': must be within 3660 days"),
    ({"anchor": None}, InvalidInput, "anchor: step 'day' has an offset but the agenda has no anchor; give"),
    ({"anchor": datetime(2027, 3, 1, 9)}, NaiveInstant, "anchor: .* has no offset; give it one"),
    ({"anchor": "tomorrow"}, InvalidInput, "anchor: 'tomorrow' is not a datetime"),
    (
        {"anchor": datetime(9999, 12, 31, tzinfo=UTC), "steps": [step("a", 48)]},
        InvalidInput,
        "offset: step 'a': leads out of the years 1 to 9999",
    ),
    (
        {"steps": [step("a", expires_after=timedelta.max)]},
        InvalidInput,
        "expires_after: step 'a': leads out of the years",
    ),
    ({"steps": [step("a", kind="office.unknown")]}, UnknownKind, "kind: no handler is registered"),
    ({"steps": [step("a", queue="nowhere")]}, UnknownQueue, "queue: 'nowhere' was not declared"),
    ({"steps": [step("a", payload={"x": "a" * 65_536})]}, PayloadTooLarge, "payload: 65544 bytes"),
    ({"steps": [step("a", payload={"x": "\x00"})]}, InvalidInput, "payload: must not contain a NUL"),
    ({"subject": None}, InvalidInput, "subject: None is not a text"),
    ({"subject": "s" * 201}, InvalidInput, "subject: must have 1 to 200 characters"),
    ({"reason": "r" * 2_001}, InvalidInput, "reason: must have 1 to 2000 characters"),
    ({"actor": "\x00"}, InvalidInput, "actor: must not contain a NUL"),
    ({"correlation_id": ""}, InvalidInput, "correlation_id: must have 1 to 200"),
]


async def test_bad_input_changes_nothing(bell: Timebell, tables: Tables, subtests: pytest.Subtests) -> None:
    await set_agenda(bell, REMINDERS)
    before, counts = await tables.jobs(), await tables.counts()
    async with bell.transaction() as tx:
        for asked, error, text in REFUSED:
            with subtests.test(text):
                with pytest.raises(error, match=text) as refusal:
                    await bell.set_agenda(
                        tx, **{"subject": "meeting:1", "anchor": ANCHOR, "steps": REMINDERS, **asked}
                    )
                assert type(refusal.value) is error
        assert await tx.connection.fetchval("SELECT 1") == 1
    assert (await tables.jobs(), await tables.counts()) == (before, counts)
    assert await tables.value("SELECT revision FROM timebell.agendas") == 1


async def test_the_limit_of_steps_is_a_setting(bell: Timebell) -> None:
    strict = Timebell(bell.database, registry=bell.registry, settings=Settings(steps_max=2), clock=bell.clock)
    with pytest.raises(InvalidInput, match="steps: 3 steps, the limit is 2"):
        await set_agenda(strict, REMINDERS)


@pytest.mark.parametrize("is_known", [False, True])
async def test_two_that_set_one_agenda_at_once_never_double_its_steps(
    bell: Timebell, tables: Tables, is_known: bool
) -> None:
    for number in range(20):
        subject = f"meeting:{number}"
        if is_known:
            await set_agenda(bell, [], subject=subject)
        diffs = await asyncio.gather(*(set_agenda(bell, REMINDERS, subject=subject) for _ in range(2)))
        assert len(await tables.jobs("subject = $1", subject)) == 3
        assert [found(diff)["added"] for diff in diffs if diff.added] == [["day", "hour", "start"]]
        assert [found(diff)["kept"] for diff in diffs if diff.kept] == [["day", "hour", "start"]]
        assert abs(diffs[0].revision - diffs[1].revision) == 1


async def test_who_sets_an_agenda_waits_for_who_is_setting_it(bell: Timebell, tables: Tables) -> None:
    async with bell.transaction() as tx:
        first = await bell.set_agenda(tx, subject="meeting:1", anchor=ANCHOR, steps=REMINDERS)
        second = asyncio.create_task(set_agenda(bell, REMINDERS, ANCHOR + HOUR))
        await tables.until_someone_waits()
        assert not second.done()
    diff = await second
    assert found(diff) == {"moved": ["day", "hour", "start"]}
    assert ids(diff) == ids(first)
    assert len(await tables.jobs()) == 3


async def test_a_step_that_ends_while_its_agenda_is_set_is_done(bell: Timebell, tables: Tables) -> None:
    """The finish holds the job's row; whoever reads the agenda waits for it and sees what it remembered."""
    first = await set_agenda(bell, REMINDERS)
    day = ids(first)["day"]
    async with bell.database.transaction() as session:
        await session.connection.execute("DELETE FROM timebell.jobs WHERE id = $1", day)
        await session.connection.execute(
            "INSERT INTO timebell.agenda_done VALUES ('default', 'meeting:1', 'day', $1, 'done', $2, $3)",
            ANCHOR - 24 * HOUR,
            day,
            NOW,
        )
        setting = asyncio.create_task(set_agenda(bell, REMINDERS))
        await tables.until_someone_waits()
    assert found(await setting) == {"kept": ["hour", "start"], "done": ["day"]}
    assert len(await tables.jobs()) == 2
