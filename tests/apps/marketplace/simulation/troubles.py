"""How disputes of a world end, and how insurances do: at random, at the worst of moments, and by several at once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

import psycopg

from tests.apps.marketplace.simulation.deals import BORROWER, LENDER, Side, Turn, Verb
from timebell.apps.marketplace.disputes.models import Resolution

SIDES: Sequence[Side] = ("borrower", "lender")
_DAY = timedelta(days=1)
_HOUR = timedelta(hours=1)
_WORDS: tuple[Resolution, ...] = ("Settled", "Resolved", "Resolved", "Legal_Hold")
_OPEN = """
SELECT d.id, d.status, d.dispute_filed_at, coalesce((SELECT sum(CASE 'frozen' WHEN e.to_place THEN e.amount
    WHEN e.from_place THEN -e.amount ELSE 0 END) FROM marketplace.ledger_entries e WHERE e.dispute_id = d.id),
    0)::bigint AS frozen
FROM marketplace.disputes d WHERE d.booking_id = %s AND d.status IN ('Open', 'Legal_Hold') ORDER BY d.id
"""
_COVERS = """
SELECT p.id FROM marketplace.insurance_policies p
WHERE p.company_id = %s AND p.is_active AND p.expiration_date >= %s ORDER BY p.id
"""
_LAST = "SELECT p.id FROM marketplace.insurance_policies p WHERE p.company_id = %s ORDER BY p.id DESC LIMIT 1"


class Asked(Protocol):
    """Those who ask for it."""

    def has_ended(self) -> bool: ...
    def now(self) -> datetime: ...
    def name(self, sort: str) -> str: ...
    def go_on(self, work: Coroutine[Any, Any, Any]) -> None: ...
    async def at_once(self, *turns: Turn) -> None: ...


@dataclass(slots=True)
class Troubles:
    """Two companies, who have an insurance each, and what is disputed between them."""

    chance: random.Random
    market: Asked
    monitor: psycopg.Connection[Any]
    companies: dict[Side, UUID]
    lapses_a_day: float

    def begin(self) -> list[Turn]:
        """Both are insured for some days."""
        return [self._insuring(side, "insure", self.chance.randint(2, 9)) for side in SIDES]

    def go_on(self) -> None:
        for side in SIDES:
            self.market.go_on(self._lapse(side))

    async def end(self, booking_id: UUID, dispute_id: UUID) -> None:
        """A dispute ends, or all of its booking do at once: soon, just when it times out, or days later. One in six
        nobody ever resolves."""
        chance = self.chance
        rows = self.monitor.execute(_OPEN, [booking_id]).fetchall()
        filed_at = next((row["dispute_filed_at"] for row in rows if row["id"] == dispute_id), None)
        if filed_at is None or chance.random() < 0.16:
            return
        near = timedelta(milliseconds=chance.randint(-400, 400))
        after = chance.choice(
            [timedelta(minutes=2), 2 * _HOUR, 3 * _HOUR + near, 3 * _HOUR + near, 20 * _HOUR, 50 * _HOUR]
        )
        await self._sleep_until(filed_at + after)
        while not self.market.has_ended():
            left = self.monitor.execute(_OPEN, [booking_id]).fetchall()
            if chance.random() < 0.6:
                left = [row for row in left if row["id"] == dispute_id]
            if not left:
                return
            turns = [turn for row in left for turn in self._ending(booking_id, row)]
            chance.shuffle(turns)
            await self.market.at_once(*turns)
            # What was refused or lost is said again, and what the law holds is settled at last, at times.
            await asyncio.sleep(chance.choice([60.0, 3_600.0, 40_000.0]))
            if chance.random() < 0.4:
                return

    def covered(self, side: Side) -> UUID | None:
        row = self.monitor.execute(_COVERS, [self.companies[side], self._today()]).fetchone()
        return row and row["id"]

    def last(self, side: Side) -> UUID:
        row = self.monitor.execute(_LAST, [self.companies[side]]).fetchone()
        assert row is not None, "it is insured from the beginning"
        id: UUID = row["id"]
        return id

    def _ending(self, booking_id: UUID, row: Any) -> list[Turn]:
        """Both sides say the same, or an operator does; at times somebody says it twice."""
        chance = self.chance
        word = chance.choice(_WORDS if row["status"] == "Open" else _WORDS[:2])
        lender = chance.choice([0, row["frozen"], chance.randint(0, row["frozen"])])
        shares = None if word != "Settled" else (lender, row["frozen"] - lender)
        people: list[str | None] = (
            [BORROWER, LENDER] if word == "Settled" and chance.random() < 0.6 else [None]
        )
        if chance.random() < 0.25:
            people.append(people[0])
        return [
            Turn(
                name=self.market.name("resolve"),
                verb="resolve",
                booking_id=booking_id,
                dispute_id=row["id"],
                word=word,
                shares=shares,
                person=person,
            )
            for person in people
        ]

    def _insuring(self, side: Side, verb: Verb, days: int, id: UUID | None = None) -> Turn:
        expires = self._today() + days * _DAY
        return Turn(name=self.market.name(verb), verb=verb, side=side, policy_id=id, expires=expires)

    async def _lapse(self, side: Side) -> None:
        """Its insurance ends by its date, or is invalidated, and is renewed a while later, or has another in its
        place."""
        chance, market = self.chance, self.market
        while not market.has_ended():
            id = self.covered(side)
            if id is not None:
                await self._sleep_until(market.now() + timedelta(days=chance.expovariate(self.lapses_a_day)))
                if market.has_ended():
                    return
                await self._end(side, id)
            # Soon, in the same second, or after a night.
            wait = chance.choice([0.0, 0.05, 0.5, 2.0, 600.0, 5_400.0, 20_000.0, 40_000.0])
            await asyncio.sleep(wait)
            await self._resume(side)

    async def _end(self, side: Side, id: UUID) -> None:
        chance, market = self.chance, self.market
        if chance.random() < 0.5:
            count = 1 if chance.random() < 0.7 else 2
            await market.at_once(*(self._insuring(side, "invalidate", 0, id) for _ in range(count)))
            return
        await market.at_once(self._insuring(side, "renew", 0, id))
        midnight = datetime.combine(self._today() + _DAY, datetime.min.time(), market.now().tzinfo)
        await self._sleep_until(midnight + timedelta(milliseconds=chance.randint(-300, 900)))

    async def _resume(self, side: Side) -> None:
        chance, id = self.chance, self.last(side)
        days = chance.choice([1, 3, 10, 20])
        sort = chance.random()
        if sort < 0.3:
            turns = [self._insuring(side, "insure", days)]
        elif sort < 0.8:
            turns = [self._insuring(side, "renew", days, id)]
        else:
            turns = [self._insuring(side, "renew", days, id), self._insuring(side, "insure", days)]
        await self.market.at_once(*turns)

    async def _sleep_until(self, instant: datetime) -> None:
        await asyncio.sleep(max(0.0, (instant - self.market.now()).total_seconds()))

    def _today(self) -> date:
        return self.market.now().date()
