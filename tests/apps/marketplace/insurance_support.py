"""What tests of insurances say and ask again and again."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID, uuid4

from tests.apps.marketplace.support import Json, Market, done

LINE = "Insurance Invalid. Work must stop immediately. Please clock out worker."
SIX = ("Bea", "Ben", "Sue", "Lea", "Leo", "Wim")
TUESDAY = date(2027, 3, 2)


def midnight(month: int, day: int) -> datetime:
    return datetime(2027, month, day, tzinfo=UTC)


async def insure(
    market: Market, expires: date, *, side: str = "lender", type: str = "liability", who: str | None = None
) -> Json:
    company = market.lender if side == "lender" else market.borrower
    said = {"company_id": str(company), "type": type, "expiration_date": expires.isoformat()}
    return done(await market.ask(who, "POST", "policies", said), 201)


async def renew(market: Market, policy: str, expires: date, who: str | None = None) -> Json:
    said = {"expiration_date": expires.isoformat()}
    return done(await market.ask(who, "POST", f"policies/{policy}/renew", said))


async def invalidate(market: Market, policy: str, who: str | None = None) -> Json:
    return done(await market.ask(who, "POST", f"policies/{policy}/invalidate", {"reason": "A lie"}))


async def policy_of(market: Market, id: str) -> Json:
    return await market.get(f"policies/{id}")


async def copy_booking(market: Market, booking: str, **changes: Any) -> str:
    """The same booking once more, of a worker of its own and without shifts, changed past all rules."""
    id, worker, person = uuid4(), uuid4(), uuid4()
    await market.rows(
        "INSERT INTO timebell_notify.recipients "
        "SELECT (jsonb_populate_record(r, jsonb_build_object('id', $2::uuid))).* "
        "FROM timebell_notify.recipients r WHERE id = $1",
        *(market.people["Zoe"], person),
    )
    await market.rows(
        "INSERT INTO marketplace.workers (tenant, id, recipient_id, company_id, trade, zip, hourly_rate, created_at, "
        "updated_at) SELECT tenant, $2, $3, company_id, trade, zip, hourly_rate, created_at, updated_at "
        "FROM marketplace.workers WHERE id = $1",
        *(market.worker, worker, person),
    )
    await market.rows(
        "INSERT INTO marketplace.staffing_bookings SELECT (jsonb_populate_record(b, "
        "jsonb_build_object('id', $2::uuid, 'worker_id', $3::uuid) || $4::text::jsonb)).* "
        "FROM marketplace.staffing_bookings b WHERE id = $1",
        *(UUID(booking), id, worker, _json(changes)),
    )
    return str(id)


def _json(changes: dict[str, Any]) -> str:
    return "{" + ", ".join(f'"{name}": "{value}"' for name, value in changes.items()) + "}"


async def stops_of(market: Market, booking: str) -> set[str]:
    rows = await market.rows(
        "SELECT type FROM marketplace.insurance_stops WHERE booking_id = $1", UUID(booking)
    )
    return {row["type"] for row in rows}


async def close_all_but(market: Market, reports: list[str], left: int) -> None:
    """Close reports of incidents until so many are left."""
    while len(reports) > left:
        done(await market.ask("Sue", "POST", f"incidents/{reports.pop()}/close"))


async def report(market: Market, shift: str) -> str:
    said = {"time_log_id": shift, "option": "A", "description": "A fall"}
    return str(done(await market.ask("Sue", "POST", "incidents", said), 201)["id"])
