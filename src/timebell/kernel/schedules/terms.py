"""Validation of the terms of a schedule and its occurrences, before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from timebell.config import Settings
from timebell.errors import InvalidInput, RecurrenceError
from timebell.kernel.agenda.writer import AgendaWriter
from timebell.kernel.aside import Aside
from timebell.kernel.jobs.enqueueing import encode_payload
from timebell.kernel.models import check_whole
from timebell.kernel.schedules.models import OrphanedOverride, Schedule, ScheduleTerms, checked_local
from timebell.kernel.schedules.rows import facts_of, terms_of
from timebell.kernel.transaction import Transaction
from timebell.rules.planned import Override, Planned
from timebell.rules.planning import ONE_OFF, find_occurrence, moved_to, orphans, remaining_recurrence
from timebell.rules.recurrence import Checked, Limits, check_recurrence

OVERRIDES_MAX = 1_000
_TICK = timedelta(microseconds=1)
_SECOND = timedelta(seconds=1)


class Checker:
    """Refuses terms that could not be kept, so that the planner need not find out later."""

    def __init__(self, agendas: AgendaWriter, settings: Settings, aside: Aside) -> None:
        self._agendas = agendas
        self._settings = settings
        self._aside = aside

    def payload(self, terms: ScheduleTerms) -> str:
        return encode_payload(terms.payload, self._settings.payload_bytes_max)

    async def check_steps(self, tx: Transaction, terms: ScheduleTerms, now: datetime) -> None:
        """The kinds, queues, sizes and offsets, even if the first occurrence is years away."""
        steps = [replace(step, payload={**terms.payload, **step.payload}) for step in terms.steps]
        await self._agendas.stated(
            tx.session, tenant=tx.tenant, subject="occurrence:", anchor=now, steps=steps
        )

    async def check_times(
        self, tx: Transaction, terms: ScheduleTerms, now: datetime, limits: Limits | None = None
    ) -> Checked:
        """The limits on recurrences, and that something is still to come. To find that out may take a while."""
        try:
            work = partial(
                check_recurrence,
                terms.recurrence or ONE_OFF,
                start_local=terms.start_local,
                timezone=terms.timezone,
                now=now - _TICK,
                exdates=terms.exdates,
                rdates=terms.rdates,
                until_local=terms.until_local,
                on_gap=terms.on_gap,
                on_fold=terms.on_fold,
                limits=limits,
            )
            return await self._aside.short.run(tx.tenant, "recurrences", work)
        except RecurrenceError as error:
            if terms.recurrence is not None or error.part != "recurrence":
                raise
            raise InvalidInput(
                f"{terms.start_local.isoformat()} in {terms.timezone} lies in the past or is left out; choose a "
                "later one",
                field="start_local",
            ) from None


def warnings_of(terms: ScheduleTerms, checked: Checked) -> tuple[str, ...]:
    """What is allowed and may still surprise."""
    if checked.starts_on_recurrence:
        return ()
    return (
        f"start_local {terms.start_local.isoformat()} is no occurrence of the recurrence; the first is at "
        f"{checked.first.local.isoformat()}",
    )


def orphaned(
    schedule: Schedule, overrides: Sequence[Override], now: datetime
) -> tuple[OrphanedOverride, ...]:
    """What was changed about future occurrences that there are no more."""
    if not overrides or schedule.state != "active":
        return ()
    facts = facts_of(schedule)
    return tuple(
        OrphanedOverride(original_local=one.original_local, fold=one.fold, new_local=one.new_local)
        for one in orphans(facts, overrides)
        if moved_to(facts, one.new_local or one.original_local)[0] >= now
    )


def coming(
    schedule: Schedule, overrides: Sequence[Override], original_local: datetime, fold: int, now: datetime
) -> Planned:
    """The future occurrence of that name, as its recurrence gives it."""
    local = checked_local("original_local", original_local)
    check_whole("fold", fold, 0, 1)
    facts = facts_of(schedule)
    one = find_occurrence(facts, local, fold)
    if one is None:
        raise InvalidInput(
            f"the schedule has no occurrence at {local.isoformat()}; give the original wall time of one",
            field="original_local",
        )
    override = next((other for other in overrides if other.key == one.key), None)
    occurs_at = moved_to(facts, override.new_local)[0] if override and override.new_local else one.occurs_at
    if occurs_at < now:
        raise InvalidInput(
            f"the occurrence at {local.isoformat()} is over, and the past does not change; give a later one",
            field="original_local",
        )
    return one


def check_room(overrides: Sequence[Override], one: Planned, now: datetime) -> None:
    """What was changed about occurrences that are over does not count; two days cover every timezone."""
    since = now.replace(tzinfo=None) - timedelta(days=2)
    keys = {other.key for other in overrides if (other.new_local or other.original_local) >= since}
    if len(keys) >= OVERRIDES_MAX and one.key not in keys:
        raise InvalidInput(
            f"{OVERRIDES_MAX} occurrences to come are changed already; split the schedule",
            field="original_local",
        )


def check_restorable(schedule: Schedule, original_local: datetime, fold: int, now: datetime) -> None:
    """An occurrence that was moved on from a time that is past by now would be lost, neither owed nor missed."""
    check_whole("fold", fold, 0, 1)
    one = find_occurrence(facts_of(schedule), original_local, fold)
    if one is not None and one.occurs_at < now:
        raise InvalidInput(
            f"{original_local.isoformat()} is past; skip the occurrence or move it elsewhere",
            field="original_local",
        )


def overridden(
    schedule: Schedule,
    overrides: Sequence[Override],
    one: Planned,
    start_local: datetime | None,
    payload: Mapping[str, Any] | None,
    now: datetime,
) -> Override:
    """An occurrence moved or given a payload, on top of what was changed about it before."""
    old = next((other for other in overrides if other.key == one.key), None)
    new_local = one.original_local if old is None or old.new_local is None else old.new_local
    if start_local is not None:
        new_local = checked_local("start_local", start_local)
        limits = Limits()
        if not limits.first_year <= new_local.year <= limits.last_year:
            raise InvalidInput(
                f"the year {new_local.year} is out of range; use {limits.first_year} to {limits.last_year}",
                field="start_local",
            )
        if moved_to(facts_of(schedule), new_local)[0] < now:
            raise InvalidInput("lies in the past; choose a later one, or skip it", field="start_local")
    return Override(
        original_local=one.original_local,
        fold=one.fold,
        new_local=new_local,
        payload=payload if payload is not None or old is None else old.payload,
    )


def older_part(schedule: Schedule, one: Planned) -> dict[str, Any]:
    """What changes about a schedule that ends before an occurrence."""
    return {
        "until_local": one.original_local - _SECOND,
        "exdates": [date for date in schedule.exdates if date < one.original_local],
        "rdates": [date for date in schedule.rdates if date < one.original_local],
    }


def rest_of(schedule: Schedule, one: Planned, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The terms of the schedule that goes on with an occurrence. Its dates are shifted as its start is."""
    if one.fold:
        raise InvalidInput(
            "a schedule is split at the first pass of a fold; give another occurrence", field="original_local"
        )
    recurrence = None if schedule.recurrence is None else remaining_recurrence(facts_of(schedule), one)
    if recurrence is None:
        raise InvalidInput(
            "this occurrence is a single date of rdates, not one of the recurrence; override it, or split at "
            "the next one",
            field="original_local",
        )
    start_local = checked_local("start_local", changes.get("start_local", one.original_local))
    shift = start_local - one.original_local
    return {
        **terms_of(schedule),
        "recurrence": recurrence,
        "exdates": _shifted(schedule.exdates, one.original_local, shift),
        "rdates": _shifted(schedule.rdates, one.original_local, shift),
        **changes,
        "start_local": start_local,
    }


def _shifted(dates: Sequence[datetime], since: datetime, shift: timedelta) -> list[datetime]:
    try:
        return [date + shift for date in dates if date >= since]
    except OverflowError:
        raise InvalidInput(
            "shifts a date out of the years 1 to 9999; choose another", field="start_local"
        ) from None
