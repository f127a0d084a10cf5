"""Planning a schedule anew in the transaction of whoever changed it, and saying what that changed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from timebell.errors import InvalidInput
from timebell.kernel.models import AgendaDiff, Step, StepChange
from timebell.kernel.schedules.models import Occurrence, OccurrenceChange, Schedule, ScheduleDiff
from timebell.kernel.schedules.owing import id_of
from timebell.kernel.schedules.planning import Planning, PlanWriter, Writing
from timebell.kernel.schedules.rows import facts_of, occurrence_of, subject_of, updated_columns
from timebell.kernel.schedules.timezones import check_timezones
from timebell.kernel.transaction import Transaction
from timebell.rules.planned import LEAD_JOBS, SOON, Existing, Key, Override, Plan, Planned, compare
from timebell.rules.planning import plan

CHUNK = 500
_CHUNKS_MAX = 600
_LISTED_MAX = 500
PAST_MAX = 10_000


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

    def writing(self) -> Writing:
        return Writing.by(self.tx, now=self.now, reason=self.reason, actor=self.actor)


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


class Replanner:
    """Brings the occurrences of one schedule that are there, and what they owe, in line with its terms."""

    def __init__(self, plans: PlanWriter) -> None:
        self._plans = plans
        self._store = plans.store
        self._agendas = plans.agendas

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
        one = Planning.of(schedule, overrides)
        self._plans.expand(one, cursor=now, now=now)
        _check_amount(one, now)
        changes = _Changes()
        existing = await self._withdraw_others(edit, one, changes)
        await self._write(edit, one, existing, before, changes)
        await self._plans.settle(edit.tx.session, [one], edited_at=now)
        return one.settled(now), changes.diff(), one.plan

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
        one, cursor = Planning.of(before.schedule, before.overrides), before.schedule.planned_until
        self._plans.expand(one, cursor=cursor, now=edit.now, horizon=timedelta(0), limit=PAST_MAX)
        await self._begin(
            edit, one.only([each for each in one.plan.occurrences if each.occurs_at < edit.now])
        )

    async def _withdraw_others(
        self, edit: Edit, planning: Planning, changes: _Changes
    ) -> dict[Key, Occurrence]:
        """Take back every future occurrence that the plan does not have; answers with those that it has.

        Beyond the end of the plan the planner puts back what is still owed, so that is not told as a change. A
        schedule that owes nothing any more takes back what it still owes about occurrences that are over, too.
        """
        schedule, result = planning.schedule, planning.plan
        keys = {one.key for one in result.occurrences}
        existing: dict[Key, Occurrence] = {}
        if schedule.state == "ended":
            await self._withdraw_waiting(edit, planning, changes)
        async for page in self._future(edit, planning):
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

    async def _withdraw_waiting(self, edit: Edit, planning: Planning, changes: _Changes) -> None:
        """What is due and waits, for its turn or for what it depends on, is not owed any more either.

        Only the last ones can still be owed: the others were overtaken by as many as the policy lets wait.
        """
        schedule = planning.schedule
        rows = await self._store.list_waiting_occurrences(
            edit.tx.session,
            tenant=schedule.tenant,
            schedule_id=schedule.id,
            before=edit.now - planning.facts.trail,
            looked_at=schedule.catch_up_max + 1,
        )
        waiting = [occurrence_of(row) for row in rows]
        cleared = await self._clear(edit, waiting)
        for one in waiting:
            _tell_withdrawn(changes, one, cleared[subject_of(one.id)], edit.now)

    async def _future(self, edit: Edit, planning: Planning) -> AsyncIterator[list[Occurrence]]:
        schedule = planning.schedule
        trail = timedelta(0) if schedule.state == "active" else planning.facts.trail
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
        planning: Planning,
        existing: dict[Key, Occurrence],
        before: Before | None,
        changes: _Changes,
    ) -> None:
        schedule, result, writing = planning.schedule, planning.plan, edit.writing()
        compared = compare([_existing(one) for one in existing.values()], result.occurrences)
        present = [one for one in result.occurrences if one.key in existing]
        if present:
            columns = updated_columns([(schedule, one) for one in present])
            await self._store.update_occurrences(edit.tx.session, columns=columns)
        begun = await self._begin(
            edit, planning.only([one for one in result.occurrences if one.key not in existing])
        )
        begun |= await self._plans.set(
            writing, schedule, [one for one in compared.added if one.key in existing]
        )
        for one in compared.added:
            if one.key in begun:
                changes.added.append(_change(schedule, one, begun[one.key].added))
        skipped = [existing[old.key] for old in compared.withdrawn]
        cleared = await self._clear(edit, skipped)
        for gone in skipped:
            _tell_withdrawn(changes, gone, cleared[subject_of(gone.id)], edit.now)
        was = self._untouched(schedule, before, edit.now)
        there = [*compared.kept, *compared.moved]
        touched = [one for one, old in there if not _is_same(one, old, was)]
        answers = await self._plans.set(writing, schedule, touched)
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
        was = Planning.of(old, before.overrides)
        self._plans.expand(was, cursor=now, now=now)
        return {one.key: one for one in was.plan.occurrences}

    async def _begin(self, edit: Edit, fresh: Planning) -> dict[Key, AgendaDiff]:
        """Write occurrences that are not there; one that turns out to be history is left as it is."""
        if not fresh.plan.occurrences:
            return {}
        await self._plans.state(edit.tx.session, fresh, edit.now)
        written = await self._plans.write(edit.writing(), [fresh])
        edit.tx.note_due(written.begun.due)
        edit.tx.count("occurrences", written.occurrence_count)
        edit.tx.count("planned_jobs", written.begun.job_count)
        edit.tx.count("enqueued", written.begun.job_count)
        edit.tx.count("payload_bytes", written.begun.payload_bytes)
        subjects = {one.key: subject_of(id_of(fresh.schedule, one)) for one in fresh.plan.occurrences}
        return {key: written.diffs[subject] for key, subject in subjects.items() if subject in written.diffs}

    async def _clear(self, edit: Edit, occurrences: Sequence[Occurrence]) -> dict[str, AgendaDiff]:
        nothing = [
            await self._agendas.stated(
                edit.tx.session, tenant=edit.tx.tenant, subject=subject_of(one.id), anchor=None, steps=()
            )
            for one in occurrences
            if one.state == "planned"
        ]
        return await self._agendas.set_many(edit.tx, nothing, reason=edit.reason, actor=edit.actor)


def _check_amount(one: Planning, now: datetime) -> None:
    """Refuse a schedule that would fill the tables, as one that is due each minute and reminds of it years before."""
    if one.plan.plan_at is not None and one.plan.planned_until < now + one.facts.lead + SOON:
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
