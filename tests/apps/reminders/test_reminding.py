"""When a person is reminded, and of what; and what an edit does not send again."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from tests.apps.reminders.support import DAY, HOUR, NOW, WEEK, Desk, desk
from timebell.errors import InvalidInput, NotFound, RecurrenceError
from timebell.testing import RecordingProvider
from timebell.testing.database import TestDatabase

FRIDAY = datetime(2026, 3, 6, 16, 0, tzinfo=UTC)
LOCAL = datetime(2026, 3, 6, 17, 0)


async def told(ada: Desk) -> list[tuple[int, datetime]]:
    return [(line.payload["offset_minutes"], line.due_at) for line in await ada.inbox()]


@pytest.mark.req("R-6.1")
async def test_an_offset_that_is_muted_is_not_told(ada: Desk) -> None:
    await ada.create(muted=(720,), show_before_minutes=1440)
    assert len(await ada.list()) == 1
    await ada.harness.advance(WEEK)
    assert await told(ada) == [(hours * 60, FRIDAY - hours * HOUR) for hours in (48, 24, 6, 3)]


async def test_everything_may_be_muted(ada: Desk) -> None:
    made = await ada.create(muted=(2880, 1440, 720, 360, 180))
    silent = await ada.create(offsets=())
    await ada.harness.advance(WEEK)
    assert await ada.inbox() == ()
    assert len(await ada.list()) == 2
    assert (await ada.get(made.schedule.id)).state == (await ada.get(silent.schedule.id)).state == "ended"


@pytest.mark.req("X-R7")
async def test_what_is_muted_altogether_runs_nothing_and_owes_again_what_is_still_ahead(ada: Desk) -> None:
    """Unmuted a day before the second of four: those offsets are told that are still to come, and no older ones."""
    made = await ada.create(recurrence="FREQ=WEEKLY;COUNT=4", offsets=(2880, 360), muted=(2880, 360))
    assert [one.steps for one in made.diff.added] == [()] * 4
    assert len(await ada.list()) == 4
    await ada.harness.advance(to=FRIDAY + WEEK - 24 * HOUR)
    subjects = [f"occurrence:{one.id}" for one in await ada.occurrences(made.schedule.id)]
    for table in ("jobs", "job_log", "agendas"):
        assert not await ada.rows(f"SELECT * FROM timebell.{table} WHERE subject = ANY($1)", subjects)
    again = await ada.edit(made.schedule.id, muted=())
    assert [one.steps for one in again.diff.added] == [("before-360",), *[("before-2880", "before-360")] * 2]
    await ada.harness.advance(to=FRIDAY + 4 * WEEK)
    assert [at for minutes, at in await told(ada) if minutes == 360] == [
        FRIDAY + weeks * WEEK - 6 * HOUR for weeks in (1, 2, 3)
    ]
    assert len(await told(ada)) == 5


@pytest.mark.req("X-R4", "X-R3")
async def test_offsets_that_are_past_are_not_told_in_a_burst(ada: Desk) -> None:
    await ada.create(kind="reminder", start_local=datetime(2026, 3, 2, 19, 0))
    assert await ada.jobs() == [(360, NOW + 4 * HOUR), (180, NOW + 7 * HOUR)]
    await ada.harness.advance(DAY)
    assert len(await ada.inbox()) == 2


@pytest.mark.req("R-5.5", "X-R18")
@pytest.mark.parametrize(
    ("kind", "minutes", "type", "description"),
    [
        ("task", 0, "due_task", "Now"),
        ("reminder", 0, "reminder", "Now"),
        ("task", 60, "reminder", "In 1 hour"),
        ("reminder", 2880, "reminder", "In 48 hours"),
        ("reminder", 4320, "reminder", "In 3 days"),
        ("task", 45, "reminder", "In 45 minutes"),
    ],
)
async def test_what_a_reminder_is_and_says(
    ada: Desk, kind: str, minutes: int, type: str, description: str
) -> None:
    await ada.create(kind=kind, offsets=(minutes,))
    await ada.harness.advance(WEEK)
    (line,) = await ada.inbox()
    assert (line.type, line.title, line.description) == (type, "Submit report", description)


@pytest.mark.req("X-R5")
async def test_what_was_told_of_an_occurrence_that_stays_is_not_told_again(ada: Desk) -> None:
    made = await ada.create(recurrence="FREQ=WEEKLY")
    await ada.harness.advance(to=FRIDAY - 20 * HOUR)
    await ada.edit(made.schedule.id, title="Send report")
    await ada.edit(made.schedule.id, until_local=LOCAL + 3 * WEEK)
    await ada.harness.advance(to=FRIDAY)
    assert await told(ada) == [(hours * 60, FRIDAY - hours * HOUR) for hours in (48, 24, 12, 6, 3)]
    assert [line.title for line in await ada.inbox()] == ["Submit report"] * 2 + ["Send report"] * 3


@pytest.mark.req("X-R7", "R-7.2", "R-3.4")
async def test_an_offset_that_is_muted_and_wanted_again_is_told(ada: Desk) -> None:
    made = await ada.create()
    muted = await ada.edit(made.schedule.id, muted=(720,))
    assert [one.steps for one in muted.diff.withdrawn] == [("before-720",)]
    assert 720 not in dict(await ada.jobs())
    again = await ada.edit(made.schedule.id, muted=())
    assert [one.steps for one in again.diff.added] == [("before-720",)]
    await ada.harness.advance(WEEK)
    assert Counter(minutes for minutes, _ in await told(ada)) == Counter([2880, 1440, 720, 360, 180])


@pytest.mark.req("X-R8", "R-3.5")
async def test_what_is_due_and_not_begun_is_not_told_after_the_end(ada: Desk) -> None:
    made = await ada.create()
    # It is due, and nobody has looked.
    ada.clock.move_to(FRIDAY - 48 * HOUR + timedelta(seconds=1))
    await ada.end(made.schedule.id)
    await ada.harness.advance(WEEK)
    assert await ada.inbox() == ()
    assert (await ada.get(made.schedule.id)).state == "ended"


@pytest.mark.req("R-6.3")
async def test_after_the_end_there_is_silence_and_what_was_told_stays(ada: Desk) -> None:
    made = await ada.create(recurrence="FREQ=WEEKLY")
    await ada.harness.advance(WEEK)
    before = await ada.inbox()
    assert len(before) == 5
    await ada.end(made.schedule.id)
    await ada.harness.advance(8 * WEEK)
    assert await ada.inbox() == before
    assert await ada.jobs() == []


OCCURRENCES = "SELECT * FROM timebell.occurrences WHERE schedule_id = $1 ORDER BY occurs_at"


@pytest.mark.req("R-3.2")
async def test_an_occurrence_that_is_planned_again_is_the_same_row_of_a_new_revision(ada: Desk) -> None:
    id = (await ada.create(recurrence="FREQ=WEEKLY", offsets=(0,))).schedule.id
    # Two are past, and the planner has added others at the end of the horizon.
    await ada.harness.advance(to=FRIDAY + WEEK + HOUR)
    before = [dict(row) for row in await ada.rows(OCCURRENCES, id)]
    await ada.edit(id, title="Send report")
    again = [dict(row) for row in await ada.rows(OCCURRENCES, id)]
    assert len(before) > 8
    assert again[:2] == before[:2], "what is past does not change"
    assert again[2:] == [{**row, "revision": 2} for row in before[2:]]


@pytest.mark.req("R-3.2")
async def test_deleting_takes_what_is_to_come_and_leaves_what_is_past(ada: Desk) -> None:
    """The one of this very instant still counts as to come."""
    id = (await ada.create(recurrence="FREQ=WEEKLY", offsets=(0,))).schedule.id
    other = (await ada.create(recurrence="FREQ=WEEKLY", title="Other", offsets=(0,))).schedule.id
    await ada.harness.advance(to=FRIDAY + WEEK)
    before, others = [[dict(row) for row in await ada.rows(OCCURRENCES, each)] for each in (id, other)]
    await ada.end(id)
    left = [dict(row) for row in await ada.rows(OCCURRENCES, id)]
    assert left == before[:1]
    assert before[1]["occurs_at"] == ada.clock.now
    assert [dict(row) for row in await ada.rows(OCCURRENCES, other)] == others


@pytest.mark.req("R-4.4")
async def test_a_count_counts_from_the_start_whatever_else_is_edited(ada: Desk) -> None:
    made = await ada.create(recurrence="FREQ=DAILY;COUNT=2", offsets=(0,))
    await ada.harness.advance(to=FRIDAY + HOUR)
    await ada.edit(made.schedule.id, title="Other")
    await ada.harness.advance(WEEK)
    assert [at for _, at in await told(ada)] == [FRIDAY, FRIDAY + DAY]


@pytest.mark.req("R-6.4")
@pytest.mark.parametrize("recurrence", ["FREQ=NEVER", "FREQ=SECONDLY", "nonsense"])
async def test_a_recurrence_that_cannot_be_is_refused(ada: Desk, recurrence: str) -> None:
    with pytest.raises(RecurrenceError):
        await ada.create(recurrence=recurrence)
    assert await ada.list() == ()


@pytest.mark.req("R-6.4")
async def test_what_is_past_or_nowhere_is_refused(ada: Desk) -> None:
    with pytest.raises(InvalidInput, match="start_local"):
        await ada.create(start_local=datetime(2026, 3, 1, 9, 0))
    with pytest.raises(InvalidInput, match="recurrence"):
        await ada.create(
            recurrence="FREQ=DAILY", until_local=datetime(2026, 3, 1), start_local=datetime(2026, 2, 1)
        )
    with pytest.raises(InvalidInput, match="timezone"):
        await ada.create(timezone="Europe/Atlantis")


@pytest.mark.req("R-6.5")
async def test_a_schedule_is_its_owners_alone(ada: Desk) -> None:
    made = await ada.create()
    (task,) = await ada.list()
    async with ada.harness.bell.transaction() as tx:
        bob = await ada.notify.recipients.add(tx, name="Bob")
        for asked in (made.schedule.id, bob.id):
            with pytest.raises(NotFound, match=f"there is no schedule {asked}"):
                await ada.reminders.get(tx, bob.id, asked)
            with pytest.raises(NotFound, match="there is no schedule"):
                await ada.reminders.hold(tx, bob.id, asked)
        with pytest.raises(NotFound, match="there is no task"):
            await ada.tasks.complete(tx, bob.id, task.id, actor="test")
    assert (await ada.list())[0].completed_at is None


async def test_the_rest_of_a_series_may_go_on_at_another_time(ada: Desk) -> None:
    made = await ada.create(recurrence="FREQ=WEEKLY")
    before = {task.due_at: task.id for task in await ada.list()}
    async with ada.harness.bell.transaction() as tx:
        schedule = await ada.reminders.hold(tx, ada.person, made.schedule.id)
        change = await ada.reminders.move_following(
            tx, schedule, LOCAL + WEEK, LOCAL + WEEK + 2 * HOUR, fold=0, actor="test"
        )
    assert change.split_from is not None
    due = [task.due_at for task in await ada.list()]
    assert len(due) == len(before)
    assert due[:2] == [FRIDAY, FRIDAY + WEEK + 2 * HOUR]
    await ada.harness.advance(to=FRIDAY + WEEK + DAY)
    assert [at for minutes, at in await told(ada) if minutes == 180] == [
        FRIDAY - 3 * HOUR,
        FRIDAY + WEEK - HOUR,
    ]


@pytest.mark.req("X-R6")
async def test_what_was_done_ahead_stays_done_where_a_series_is_split(ada: Desk) -> None:
    made = await ada.create(recurrence="FREQ=WEEKLY")
    before = await ada.list()
    await ada.complete(before[2].id)
    async with ada.harness.bell.transaction() as tx:
        schedule = await ada.reminders.hold(tx, ada.person, made.schedule.id)
        change = await ada.reminders.move_following(
            tx, schedule, LOCAL + WEEK, LOCAL + WEEK + 2 * HOUR, fold=0, actor="test"
        )
    after = await ada.list()
    assert [task.id for task in after] == [task.id for task in before]
    assert (after[2].due_at, after[2].schedule_id) == (FRIDAY + 2 * WEEK + 2 * HOUR, change.schedule.id)
    assert [task.completed_at for task in after[1:4]] == [None, NOW, None]


async def test_the_rest_of_a_series_may_be_left_out(ada: Desk) -> None:
    made = await ada.create(recurrence="FREQ=WEEKLY")
    for original, left in ((LOCAL + 2 * WEEK, 2), (LOCAL, 0)):
        async with ada.harness.bell.transaction() as tx:
            schedule = await ada.reminders.hold(tx, ada.person, made.schedule.id)
            await ada.reminders.skip_following(tx, schedule, original, fold=0, actor="test")
        assert len(await ada.list()) == len(await ada.occurrences(made.schedule.id)) == left
    assert (await ada.get(made.schedule.id)).state == "ended"


async def test_a_person_is_told_on_the_channel_that_it_prefers_and_in_the_inbox(
    reminders_database: TestDatabase,
) -> None:
    mail = RecordingProvider(channels=["email"])
    async with desk(reminders_database, [mail], email="ada@example.org", timezone="Europe/Berlin") as ada:
        await ada.create(offsets=(180,))
        await ada.harness.advance(WEEK)
        assert await told(ada) == [(180, FRIDAY - 3 * HOUR)]
        (parcel,) = mail.parcels
        assert parcel.content.subject == "Submit report"
        assert "In 3 hours: Mar 6, 2026, 5:00" in parcel.content.text
