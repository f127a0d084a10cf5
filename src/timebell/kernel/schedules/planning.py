"""Planning: what schedules bring is decided, stated and written, of one of them or of many in a few statements for all.

Whoever edits a schedule plans it in the transaction of the edit, and the planner of a node plans many as time goes by.
Both do it here, so it does not matter which of the two comes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from timebell.config import Settings
from timebell.db.pool import Session
from timebell.kernel.agenda.writer import AgendaWriter, Begun, StatedAgenda
from timebell.kernel.models import AgendaDiff
from timebell.kernel.schedules.models import Schedule, ScheduleState
from timebell.kernel.schedules.owing import Owing, id_of
from timebell.kernel.schedules.rows import facts_of, occurrence_columns, subject_of
from timebell.kernel.schedules.store import ScheduleStore
from timebell.kernel.transaction import Transaction
from timebell.rules.localtime import TIMEZONE_VERSION
from timebell.rules.planned import Key, Override, Plan, Planned, ScheduleFacts
from timebell.rules.planning import plan

# The reason of a schedule that ended by itself, and may go on if it is given a later end.
OVER = "over"
_UNPLANNED = Plan(occurrences=(), planned_until=datetime.min.replace(tzinfo=UTC), plan_at=None, is_over=False)
_NOTHING = Begun(diffs=(), due=())
_NOTHING_OWED = AgendaDiff(revision=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """In which transaction schedules are planned, as of which instant, why, and by whom. Each tenant has its part."""

    session: Session
    now: datetime
    reason: str
    actor: str | None = None
    parts: dict[str, Transaction] = field(default_factory=dict)

    @classmethod
    def by(cls, tx: Transaction, *, now: datetime, reason: str, actor: str | None = None) -> Writing:
        """All of it for one tenant, whose transaction it is."""
        return cls(session=tx.session, now=now, reason=reason, actor=actor, parts={tx.tenant: tx})

    def part(self, tenant: str) -> Transaction:
        if tenant not in self.parts:
            self.parts[tenant] = Transaction(self.session, tenant)
        return self.parts[tenant]


@dataclass(slots=True, kw_only=True)
class Planning:
    """A schedule whose row is locked, the plan that is made of it, and what is owed about its occurrences.

    `settled_until` is up to where its past was looked at, if it was.
    """

    schedule: Schedule
    facts: ScheduleFacts
    overrides: Sequence[Override] = ()
    plan: Plan = _UNPLANNED
    agendas: Sequence[StatedAgenda] = ()
    settled_until: datetime | None = None

    @classmethod
    def of(cls, schedule: Schedule, overrides: Sequence[Override] = ()) -> Planning:
        return cls(schedule=schedule, facts=facts_of(schedule), overrides=overrides)

    @property
    def state(self) -> ScheduleState:
        return "ended" if self.plan.is_over else self.schedule.state

    @property
    def state_reason(self) -> str | None:
        return OVER if self.plan.is_over else self.schedule.state_reason

    def settled(self, edited_at: datetime) -> Schedule:
        """The schedule as it is once it was settled by an edit."""
        return replace(
            self.schedule,
            state=self.state,
            state_reason=self.state_reason,
            planned_until=self.plan.planned_until,
            plan_at=self.plan.plan_at,
            timezone_version=TIMEZONE_VERSION,
            updated_at=edited_at,
        )

    def only(self, occurrences: Sequence[Planned]) -> Planning:
        """The same schedule with some of what its plan has."""
        plan = replace(self.plan, occurrences=tuple(occurrences))
        return Planning(schedule=self.schedule, facts=self.facts, overrides=self.overrides, plan=plan)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """How many occurrences were not there, and what was begun about them; by subject, what is owed of each now."""

    occurrence_count: int = 0
    begun: Begun = _NOTHING
    diffs: dict[str, AgendaDiff] = field(default_factory=dict)


class PlanWriter:
    """Plans schedules whose rows are locked: `expand`, `state` and `write` each, then `settle` them."""

    def __init__(self, store: ScheduleStore, agendas: AgendaWriter, settings: Settings) -> None:
        self.store = store
        self.agendas = agendas
        self._horizon = timedelta(days=settings.horizon_days)

    def expand(
        self,
        one: Planning,
        *,
        cursor: datetime,
        now: datetime,
        horizon: timedelta | None = None,
        limit: int | None = None,
    ) -> None:
        """Decide when a schedule occurs from the cursor on; one that is not active occurs no more."""
        if one.schedule.state != "active":
            one.plan = replace(_UNPLANNED, planned_until=now)
            return
        horizon = self._horizon if horizon is None else horizon
        one.plan = plan(one.facts, one.overrides, cursor=cursor, now=now, horizon=horizon, limit=limit)

    async def state(self, session: Session, one: Planning, now: datetime) -> None:
        """State what each occurrence owes; whoever asks for the impossible is refused before anything is written."""
        owing = await Owing.of(self.agendas, session, one.schedule, one.facts)
        owed = (occurrence for occurrence in one.plan.occurrences if occurrence.state == "planned")
        one.agendas = [owing.agenda(occurrence, now) for occurrence in owed]

    async def write(self, writing: Writing, stated: Sequence[Planning], *, is_told: bool = True) -> Written:
        """Write the occurrences that are not there and begin what they owe; one that is there is left as it is.

        What was withdrawn once and comes back has an agenda that remembers what was done. What owes nothing has none.
        """
        planned = [(one.schedule, occurrence) for one in stated for occurrence in one.plan.occurrences]
        if not planned:
            return Written()
        columns = occurrence_columns(planned)
        known = await self.store.insert_occurrences(writing.session, columns=columns)
        there = {subject_of(id) for id in known}
        fresh = [agenda for one in stated for agenda in one.agendas if agenda.subject not in there]
        agendas = [agenda for agenda in fresh if agenda.owed]
        begun = await self.agendas.begin_many(writing.session, agendas, is_told=is_told)
        diffs = {agenda.subject: _NOTHING_OWED for agenda in fresh if not agenda.owed}
        back: dict[str, list[StatedAgenda]] = {}
        for agenda, diff in zip(agendas, begun.diffs, strict=True):
            if diff is None:
                back.setdefault(agenda.tenant, []).append(agenda)
            elif is_told:
                diffs[agenda.subject] = diff
        for tenant, returning in back.items():
            diffs |= await self._set(writing, tenant, returning)
        return Written(occurrence_count=len(planned) - len(known), begun=begun, diffs=diffs)

    async def set(
        self, writing: Writing, schedule: Schedule, occurrences: Sequence[Planned]
    ) -> dict[Key, AgendaDiff]:
        """State anew what occurrences owe that are there: nothing where one is skipped or missed."""
        if not occurrences:
            return {}
        owing = await Owing.of(self.agendas, writing.session, schedule)
        stated = [owing.agenda(one, writing.now) for one in occurrences]
        diffs = await self._set(writing, schedule.tenant, stated)
        return {one.key: diffs[subject_of(id_of(schedule, one))] for one in occurrences}

    async def _set(
        self, writing: Writing, tenant: str, stated: Sequence[StatedAgenda]
    ) -> dict[str, AgendaDiff]:
        tx = writing.part(tenant)
        return await self.agendas.set_many(tx, stated, reason=writing.reason, actor=writing.actor)

    async def settle(
        self, session: Session, planned: Sequence[Planning], *, edited_at: datetime | None = None
    ) -> None:
        """Write up to where each schedule is planned, how it stands, and when somebody must look again."""
        await self.store.settle_schedules(
            session,
            edited_at=edited_at,
            columns={
                "ids": [one.schedule.id for one in planned],
                "states": [one.state for one in planned],
                "state_reasons": [one.state_reason for one in planned],
                "planned_untils": [one.plan.planned_until for one in planned],
                "plan_ats": [one.plan.plan_at for one in planned],
                "settled_untils": [one.settled_until for one in planned],
                "revisions": [one.schedule.revision for one in planned],
            },
        )
