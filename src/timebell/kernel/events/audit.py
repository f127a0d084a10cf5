"""The audit trail is added to and never changed, and a chain of seals shows it if somebody did all the same.

Each event of a tenant is sealed once, in the order in which the seals are made: SHA-256 of the seal before it and of
the event. It is done afterwards and by one node at a time, so that whoever records an event waits for nobody.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

from timebell.clock import Clock
from timebell.db.pool import Database, Row, Session
from timebell.kernel.events.audit_store import AuditStore
from timebell.kernel.models import check_name
from timebell.kernel.statements import Columns

SEALS_AT_ONCE: Final = 1_000
BREAKS_MAX: Final = 100
# Nodes seal every ten minutes. What has no seal after this long was forgotten, or somebody keeps it from being sealed.
UNSEALED_SECONDS_MAX: Final = 3_600.0
_LOOKS_MAX: Final = 20
_BEGINNING: Final = ("0", UUID(int=0))
_GENESIS: Final = b""

Place = tuple[str, UUID]
Damage = Literal["changed", "gone", "seal_gone"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """A place where a chain does not fit. `seal_gone` speaks of the number; which event it was for nobody knows."""

    tenant: str
    number: int
    event_id: UUID | None
    damage: Damage


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The end of a tenant's chain. Who keeps it elsewhere also notices when the end itself is cut off."""

    tenant: str
    number: int
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What was found of the chains: the first hundred breaks, and what no chain covers yet.

    Of the events that have no seal, `overdue_count` were recorded more than an hour ago: nothing vouches for them.
    """

    seal_count: int
    breaks: tuple[Break, ...]
    heads: tuple[Head, ...]
    unsealed_count: int
    unsealed_since: datetime | None
    overdue_count: int

    @property
    def is_whole(self) -> bool:
        return not self.breaks and not self.overdue_count


class Audit:
    """Seals events in the order in which they were written, and verifies the seals.

    It goes along the whole trail once, from the beginning, and from there on with what is added. So it needs no place
    that is kept anywhere, and finds whatever was left without a seal before. What is added during that walk, which may
    be a long one, does not wait for its end.
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._store = AuditStore(clock)
        self._after = _BEGINNING
        # Before this nothing appears any more. An event above it may belong to a transaction that others overtook, so
        # it is sealed and passed again.
        self._settled = _BEGINNING
        # Where to look for what is added, until the whole trail was gone along once.
        self._ahead: Place | None = None
        self._is_caught_up = False
        self.has_more = False

    async def seal(self) -> int:
        """Seal a bounded number of events; answers with how many. None where another process is at it."""
        after, settled, self.has_more = self._after, self._settled, False
        events: Sequence[Row] = ()
        is_over = True
        async with self._database.transaction() as session:
            if not await self._store.lock_seals(session):
                return 0
            added_count, ahead = (0, None) if self._is_caught_up else await self._seal_added(session)
            for _ in range(_LOOKS_MAX):
                rows = await self._store.list_unsealed(session, after=after, limit=SEALS_AT_ONCE)
                for row in rows:
                    after = row["number"], row["id"]
                    settled = after if row["is_settled"] else settled
                is_over = not rows or rows[-1]["place"] < SEALS_AT_ONCE
                events = [row for row in rows if not row["is_sealed"]]
                await self._insert(session, events)
                if events or is_over:
                    break
        self._ahead = ahead
        self._is_caught_up = self._is_caught_up or is_over
        self._settled = settled
        self._after = settled if is_over else after
        self.has_more = not is_over
        return added_count + len(events)

    async def _seal_added(self, session: Session) -> tuple[int, Place | None]:
        """Seal what comes after the event that was sealed last; answers with how many, and where to go on."""
        ahead = self._ahead or await self._store.read_last_sealed(session)
        if ahead is None:
            return 0, None
        rows = await self._store.list_unsealed(session, after=ahead, limit=SEALS_AT_ONCE)
        for row in rows:
            ahead = (row["number"], row["id"]) if row["is_settled"] else ahead
        events = [row for row in rows if not row["is_sealed"]]
        await self._insert(session, events)
        return len(events), ahead

    async def _insert(self, session: Session, events: Sequence[Row]) -> None:
        if events:
            await self._store.insert_seals(session, columns=await self._chained(session, events))

    async def _chained(self, session: Session, events: Sequence[Row]) -> Columns:
        tenants = sorted({event["tenant"] for event in events})
        heads = {
            row["tenant"]: (row["number"], row["hash"])
            for row in await self._store.read_seal_heads(session, tenants=tenants)
        }
        columns: Columns = {"tenants": [], "numbers": [], "event_ids": [], "hashes": []}
        for event in events:
            number, before = heads.get(event["tenant"], (0, _GENESIS))
            head = heads[event["tenant"]] = (number + 1, _seal(before, event["content"]))
            for name, value in zip(columns, (event["tenant"], head[0], event["id"], head[1]), strict=True):
                columns[name].append(value)
        return columns

    async def verify(self, tenant: str | None = None) -> Verdict:
        """Compare every seal with its event and with the seal before it, of one tenant or of all."""
        check_name("tenant", tenant)
        walk = _Walk()
        after = ("", 0)
        while True:
            async with self._database.connection() as session:
                seals = await self._store.list_seals(session, tenant=tenant, after=after, limit=SEALS_AT_ONCE)
            for seal in seals:
                walk.step(seal)
            if len(seals) < SEALS_AT_ONCE:
                break
            after = (seals[-1]["tenant"], seals[-1]["number"])
        async with self._database.connection() as session:
            rest = await self._store.count_unsealed(
                session, tenant=tenant, overdue_seconds=UNSEALED_SECONDS_MAX
            )
        heads = [
            Head(tenant=name, number=number, hash=hash.hex()) for name, (number, hash) in walk.heads.items()
        ]
        return Verdict(seal_count=walk.count, breaks=tuple(walk.breaks), heads=tuple(heads), **rest)


class _Walk:
    """Along the chains. After a break it goes on from what is written there, so that each is told once."""

    def __init__(self) -> None:
        self.count = 0
        self.breaks: list[Break] = []
        self.heads: dict[str, tuple[int, bytes]] = {}

    def step(self, seal: Row) -> None:
        self.count += 1
        tenant, number = seal["tenant"], seal["number"]
        last, before = self.heads.get(tenant, (0, _GENESIS))
        self.heads[tenant] = (number, seal["hash"])
        if number != last + 1:
            # Without the seal before it, nothing can be said about this one.
            self._note(tenant, last + 1, None, "seal_gone")
        elif not seal["is_there"]:
            self._note(tenant, number, seal["event_id"], "gone")
        elif _seal(before, seal["content"]) != seal["hash"]:
            self._note(tenant, number, seal["event_id"], "changed")

    def _note(self, tenant: str, number: int, event_id: UUID | None, damage: Damage) -> None:
        if len(self.breaks) < BREAKS_MAX:
            self.breaks.append(Break(tenant=tenant, number=number, event_id=event_id, damage=damage))


def _seal(before: bytes, content: str) -> bytes:
    return hashlib.sha256(before + content.encode()).digest()
