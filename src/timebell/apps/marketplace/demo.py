"""`timebell marketplace demo`: a sandbox with something to see in it.

Four companies, a project in each of four zones, thirty bookings and two weeks of shifts that begin on the next Monday.
A newcomer lets a fortnight pass, and reads what was charged, warned, released and sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Final
from uuid import UUID

from timebell.apps.marketplace.models import By
from timebell.apps.marketplace.payments.weeks import local_date, monday_of, wall_instant
from timebell.apps.marketplace.staffing.checkout import Checkout
from timebell.apps.marketplace.staffing.companies import Companies
from timebell.apps.marketplace.staffing.models import WEEKLY, Booking, NewBooking, NewShift, Project, Role
from timebell.apps.marketplace.staffing.store import StaffingStore
from timebell.apps.marketplace.staffing.workers import Workers
from timebell.errors import ConfigurationError, InvalidInput
from timebell.kernel import Command, CommandAnswer, Timebell, Transaction
from timebell.notify import Notify

# Where each project is, what it is paid in, how many work there, and which of the two borrowers and lenders it has.
PLACES: Final = (
    ("Harbour tower", "America/New_York", "USD", 8, 0, 0),
    ("Canal bridge", "Europe/Berlin", "EUR", 8, 1, 0),
    ("Railway station", "Asia/Kolkata", "INR", 7, 0, 1),
    ("Lighthouse", "Australia/Lord_Howe", "AUD", 7, 1, 1),
)
BORROWERS: Final = ("Stone & Sons", "Blue Sky Builders")
LENDERS: Final = ("Ready Hands", "Good Crew")
DAYS: Final = 14
SHIFT_AMOUNT: Final = 20_000
_STARTS: Final = time(8)
_ENDS: Final = time(16)
_COMPANIES_READ: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One booking, as the command answers with it."""

    id: UUID
    project: str
    timezone: str
    worker: str
    worker_recipient_id: UUID
    start_date: date
    end_date: date


class Demo:
    """Fills a tenant. Everything goes through the verbs that the routes have."""

    def __init__(self, bell: Timebell, by: By) -> None:
        self._bell = bell
        self._by = by
        self._notify = bell.shared.one(Notify)
        self._companies = Companies(bell, self._notify)
        self._workers = Workers(bell, self._notify)
        self._checkout = Checkout(bell, self._notify)
        self._store = StaffingStore(bell.clock)
        self._phone = 0

    async def fill(self, tx: Transaction) -> list[Shown]:
        names = {
            row["name"] for row in await self._store.list_companies(tx, after=None, limit=_COMPANIES_READ)
        }
        if names.intersection((*BORROWERS, *LENDERS)):
            raise InvalidInput("the demonstration is there already; start another sandbox for a new one")
        now = await self._store.read_clock(tx)
        borrowers = [await self._company(tx, name, "borrower") for name in BORROWERS]
        lenders = [await self._company(tx, name, "lender") for name in LENDERS]
        shown: list[Shown] = []
        for name, timezone, currency, count, borrower, lender in PLACES:
            project = await self._companies.add_project(tx, borrowers[borrower], name, timezone, by=self._by)
            supervisor = await self._person(tx, f"Supervisor of {name}", timezone)
            await self._companies.add_member(tx, borrowers[borrower], supervisor, "supervisor", by=self._by)
            first = monday_of(local_date(now, timezone)) + timedelta(days=7)
            for number in range(1, count + 1):
                worker = f"{name}, worker {number}"
                booking = await self._book(tx, project, lenders[lender], supervisor, worker, currency, first)
                shown.append(
                    Shown(
                        id=booking.id,
                        project=name,
                        timezone=timezone,
                        worker=worker,
                        worker_recipient_id=booking.worker_recipient_id,
                        start_date=booking.start_date,
                        end_date=booking.end_date,
                    )
                )
        return shown

    async def _company(self, tx: Transaction, name: str, type: str) -> UUID:
        is_borrower = type == "borrower"
        slug = name.partition(" ")[0].lower()
        columns = {
            "name": name,
            "type": type,
            "payment_customer": f"cus_{slug}" if is_borrower else None,
            "payment_method": f"card_{slug}" if is_borrower else None,
            "payment_account": None if is_borrower else f"acct_{slug}",
        }
        company = await self._companies.add(tx, columns, by=self._by)
        admin = await self._person(tx, f"Admin of {name}", "UTC")
        role: Role = "borrower_admin" if is_borrower else "lender_admin"
        await self._companies.add_member(tx, company.id, admin, role, by=self._by)
        return company.id

    async def _book(
        self,
        tx: Transaction,
        project: Project,
        lender: UUID,
        supervisor: UUID,
        name: str,
        currency: str,
        first: date,
    ) -> Booking:
        person = await self._person(tx, name, project.timezone)
        columns = {
            "trade": "builder",
            "zip": "10115",
            "skills": ["lifting"],
            "hourly_rate": SHIFT_AMOUNT // 8,
        }
        worker = await self._workers.add(tx, lender, person, columns, by=self._by)
        days = [first + timedelta(days=number) for number in range(DAYS)]
        return await self._checkout.book(
            tx,
            NewBooking(
                project_id=project.id,
                worker_id=worker.id,
                lender_company_id=lender,
                supervisor_id=supervisor,
                payment_type=WEEKLY,
                start_date=days[0],
                end_date=days[-1],
                currency=currency,
                scheduled_end_time=None,
                shifts=[_shift(day, project.timezone) for day in days if day.weekday() < 5],
            ),
            by=self._by,
        )

    async def _person(self, tx: Transaction, name: str, timezone: str) -> UUID:
        """Somebody with a phone and a mailbox that do not exist."""
        self._phone += 1
        added = await self._notify.recipients.add(
            tx,
            name=name,
            email=f"person{self._phone}@example.org",
            phone=f"+4915112345{self._phone:03}",
            timezone=timezone,
        )
        return added.id


def _shift(day: date, timezone: str) -> NewShift:
    start, end = (wall_instant(datetime.combine(day, at), timezone) for at in (_STARTS, _ENDS))
    return NewShift(start=start, end=end, amount=SHIFT_AMOUNT)


async def demo(bell: Timebell, *, tenant: str, actor: str) -> CommandAnswer:
    """Refused where time is real: nobody wants thirty workers who do not exist among their own."""
    # Where time is real the database's own clock counts, and nothing is said to it.
    if bell.clock.sql_now() is None:
        raise ConfigurationError(
            "sandbox: the time of this database is real; start a sandbox with `timebell up --sandbox --data FOLDER` "
            "and name its folder with --data"
        )
    async with bell.transaction(tenant=tenant) as tx:
        shown = await Demo(bell, By(name=actor, is_operator=True)).fill(tx)
    lines = [
        f"{project}, {timezone}: {sum(each.project == project for each in shown)} bookings"
        for project, timezone, *_ in PLACES
    ]
    days = f"{shown[0].start_date} to {shown[0].end_date}"
    lines.append(f"{len(shown)} bookings from {days}. Let time pass, and read what became of them.")
    return CommandAnswer(lines=lines, value={"tenant": tenant, "bookings": shown})


DEMO: Final = Command(
    words=("marketplace", "demo"), help="Fill a sandbox with companies, projects and bookings.", run=demo
)
