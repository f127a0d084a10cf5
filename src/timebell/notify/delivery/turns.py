"""Turns at a provider that takes only so many a second, over all nodes.

Nothing is leased ahead. Whoever comes while the provider is free and nobody waits is let through. Everybody else is put
into the line of its tenant and snoozes, and one job for each provider, `notify.take_turns`, calls those whose turn has
come just before the provider is free again. So what was withdrawn or has expired is passed over, and 2,000 that wait
cost no more than one that does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Final
from uuid import UUID

from timebell.db.pool import Row
from timebell.db.together import Together
from timebell.kernel import Done, Job, Outcome, Snooze, Timebell, Transaction
from timebell.kernel.bell import DEFAULT_TENANT
from timebell.notify.delivery.delivery_store import Columns
from timebell.notify.delivery.turn_store import TurnStore
from timebell.notify.models import Urgency
from timebell.rules.provider_turns import Chosen, Comer, Line, Pace, choose, instants

TAKE_TURNS: Final = "notify.take_turns"
# So far ahead of its start one is called, as starts of queues are leased.
WINDOW: Final = timedelta(milliseconds=200)
# Who was called is expected for so long, and then the next one is called as well; later it has lost its place.
EXPECTED: Final = timedelta(milliseconds=400)
PATIENCE: Final = timedelta(seconds=10)
# Who came before its instant is waited for until so long after it.
KEPT: Final = timedelta(seconds=2)
# What is critical may be called at once where the provider is free within so long, and who was called and comes so long
# before its instant waits for it on the spot.
SOON: Final = timedelta(seconds=1)
# Where somebody waits, and yet the provider was free for so long, nobody calls.
STUCK: Final = timedelta(seconds=5)
# Nobody who waits is forgotten: it asks again by itself so long after its turn should have come.
MARGIN: Final = timedelta(seconds=10)
# Of one tenant, so many times what starts within the window may have been called and not have come.
_OUTSTANDING: Final = 2
_COUNTED_MAX: Final = 10_000
_TENANTS_MAX: Final = 200
# The rate is locked meanwhile, and whoever comes waits for it.
_SWEPT_MAX: Final = 100
_ROUNDS_MAX: Final = 3
_AT_ONCE_MAX: Final = 8
# Later than every turn that anybody had.
_LAST: Final = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """A delivery that would start now."""

    tenant: str
    notification_id: UUID
    urgency: Urgency

    @property
    def lane(self) -> int:
        return 0 if self.urgency == "critical" else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A turn that is waited for: about when it comes, and when to ask again unless one is called before. `soon`: it is
    certain, and so near that to put the job down and take it up again would take as long."""

    at: datetime
    ask_at: datetime
    soon: timedelta | None = None


