"""Planning one schedule at once, in the transaction of whoever changed it, and saying what that changed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from timebell.config import Settings
from timebell.errors import InvalidInput
from timebell.kernel.agenda import AgendaWriter
from timebell.kernel.agenda_rows import StatedAgenda
from timebell.kernel.models import AgendaDiff, Step, StepChange
from timebell.kernel.schedule_models import Occurrence, OccurrenceChange, Schedule, ScheduleDiff
from timebell.kernel.schedule_owing import Owing, id_of
from timebell.kernel.schedule_rows import (
    facts_of,
    occurrence_columns,
    occurrence_of,
    schedule_of,
    subject_of,
    updated_columns,
)
from timebell.kernel.schedule_store import ScheduleStore
from timebell.kernel.timezones import check_timezones
from timebell.kernel.transaction import Transaction
from timebell.rules.planned import LEAD_JOBS, SOON, Existing, Key, Override, Plan, Planned, compare
from timebell.rules.planning import plan

CHUNK = 500
_CHUNKS_MAX = 600
_LISTED_MAX = 500
PAST_MAX = 10_000
# The reason of a schedule that ended by itself, and may go on if it is given a later end.
OVER = "over"


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """A schedule as it was planned before an edit, so that what did not change is left alone.

    When the data of timezones changed, what was planned before cannot be told from the terms.
    """

    schedule: Schedule
    overrides: Sequence[Override] = ()
    is_comparable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Who changes a schedule, why, when, and in which transaction."""

    tx: Transaction
    now: datetime
    reason: str
    actor: str | None = None


@dataclass(slots=True)
class _Changes:
    """A diff in the making."""

    kept: list[OccurrenceChange] = field(default_factory=list)
    moved: list[OccurrenceChange] = field(default_factory=list)
    added: list[OccurrenceChange] = field(default_factory=list)
    withdrawn: list[OccurrenceChange] = field(default_factory=list)
    too_late: list[OccurrenceChange] = field(default_factory=list)

    def diff(self) -> ScheduleDiff:
        return ScheduleDiff(
            kept=tuple(self.kept),
            moved=tuple(self.moved),
            added=tuple(self.added),
            withdrawn=tuple(self.withdrawn[:_LISTED_MAX]),
            too_late=tuple(self.too_late),
        )


