"""What people of a marketplace do in a world: one verb at a time, as the routes of the app do it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Any, Literal
from uuid import UUID

import asyncpg

from tests.history import Record
from tests.history_records import NEVER
from tests.simulation.callers import LOSSES, Caller
from tests.simulation.notes import email_of, phone_of
from tests.simulation.process import Process
from timebell.apps.marketplace.disputes.models import Resolution, Settlement
from timebell.apps.marketplace.disputes.resolving import Resolving
from timebell.apps.marketplace.disputes.service import DISPUTERS, Disputes
from timebell.apps.marketplace.insurance.service import Policies
from timebell.apps.marketplace.models import By
from timebell.apps.marketplace.payments.paying import Paying
from timebell.apps.marketplace.problems import PROBLEMS
from timebell.apps.marketplace.shifts.ending import Ending
from timebell.apps.marketplace.shifts.service import VERIFIERS, WORKER, Shifts
from timebell.apps.marketplace.staffing.checkout import Checkout
from timebell.apps.marketplace.staffing.companies import Companies
from timebell.apps.marketplace.staffing.models import WEEKLY, NewBooking, NewShift, Role
from timebell.apps.marketplace.staffing.service import Bookings
from timebell.apps.marketplace.staffing.store import StaffingStore
from timebell.apps.marketplace.staffing.workers import Workers
from timebell.apps.marketplace.texts import ship
from timebell.errors import TimebellError
from timebell.kernel import Transaction

Verb = Literal[
    "book",
    "clock-in",
    "draft",
    "submit",
    "force",
    "verify",
    "edit",
    "dispute",
    "report",
    "close",
    "cancel",
    "pay",
    "settings",
    "resolve",
    "insure",
    "renew",
    "invalidate",
]
Side = Literal["borrower", "lender"]
# Who borrows, who looks after the work and who lends; the others work.
BORROWER, SUPERVISOR, LENDER = "bill", "sara", "lily"
WORKERS = ("wade", "walt", "will", "wren", "wynn", "wilma", "wanja", "wulf", "waris", "willa")
MANAGERS = ("bob", "lotte")
INSURANCE = "liability"
ZONES = ("Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe")
_NAMES: Mapping[Side, str] = {"borrower": "Stone & Sons", "lender": "Ready Hands"}
_ROLES: Mapping[str, tuple[Side, Role]] = {
    BORROWER: ("borrower", "borrower_admin"),
    SUPERVISOR: ("borrower", "supervisor"),
    LENDER: ("lender", "lender_admin"),
}
# Where there are managers besides, the supervisor is one too, and is told once all the same.
_MORE_ROLES: Sequence[tuple[str, Side, Role]] = (
    ("bob", "borrower", "borrower_manager"),
    (SUPERVISOR, "borrower", "borrower_manager"),
    ("lotte", "lender", "lender_manager"),
)
_INSURED: Mapping[Side, str] = {"borrower": BORROWER, "lender": LENDER}
# Each verb's row in the audit trail.
EVENTS: Mapping[Verb, str] = {
    "book": "staffing_booking.created",
    "clock-in": "time_log.clocked_in",
    "draft": "time_log.drafted",
    "submit": "time_log.submitted",
    "force": "time_log.forced",
    "verify": "time_log.verified",
    "edit": "time_log.edited",
    "dispute": "time_log.disputed",
    "report": "incident.reported",
    "close": "incident.closed",
    "cancel": "staffing_booking.cancelled",
    "pay": "staffing_booking.payment_asked",
    "insure": "insurance_policy.added",
    "renew": "insurance_policy.renewed",
    "invalidate": "insurance_policy.invalidated",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Somebody did something about a booking or a shift of it, or tried to. `name` is theirs alone; the audit trail has
    it as the actor.

    `answer` is "done", or the code of the refusal. Without `answered_at` nobody knows what came of it.
    """

    name: str
    verb: Verb
    booking_id: UUID | None = None
    time_log_id: UUID | None = None
    incident_id: UUID | None = None
    dispute_id: UUID | None = None
    policy_id: UUID | None = None
    side: Side = "lender"
    expires: date | None = None
    # How a dispute is to end, what the lender and the borrower get, and on whose side somebody says so.
    word: Resolution = "Resolved"
    shares: tuple[int, int] | None = None
    person: str | None = None
    new: NewBooking | None = None
    end: datetime | None = None
    option: Literal["A", "B"] = "A"
    trigger: Literal["verification", "webhook"] = "verification"
    invoked_at: datetime = NEVER
    answered_at: datetime | None = None
    answer: str | None = None

    @property
    def subject(self) -> str:
        if self.policy_id is not None:
            return f"policy:{self.policy_id}"
        is_of_shift = self.time_log_id is not None
        return f"time_log:{self.time_log_id}" if is_of_shift else f"staffing:{self.booking_id}"

    @property
    def ends_at(self) -> datetime:
        """The latest instant at which it may have taken effect."""
        return self.answered_at or NEVER

    @property
    def is_ending(self) -> bool:
        """Whether somebody may not be told any more what was to be said about a shift, or an insurance."""
        verbs = ("submit", "force", "verify", "dispute", "renew")
        return self.verb in verbs and self.answer in ("done", None)


