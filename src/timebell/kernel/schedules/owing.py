"""Agendas of a schedule's occurrences: the steps that each owes, with what a step is about and when it is stale."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from timebell.db.pool import Session
from timebell.kernel.agenda.writer import AgendaWriter, StatedAgenda, StepForm
from timebell.kernel.models import Step
from timebell.kernel.schedules.models import Schedule
from timebell.kernel.schedules.rows import facts_of, subject_of
from timebell.rules.agenda import OwedStep
from timebell.rules.planned import Planned, ScheduleFacts, expires_at, occurrence_id

_NO_TIME = timedelta(0)


class Due(NamedTuple):
    """One step of one occurrence. `is_caught_up` marks the one that is done although it is late."""

    step: Step
    due_at: datetime
    expires_at: datetime | None
    payload: dict[str, Any]
    is_caught_up: bool


def dues_of(schedule: Schedule, facts: ScheduleFacts, planned: Planned, now: datetime) -> list[Due]:
    """What one occurrence owes, in the order of its schedule's steps.

    Of an occurrence that is caught up only the last of the steps that are due already is done late; all of them
    at once would be a burst of what is no news any more.
    """
    about = _about(schedule, planned)
    instants = [step.due_at(planned.occurs_at) for step in schedule.steps]
    late = max((at for at in instants if at <= now), default=None) if planned.is_caught_up else None
    return [
        Due(
            step=step,
            due_at=due_at,
            expires_at=_earlier(step.expiry(due_at), expires_at(facts, planned, step.offset or _NO_TIME)),
            payload={**schedule.payload, **step.payload, **about},
            is_caught_up=due_at == late,
        )
        for step, due_at in zip(schedule.steps, instants, strict=True)
    ]


class Owing:
    """Makes the agendas of one schedule's occurrences. What they have in common is looked up and checked once."""

    def __init__(
        self, agendas: AgendaWriter, schedule: Schedule, facts: ScheduleFacts, forms: Sequence[StepForm]
    ) -> None:
        self._agendas = agendas
        self._schedule = schedule
        self._facts = facts
        self._forms = forms

    @classmethod
    async def of(
        cls, agendas: AgendaWriter, session: Session, schedule: Schedule, facts: ScheduleFacts | None = None
    ) -> Owing:
        forms = await agendas.forms(session, schedule.steps)
        return cls(agendas, schedule, facts or facts_of(schedule), forms)

    def agenda(self, planned: Planned, now: datetime) -> StatedAgenda:
        """What an occurrence owes, which is nothing if it is skipped or missed."""
        schedule = self._schedule
        owed: list[OwedStep] = []
        if planned.state == "planned":
            dues = dues_of(schedule, self._facts, planned, now)
            owed = [self._owed(due, form) for due, form in zip(dues, self._forms, strict=True)]
        return StatedAgenda(
            tenant=schedule.tenant,
            subject=subject_of(id_of(schedule, planned)),
            anchor=planned.occurs_at,
            owed=owed,
            correlation_id=schedule.correlation_id,
        )

    def _owed(self, due: Due, form: StepForm) -> OwedStep:
        step = due.step
        return OwedStep(
            key=step.key,
            due_at=due.due_at,
            expires_at=due.expires_at,
            late="run" if due.is_caught_up else step.late,
            grace=_NO_TIME if due.is_caught_up else step.grace,
            once=step.once,
            content=self._agendas.content(form, due.payload),
        )


def id_of(schedule: Schedule, planned: Planned) -> UUID:
    return occurrence_id(schedule.id, planned.original_local, planned.fold)


def _earlier(one: datetime | None, other: datetime | None) -> datetime | None:
    if one is None or other is None:
        return one or other
    return min(one, other)


def _about(schedule: Schedule, planned: Planned) -> dict[str, Any]:
    """As values: whoever writes them as JSON makes the same text of ids and instants, and is much faster at it."""
    about: dict[str, Any] = {
        **(planned.payload or {}),
        "schedule_id": schedule.id,
        "occurrence_id": id_of(schedule, planned),
        "original_local": planned.original_local,
        "occurs_at": planned.occurs_at,
    }
    if planned.is_caught_up:
        about["missed_count"] = planned.missed_count
    return about
