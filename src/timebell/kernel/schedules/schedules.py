"""`bell.schedules`: what happens once or again by the wall clock of a place. Each verb answers with what changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Any, Unpack
from uuid import UUID

from timebell.clock import Ids
from timebell.config import Settings
from timebell.errors import InvalidInput, NotFound
from timebell.kernel.agenda.writer import AgendaWriter
from timebell.kernel.aside import Aside
from timebell.kernel.jobs.enqueueing import encode_payload
from timebell.kernel.models import REASON_MAX, check_id, check_instant, check_name
from timebell.kernel.options import NewScheduleOptions, ScheduleOptions
from timebell.kernel.paging import Page, check_limit, decode_cursor, page_of
from timebell.kernel.schedules.models import (
    STATES,
    Occurrence,
    Schedule,
    ScheduleChange,
    ScheduleState,
    ScheduleTerms,
    check_choice,
    checked_local,
)
from timebell.kernel.schedules.planning import OVER, PlanWriter
from timebell.kernel.schedules.replanning import Before, Edit, Replanner
from timebell.kernel.schedules.rows import (
    facts_of,
    occurrence_of,
    override_of,
    schedule_of,
    terms_columns,
    terms_of,
)
from timebell.kernel.schedules.store import ScheduleStore
from timebell.kernel.schedules.terms import (
    Checker,
    check_restorable,
    check_room,
    coming,
    older_part,
    orphaned,
    overridden,
    rest_of,
    warnings_of,
)
from timebell.kernel.store import Store
from timebell.kernel.transaction import Transaction, check_transaction
from timebell.rules.localtime import TIMEZONE_VERSION
from timebell.rules.planned import Override, Planned
from timebell.rules.planning import is_first
from timebell.rules.recurrence import Checked, Limits

# What decides when a schedule occurs; it is checked again when one of these changes.
_TIMED = frozenset(
    ("recurrence", "timezone", "start_local", "until_local", "exdates", "rdates", "on_gap", "on_fold")
)
_TERMS = frozenset(each.name for each in fields(ScheduleTerms))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """A schedule whose row is locked, with what was changed about its occurrences."""

    schedule: Schedule
    overrides: tuple[Override, ...]
    now: datetime

    def before(self) -> Before:
        is_comparable = self.schedule.timezone_version == TIMEZONE_VERSION
        return Before(schedule=self.schedule, overrides=self.overrides, is_comparable=is_comparable)


class Schedules:
    """The verbs about schedules. Each takes part in the transaction that it is given, and plans in it at once."""

    def __init__(
        self,
        store: Store,
        schedules: ScheduleStore,
        agendas: AgendaWriter,
        ids: Ids,
        settings: Settings,
        aside: Aside,
    ) -> None:
        self._store = schedules
        self._events = store
        self._ids = ids
        self._settings = settings
        self.plans = PlanWriter(schedules, agendas, settings)
        self._replanner = Replanner(self.plans)
        self._checker = Checker(agendas, settings, aside)

    async def get(self, tx: Transaction, id: UUID) -> Schedule:
        check_transaction(tx)
        check_id("id", id)
        row = await self._store.read_schedule(tx.session, tenant=tx.tenant, id=id)
        if row is None:
            raise _no_schedule(id)
        return schedule_of(row)

    async def hold(self, tx: Transaction, id: UUID) -> Schedule:
        """As `get`; and nobody else changes it until the transaction ends."""
        check_transaction(tx)
        check_id("id", id)
        row = await self._store.lock_schedule(tx.session, tenant=tx.tenant, id=id)
        if row is None:
            raise _no_schedule(id)
        return schedule_of(row)

    async def overrides(self, tx: Transaction, ids: Sequence[UUID]) -> dict[UUID, list[Override]]:
        """What was changed about single occurrences, for each of some schedules of the tenant."""
        check_transaction(tx)
        rows = await self._store.read_overrides(tx.session, schedule_ids=list(ids))
        found: dict[UUID, list[Override]] = {id: [] for id in ids}
        for row in rows:
            found[row["schedule_id"]].append(override_of(row))
        return found

    async def list(
        self,
        tx: Transaction,
        *,
        owner: str | None = None,
        subject: str | None = None,
        state: ScheduleState | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Schedule]:
        """The schedules of the tenant, or those of one owner or about one subject, the oldest first."""
        check_transaction(tx)
        check_limit(limit)
        check_name("owner", owner)
        check_name("subject", subject)
        if state is not None:
            check_choice("state", state, STATES)
        if owner is not None and subject is not None:
            raise InvalidInput("give an owner or a subject, not both", field="subject")
        after = decode_cursor("schedules", cursor)
        rows = await self._store.list_schedules(
            tx.session,
            tenant=tx.tenant,
            owner=owner,
            subject=subject,
            state=state,
            after=after.id,
            limit=limit,
        )
        return page_of("schedules", rows, limit, schedule_of)

    async def occurrences(
        self,
        tx: Transaction,
        id: UUID,
        *,
        from_at: datetime | None = None,
        before: datetime | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Occurrence]:
        """The occurrences that were planned, past and future, in the order of time."""
        check_transaction(tx)
        check_id("id", id)
        check_limit(limit)
        check_instant("from_at", from_at)
        check_instant("before", before)
        after = decode_cursor("occurrences", cursor, dated=True)
        rows = await self._store.list_occurrences(
            tx.session,
            tenant=tx.tenant,
            schedule_id=id,
            from_at=from_at,
            before=before,
            after_at=after.at,
            after=after.id,
            limit=limit,
        )
        return page_of("occurrences", rows, limit, occurrence_of, at="occurs_at")

    async def create(
        self,
        tx: Transaction,
        *,
        actor: str | None = None,
        limits: Limits | None = None,
        **terms: Unpack[NewScheduleOptions],
    ) -> ScheduleChange:
        """A new schedule, a one-off unless it has a recurrence. The terms are those fields of `Schedule`.

        `limits` take the place of what a recurrence may ask for otherwise.
        """
        check_transaction(tx)
        check_name("actor", actor)
        stated = _stated(terms)
        now = (await self._events.read_clock(tx.session)).astimezone(UTC)
        edit = Edit(tx=tx, now=now, reason="created", actor=actor)
        async with tx.all_or_nothing():
            await self._checker.check_steps(tx, stated, now)
            checked = await self._checker.check_times(tx, stated, now, limits)
            schedule = await self._insert(edit, stated, None)
            return await self._plan(edit, schedule, None, "schedule.created", {}, checked)

    async def edit(
        self, tx: Transaction, id: UUID, *, actor: str | None = None, **changes: Unpack[ScheduleOptions]
    ) -> ScheduleChange:
        """Change terms for all that is to come. Occurrences are kept where the recurrence still has their wall time."""
        held = await self._lock(tx, id, is_revived=True)
        check_name("actor", actor)
        edit = Edit(tx=tx, now=held.now, reason="edited", actor=actor)
        async with tx.all_or_nothing():
            return await self._edit(edit, held, changes)

    async def split(
        self,
        tx: Transaction,
        id: UUID,
        original_local: datetime,
        *,
        fold: int = 0,
        actor: str | None = None,
        **changes: Unpack[ScheduleOptions],
    ) -> ScheduleChange:
        """Change this occurrence and all that follow: the schedule ends before it, and a new one goes on with it.

        Answers with the new schedule. What was changed about later occurrences goes with them, as far as they are
        shifted. A schedule that begins with this occurrence is edited as a whole.
        """
        held = await self._lock(tx, id)
        check_name("actor", actor)
        one = coming(held.schedule, (), original_local, fold, held.now)
        edit = Edit(tx=tx, now=held.now, reason="split", actor=actor)
        async with tx.all_or_nothing():
            if is_first(facts_of(held.schedule), one):
                return await self._edit(edit, held, changes)
            return await self._split(edit, held, one, changes)

    async def end_before(
        self,
        tx: Transaction,
        id: UUID,
        original_local: datetime,
        reason: str = "ended",
        *,
        fold: int = 0,
        actor: str | None = None,
    ) -> ScheduleChange:
        """Leave this occurrence and all that follow out. A schedule that begins with this occurrence is ended."""
        held = await self._lock(tx, id)
        check_name("reason", reason, longest=REASON_MAX, required=True)
        check_name("actor", actor)
        one = coming(held.schedule, held.overrides, original_local, fold, held.now)
        if is_first(facts_of(held.schedule), one):
            return await self.end(tx, id, reason, actor=actor)
        edit = Edit(tx=tx, now=held.now, reason=reason, actor=actor)
        async with tx.all_or_nothing():
            return await self._edit(edit, held, older_part(held.schedule, one), is_checked=True)

    async def override(
        self,
        tx: Transaction,
        id: UUID,
        original_local: datetime,
        *,
        fold: int = 0,
        skip: bool = False,
        start_local: datetime | None = None,
        payload: Mapping[str, Any] | None = None,
        actor: str | None = None,
    ) -> ScheduleChange:
        """Skip one occurrence, move it, or give it a payload of its own, which is laid over that of the schedule."""
        held = await self._lock(tx, id)
        check_name("actor", actor)
        if skip == (start_local is not None or payload is not None):
            raise InvalidInput("say skip=True, or give a start_local, a payload or both", field="skip")
        one = coming(held.schedule, held.overrides, original_local, fold, held.now)
        check_room(held.overrides, one, held.now)
        override = Override(original_local=one.original_local, fold=one.fold)
        if not skip:
            override = overridden(held.schedule, held.overrides, one, start_local, payload, held.now)
        bytes_max = self._settings.payload_bytes_max
        edit = Edit(tx=tx, now=held.now, reason="skipped" if skip else "moved", actor=actor)
        async with tx.all_or_nothing():
            await self._store.save_override(
                tx.session,
                schedule_id=id,
                original_local=override.original_local,
                fold=override.fold,
                new_local=override.new_local,
                payload=None if override.payload is None else encode_payload(override.payload, bytes_max),
                actor=actor,
            )
            about = {"original_local": override.original_local.isoformat(), "change": edit.reason}
            return await self._plan(edit, _raised(held), held.before(), "schedule.overridden", about)

    async def restore(
        self,
        tx: Transaction,
        id: UUID,
        original_local: datetime,
        *,
        fold: int = 0,
        actor: str | None = None,
    ) -> ScheduleChange:
        """Take back what was changed about one occurrence."""
        held = await self._lock(tx, id)
        check_name("actor", actor)
        local = checked_local("original_local", original_local)
        check_restorable(held.schedule, local, fold, held.now)
        async with tx.all_or_nothing():
            if not await self._store.delete_override(
                tx.session, schedule_id=id, original_local=local, fold=fold
            ):
                raise NotFound(f"nothing was changed about the occurrence at {local.isoformat()}")
            edit = Edit(tx=tx, now=held.now, reason="restored", actor=actor)
            about = {"original_local": local.isoformat()}
            return await self._plan(edit, _raised(held), held.before(), "schedule.restored", about)

    async def pause(
        self, tx: Transaction, id: UUID, reason: str = "paused", *, actor: str | None = None
    ) -> ScheduleChange:
        """Owe nothing until it is resumed. What would have been due meanwhile is neither caught up nor missed."""
        return await self._change_state(tx, id, "paused", reason, actor)

    async def resume(self, tx: Transaction, id: UUID, *, actor: str | None = None) -> ScheduleChange:
        """Go on from now with a schedule that is paused, or parked because it could not be planned."""
        return await self._change_state(tx, id, "active", None, actor)

    async def end(
        self, tx: Transaction, id: UUID, reason: str = "ended", *, actor: str | None = None
    ) -> ScheduleChange:
        """Owe nothing ever again. The schedule and its past stay readable."""
        return await self._change_state(tx, id, "ended", reason, actor)

    async def forget(self, tx: Transaction, id: UUID) -> None:
        """Remove a schedule that has ended, and its past. What was done stays in the log as long as that is kept."""
        check_transaction(tx)
        check_id("id", id)
        if not await self._store.forget_schedule(tx.session, tenant=tx.tenant, id=id):
            raise NotFound(f"this tenant has no schedule {id} that has ended; end it first")

    async def replan(
        self, tx: Transaction, id: UUID, *, reason: str, actor: str | None = None
    ) -> ScheduleChange:
        """Compute every future occurrence again, as is needed when the data of its timezone have changed."""
        held = await self._lock(tx, id)
        check_name("reason", reason, longest=REASON_MAX, required=True)
        check_name("actor", actor)
        edit = Edit(tx=tx, now=held.now, reason=reason, actor=actor)
        before = replace(held.before(), is_comparable=False)
        async with tx.all_or_nothing():
            return await self._plan(edit, held.schedule, before, "schedule.replanned", {"reason": reason})

    async def _lock(self, tx: Transaction, id: UUID, *, is_revived: bool = False) -> _Held:
        """Lock the row first, so that the planner and other edits wait; what has ended is refused."""
        check_transaction(tx)
        check_id("id", id)
        row = await self._store.lock_schedule(tx.session, tenant=tx.tenant, id=id)
        if row is None:
            raise _no_schedule(id)
        schedule = schedule_of(row)
        if schedule.state == "ended" and not (is_revived and schedule.state_reason == OVER):
            raise InvalidInput(f"the schedule {id} has ended; create another", field="id")
        overrides = await self._store.read_overrides(tx.session, schedule_ids=[id])
        return _Held(
            schedule=schedule,
            overrides=tuple(override_of(each) for each in overrides),
            now=row["now"].astimezone(UTC),
        )

    async def _insert(self, edit: Edit, terms: ScheduleTerms, parent_id: UUID | None) -> Schedule:
        edit.tx.count("schedules", 1)
        return schedule_of(
            await self._store.insert_schedule(
                edit.tx.session,
                id=self._ids.new(),
                tenant=edit.tx.tenant,
                parent_id=parent_id,
                at=edit.now,
                **terms_columns(terms, self._checker.payload(terms)),
            )
        )

    async def _split(
        self, edit: Edit, held: _Held, one: Planned, changes: Mapping[str, Any]
    ) -> ScheduleChange:
        old = held.schedule
        terms = _stated(rest_of(old, one, changes))
        await self._checker.check_steps(edit.tx, terms, edit.now)
        checked = await self._checker.check_times(edit.tx, terms, edit.now)
        older = await self._edit(edit, held, older_part(old, one), is_checked=True)
        rest = await self._insert(edit, terms, old.id)
        if old.state == "paused":
            rest = replace(rest, state="paused", state_reason=old.state_reason)
        await self._store.move_overrides(
            edit.tx.session,
            schedule_id=old.id,
            new_id=rest.id,
            from_local=one.original_local,
            shift=terms.start_local - one.original_local,
        )
        about = {"parent_id": str(old.id), "original_local": one.original_local.isoformat()}
        change = await self._plan(edit, rest, None, "schedule.split", about, checked)
        diff = replace(
            change.diff,
            kept=(*older.diff.kept, *change.diff.kept),
            withdrawn=older.diff.withdrawn,
            too_late=older.diff.too_late,
        )
        return replace(change, diff=diff, split_from=older.schedule)

    async def _edit(
        self, edit: Edit, held: _Held, changes: Mapping[str, Any], *, is_checked: bool = False
    ) -> ScheduleChange:
        old = held.schedule
        terms = _stated({**terms_of(old), **changes})
        await self._checker.check_steps(edit.tx, terms, edit.now)
        checked = None
        is_new = old.state in ("parked", "ended") or bool(_TIMED & changes.keys())
        if is_new and not is_checked:
            checked = await self._checker.check_times(edit.tx, terms, edit.now)
        row = await self._store.update_schedule(
            edit.tx.session,
            id=old.id,
            tenant=old.tenant,
            at=edit.now,
            **terms_columns(terms, self._checker.payload(terms)),
        )
        schedule = schedule_of(row)
        if old.state in ("parked", "ended"):
            schedule = replace(schedule, state="active", state_reason=None)
        about = {"changed": sorted(changes)}
        return await self._plan(edit, schedule, held.before(), "schedule.edited", about, checked)

    async def _change_state(
        self, tx: Transaction, id: UUID, state: ScheduleState, reason: str | None, actor: str | None
    ) -> ScheduleChange:
        held = await self._lock(tx, id, is_revived=state == "ended")
        check_name("reason", reason, longest=REASON_MAX, required=state != "active")
        check_name("actor", actor)
        if state == "ended" and reason == OVER:
            raise InvalidInput(
                f"{OVER!r} is kept for a schedule that ended by itself; give another reason", field="reason"
            )
        if state == "active" and held.schedule.state == "active":
            raise InvalidInput(
                f"the schedule {id} is active; only a paused or parked one resumes", field="id"
            )
        schedule = replace(_raised(held), state=state, state_reason=reason)
        edit = Edit(tx=tx, now=held.now, reason=reason or "resumed", actor=actor)
        name = {"active": "schedule.resumed", "paused": "schedule.paused", "ended": "schedule.ended"}[state]
        async with tx.all_or_nothing():
            return await self._plan(edit, schedule, held.before(), name, {"reason": reason})

    async def _plan(
        self,
        edit: Edit,
        schedule: Schedule,
        before: Before | None,
        event: str,
        about: Mapping[str, Any],
        checked: Checked | None = None,
    ) -> ScheduleChange:
        """Plan at once and record what was done, whoever asks later."""
        rows = await self._store.read_overrides(edit.tx.session, schedule_ids=[schedule.id])
        overrides = [override_of(row) for row in rows]
        planned, diff, result = await self._replanner.replan(edit, schedule, overrides, before)
        counts = {name: len(getattr(diff, name)) for name in ("kept", "moved", "added", "withdrawn")}
        await self._events.insert_event(
            edit.tx.session,
            id=self._ids.new(),
            tenant=edit.tx.tenant,
            name=event,
            subject=f"schedule:{schedule.id}",
            actor=edit.actor,
            data=encode_payload(
                {**about, **counts, "revision": planned.revision},
                self._settings.payload_bytes_max,
                field="data",
            ),
            correlation_id=schedule.correlation_id,
            occurred_at=edit.now,
        )
        return ScheduleChange(
            schedule=planned,
            diff=diff,
            first_occurrence=self._replanner.following(planned, overrides, result, edit.now),
            orphaned_overrides=orphaned(planned, overrides, edit.now),
            unused_exdates=() if checked is None else checked.unused_exdates,
            warnings=() if checked is None else warnings_of(schedule, checked),
        )


def _no_schedule(id: UUID) -> NotFound:
    return NotFound(f"this tenant has no schedule {id}")


def _stated(terms: Mapping[str, Any]) -> ScheduleTerms:
    unknown = sorted(terms.keys() - _TERMS)
    if unknown:
        raise InvalidInput("is no term of a schedule; leave it out", field=unknown[0])
    try:
        return ScheduleTerms(**terms)
    except TypeError as error:
        raise InvalidInput(f"a schedule: {error}") from None


def _raised(held: _Held) -> Schedule:
    return replace(held.schedule, revision=held.schedule.revision + 1)
