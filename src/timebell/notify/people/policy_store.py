"""The statements about policies: one method for each file in `sql/`, of the same name."""

from __future__ import annotations

from timebell.db.pool import Row, Session
from timebell.db.queries import load_queries
from timebell.notify.store import NotifyStore


class PolicyStore(NotifyStore):
    """What tenants decided about their notifications."""

    queries = load_queries("timebell.notify.people.sql")

    async def read_policy(self, session: Session, *, tenant: str) -> Row | None:
        rows = await self._run(session, "read_policy", tenant=tenant)
        return rows[0] if rows else None

    async def save_policy(self, session: Session, *, tenant: str, policy: str, revision: int) -> int | None:
        """The new revision, or None where the policy has another than the one given."""
        rows = await self._run(session, "save_policy", tenant=tenant, policy=policy, revision=revision)
        return rows[0]["revision"] if rows else None
