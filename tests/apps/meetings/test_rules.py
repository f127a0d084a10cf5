"""The states of a meeting, and what is owed in each, without a clock or a database."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import get_args
from uuid import UUID

import pytest

from timebell.apps.meetings.models import Meeting, MeetingSettings, Slot, Status, Transition
from timebell.apps.meetings.rules import (
    FROM,
    TO,
    Reminder,
    distinct,
    is_legal,
    lead_of,
    plan_of,
    refused_slot,
    reminder_type,
)

NOW = datetime(2027, 3, 1, 8, tzinfo=UTC)
HOUR = timedelta(hours=1)
SLOT = Slot(NOW + HOUR, NOW + 2 * HOUR)
ADA, BOB = UUID(int=1), UUID(int=2)
LEGAL = {
    ("accept", "pending"),
    ("deny", "pending"),
    ("reschedule", "pending"),
    ("reschedule", "accepted"),
    ("cancel", "pending"),
    ("cancel", "accepted"),
    ("complete", "accepted"),
}
MEETING = Meeting(
    tenant="default",
    id=UUID(int=9),
    requester_id=ADA,
    title="Review",
    description="",
    location=None,
    timezone="UTC",
    proposed_slots=(SLOT,),
    accepted_slot=None,
    status="pending",
    parent_meeting_id=None,
    root_id=UUID(int=9),
    sequence=0,
    revision=1,
    participants=(ADA, BOB),
    created_at=NOW,
    updated_at=NOW,
)


@pytest.mark.req("M-1.2")
@pytest.mark.parametrize("status", get_args(Status))
@pytest.mark.parametrize("transition", get_args(Transition))
def test_the_edges_are_these_seven(transition: Transition, status: Status) -> None:
    assert is_legal(transition, status) == ((transition, status) in LEGAL)


def test_every_transition_leads_somewhere() -> None:
    assert set(FROM) == set(TO) == set(get_args(Transition))
    assert set(TO.values()) == set(get_args(Status)) - {"pending"}


@pytest.mark.parametrize("status", get_args(Status))
def test_something_is_owed_while_a_meeting_is_on_and_never_else(status: Status) -> None:
    plan = plan_of(replace(MEETING, status=status, accepted_slot=SLOT), MeetingSettings())
    assert (plan.slot, len(plan.reminders)) == ((SLOT, 6) if status == "accepted" else (None, 0))


@pytest.mark.req("M-2.4")
def test_each_participant_is_reminded_at_each_offset_once() -> None:
    meeting = replace(MEETING, status="accepted", accepted_slot=SLOT)
    plan = plan_of(meeting, MeetingSettings(reminder_offsets_min=(90, 60, 90)))
    assert plan.reminders == tuple(
        Reminder(recipient=person, minutes=minutes) for person in (ADA, BOB) for minutes in (90, 60)
    )
    assert plan.reminders[0].key == f"90m_before:{ADA}"
    assert plan_of(meeting, MeetingSettings(reminder_offsets_min=())).reminders == ()


@pytest.mark.parametrize(
    ("minutes", "type"),
    [(1440, "24h_before"), (60, "1h_before"), (15, "15m_before"), (2880, "48h_before"), (90, "90m_before")],
)
def test_a_reminder_is_called_as_the_source_calls_it(minutes: int, type: str) -> None:
    assert reminder_type(minutes) == type


def test_how_long_before_it_is_told() -> None:
    assert [lead_of(minutes) for minutes in (60, 1440, 15)] == [
        {"count": 1, "unit": "hour"},
        {"count": 24, "unit": "hour"},
        {"count": 15, "unit": "minute"},
    ]


@pytest.mark.req("X-M18")
def test_a_slot_is_one_of_those_proposed_and_lies_ahead() -> None:
    berlin = timezone(HOUR)
    in_berlin = Slot(SLOT.start.astimezone(berlin), SLOT.end.astimezone(berlin))
    assert refused_slot(MEETING, SLOT, NOW) is None
    assert refused_slot(MEETING, in_berlin, NOW) is None
    for wrong in (Slot(SLOT.start, SLOT.end + HOUR), Slot(SLOT.start - HOUR, SLOT.end)):
        assert "none of the slots" in (refused_slot(MEETING, wrong, NOW) or "")
    assert "has begun" in (refused_slot(MEETING, SLOT, SLOT.start) or "")
    assert refused_slot(MEETING, SLOT, SLOT.start - timedelta(microseconds=1)) is None


def test_a_slot_that_is_proposed_twice_is_one() -> None:
    later = Slot(SLOT.end, SLOT.end + HOUR)
    assert distinct([later, SLOT, later]) == (later, SLOT)
