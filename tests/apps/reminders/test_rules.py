"""How a reminder reads, and which task is for which occurrence, without a database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid5

from hypothesis import given
from hypothesis import strategies as st

from timebell.apps.reminders.models import OFFSETS, Details
from timebell.apps.reminders.rules import Linked, TaskChanges, Wanted, lead_of, settle

DETAILS = Details(kind="task", title="Report", show_before_minutes=60)
SPACE = UUID(int=0)
MONDAY = datetime(2026, 3, 2)


def wanted(hour: int) -> Wanted:
    local = MONDAY + timedelta(hours=hour)
    return Wanted(
        occurrence_id=uuid5(SPACE, str(local)), original_local=local, occurs_at=local.replace(tzinfo=UTC)
    )


def task(number: int, one: Wanted, *, is_completed: bool = False) -> Linked:
    return Linked(
        id=UUID(int=number),
        occurrence_id=one.occurrence_id,
        original_local=one.original_local,
        due_at=one.occurs_at,
        title=DETAILS.title,
        show_before_due_time=DETAILS.show_before_minutes,
        is_completed=is_completed,
    )


def settled(tasks: list[Linked], changes: TaskChanges) -> dict[UUID, UUID]:
    """Which task each occurrence has after the changes; what was completed may be without one."""
    gone = {one.id for one in changes.removed}
    after = {one.id: one.occurrence_id for one in tasks if one.id not in gone}
    after |= {one.id: other.occurrence_id for one, other in changes.moved}
    after |= {uuid5(SPACE, f"new {one.occurrence_id}"): one.occurrence_id for one in changes.added}
    return after


def test_the_lead_is_told_in_the_largest_unit_that_is_exact() -> None:
    said = {minutes: f"{lead_of(minutes)['count']} {lead_of(minutes)['unit']}" for minutes in OFFSETS}
    assert list(said.values()) == ["48 hours", "24 hours", "12 hours", "6 hours", "3 hours"]
    assert lead_of(1) == {"count": 1, "unit": "minute"}
    assert lead_of(90) == {"count": 90, "unit": "minutes"}
    assert lead_of(7 * 1440) == {"count": 7, "unit": "days"}


def test_an_offset_is_told_once_and_not_when_it_is_muted() -> None:
    details = Details(kind="task", title="A", offsets=(60, 60, 0, 5), muted=(5, 7))
    assert details.told == (60, 0)


def test_a_task_goes_over_to_the_occurrence_that_takes_its_day() -> None:
    old, new, other = wanted(9), wanted(18), wanted(48)
    changes = settle([task(1, old)], [new, other], DETAILS)
    assert changes == TaskChanges(added=(other,), moved=((task(1, old), new),))


def test_what_says_the_same_is_left_alone_and_what_is_done_is_not_told_otherwise() -> None:
    one = wanted(9)
    assert settle([task(1, one)], [one], DETAILS) == TaskChanges()
    renamed = Details(kind="task", title="Other", show_before_minutes=60)
    assert settle([task(1, one)], [one], renamed).moved
    assert settle([task(1, one, is_completed=True)], [one], renamed) == TaskChanges()


@given(
    held=st.lists(st.tuples(st.integers(0, 100), st.booleans()), unique_by=lambda pair: pair[0], max_size=12),
    hours=st.lists(st.integers(0, 100), unique=True, max_size=12),
)
def test_in_the_end_each_occurrence_has_one_task(held: list[tuple[int, bool]], hours: list[int]) -> None:
    tasks = [task(n, wanted(hour), is_completed=done) for n, (hour, done) in enumerate(held, start=1)]
    asked = [wanted(hour) for hour in hours]
    changes = settle(tasks, asked, DETAILS)
    after = settled(tasks, changes)
    occurrences = {one.occurrence_id for one in asked}
    assert len(set(after.values())) == len(after)
    assert occurrences <= set(after.values())
    completed = {one.id for one in tasks if one.is_completed}
    assert completed <= after.keys()
    assert {id for id, occurrence in after.items() if occurrence not in occurrences} <= completed