class Turns:
    """Lets deliveries through to providers with a rate; those of one process that ask together share statements."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._store = TurnStore(bell.clock)
        self._gates: dict[tuple[str, float], Together[Asker, Turn | None]] = {}

    async def ask(self, provider: str, per_second: float, asker: Asker) -> Turn | None:
        """None: it may start now, and the start is taken. Else its turn comes, and it will be called."""
        gate = self._gates.get((provider, per_second))
        if gate is None:

            async def let_through(askers: Sequence[Asker]) -> Sequence[Turn | None]:
                return await self._let_through(provider, per_second, askers)

            gate = self._gates[provider, per_second] = Together(let_through)
        return await gate(asker)

    async def _let_through(
        self, provider: str, per_second: float, askers: Sequence[Asker]
    ) -> Sequence[Turn | None]:
        ids = [asker.notification_id for asker in askers]
        async with self._bell.transaction(tenant=DEFAULT_TENANT) as tx:
            rate = await self._store.lock_provider_rate(tx.session, provider=provider)
            rows = await self._store.read_waits(tx.session, provider=provider, ids=ids)
            gate = _Gate(self._store, tx, provider, Pace.of(per_second), rate)
            comers = _called(rows, is_stuck=gate.now - rate["next_free_at"] > STUCK)
            uncalled = [
                asker for asker in askers if asker.notification_id not in {comer.id for comer in comers}
            ]
            is_line = any(row["notification_id"] is None for row in rows)
            held = await gate.hold(uncalled) if is_line else []
            left = await gate.let_through(comers + (held if is_line else _newcomers(uncalled)))
            if not is_line:
                left = [comer for comer in left if comer.turn != _LAST]
                rest = [asker for asker in uncalled if asker.notification_id not in gate.answers]
                left += await gate.hold(rest)
            await gate.keep(left)
            if gate.has_held:
                # Its key makes it one job for the provider, which ends in a transaction that has the rate locked.
                about = {"provider": provider, "per_second": per_second}
                first_at = max(gate.free - WINDOW, gate.now)
                await self._bell.enqueue(
                    tx, TAKE_TURNS, about, key=f"turns:{provider}", on_conflict="keep", due_at=first_at
                )
        return [gate.answers[id] for id in ids]


class _Gate:
    """One pass, with the provider's rate locked. `answers` is what each of those who ask is told."""

    def __init__(self, store: TurnStore, tx: Transaction, provider: str, pace: Pace, rate: Row) -> None:
        self._store = store
        self._tx = tx
        self._provider = provider
        self._pace = pace
        self._turn: int = rate["turn"]
        self.now: datetime = rate["now"]
        self.free: datetime = max(rate["next_free_at"], self.now - pace.slack)
        self.answers: dict[UUID, Turn | None] = {}
        self.has_held = False

    async def let_through(self, comers: list[Comer[UUID]]) -> list[Comer[UUID]]:
        """Those whose instant has come start; answers with the others, if they are here."""
        at = instants(comers, free=self.free, spacing=self._pace.spacing)
        through = [id for id in at if at[id] <= self.now]
        if through:
            self.free += self._pace.spacing * len(through)
            await self._store.write_provider_rate(
                self._tx.session, provider=self._provider, next_free_at=self.free
            )
            await self._store.delete_waits(self._tx.session, provider=self._provider, ids=through)
            self.answers.update(dict.fromkeys(through))
        return [comer for comer in comers if comer.id not in through]

    async def keep(self, comers: list[Comer[UUID]]) -> None:
        """These came before their instant, which is theirs: who is called or comes later goes behind them."""
        kept = instants(comers, free=self.free, spacing=self._pace.spacing)
        if kept:
            columns: Columns = {"ids": list(kept), "untils": [at + KEPT for at in kept.values()]}
            await self._store.keep_places(self._tx.session, provider=self._provider, columns=columns)
            for id, at in kept.items():
                wait = max(at - self.now, timedelta(0))
                self.answers[id] = Turn(at=at, ask_at=at, soon=wait if wait <= SOON else None)

    async def hold(self, askers: Sequence[Asker]) -> list[Comer[UUID]]:
        """Put each into the line of its tenant, and tell about when its turn comes as things are.

        What is critical need not wait until it is called, where its tenant is the next of those of which nobody was:
        one that was called for another may come late, or not at all.
        """
        if not askers:
            return []
        self.has_held = True
        await self._line_up(askers)
        critical = {asker.notification_id for asker in askers if asker.lane == 0}
        if not critical or self.free > self.now + SOON:
            return []
        lines = await _lines(self._store, self._tx, self._provider, each=1, called_max=1)
        chosen = choose(lines, count=_AT_ONCE_MAX, turn=self._turn)
        called = list(takewhile(lambda one: one.id in critical, chosen))
        await _write_called(self._store, self._tx, self._provider, called)
        return [Comer(id=one.id, turn=one.turn, last_turn=one.last_turn) for one in called]

    async def _line_up(self, askers: Sequence[Asker]) -> None:
        columns: Columns = {
            "ids": [asker.notification_id for asker in askers],
            "tenants": [asker.tenant for asker in askers],
            "lanes": [asker.lane for asker in askers],
        }
        await self._store.insert_waits(self._tx.session, provider=self._provider, columns=columns)
        tenants = list(dict.fromkeys(asker.tenant for asker in askers))
        rows = await self._store.count_lines(
            self._tx.session, provider=self._provider, tenants=tenants, most=_COUNTED_MAX
        )
        lines = {row["tenant"]: row for row in rows}
        for asker in askers:
            line = lines[asker.tenant]
            ahead = line["critical_count"] if asker.lane == 0 else line["waiting_count"]
            at = max(self.free, self.now) + self._pace.spacing * ahead * max(1, line["tenant_count"])
            self.answers[asker.notification_id] = Turn(at=at, ask_at=at + MARGIN)


