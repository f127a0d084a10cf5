"""What is put down about a message once the kernel has said what became of its job."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from timebell.apps.sequences.desks import Desk, counts_of
from timebell.apps.sequences.models import KeptMessage, SequenceStep, Slip, Subject
from timebell.clock import Chance, Ids
from timebell.kernel import AgendaDiff, StepChange

NOW = datetime(2027, 3, 15, 8, 0, tzinfo=UTC)
LATER = NOW + timedelta(days=1)
ID, JOB, OTHER_JOB = UUID(int=1), UUID(int=2), UUID(int=3)
SLIP = Slip(
    sequence_id=UUID(int=4),
    entry=1,
    step=SequenceStep(key="day", template="note"),
    recipient_id=UUID(int=5),
    due_at=LATER,
)
KEPT = KeptMessage(
    id=ID, name=SLIP.name, status="scheduled", reason=None, due_at=LATER, job_id=JOB, is_final=False
)
CHANGE = StepChange(key=str(ID), due_at=LATER, job_id=JOB)


def a_desk(*slips: Slip) -> Desk:
    subject = Subject(
        subject="booking:1", id=UUID(int=6), timezone="UTC", dates_at=NOW, created_at=NOW, updated_at=NOW
    )
    desk = Desk(subject=subject, kept={KEPT.name: KEPT})
    for slip in slips:
        desk.decide(slip, NOW, Ids(Chance(1)))
    return desk


def settled(desk: Desk, *perhaps_sent: UUID, **diff: Any) -> Desk:
    desk.settle(AgendaDiff(revision=2, **diff), {*perhaps_sent})
    return desk


def test_what_is_no_longer_planned_and_was_withdrawn_is_cancelled() -> None:
    assert settled(a_desk(), withdrawn=(CHANGE,)).cancelled == {ID: "cancelled"}


@pytest.mark.req("A-3.4")
@pytest.mark.parametrize(("job", "is_left"), [(JOB, True), (OTHER_JOB, False)])
def test_what_its_withdrawn_job_may_have_sent_is_left_as_it_was(job: UUID, is_left: bool) -> None:
    desk = settled(a_desk(), job, withdrawn=(CHANGE,))
    assert (desk.cancelled == {}) == is_left
    past = replace(SLIP, due_at=NOW - timedelta(days=1))
    assert (list(settled(a_desk(past), job, withdrawn=(CHANGE,)).changed()) == []) == is_left


@pytest.mark.req("A-6.5")
@pytest.mark.parametrize("diff", [{}, {"too_late": (CHANGE,)}], ids=["ended meanwhile", "is being sent"])
def test_what_was_sent_meanwhile_is_not_called_cancelled(diff: dict[str, Any]) -> None:
    """Its messages were read, then its job ended, and only then its agenda was locked."""
    desk = settled(a_desk(), **diff)
    assert desk.cancelled == {}
    assert list(desk.changed()) == []


@pytest.mark.req("A-2.8")
@pytest.mark.parametrize(
    ("diff", "status"),
    [({"withdrawn": (CHANGE,)}, "skipped"), ({}, "scheduled"), ({"too_late": (CHANGE,)}, "scheduled")],
    ids=["was withdrawn", "ended meanwhile", "is being sent"],
)
def test_what_was_sent_meanwhile_is_not_called_skipped(diff: dict[str, Any], status: str) -> None:
    refused = Slip(
        sequence_id=SLIP.sequence_id,
        entry=1,
        step=SLIP.step,
        recipient_id=SLIP.recipient_id,
        due_at=LATER,
        refusal="language",
    )
    desk = settled(a_desk(refused), **diff)
    assert [kept.status for kept, _ in desk.written.values()] == [status]


def test_what_moves_keeps_its_id_and_its_job() -> None:
    moved = Slip(
        sequence_id=SLIP.sequence_id,
        entry=1,
        step=SLIP.step,
        recipient_id=SLIP.recipient_id,
        due_at=LATER + timedelta(days=1),
    )
    desk = settled(a_desk(moved), moved=(StepChange(key=str(ID), due_at=moved.due_at or NOW, job_id=JOB),))
    ((kept, _),) = desk.changed()
    assert (kept.id, kept.job_id, kept.due_at, kept.status) == (ID, JOB, moved.due_at, "scheduled")


def test_what_a_booking_does_by_itself_is_no_message() -> None:
    by_itself = StepChange(key="check-in", due_at=LATER, job_id=OTHER_JOB)
    diff = AgendaDiff(revision=1, added=(by_itself, CHANGE), withdrawn=(by_itself,))
    assert counts_of(diff) == {"kept": 0, "moved": 0, "added": 1, "withdrawn": 0}