@dataclass(slots=True)
class Places:
    """Whom and what there is from the beginning, by name."""

    people: dict[str, UUID] = field(default_factory=dict)
    workers: dict[str, UUID] = field(default_factory=dict)
    projects: dict[str, UUID] = field(default_factory=dict)
    companies: dict[Side, UUID] = field(default_factory=dict)


class Dealer(Caller):
    """A caller who does things about bookings and shifts."""

    def __init__(
        self,
        process: Process,
        record: Callable[[Record], None],
        places: Places,
        note: Callable[[Turn], None],
    ) -> None:
        super().__init__(process, record)
        self._places = places
        self._note = note

    async def take(self, turn: Turn) -> Turn:
        """The same with what came of it, and with the ids of what it made."""
        turn = replace(turn, invoked_at=self._now())
        try:
            async with self.process.bell.transaction() as tx:
                made = await _VERBS[turn.verb](self, tx, turn)
        except (TimebellError, asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError) as error:
            name = type(error).__name__
            form = PROBLEMS.get(type(error)) if isinstance(error, TimebellError) else None
            return self._end(replace(turn, answered_at=self._now()), name if form is None else form.code)
        except LOSSES:
            return self._end(turn, None)
        except asyncio.CancelledError:
            self._end(turn, None)
            raise
        return self._end(replace(turn, answered_at=self._now(), **made), "done")

    def _end(self, turn: Turn, answer: str | None) -> Turn:
        wire = self.process.wire
        said = answer or "lost"
        # Other apps have verbs of the same name.
        wire.counts[f"staffing_{turn.verb}_{said}"] += 1
        wire.trace.add(wire.loop.now_us, self.process.name, turn.verb, f"{turn.name} {said}")
        turn = replace(turn, answer=answer)
        self._note(turn)
        return turn

    def _by(self, turn: Turn, person: str) -> By:
        return By(person=self._places.people[person], name=turn.name, correlation_id=turn.name)

    async def _book(self, tx: Transaction, turn: Turn) -> Mapping[str, Any]:
        assert turn.new is not None
        checkout = Checkout(self.process.bell, self.process.notify)
        booking = await checkout.book(tx, turn.new, by=self._by(turn, BORROWER))
        return {"booking_id": booking.id}

    async def _clock_in(self, tx: Transaction, turn: Turn) -> Mapping[str, Any]:
        shifts, by = Shifts(self.process.bell), By(name=turn.name, is_operator=True, correlation_id=turn.name)
        assert turn.time_log_id is not None
        held = await shifts.hold(tx, turn.time_log_id, *WORKER, by=by)
        await shifts.clock_in(tx, held, by=by)
        return {}

    async def _change_time_log(self, tx: Transaction, turn: Turn) -> Mapping[str, Any]:
        """The worker's own verbs are the operator's here: who may do what is looked at elsewhere."""
        assert turn.time_log_id is not None
        shifts = Shifts(self.process.bell)
        by = By(name=turn.name, is_operator=True, correlation_id=turn.name)
        if turn.verb in ("draft", "submit"):
            held = await shifts.hold(tx, turn.time_log_id, *WORKER, by=by)
            await (shifts.draft if turn.verb == "draft" else shifts.submit)(tx, held, turn.end, by=by)
            return {}
        by = self._by(turn, SUPERVISOR)
        held = await shifts.hold(tx, turn.time_log_id, *VERIFIERS, by=by)
        if turn.verb == "force":
            await shifts.force_clock_out(tx, held, turn.end, by=by)
        elif turn.verb == "verify":
            await shifts.verify(tx, held, by=by)
        else:
            await shifts.edit(tx, held, start=None, end=turn.end, reason="a mistake", by=by)
        return {}

    async def _dispute(self, tx: Transaction, turn: Turn) -> Mapping[str, Any]:
        assert turn.time_log_id is not None
        by = self._by(turn, BORROWER)
        held = await Shifts(self.process.bell).hold(tx, turn.time_log_id, *DISPUTERS, by=by)
        dispute = await Disputes(self.process.bell).file(tx, held, turn.option, "not worked", by=by)
        return {"dispute_id": dispute.id}

    async def _resolve(self, tx: Transaction, turn: Turn) -> Mapping[str, Any]:
        """For one of the two sides, or as the operator where nobody is named."""
        assert turn.dispute_id is not None
        by = By(name=turn.name, is_operator=True, correlation_id=turn.name)
        if turn.person is not None:
            by = self._by(turn, turn.person)
        shares = turn.shares and Settlement(lender=turn.shares[0], borrower=turn.shares[1])
        await Resolving(self.process.bell).resolve(tx, turn.dispute_id, turn.word, shares, by=by)
        return {}

    async def _change_policy(self, tx: Transaction, turn: Turn) -> Mapping[str, Any]:
        policies, by = Policies(self.process.bell, self.process.notify), self._by(turn, _INSURED[turn.side])
        if turn.verb == "insure":
            assert turn.expires is not None
            made = await policies.add(tx, self._places.companies[turn.side], INSURANCE, turn.expires, by=by)
            return {"policy_id": made.id}
        assert turn.policy_id is not None
        if turn.verb == "invalidate":
            await policies.invalidate(tx, turn.policy_id, "a lie", by=by)
        else:
            assert turn.expires is not None
            await policies.renew(tx, turn.policy_id, turn.expires, by=by)
        return {}

    async def _report(self, tx: Transaction, turn: Turn) -> Mapping[str, Any]:
        assert turn.time_log_id is not None
        by = self._by(turn, SUPERVISOR)
        held = await Shifts(self.process.bell).hold(tx, turn.time_log_id, by=by)
        incident = await Disputes(self.process.bell).report(tx, held, turn.option, "a ladder broke", by=by)
        return {"incident_id": incident.id}

    async def _close(self, tx: Transaction, turn: Turn) -> Mapping[str, Any]:
        assert turn.incident_id is not None
        await Disputes(self.process.bell).close(tx, turn.incident_id, by=self._by(turn, SUPERVISOR))
        return {}

    async def _cancel(self, tx: Transaction, turn: Turn) -> Mapping[str, Any]:
        assert turn.booking_id is not None
        bell = self.process.bell
        booking = await Bookings(bell).hold(tx, turn.booking_id)
        await Ending(bell).end_booking(
            tx,
            booking,
            status="Cancelled",
            cancel_from=await StaffingStore(bell.clock).read_clock(tx),
            end_date=None,
            reason="no longer needed",
            by=self._by(turn, BORROWER),
        )
        return {}

    async def _pay(self, tx: Transaction, turn: Turn) -> Mapping[str, Any]:
        assert turn.booking_id is not None
        await Paying(self.process.bell).pay(tx, turn.booking_id, by=self._by(turn, BORROWER))
        return {}

    async def _settings(self, tx: Transaction, turn: Turn) -> Mapping[str, Any]:
        store = StaffingStore(self.process.bell.clock)
        await store.insert_settings(tx)
        await store.update_settings(tx, payout_trigger=turn.trigger, max_extensions=None)
        return {}

    async def settle_in(self, *, with_managers: bool = False) -> None:
        """The texts, two companies with their people, a project in each zone, and those who work."""
        bell, notify, places = self.process.bell, self.process.notify, self._places
        by = By(name="house", is_operator=True)
        await ship(bell)
        async with bell.transaction() as tx:
            for person in (*_ROLES, *WORKERS, *(MANAGERS if with_managers else ())):
                added = await notify.recipients.add(
                    tx, name=person, email=email_of(person), phone=phone_of(person), timezone="UTC"
                )
                places.people[person] = added.id
        async with bell.transaction() as tx:
            found = Companies(bell, notify)
            made = places.companies
            for type, named in _NAMES.items():
                columns: dict[str, Any] = {
                    "name": named,
                    "type": type,
                    "payment_customer": "cus_1" if type == "borrower" else None,
                    "payment_method": "card_1" if type == "borrower" else None,
                    "payment_account": "acct_1" if type == "lender" else None,
                }
                made[type] = (await found.add(tx, columns, by=by)).id
            more = _MORE_ROLES if with_managers else ()
            for person, type, role in (*((name, *role) for name, role in _ROLES.items()), *more):
                await found.add_member(tx, made[type], places.people[person], role, by=by)
            for zone in ZONES:
                project = await found.add_project(tx, made["borrower"], zone, zone, by=by)
                places.projects[zone] = project.id
            columns = {"trade": "builder", "zip": "10115", "skills": [], "hourly_rate": 2_500}
            for person in WORKERS:
                worker = await Workers(bell, notify).add(
                    tx, made["lender"], places.people[person], columns, by=by
                )
                places.workers[person] = worker.id

    def order(self, person: str, zone: str, shifts: list[NewShift], **days: Any) -> NewBooking:
        places = self._places
        return NewBooking(
            project_id=places.projects[zone],
            worker_id=places.workers[person],
            lender_company_id=places.companies["lender"],
            supervisor_id=places.people[SUPERVISOR],
            payment_type=WEEKLY,
            currency="EUR",
            scheduled_end_time=None,
            shifts=shifts,
            **days,
        )


_VERBS: Mapping[Verb, Callable[[Dealer, Transaction, Turn], Awaitable[Mapping[str, Any]]]] = {
    "book": Dealer._book,
    "clock-in": Dealer._clock_in,
    "draft": Dealer._change_time_log,
    "submit": Dealer._change_time_log,
    "force": Dealer._change_time_log,
    "verify": Dealer._change_time_log,
    "edit": Dealer._change_time_log,
    "dispute": Dealer._dispute,
    "report": Dealer._report,
    "close": Dealer._close,
    "cancel": Dealer._cancel,
    "pay": Dealer._pay,
    "settings": Dealer._settings,
    "resolve": Dealer._resolve,
    "insure": Dealer._change_policy,
    "renew": Dealer._change_policy,
    "invalidate": Dealer._change_policy,
}