class PlanWriter:
    """Brings the occurrences of a schedule, and what they owe, in line with its terms."""

    def __init__(self, store: ScheduleStore, agendas: AgendaWriter, settings: Settings) -> None:
        self._store = store
        self._agendas = agendas
        self._horizon = timedelta(days=settings.horizon_days)

    async def replan(
        self,
        edit: Edit,
        schedule: Schedule,
        overrides: Sequence[Override],
        before: Before | None = None,
    ) -> tuple[Schedule, ScheduleDiff, Plan]:
        """Plan from now on. What lies in the past is history, and what the planner left undone there is done first."""
        now = edit.now
        if schedule.state == "active":
            await check_timezones(self._store, edit.tx.session, [schedule.timezone])
        if before is not None and before.schedule.state == "active" and before.schedule.planned_until < now:
            await self._settle_past(edit, before)
        result = self._plan(schedule, overrides, now)
        _check_amount(schedule, result, now)
        changes = _Changes()
        existing = await self._withdraw_others(edit, schedule, result, changes)
        await self._write(edit, schedule, result, existing, before, changes)
        state = "ended" if result.is_over else schedule.state
        row = await self._store.settle_schedule(
            edit.tx.session,
            id=schedule.id,
            tenant=schedule.tenant,
            state=state,
            state_reason=OVER if result.is_over else schedule.state_reason,
            planned_until=result.planned_until,
            plan_at=result.plan_at,
            revision=schedule.revision,
            at=now,
        )
        return schedule_of(row), changes.diff(), result

    def _plan(self, schedule: Schedule, overrides: Sequence[Override], now: datetime) -> Plan:
        if schedule.state != "active":
            return Plan(occurrences=(), planned_until=now, plan_at=None, is_over=False)
        return plan(facts_of(schedule), overrides, cursor=now, now=now, horizon=self._horizon)

    def following(
        self, schedule: Schedule, overrides: Sequence[Override], result: Plan, now: datetime
    ) -> Occurrence | None:
        """The next occurrence that is owed, be it within the horizon or far beyond it."""
        found = [one for one in result.occurrences if one.state == "planned"]
        if not found and schedule.state == "active":
            far = plan(
                facts_of(schedule), overrides, cursor=now, now=now, horizon=timedelta(days=36_525), limit=1
            )
            found = [one for one in far.occurrences if one.state == "planned"]
        return _view(schedule, found[0]) if found else None

    async def _settle_past(self, edit: Edit, before: Before) -> None:
        schedule, now = before.schedule, edit.now
        facts = facts_of(schedule)
        result = plan(
            facts,
            before.overrides,
            cursor=schedule.planned_until,
            now=now,
            horizon=timedelta(0),
            limit=PAST_MAX,
        )
        past = [one for one in result.occurrences if one.occurs_at < now]
        await self._begin(edit, schedule, past)

    async def _withdraw_others(
        self, edit: Edit, schedule: Schedule, result: Plan, changes: _Changes
    ) -> dict[Key, Occurrence]:
        """Take back every future occurrence that the plan does not have; answers with those that it has.

        Beyond the end of the plan the planner puts back what is still owed, so that is not told as a change. A
        schedule that owes nothing any more takes back what it still owes about occurrences that are over, too.
        """
        keys = {one.key for one in result.occurrences}
        existing: dict[Key, Occurrence] = {}
        if schedule.state == "ended":
            await self._withdraw_waiting(edit, schedule, changes)
        async for page in self._future(edit, schedule):
            others = []
            for one in page:
                if (one.original_local, one.fold) in keys:
                    existing[one.original_local, one.fold] = one
                else:
                    others.append(one)
            cleared = await self._clear(edit, others)
            gone = [one for one in others if one.occurs_at >= edit.now]
            await self._store.delete_occurrences(edit.tx.session, ids=[one.id for one in gone])
            for one in others:
                is_told = schedule.state != "active" or one.occurs_at < result.planned_until
                if one.state == "planned" and is_told:
                    _tell_withdrawn(changes, one, cleared[subject_of(one.id)], edit.now)
        return existing

    async def _withdraw_waiting(self, edit: Edit, schedule: Schedule, changes: _Changes) -> None:
        """What is due and waits, for its turn or for what it depends on, is not owed any more either.

        Only the last ones can still be owed: the others were overtaken by as many as the policy lets wait.
        """
        rows = await self._store.list_waiting_occurrences(
            edit.tx.session,
            tenant=schedule.tenant,
            schedule_id=schedule.id,
            before=edit.now - facts_of(schedule).trail,
            looked_at=schedule.catch_up_max + 1,
        )
        waiting = [occurrence_of(row) for row in rows]
        cleared = await self._clear(edit, waiting)
        for one in waiting:
            _tell_withdrawn(changes, one, cleared[subject_of(one.id)], edit.now)

    async def _future(self, edit: Edit, schedule: Schedule) -> AsyncIterator[list[Occurrence]]:
        trail = timedelta(0) if schedule.state == "active" else facts_of(schedule).trail
        last: Occurrence | None = None
        for _ in range(_CHUNKS_MAX):
            rows = await self._store.list_occurrences(
                edit.tx.session,
                tenant=schedule.tenant,
                schedule_id=schedule.id,
                from_at=edit.now - trail,
                before=None,
                after_at=None if last is None else last.occurs_at,
                after=None if last is None else last.id,
                limit=CHUNK,
            )
            page = [occurrence_of(row) for row in rows]
            if not page:
                return
            last = page[-1]
            yield page

    async def _write(
        self,
        edit: Edit,
        schedule: Schedule,
        result: Plan,
        existing: dict[Key, Occurrence],
        before: Before | None,
        changes: _Changes,
    ) -> None:
        compared = compare([_existing(one) for one in existing.values()], result.occurrences)
        present = [one for one in result.occurrences if one.key in existing]
        if present:
            await self._store.update_occurrences(edit.tx.session, columns=updated_columns(schedule, present))
        fresh = [one for one in result.occurrences if one.key not in existing]
        begun = await self._begin(edit, schedule, fresh)
        begun |= await self._set(edit, schedule, [one for one in compared.added if one.key in existing])
        for one in compared.added:
            if one.key in begun:
                changes.added.append(_change(schedule, one, begun[one.key].added))
        skipped = [existing[old.key] for old in compared.withdrawn]
        cleared = await self._clear(edit, skipped)
        for gone in skipped:
            _tell_withdrawn(changes, gone, cleared[subject_of(gone.id)], edit.now)
        was = self._untouched(schedule, before, edit.now)
        there = [*compared.kept, *compared.moved]
        answers = await self._set(edit, schedule, [one for one, old in there if not _is_same(one, old, was)])
        for one, old in there:
            if one.key in answers:
                _tell_settled(changes, schedule, one, old, answers[one.key])
            else:
                due = [step for step in schedule.steps if _due_at(step, one) >= edit.now]
                changes.kept.append(_change(schedule, one, due))

    def _untouched(self, schedule: Schedule, before: Before | None, now: datetime) -> dict[Key, Planned]:
        """The occurrences that were planned before with the same content, by which to see whether they are the same."""
        if before is None or not before.is_comparable or before.schedule.state != "active":
            return {}
        old = before.schedule
        contents = [
            (one.steps, one.payload, one.correlation_id, one.catch_up, one.catch_up_max, one.grace)
            for one in (old, schedule)
        ]
        if contents[0] != contents[1]:
            return {}
        return {one.key: one for one in self._plan(old, before.overrides, now).occurrences}

    async def _begin(
        self, edit: Edit, schedule: Schedule, occurrences: Sequence[Planned]
    ) -> dict[Key, AgendaDiff]:
        """Write occurrences that are not there; one that turns out to be history is left as it is."""
        if not occurrences:
            return {}
        known = await self._store.insert_occurrences(
            edit.tx.session, columns=occurrence_columns(schedule, occurrences)
        )
        owed = [one for one in occurrences if one.state == "planned" and id_of(schedule, one) not in known]
        stated = await self._stated(edit, schedule, owed)
        begun = await self._agendas.begin_many(edit.tx.session, stated)
        edit.tx.note_due(begun.due)
        edit.tx.count("occurrences", len(occurrences) - len(known))
        edit.tx.count("planned_jobs", begun.job_count)
        edit.tx.count("enqueued", begun.job_count)
        edit.tx.count("payload_bytes", begun.payload_bytes)
        answers = {one.key: diff for one, diff in zip(owed, begun.diffs, strict=True) if diff is not None}
        # What was withdrawn once has an agenda that remembers what was done.
        again = [one for one in owed if one.key not in answers]
        return answers | await self._set(edit, schedule, again)

    async def _set(
        self, edit: Edit, schedule: Schedule, occurrences: Sequence[Planned]
    ) -> dict[Key, AgendaDiff]:
        stated = await self._stated(edit, schedule, occurrences)
        diffs = await self._agendas.set_many(edit.tx, stated, reason=edit.reason, actor=edit.actor)
        return {one.key: diffs[subject_of(id_of(schedule, one))] for one in occurrences}

    async def _stated(
        self, edit: Edit, schedule: Schedule, occurrences: Sequence[Planned]
    ) -> list[StatedAgenda]:
        if not occurrences:
            return []
        owing = await Owing.of(self._agendas, edit.tx.session, schedule)
        return [owing.agenda(one, edit.now) for one in occurrences]

    async def _clear(self, edit: Edit, occurrences: Sequence[Occurrence]) -> dict[str, AgendaDiff]:
        nothing = [
            await self._agendas.stated(
                edit.tx.session, tenant=edit.tx.tenant, subject=subject_of(one.id), anchor=None, steps=()
            )
            for one in occurrences
            if one.state == "planned"
        ]
        return await self._agendas.set_many(edit.tx, nothing, reason=edit.reason, actor=edit.actor)


