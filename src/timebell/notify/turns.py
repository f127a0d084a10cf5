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
from typing import Final
from uuid import UUID

from timebell.db.together import Together
from timebell.kernel import Done, Job, Outcome, Snooze, Timebell, Transaction
from timebell.kernel.bell import DEFAULT_TENANT
from timebell.notify.models import Urgency
from timebell.notify.turn_store import TurnStore
from timebell.rules.provider_turns import Line, Pace, choose

TAKE_TURNS: Final = "notify.take_turns"
# So far ahead of its start one is called, as starts of queues are leased.
WINDOW: Final = timedelta(milliseconds=200)
# Who was called is expected for so long, and then the next one is called as well; later it has lost its place.
EXPECTED: Final = timedelta(milliseconds=400)
PATIENCE: Final = timedelta(seconds=10)
# Where somebody waits, and yet the provider was free for so long, nobody calls.
STUCK: Final = timedelta(seconds=5)
# Nobody who waits is forgotten: it asks again by itself so long after its turn should have come.
MARGIN: Final = timedelta(seconds=10)
# Of one tenant, so many times what starts within the window may have been called and not have come.
_OUTSTANDING: Final = 2
_COUNTED_MAX: Final = 10_000
_TENANTS_MAX: Final = 200
_SWEPT_MAX: Final = 500
_ROUNDS_MAX: Final = 3


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
    """A turn that is waited for: about when it comes, and when to ask again unless one is called before."""

    at: datetime
    ask_at: datetime


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
        pace = Pace.of(per_second)
        ids = [asker.notification_id for asker in askers]
        async with self._bell.transaction(tenant=DEFAULT_TENANT) as tx:
            rate = await self._store.lock_provider_rate(tx.session, provider=provider)
            rows = await self._store.read_waits(tx.session, provider=provider, ids=ids)
            now: datetime = rate["now"]
            is_stuck = now - rate["next_free_at"] > STUCK
            called = {row["notification_id"] for row in rows if row["is_called"] or is_stuck}
            is_line = any(row["notification_id"] is None for row in rows)
            free = max(rate["next_free_at"], now - pace.slack)
            answers: dict[UUID, Turn | None] = {}
            # Whoever was called goes before whoever just came.
            for asker in sorted(askers, key=lambda one: (one.notification_id not in called, one.lane)):
                if free <= now and (asker.notification_id in called or not is_line):
                    answers[asker.notification_id] = None
                    free += pace.spacing
            through = list(answers)
            for place, id in enumerate(id for id in ids if id in called and id not in answers):
                at = free + pace.spacing * place
                answers[id] = Turn(at=at, ask_at=at)
            if through:
                await self._store.write_provider_rate(tx.session, provider=provider, next_free_at=free)
                await self._store.delete_waits(tx.session, provider=provider, ids=through)
            held = [asker for asker in askers if asker.notification_id not in answers]
            if held:
                answers.update(await self._line_up(tx, provider, pace, max(free, now), held))
                # Its key makes it one job for the provider, which ends in a transaction that has the rate locked.
                about = {"provider": provider, "per_second": per_second}
                first_at = max(free - WINDOW, now)
                await self._bell.enqueue(
                    tx, TAKE_TURNS, about, key=f"turns:{provider}", on_conflict="keep", due_at=first_at
                )
        return [answers[id] for id in ids]

    async def _line_up(
        self, tx: Transaction, provider: str, pace: Pace, free: datetime, held: Sequence[Asker]
    ) -> dict[UUID, Turn]:
        """Put each into the line of its tenant, and tell about when its turn comes as things are."""
        await self._store.insert_waits(
            tx.session,
            provider=provider,
            columns={
                "ids": [asker.notification_id for asker in held],
                "tenants": [asker.tenant for asker in held],
                "lanes": [asker.lane for asker in held],
            },
        )
        tenants = list(dict.fromkeys(asker.tenant for asker in held))
        rows = await self._store.count_lines(
            tx.session, provider=provider, tenants=tenants, most=_COUNTED_MAX
        )
        lines = {row["tenant"]: row for row in rows}
        turns: dict[UUID, Turn] = {}
        for asker in held:
            line = lines[asker.tenant]
            ahead = line["critical_count"] if asker.lane == 0 else line["waiting_count"]
            at = free + pace.spacing * ahead * max(1, line["tenant_count"])
            turns[asker.notification_id] = Turn(at=at, ask_at=at + MARGIN)
        return turns


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
    called: list[tuple[str, UUID]] = []
    for _ in range(_ROUNDS_MAX):
        wanted = room - len(called)
        if wanted <= 0:
            break
        rows = await store.read_lines(
            job.tx.session,
            provider=provider,
            tried=tried,
            each=wanted,
            tenants_max=_TENANTS_MAX,
            called_max=called_max,
        )
        lines: dict[str, Line[UUID]] = {}
        for row in rows:
            line = lines.setdefault(row["tenant"], Line(tenant=row["tenant"], last_turn=row["last_turn"]))
            (line.critical if row["lane"] == 0 else line.others).append(row["notification_id"])
        chosen = choose(list(lines.values()), count=wanted, turn=turn + len(called))
        if not chosen:
            break
        ids = [id for _, id in chosen]
        tried += ids
        woken = await job.bell.store.hasten_free_jobs(job.tx.session, ids=ids)
        job.tx.note_due(woken)
        are_woken = {row["id"] for row in woken}
        called += [(tenant, id) for tenant, id in chosen if id in are_woken]
    if called:
        await store.call_waits(
            job.tx.session,
            provider=provider,
            columns={
                "ids": [id for _, id in called],
                "tenants": [tenant for tenant, _ in called],
                "turns": [turn + number for number in range(1, len(called) + 1)],
            },
        )
