"""What the tests of saved searches ask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from tests.apps.marketplace.support import Json, Market, done

ALERT = "A worker matches your saved search"
EMPTY = "No new workers match your saved search criteria"
DIGEST_SUBJECT = "New workers for your saved searches"


async def save(market: Market, who: str = "Bea", criteria: Json | None = None, **terms: Any) -> Json:
    body = {"criteria": {"trade": "carpenter"} if criteria is None else criteria, **terms}
    return done(await market.ask(who, "POST", "saved-searches", body), 201)


async def change(market: Market, search: Json, who: str = "Bea", **terms: Any) -> Json:
    return done(await market.ask(who, "PATCH", f"saved-searches/{search['id']}", terms))


async def list_worker(market: Market, worker: UUID, *, pays: bool = True) -> None:
    """Somebody becomes listed, and what is due then is done."""
    done(await market.ask(None, "PUT", f"workers/{worker}/state", {"state": "Listed"}))
    if pays:
        await market.bench.run_due()


async def unlist(market: Market, worker: UUID) -> None:
    done(await market.ask(None, "PUT", f"workers/{worker}/state", {"state": "Unlisted"}))


async def newcomer(market: Market, name: str = "Wanda", *, pays: bool = True, **profile: Any) -> UUID:
    """Somebody who is listed now."""
    worker = await market.add_worker(name, state="Unlisted", **profile)
    await list_worker(market, worker, pays=pays)
    return worker


async def newcomers(market: Market, count: int, **profile: Any) -> list[UUID]:
    return [await newcomer(market, f"W{number}", **profile) for number in range(count)]


def told(market: Market, text: str = ALERT) -> list[tuple[str, str]]:
    """Who got a text that has these words, and how."""
    return sorted(
        (parcel.channel, parcel.address)
        for parcel in market.arrived
        if text in parcel.content.text or text == parcel.content.subject
    )


def mails(market: Market, subject: str = DIGEST_SUBJECT) -> list[tuple[str, str]]:
    """To whom a digest went, and what it says."""
    return [
        (parcel.address, parcel.content.text)
        for parcel in market.arrived
        if parcel.content.subject == subject
    ]


async def searches_of(market: Market, *columns: str) -> Sequence[Any]:
    return await market.rows(
        f"SELECT {', '.join(columns) or '*'} FROM marketplace.saved_searches ORDER BY id"
    )


async def set_quiet(market: Market, who: str, start: str, end: str, **more: Any) -> None:
    """By the clock of Berlin, unless they live elsewhere."""
    async with market.bench.bell.transaction() as tx:
        await market.notify.recipients.change(
            tx, market.people[who], quiet_hours={"start": start, "end": end, **more}
        )


async def move(market: Market, who: str, timezone: str) -> None:
    async with market.bench.bell.transaction() as tx:
        await market.notify.recipients.change(tx, market.people[who], timezone=timezone)


async def break_clauses(market: Market, body: str) -> None:
    """Have what a search compares by do something else."""
    await market.rows(
        "CREATE OR REPLACE FUNCTION marketplace.fits(p_trade text, p_zip_from text, p_zip_to text, p_skills text[], "
        "p_rate_max bigint, p_of_trade text, p_of_zip text, p_of_skills text[], p_of_rate bigint) RETURNS boolean "
        f"LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN {body} END $$"
    )


FAILS = "RETURN 1 / (length(p_of_trade) - length(p_of_trade)) > 0;"
MISSING = "RAISE EXCEPTION 'the extension is not there' USING ERRCODE = 'undefined_function';"
MENDED = (
    "RETURN (p_trade IS NULL OR p_of_trade = p_trade) AND p_of_skills @> p_skills "
    "AND (p_rate_max IS NULL OR p_of_rate <= p_rate_max);"
)