def _check_amount(schedule: Schedule, result: Plan, now: datetime) -> None:
    """Refuse a schedule that would fill the tables, as one that is due each minute and reminds of it years before."""
    lead = facts_of(schedule).lead
    if result.plan_at is not None and result.planned_until < now + lead + SOON:
        raise InvalidInput(
            f"step with the longest offset: more than {LEAD_JOBS} jobs would be due before the next look; make the "
            "offset shorter, the steps fewer, or the recurrence less frequent",
            field="steps",
        )


def _is_same(one: Planned, old: Existing, was: Mapping[Key, Planned]) -> bool:
    return was.get(one.key) == one and old.occurs_at == one.occurs_at


def _due_at(step: Step, one: Planned) -> datetime:
    return one.occurs_at + (step.offset or timedelta(0))


def _existing(one: Occurrence) -> Existing:
    return Existing(
        original_local=one.original_local, fold=one.fold, occurs_at=one.occurs_at, state=one.state
    )


def _view(schedule: Schedule, one: Planned) -> Occurrence:
    return Occurrence(
        id=id_of(schedule, one),
        schedule_id=schedule.id,
        original_local=one.original_local,
        fold=one.fold,
        local=one.local,
        occurs_at=one.occurs_at,
        adjusted=one.adjusted,
        state=one.state,
        revision=schedule.revision,
        timezone_version=schedule.timezone_version,
    )


def _change(
    schedule: Schedule, one: Planned, steps: Sequence[Step] | Sequence[StepChange]
) -> OccurrenceChange:
    return OccurrenceChange(
        occurrence_id=id_of(schedule, one),
        original_local=one.original_local,
        fold=one.fold,
        occurs_at=one.occurs_at,
        steps=tuple(step.key for step in steps),
    )


def _tell_withdrawn(changes: _Changes, one: Occurrence, diff: AgendaDiff, now: datetime) -> None:
    gone = OccurrenceChange(
        occurrence_id=one.id, original_local=one.original_local, fold=one.fold, occurs_at=one.occurs_at
    )
    if diff.withdrawn or one.occurs_at >= now:
        changes.withdrawn.append(replace(gone, steps=tuple(step.key for step in diff.withdrawn)))
    if diff.too_late:
        changes.too_late.append(replace(gone, steps=tuple(step.key for step in diff.too_late)))


def _tell_settled(
    changes: _Changes, schedule: Schedule, one: Planned, old: Existing, diff: AgendaDiff
) -> None:
    """An occurrence that is there as before, or elsewhere; its steps may have changed on their own."""
    if old.occurs_at != one.occurs_at:
        live = (*diff.kept, *diff.moved, *diff.added)
        changes.moved.append(replace(_change(schedule, one, live), was_at=old.occurs_at))
    else:
        changes.kept.append(_change(schedule, one, (*diff.kept, *diff.moved)))
        if diff.added:
            changes.added.append(_change(schedule, one, diff.added))
    if diff.withdrawn:
        changes.withdrawn.append(_change(schedule, one, diff.withdrawn))
    if diff.too_late:
        changes.too_late.append(_change(schedule, one, diff.too_late))
