"""What tests of shifts say and ask again and again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any
from uuid import UUID

from tests.apps.marketplace.money import Purse
from tests.apps.marketplace.support import AMOUNT, Json, Market, done, local, shift
from timebell.apps.marketplace.models import time_log_subject
from timebell.apps.marketplace.payments.ledger import Ledger
from timebell.apps.marketplace.payments.models import Balance, Payment

# A Tuesday, from eight to four.
DAY_ONE = date(2027, 3, 2)
START = local(2027, 3, 2, 8)
END = local(2027, 3, 2, 16)

STILL_WORKING = "Are you still working? Please clock out if your shift has ended."
CLOCK_OUT_NOW = "URGENT: Clock Out. Your scheduled shift ended 30 minutes ago."
PENDING = "Timesheet pending verification for Wim. Please verify within 4 hours."
URGENT = "URGENT: Timesheet for Wim will auto-approve in 1 hour if not verified."
APPROVED = "Timesheet auto-approved after 4 hours. Supervisor did not verify within required timeframe."

PHONES = {
    name: f"+491511234567{number}"
    for number, name in enumerate(("Bea", "Ben", "Sue", "Lea", "Leo", "Wim", "Zoe"))
}
_NAMES = {phone: name for name, phone in PHONES.items()}
_JOBS = (
    "SELECT id, step, kind, queue, due_at, payload FROM timebell.jobs WHERE subject = $1 AND step IS NOT NULL"
)


async def scheduled(market: Market, *shifts: Json, **given: Any) -> Json:
    """The first shift of a new booking: of one that begins on a Tuesday at eight, unless it is said otherwise."""
    booking = await market.book(*(shifts or (shift(DAY_ONE),)), **given)
    return (await market.shifts(booking["id"]))[0]


async def working(market: Market, *shifts: Json, **given: Any) -> str:
    """Wim has clocked in at eight."""
    row = await scheduled(market, *shifts, **given)
    await market.pass_until(datetime.fromisoformat(row["scheduled_start"]))
    await market.clock_in(row["id"])
    return str(row["id"])


async def submitted(market: Market, *shifts: Json, at: datetime = END, **given: Any) -> str:
    """Wim has worked from eight to four, and submitted the timesheet."""
    id = await working(market, *shifts, **given)
    await market.pass_until(at)
    await market.submit(id)
    return id


async def read(market: Market, id: str) -> Json:
    return await market.get(f"time-logs/{id}")


async def dispute(
    market: Market, id: str, *, who: str | None = "Sue", option: str = "A", **options: Any
) -> Any:
    said = {"time_log_id": id, "option": option, "reason": "Nobody saw him"}
    return await market.ask(who, "POST", "disputes", said, **options)


async def disputed(market: Market, id: str, **given: Any) -> Json:
    return done(await dispute(market, id, **given), 201)


async def owed(market: Market, id: str) -> dict[str, datetime]:
    """What is owed about a shift, and when."""
    return {row["step"]: row["due_at"] for row in await jobs(market, id)}


async def jobs(market: Market, id: str) -> Sequence[Any]:
    return await market.rows(_JOBS, time_log_subject(UUID(id)))


async def became(market: Market, job: str) -> str:
    """The state in which a job ended."""
    found = await market.rows(
        "SELECT state FROM timebell.job_log WHERE id = $1 ORDER BY logged_at", UUID(job)
    )
    return str(found[-1]["state"]) if found else "unfinished"


def told(market: Market) -> Counter[tuple[str, str]]:
    """Who got which text message, how often."""
    return Counter(
        (_NAMES[parcel.address], str(parcel.content.text))
        for parcel in market.arrived
        if parcel.channel == "sms"
    )


def texts(market: Market) -> set[str]:
    return {text for _, text in told(market)}


async def fund(market: Market, *ids: str, amount: int = AMOUNT) -> Payment:
    """The shifts were paid for: their money is held."""
    row = await read(market, ids[0])
    purse = Purse(market, UUID(row["booking_id"]), [UUID(id) for id in ids])
    return await purse.paid(*range(len(ids)), amount=amount)


async def balance(market: Market, id: str) -> Balance:
    async with market.bench.bell.transaction() as tx:
        return (await Ledger(market.bench.bell).shift_balances(tx, [UUID(id)]))[UUID(id)]


def instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
