"""Offsets, conditions and plans, without a database."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timebell.apps.sequences.models import (
    Conditions,
    Enrolment,
    Offset,
    Person,
    SequenceStep,
    Subject,
    Terms,
)
from timebell.apps.sequences.rules import (
    FROM,
    TO,
    days_out,
    due_at,
    is_legal,
    plan,
    read_offset,
    read_time_of_day,
    refusal,
    show_offset,
)
from timebell.apps.sequences.terms import (
    conditions_json,
    conditions_of,
    step_json,
    step_of,
    terms_columns,
    terms_of,
)
from timebell.errors import InvalidInput

BERLIN = "Europe/Berlin"
ADA, BOB = UUID(int=1), UUID(int=2)
SEQUENCE = UUID(int=9)
NOW = datetime(2027, 3, 15, 8, 0, tzinfo=UTC)
# Clocks are put forward on the 28th of March at two in the morning.
START = datetime(2027, 3, 29, 13, 0, tzinfo=UTC)
END = datetime(2027, 4, 1, 8, 0, tzinfo=UTC)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def a_step(offset: str = "PT0S", **given: object) -> SequenceStep:
    at = given.pop("at", None)
    terms = {"key": "one", "template": "note", "offset": read_offset(offset), **given}
    return SequenceStep(at=None if at is None else read_time_of_day(str(at)), **terms)  # type: ignore[arg-type]


def a_subject(**given: object) -> Subject:
    terms = {
        "subject": f"booking:{UUID(int=7)}",
        "id": UUID(int=7),
        "timezone": BERLIN,
        "starts_at": START,
        "ends_at": END,
        "subtype": "stay",
        "status": "confirmed",
        "people": [(ADA, "guest"), (BOB, "guest")],
        "dates_at": NOW,
        "created_at": NOW,
        "updated_at": NOW,
        **given,
    }
    return Subject(**terms)  # type: ignore[arg-type]


PEOPLE = {
    ADA: Person(recipient_id=ADA, language="de-AT", has_phone=True),
    BOB: Person(recipient_id=BOB, language="en"),
}


def an_enrolment(*steps: SequenceStep, conditions: Conditions | None = None, **given: object) -> Enrolment:
    terms = {
        "sequence_id": SEQUENCE,
        "entry": 1,
        "version": 1,
        "event_at": NOW,
        "terms": Terms(steps=steps, conditions=conditions or Conditions()),
        **given,
    }
    return Enrolment(**terms)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("-P7D", Offset(days=-7)),
        ("P1W", Offset(days=7)),
        ("P1W2D", Offset(days=9)),
        ("PT2H", Offset(elapsed=timedelta(hours=2))),
        ("-PT90M", Offset(elapsed=-timedelta(minutes=90))),
        ("P1DT30M", Offset(days=1, elapsed=timedelta(minutes=30))),
        ("-P1DT2H5S", Offset(days=-1, elapsed=-timedelta(hours=2, seconds=5))),
        ("PT0S", Offset()),
        ("P0D", Offset()),
    ],
)
def test_an_offset_is_read(text: str, offset: Offset) -> None:
    assert read_offset(text) == offset


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("P1M", "months and years"),
        ("-P1Y", "months and years"),
        ("P", "ISO 8601"),
        ("PT", "ISO 8601"),
        ("P1DT", "ISO 8601"),
        ("7D", "ISO 8601"),
        ("+P1D", "ISO 8601"),
        ("P-1D", "ISO 8601"),
        ("P1.5D", "ISO 8601"),
        ("P3661D", "within 3660 days"),
        ("PT99999H", "within 3660 days"),
        ("P1D\n", "ISO 8601"),
        ("P\u0661D", "ISO 8601"),
    ],
)
def test_what_is_no_offset_is_refused_with_the_remedy(text: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        read_offset(text)


@given(st.integers(-3_660, 3_660), st.integers(0, 10**7), st.booleans())
def test_an_offset_is_shown_as_it_is_read(days: int, seconds: int, is_before: bool) -> None:
    sign = -1 if is_before or days < 0 else 1
    offset = Offset(days=sign * abs(days), elapsed=sign * timedelta(seconds=seconds))
    assert read_offset(show_offset(offset)) == offset


@pytest.mark.parametrize(
    "text", ["9:00", "24:00", "09:60", "09", "09:00:61", "\u0660\u0669:\u0660\u0660", "09:00Z"]
)
def test_what_is_no_time_of_day_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="09:00"):
        read_time_of_day(text)


@pytest.mark.req("A-2.4", "A-2.5")
@pytest.mark.parametrize(
    ("offset", "at", "due"),
    [
        # Fifteen hours there, in summer as in winter: days are the wall clock's.
        ("-P7D", None, "2027-03-22T15:00+01:00"),
        ("-P1D", None, "2027-03-28T15:00+02:00"),
        ("PT0S", None, "2027-03-29T15:00+02:00"),
        ("P1D", None, "2027-03-30T15:00+02:00"),
        # Hours are elapsed time, also over the change of clocks.
        ("-PT48H", None, "2027-03-27T14:00+01:00"),
        ("-P2D", None, "2027-03-27T15:00+01:00"),
        # Days first and then hours.
        ("-P1DT1H", None, "2027-03-28T14:00+02:00"),
        # A time of day on the day that the offset leads to, which a gap shifts and a fold takes the first of.
        ("-P3D", "09:00", "2027-03-26T09:00+01:00"),
        ("-P1D", "02:30", "2027-03-28T03:30+02:00"),
        ("P0D", "23:59:30", "2027-03-29T23:59:30+02:00"),
        ("P216D", "02:30", "2027-10-31T02:30+02:00"),
    ],
)
def test_a_step_is_due_by_the_wall_clock_there(offset: str, at: str | None, due: str) -> None:
    assert due_at(a_step(offset, at=at), START, BERLIN) == utc(due)


@pytest.mark.req("A-2.4")
@pytest.mark.parametrize(
    ("zone", "due"),
    [
        ("Asia/Kolkata", "2027-03-26T09:00+05:30"),
        ("Asia/Kathmandu", "2027-03-26T09:00+05:45"),
        ("Australia/Lord_Howe", "2027-03-27T09:00+11:00"),
        ("Pacific/Kiritimati", "2027-03-27T09:00+14:00"),
        ("America/St_Johns", "2027-03-26T09:00-02:30"),
    ],
)
def test_three_days_before_at_nine_is_at_nine_there(zone: str, due: str) -> None:
    assert due_at(a_step("-P3D", at="09:00"), START, zone) == utc(due)


def test_where_there_is_no_such_instant_there_is_none() -> None:
    assert due_at(a_step("-P10D"), datetime(1, 1, 5, tzinfo=UTC), BERLIN) is None
    assert due_at(a_step("P10D"), datetime(9999, 12, 28, tzinfo=UTC), BERLIN) is None


@pytest.mark.req("A-2.4")
def test_days_out_are_calendar_days_there() -> None:
    midnight = utc("2027-03-29T00:30+02:00")
    assert days_out(midnight, utc("2027-03-26T23:59+01:00"), BERLIN) == 3
    assert days_out(midnight, utc("2027-03-27T00:00+01:00"), BERLIN) == 2
    # The same instants are a day less apart in New York, where it is still the 28th.
    assert days_out(midnight, utc("2027-03-27T00:00+01:00"), "America/New_York") == 2
    assert days_out(midnight, midnight, BERLIN) == 0
    assert days_out(midnight, midnight + timedelta(days=2), BERLIN) == -2


@pytest.mark.req("A-2.4")
@pytest.mark.parametrize(
    ("conditions", "why"),
    [
        (Conditions(), None),
        (Conditions(days_out_min=14), None),
        (Conditions(days_out_min=15), "min_days_out"),
        (Conditions(days_out_max=14), None),
        (Conditions(days_out_max=13), "max_days_out"),
        (Conditions(subtypes=("stay", "table")), None),
        (Conditions(subtypes=("table",)), "subtype"),
        (Conditions(statuses=("confirmed",)), None),
        (Conditions(statuses=("created",)), "status"),
        (Conditions(languages=("de",)), None),
        (Conditions(languages=("DE-at",)), None),
        (Conditions(languages=("de-CH", "en")), "language"),
        (Conditions(has_phone=True), None),
        (Conditions(has_phone=False), "phone"),
    ],
)
def test_each_condition_is_met_or_says_which_is_not(conditions: Conditions, why: str | None) -> None:
    assert refusal(conditions, a_subject(), PEOPLE[ADA], NOW) == why
    step = replace(a_step(), conditions=conditions)
    for enrolment in (an_enrolment(step), an_enrolment(a_step(), conditions=conditions)):
        slips = list(plan(a_subject(), PEOPLE, [enrolment]))
        assert [slip.refusal for slip in slips] == [why]


def test_days_are_not_measured_without_an_instant() -> None:
    conditions = Conditions(days_out_min=100, days_out_max=0)
    assert refusal(conditions, a_subject(), PEOPLE[ADA], None) is None
    assert refusal(conditions, a_subject(starts_at=None), PEOPLE[ADA], NOW) == "no_anchor"


@pytest.mark.req("A-2.4")
def test_days_are_measured_at_the_event_and_when_the_dates_change() -> None:
    step = replace(a_step(), conditions=Conditions(days_out_min=14))
    later = an_enrolment(step, event_at=NOW + timedelta(days=1))
    assert [slip.refusal for slip in plan(a_subject(), PEOPLE, [later])] == ["min_days_out"]
    changed = a_subject(dates_at=NOW + timedelta(days=2), starts_at=START + timedelta(days=2))
    assert [slip.refusal for slip in plan(changed, PEOPLE, [later])] == [None]


def test_the_primary_is_told_or_all_are() -> None:
    steps = (a_step(), replace(a_step(), key="two", contacts="all"))
    slips = list(plan(a_subject(), PEOPLE, [an_enrolment(*steps)]))
    assert [(slip.step.key, slip.recipient_id) for slip in slips] == [
        ("one", ADA),
        ("two", ADA),
        ("two", BOB),
    ]
    # Where the primary is gone the next is.
    left = list(plan(a_subject(), {BOB: PEOPLE[BOB]}, [an_enrolment(a_step())]))
    assert [slip.recipient_id for slip in left] == [BOB]
    assert list(plan(a_subject(), {}, [an_enrolment(a_step())])) == []


@pytest.mark.req("A-2.5")
def test_each_anchor_is_counted_from() -> None:
    steps = [
        a_step("PT1H", key="event", anchor="event_time"),
        a_step("PT1H", key="start"),
        a_step("PT1H", key="end", anchor="booking_end"),
    ]
    slips = plan(a_subject(), PEOPLE, [an_enrolment(*steps)])
    hour = timedelta(hours=1)
    assert {slip.step.key: slip.due_at for slip in slips} == {
        "event": NOW + hour,
        "start": START + hour,
        "end": END + hour,
    }
    without = plan(a_subject(starts_at=None, ends_at=None), PEOPLE, [an_enrolment(*steps)])
    assert [slip.refusal for slip in without] == [None, "no_anchor", "no_anchor"]


def test_what_is_said_before_something_is_of_no_use_after_it() -> None:
    steps = [
        a_step("-P1D", key="before"),
        a_step("PT1H", key="after"),
        a_step("-PT1H", key="before-end", anchor="booking_end"),
        a_step("PT1H", key="event", anchor="event_time"),
    ]
    slips = plan(a_subject(), PEOPLE, [an_enrolment(*steps)])
    assert {slip.step.key: slip.expires_at for slip in slips} == {
        "before": START,
        "after": None,
        "before-end": END,
        "event": None,
    }


def test_what_has_ended_owes_nothing() -> None:
    ended = an_enrolment(a_step(), ended_reason="cancelled")
    assert list(plan(a_subject(), PEOPLE, [ended])) == []


@pytest.mark.req("A-2.2")
def test_the_edges_between_the_states_of_a_booking() -> None:
    states = ("created", "confirmed", "checked_in", "completed", "cancelled")
    edges = {(status, TO[verb]) for verb in FROM for status in states if is_legal(verb, status)}
    assert edges == {
        ("created", "confirmed"),
        ("confirmed", "checked_in"),
        ("checked_in", "completed"),
        ("created", "cancelled"),
        ("confirmed", "cancelled"),
        ("checked_in", "cancelled"),
    }


def test_terms_are_kept_as_they_are_said() -> None:
    conditions = Conditions(days_out_min=2, subtypes=("stay",), languages=("de", "en"), has_phone=False)
    step = SequenceStep(
        key="k",
        template="t",
        anchor="booking_end",
        offset=Offset(days=-1),
        at=time(9, 0, 30),
        channel="sms",
        contacts="all",
        conditions=conditions,
    )
    assert conditions_json(conditions) == {
        "minDaysOut": 2,
        "bookingSubtype": "stay",
        "language": ["de", "en"],
        "hasPhone": False,
    }
    assert conditions_of(conditions_json(conditions)) == conditions
    assert step_json(step)["at"] == "09:00:30"
    assert step_of(step_json(step)) == step
    terms = Terms(steps=(step,), conditions=conditions)
    assert terms_of(**terms_columns(terms)) == terms
