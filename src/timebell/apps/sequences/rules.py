"""Pure rules, without a clock or a database: offsets, conditions, and what a subject is owed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from typing import Final
from uuid import UUID

from timebell.apps.sequences.models import (
    BookingStatus,
    Conditions,
    Enrolment,
    Offset,
    Person,
    SequenceStep,
    Slip,
    Subject,
    Transition,
)
from timebell.errors import InvalidInput
from timebell.rules.localtime import at_instant, aware, local_at, naive_utc, zone

DAYS_MAX: Final = 3_660
_OFFSET: Final = re.compile(
    r"(?P<sign>-?)P(?:(?P<weeks>\d{1,4})W)?(?:(?P<days>\d{1,5})D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d{1,6})H)?(?:(?P<minutes>\d{1,7})M)?(?:(?P<seconds>\d{1,8})S)?)?",
    re.ASCII,
)
_CALENDAR: Final = re.compile(r"-?P(?:\d+[YM])")
_TIME_OF_DAY: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?", re.ASCII)

# The transitions of a booking: from which states each leads, and to which.
FROM: Final[Mapping[Transition, frozenset[BookingStatus]]] = {
    "confirm": frozenset({"created"}),
    "check-in": frozenset({"confirmed"}),
    "complete": frozenset({"checked_in"}),
    "cancel": frozenset({"created", "confirmed", "checked_in"}),
}
TO: Final[Mapping[Transition, BookingStatus]] = {
    "confirm": "confirmed",
    "check-in": "checked_in",
    "complete": "completed",
    "cancel": "cancelled",
}
# What a booking's status is called as the event that brought it about.
EVENTS: Final[Mapping[BookingStatus, str]] = {
    "created": "booking_created",
    "confirmed": "booking_confirmed",
    "checked_in": "booking_checked_in",
    "completed": "booking_completed",
    "cancelled": "booking_cancelled",
}
BOOKING_EVENTS: Final = frozenset(EVENTS.values())
# Why a message is not to be sent, as the plan says it; the reasons of notify follow once it was tried.
REFUSALS: Final[Mapping[str, str]] = {
    "past": "its time had passed when it was planned",
    "no_anchor": "what it is counted from has no instant",
    "min_days_out": "the dates were nearer than the condition minDaysOut asks for",
    "max_days_out": "the dates were further away than the condition maxDaysOut allows",
    "subtype": "the subtype is none of those that the condition names",
    "language": "the contact's language is none of those that the condition names",
    "phone": "the condition hasPhone was not met",
    "status": "the status is none of those that the condition names",
    "template_missing": "there is no such template any more",
}
# Why a message that was scheduled is not to be sent any more.
ENDS: Final[Mapping[str, str]] = {
    "cancelled": "what it is about was cancelled",
    "sequence_deleted": "its sequence was deleted",
    "step_removed": "the version of its sequence that was applied does not have it",
    "contact_removed": "the contact is no longer one of the subject",
}


def is_legal(transition: Transition, status: str | None) -> bool:
    return status in FROM[transition]


def read_offset(text: str) -> Offset:
    """`-P7D`, `PT2H`, `P1W`: ISO 8601, where days and weeks are the wall clock's and the rest is elapsed time."""
    found = _OFFSET.fullmatch(text)
    if found is None or not any(found[name] for name in ("weeks", "days", "hours", "minutes", "seconds")):
        if _CALENDAR.match(text):
            raise InvalidInput("months and years differ in length; say days or weeks", field="offset")
        raise InvalidInput("give an offset such as -P7D, PT2H or P1DT30M (ISO 8601)", field="offset")
    amounts = {name: int(value or 0) for name, value in found.groupdict().items() if name != "sign"}
    sign = -1 if found["sign"] else 1
    days = amounts["weeks"] * 7 + amounts["days"]
    elapsed = timedelta(hours=amounts["hours"], minutes=amounts["minutes"], seconds=amounts["seconds"])
    if days > DAYS_MAX or elapsed > timedelta(days=DAYS_MAX):
        raise InvalidInput(f"must be within {DAYS_MAX} days of the anchor", field="offset")
    return Offset(days=sign * days, elapsed=sign * elapsed)


