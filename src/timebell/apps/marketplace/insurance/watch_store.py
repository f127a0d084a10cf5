"""The statements about the insurances of all tenants: one method for each file in `sql/`, of the same name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from timebell.db.queries import load_queries
from timebell.kernel import Session, Statements

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """How many insurances of a tenant, and the first of their dates."""

    tenant: str
    policy_count: int
    oldest: date


class WatchStore(Statements):
    """Asked about all tenants, with a session that only reads."""

    queries = load_queries("timebell.apps.marketplace.insurance.sql")

    async def ask_expired_active(self, session: Session, *, after: str, limit: int) -> list[Missed]:
        """Those that have ended and are active, in the order of tenants, behind one of them."""
        return _missed(await self._run(session, "ask_expired_active", after=after, limit=limit))

    async def ask_unwarned(self, session: Session, *, after: str, limit: int) -> list[Missed]:
        """Those that end soon and of which nobody was warned, in the order of tenants, behind one of them."""
        return _missed(await self._run(session, "ask_unwarned", after=after, limit=limit))

    async def count_expiring(self, session: Session) -> Mapping[str, float]:
        """By the days that are left."""
        (row,) = await self._run(session, "count_expiring")
        return {
            "expired": row["expired"],
            "0-7": row["week"],
            "8-14": row["fortnight"],
            "15-30": row["month"],
        }


def _missed(rows: Sequence[Row]) -> list[Missed]:
    return [Missed(**row) for row in rows]
