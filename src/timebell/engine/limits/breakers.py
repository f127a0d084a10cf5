"""A circuit breaker for each destination, shared by all nodes through one row while it is open."""

from __future__ import annotations

from datetime import datetime, timedelta

from timebell.clock import Chance
from timebell.db.pool import Database, Session
from timebell.engine.node.node import Node
from timebell.engine.node.timekeeper import Timekeeper
from timebell.engine.store import EngineStore
from timebell.kernel.destinations import Call
from timebell.rules.backoff import ErrorClass
from timebell.rules.breaker import (
    CLOSED,
    BreakerPolicy,
    BreakerState,
    OpenSpell,
    Passage,
    may_pass,
    on_failure,
    on_probe,
    on_success,
)


class BreakerDestinations:
    """Gives leave to call, and learns what came of it."""

    def __init__(self, breakers: Breakers, node: Node, timekeeper: Timekeeper) -> None:
        self._breakers = breakers
        self._node = node
        self._timekeeper = timekeeper

    async def ask(self, destination: str) -> Call:
        now = self._timekeeper.now()
        passage = self._breakers.may_pass(destination, now)
        if passage == "pass":
            return Call(destination=destination)
        if passage == "probe" and await self._breakers.claim_probe(destination, now, self._node.incarnation):
            return Call(destination=destination, is_probe=True)
        return Call(destination=destination, held_until=self._breakers.hold_until(destination, now))

    async def answered(
        self, call: Call, error_class: ErrorClass | None, retry_after: timedelta | None = None
    ) -> None:
        if error_class is None:
            await self._breakers.succeeded(call.destination, probe=call.is_probe)
        else:
            await self._breakers.failed(
                call.destination,
                error_class,
                self._timekeeper.now(),
                probe=call.is_probe,
                # What a handler answers is told here before anybody has looked at it.
                retry_after=retry_after if isinstance(retry_after, timedelta) else None,
            )


_DESTINATIONS_MAX = 10_000
_PROBE_TIME = timedelta(seconds=5)


class Breakers:
    """Asks before a call and learns from its result. Failures are counted by each node; an opening is shared."""

    def __init__(
        self, database: Database, store: EngineStore, chance: Chance, policy: BreakerPolicy | None = None
    ) -> None:
        self._database = database
        self._store = store
        self._chance = chance
        self._policy = policy or BreakerPolicy()
        self._states: dict[str, BreakerState] = {}

    def may_pass(self, destination: str, now: datetime) -> Passage:
        return may_pass(self._states.get(destination, CLOSED), now)

    def hold_until(self, destination: str, now: datetime) -> datetime:
        """When to ask again: at the end of the spell, or soon where a probe is out that may end it."""
        spell = self._states.get(destination, CLOSED).spell
        if spell is None:
            return now
        until = min(spell.until, now + _PROBE_TIME) if spell.probes_out else spell.until
        return max(until, now)

    async def refresh(self, session: Session, now: datetime) -> None:
        """Take over what other nodes opened, and let go of what they closed.

        Where more are open than are read, what is missing among those that end soonest counts until its own end: hosts
        that a stranger named and that do not answer must not close the breaker of a provider.
        """
        rows = await self._store.read_breakers(session, limit=_DESTINATIONS_MAX)
        shared = {row["destination"]: row for row in rows}
        unread_until = rows[-1]["open_until"] if len(rows) == _DESTINATIONS_MAX else now
        for destination, state in list(self._states.items()):
            if state.spell is None or destination in shared or now < state.spell.until <= unread_until:
                continue
            del self._states[destination]
        for destination, row in shared.items():
            length = timedelta(seconds=row["open_seconds"])
            self._states[destination] = BreakerState(
                failures=row["failure_count"],
                spell=OpenSpell(length=length, until=row["open_until"], probes_out=int(row["is_probed"])),
            )

    async def claim_probe(self, destination: str, now: datetime, incarnation: int) -> bool:
        """Whether this node may send the one probe; if not, another node has."""
        async with self._database.connection() as session:
            until = await self._store.claim_probe(session, destination=destination, incarnation=incarnation)
        state = self._states.get(destination, CLOSED)
        if until is not None:
            self._states[destination] = on_probe(state, now=now, policy=self._policy)
        elif state.spell is not None:
            async with self._database.connection() as session:
                await self.refresh(session, now)
        return until is not None

    async def succeeded(self, destination: str, *, probe: bool) -> None:
        state = self._states.get(destination, CLOSED)
        if state is CLOSED:
            return
        await self._become(destination, state, on_success(state, probe=probe))

    async def failed(
        self,
        destination: str,
        error_class: ErrorClass,
        now: datetime,
        *,
        probe: bool,
        retry_after: timedelta | None = None,
    ) -> None:
        state = self._states.get(destination, CLOSED)
        after = on_failure(
            state,
            error_class,
            now=now,
            policy=self._policy,
            fraction=self._chance.fraction(),
            probe=probe,
            retry_after=retry_after,
        )
        await self._become(destination, state, after)

    async def _become(self, destination: str, before: BreakerState, after: BreakerState) -> None:
        if after == before:
            return
        if after == CLOSED:
            self._states.pop(destination, None)
        else:
            # The order is that of the last change, so that what was not heard of for longest makes room.
            self._states.pop(destination, None)
            if len(self._states) >= _DESTINATIONS_MAX:
                self._states.pop(next(iter(self._states)))
            self._states[destination] = after
        if after.spell is not None:
            async with self._database.connection() as session:
                await self._store.open_breaker(
                    session,
                    destination=destination,
                    failure_count=after.failures,
                    open_seconds=after.spell.length.total_seconds(),
                    open_until=after.spell.until,
                )
        elif before.spell is not None:
            async with self._database.connection() as session:
                await self._store.close_breaker(session, destination=destination)
