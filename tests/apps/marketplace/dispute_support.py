"""What tests of disputes say and ask again and again."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any
from uuid import UUID

from tests.apps.marketplace.shift_support import END, disputed, fund, submitted
from tests.apps.marketplace.support import AMOUNT, HOUR, Json, Market, done, local, shift
from timebell.apps.marketplace.disputes.standing import RETRY_PAYMENT
from timebell.apps.marketplace.payments.ledger import Ledger
from timebell.apps.marketplace.payments.models import Balance

UNRESOLVED = "Dispute unresolved after 3 hours. All future shifts cancelled until dispute is resolved."
# Filed when the first day is over, so that it times out at seven in the evening.
TIMED_OUT = END + 3 * HOUR
# A week, which is a short booking, and two, which is a long one.
SHORT: Json = {"end_date": "2027-03-07"}
DAYS = tuple(shift(date(2027, 3, day)) for day in (2, 3, 5))


def at(hour: int, minute: int, *, second: int = 0, minutes: int = 1) -> Json:
    """A shift on the evening of the first day, of a minute unless it is said otherwise."""
    start = local(2027, 3, 2, hour, minute) + timedelta(seconds=second)
    return {
        "start": start.isoformat(),
        "end": (start + timedelta(minutes=minutes)).isoformat(),
        "amount": AMOUNT,
    }


async def contested(market: Market, *shifts: Json, option: str = "A", **given: Any) -> tuple[Json, list[str]]:
    """A dispute about the first of these shifts, which are all paid for, and the ids of them all."""
    id = await submitted(market, *(shifts or DAYS), **{**SHORT, **given})
    booking = await market.value("SELECT booking_id FROM marketplace.time_log WHERE id = $1", UUID(id))
    ids = [row["id"] for row in await market.shifts(str(booking))]
    await fund(market, *ids)
    return await disputed(market, id, option=option), ids


async def resolve(
    market: Market,
    id: str,
    status: str = "Settled",
    settlement: tuple[int, int] | None = None,
    *,
    who: str | None = None,
    **options: Any,
) -> Any:
    """`settlement` is what the lender gets and what the borrower does."""
    said: Json = {"status": status}
    if settlement is not None:
        said["settlement"] = {"lender": settlement[0], "borrower": settlement[1]}
    return await market.ask(who, "POST", f"disputes/{id}/resolve", said, **options)


async def resolved(market: Market, id: str, *given: Any, **options: Any) -> Json:
    return done(await resolve(market, id, *given, **options))


async def whole(market: Market, booking: str, at: datetime | None = None) -> Balance:
    async with market.bench.bell.transaction() as tx:
        return await Ledger(market.bench.bell).balance(tx, UUID(booking), at=at)


async def statuses(market: Market, booking: str) -> list[str]:
    return [row["status"] for row in await market.shifts(booking)]


async def retries(market: Market) -> list[Any]:
    """The jobs that charge after a resolution, done or not."""
    rows = await market.rows(
        "SELECT id, queue, payload::text AS payload FROM timebell.jobs WHERE kind = $1 "
        "UNION SELECT id, queue, NULL FROM timebell.job_log WHERE kind = $1",
        RETRY_PAYMENT,
    )
    return list({row["id"]: row for row in rows}.values())