def show_offset(offset: Offset) -> str:
    """The same the other way round, in one form for each."""
    sign = "-" if offset.is_before else ""
    days = f"{abs(offset.days)}D" if offset.days else ""
    minutes, seconds = divmod(int(abs(offset.elapsed).total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [(hours, "H"), (minutes, "M"), (seconds, "S")]
    rest = "".join(f"{amount}{unit}" for amount, unit in parts if amount)
    if not days and not rest:
        return "PT0S"
    return f"{sign}P{days}{'T' if rest else ''}{rest}"


def read_time_of_day(text: str) -> time:
    found = _TIME_OF_DAY.fullmatch(text)
    if found is None:
        raise InvalidInput("give a time of day such as 09:00", field="at")
    return time(int(found[1]), int(found[2]), int(found[3] or 0))


def check_step(step: SequenceStep) -> None:
    """With a time of day the offset says which day, and nothing more."""
    if step.at is not None and step.offset.elapsed:
        raise InvalidInput(
            "with `at` an offset is of whole days or weeks; leave hours and minutes out of it", field="offset"
        )


def due_at(step: SequenceStep, anchor: datetime, timezone: str) -> datetime | None:
    """When a step is due: so many days later on the wall clock there, or at a time of that day, and so much elapsed
    time after it. None where that is outside of the years 1 to 9999."""
    there = zone(timezone)
    instant = naive_utc(anchor, "anchor")
    try:
        if step.offset.days or step.at is not None:
            local = local_at(instant, there) + timedelta(days=step.offset.days)
            if step.at is not None:
                local = datetime.combine(local.date(), step.at)
            # Where only days were counted and none passed, the instant stays which of two it was.
            mapped = at_instant(local.replace(fold=0), there).instant
            if mapped is None:
                return None
            instant = mapped
        return aware(instant + step.offset.elapsed)
    except OverflowError:
        return None


def days_out(starts_at: datetime, measured_at: datetime, timezone: str) -> int:
    """Whole calendar days there, from the day on which it is measured to the day on which it begins."""
    there = zone(timezone)
    begins = local_at(naive_utc(starts_at, "start"), there).date()
    return (begins - local_at(naive_utc(measured_at, "measured_at"), there).date()).days


def refusal(
    conditions: Conditions, subject: Subject, person: Person, measured_at: datetime | None
) -> str | None:
    """Which condition is not met, if one is not. How many days the dates are out is not asked without an instant at
    which to measure it: that was done as it was planned."""
    if measured_at is not None and (
        conditions.days_out_min is not None or conditions.days_out_max is not None
    ):
        if subject.starts_at is None:
            return "no_anchor"
        days = days_out(subject.starts_at, measured_at, subject.timezone)
        if conditions.days_out_min is not None and days < conditions.days_out_min:
            return "min_days_out"
        if conditions.days_out_max is not None and days > conditions.days_out_max:
            return "max_days_out"
    if conditions.subtypes is not None and subject.subtype not in conditions.subtypes:
        return "subtype"
    if conditions.statuses is not None and subject.status not in conditions.statuses:
        return "status"
    if conditions.languages is not None and not _speaks(person.language, conditions.languages):
        return "language"
    if conditions.has_phone is not None and person.has_phone != conditions.has_phone:
        return "phone"
    return None


def _speaks(language: str, wanted: Iterable[str]) -> bool:
    """`de` is met by whoever reads `de-AT`; `de-AT` is not met by whoever reads `de`."""
    spoken = language.lower()
    return any(spoken == each.lower() or spoken.startswith(f"{each.lower()}-") for each in wanted)


def plan(subject: Subject, people: Mapping[UUID, Person], enrolments: Sequence[Enrolment]) -> Iterator[Slip]:
    """Every message of a subject: what is owed, and what is not, each with its instant and its reason.

    It depends on nothing but what is given, so that what is pending can be compared with it.
    """
    there = [people[id] for id, _ in subject.people if id in people]
    for enrolment in enrolments:
        if enrolment.ended_reason is None:
            measured_at = max(enrolment.event_at, subject.dates_at)
            for step in enrolment.terms.steps:
                for person in there if step.contacts == "all" else there[:1]:
                    yield _slip(subject, person, enrolment, step, measured_at)


def _slip(
    subject: Subject, person: Person, enrolment: Enrolment, step: SequenceStep, measured_at: datetime
) -> Slip:
    anchor = anchor_of(step, subject, enrolment.event_at)
    due = None if anchor is None else due_at(step, anchor, subject.timezone)
    why = None if due is not None else "no_anchor"
    why = why or refusal(enrolment.terms.conditions, subject, person, measured_at)
    return Slip(
        sequence_id=enrolment.sequence_id,
        entry=enrolment.entry,
        step=step,
        recipient_id=person.recipient_id,
        due_at=due,
        expires_at=_useless_at(step, anchor, due),
        refusal=why or refusal(step.conditions, subject, person, measured_at),
    )


def anchor_of(step: SequenceStep, subject: Subject, event_at: datetime) -> datetime | None:
    if step.anchor == "event_time":
        return event_at
    return subject.starts_at if step.anchor == "booking_start" else subject.ends_at


def _useless_at(step: SequenceStep, anchor: datetime | None, due: datetime | None) -> datetime | None:
    """What is to be said before something is of no use after it."""
    if anchor is None or due is None or step.anchor == "event_time" or due >= anchor:
        return None
    return anchor.astimezone(UTC)