def _called(rows: Sequence[Row], *, is_stuck: bool) -> list[Comer[UUID]]:
    """Those who come because they were called, and those who keep their places. Where nobody calls, all are."""
    return [
        Comer(id=row["notification_id"], turn=row["turn"] or 0, last_turn=row["last_turn"] or 0)
        for row in rows
        if row["is_called"] or (is_stuck and row["notification_id"] is not None)
    ]


def _newcomers(askers: Sequence[Asker]) -> list[Comer[UUID]]:
    """Those who come by themselves where nobody waits, after all who were called."""
    return [
        Comer(id=asker.notification_id, turn=_LAST, last_turn=_LAST)
        for asker in sorted(askers, key=lambda asker: asker.lane)
    ]


async def take_turns(job: Job) -> Outcome:
    """`notify.take_turns`: call those whose turn has come. It goes on for as long as somebody waits for its turn."""
    provider, pace = str(job.payload["provider"]), Pace.of(float(job.payload["per_second"]))
    store, session = TurnStore(job.bell.clock), job.tx.session
    rate = await store.lock_provider_rate(session, provider=provider)
    now, free = rate["now"], max(rate["next_free_at"], rate["now"] - pace.slack)
    expected = await store.drop_waits(session, provider=provider, patience=PATIENCE, expected=EXPECTED)
    after = (job.cursor or {}).get("after")
    swept = await store.sweep_waits(
        session, provider=provider, after=None if after is None else UUID(after), most=_SWEPT_MAX
    )
    if after is None and swept["looked_at"] == swept["gone"] < _SWEPT_MAX:
        await store.delete_turns(session, provider=provider)
        return Done()
    if free <= now + WINDOW:
        room = pace.starts_within(WINDOW) - expected
        called_max = _OUTSTANDING * pace.starts_within(WINDOW)
        await _call(job, store, provider, room, rate["turn"], called_max)
    is_through = swept["looked_at"] < _SWEPT_MAX
    # With a place of its own in the row, since a sweep may take several runs.
    cursor = {"after": None if is_through else str(swept["last"])}
    return Snooze(until=max(free - WINDOW, now + WINDOW), reason="somebody waits", cursor=cursor)


async def _call(job: Job, store: TurnStore, provider: str, room: int, turn: int, called_max: int) -> None:
    """At most so many. One whose job just runs, or is held by another transaction, is left for the next time."""
    tried: list[UUID] = []
    called: list[Chosen[UUID]] = []
    for _ in range(_ROUNDS_MAX):
        wanted = room - len(called)
        if wanted <= 0:
            break
        lines = await _lines(store, job.tx, provider, each=wanted, called_max=called_max, tried=tried)
        chosen = choose(lines, count=wanted, turn=turn)
        if not chosen:
            break
        turn = chosen[-1].turn
        ids = [one.id for one in chosen]
        tried += ids
        woken = await job.bell.store.hasten_free_jobs(job.tx.session, ids=ids)
        job.tx.note_due(woken)
        are_woken = {row["id"] for row in woken}
        called += [one for one in chosen if one.id in are_woken]
    await _write_called(store, job.tx, provider, called)


async def _lines(
    store: TurnStore,
    tx: Transaction,
    provider: str,
    *,
    each: int,
    called_max: int,
    tried: Sequence[UUID] = (),
) -> list[Line[UUID]]:
    """The first of each tenant of which fewer than so many were called and have not come."""
    rows = await store.read_lines(
        tx.session,
        provider=provider,
        tried=list(tried),
        each=each,
        tenants_max=_TENANTS_MAX,
        called_max=called_max,
    )
    lines: dict[str, Line[UUID]] = {}
    for row in rows:
        line = lines.setdefault(row["tenant"], Line(tenant=row["tenant"], last_turn=row["last_turn"]))
        (line.critical if row["lane"] == 0 else line.others).append(row["notification_id"])
    return list(lines.values())


async def _write_called(
    store: TurnStore, tx: Transaction, provider: str, called: Sequence[Chosen[UUID]]
) -> None:
    if called:
        columns: Columns = {
            "ids": [one.id for one in called],
            "tenants": [one.tenant for one in called],
            "turns": [one.turn for one in called],
            "last_turns": [one.last_turn for one in called],
        }
        await store.call_waits(tx.session, provider=provider, columns=columns)
