"""Who books whom in a world, who works, and who verifies, disputes, pays and cancels, often several at once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID
from zoneinfo import ZoneInfo

import psycopg

from tests.apps.marketplace.simulation.deals import WORKERS, ZONES, Dealer, Places, Turn, Verb
from tests.apps.marketplace.simulation.decided import decided
from tests.apps.marketplace.simulation.owed import Books
from tests.apps.marketplace.simulation.troubles import SIDES, Troubles
from tests.apps.marketplace.simulation.weather import Weather
from tests.history import Record, Violation
from tests.simulation.asking import Asking
from tests.simulation.ending import Change, Ending
from tests.simulation.scene import Scene
from tests.simulation.wire import Statement
from timebell.apps.marketplace.payments.verifying import verify
from timebell.apps.marketplace.staffing.models import NewShift

_DAY = timedelta(days=1)
_HOUR = timedelta(hours=1)
_MINUTE = timedelta(minutes=1)
# So many bookings there are at the beginning, since nothing of a later one is paid for before the next week.
_AT_FIRST = 4
_SHIFTS = "SELECT id, scheduled_start, scheduled_end, status FROM marketplace.time_log WHERE booking_id = %s ORDER BY 2"
_STATUS = (
    "SELECT status, scheduled_end, clock_out_time, auto_approval_time FROM marketplace.time_log WHERE id = %s"
)
_DEAD = "SELECT id FROM timebell.dead_jobs WHERE tenant = 'default' AND kind LIKE 'marketplace.%' ORDER BY died_at, id"


@dataclass(slots=True, kw_only=True)
class Deal:
    """A booking, with its shifts as they were ordered."""

    id: UUID
    shifts: list[UUID] = field(default_factory=list)
    incidents: list[UUID] = field(default_factory=list)


class Market(Asking):
    """Lets people book, work and pay."""

    turning = frozenset(
        {
            "lock_free_booking",
            "save_shift",
            "insert_payment",
            "insert_movement",
            "insert_entries",
            "insert_payout",
            "fund_booking",
            "move_booking",
            "list_chargeable",
            "resolve_dispute",
            "insert_stop",
            "delete_stop",
        }
    )

    def __init__(
        self,
        seed: int,
        scene: Scene,
        record: Callable[[Record], None],
        monitor: psycopg.Connection[Any],
    ) -> None:
        super().__init__(seed, "market", scene.rush, record)
        self._scene = scene
        self._monitor = monitor
        self.places = Places()
        self.turns: list[Turn] = []
        self.weather = Weather(seed, monitor)
        self.troubles: Troubles | None = None
        if scene.lapses_a_day:
            chance, a_day = random.Random(f"{seed}/troubles"), scene.lapses_a_day
            self.troubles = Troubles(chance, self, monitor, self.places.companies, a_day)
        self.misfits: list[Violation] = []
        self._going: dict[asyncio.Task[Any], None] = {}

    def rush(self, statement: Statement) -> None:
        self.weather.change(statement)
        super().rush(statement)

    def _dealer(self) -> Dealer:
        return Dealer(self._process(), self._record, self.places, self.turns.append)

    async def settle_in(self) -> None:
        dealer = self._dealer()
        await dealer.process.run(dealer.settle_in(with_managers=bool(self.troubles)))
        for turn in self.troubles.begin() if self.troubles else ():
            await self._taken(turn)

    async def live(self, days: float) -> None:
        """To the hour, since the Wednesday after it belongs to what follows."""
        until = self._now() + timedelta(days=days)
        for _ in range(min(_AT_FIRST, round(days))):
            self._lend()
        if self.troubles:
            self.troubles.go_on()
        while True:
            wait = self._chance.expovariate(self._scene.staffings_a_day * 1.25 / 86_400)
            if self._now() + timedelta(seconds=wait) >= until:
                break
            await asyncio.sleep(wait)
            (self._lend if self._chance.random() < 0.8 else self._decide)()
        await asyncio.sleep(self._until(until))
        self.is_over = True

    async def afterwards(self) -> None:
        """Each verb once more, when nothing explains a silence."""
        self.weather.is_calm = self.weather.is_fair = True
        dealer = self._dealer()
        await dealer.process.run(self._revive(dealer))
        await self._calmly("settings")
        await self._insured_calmly()
        deal = await self._booked_calmly()
        if self._can_pay():
            await self._calmly("pay", booking_id=deal.id)
        # Long enough for a hint that was lost.
        await asyncio.sleep(5 * 3_600)
        self.weather.is_fair = False
        first, second, third, *_ = deal.shifts
        for shift in (first, second, third):
            await self._calmly("clock-in", time_log_id=shift)
        reported = await self._calmly("report", time_log_id=first)
        await self._calmly("close", incident_id=reported.incident_id, time_log_id=first)
        await self._calmly("edit", time_log_id=first, end=self._now() + 9 * _HOUR)
        await self._calmly("draft", time_log_id=first)
        await self._calmly("submit", time_log_id=first)
        await self._calmly("verify", time_log_id=first)
        await self._calmly("force", time_log_id=second)
        disputed = await self._calmly("dispute", time_log_id=second)
        if self.troubles:
            await self._calmly("resolve", dispute_id=disputed.dispute_id)
        # And one that nobody verifies.
        await self._calmly("submit", time_log_id=third)
        other = await self._booked_calmly()
        if self._can_pay():
            await self._calmly("pay", booking_id=other.id)
        await self._calmly("cancel", booking_id=other.id)
        if self.troubles:
            self.go_on(self._lapse_calmly(self.troubles.last("lender")))

    async def _lapse_calmly(self, policy_id: UUID) -> None:
        """When the cutoff is over everywhere, and for long enough that everybody has to have been told."""
        await asyncio.sleep(37 * 3_600)
        await self._calmly("invalidate", policy_id=policy_id)
        await asyncio.sleep(9.7 * 3_600)
        await self._calmly("renew", policy_id=policy_id, expires=self._now().date() + 400 * _DAY)

    async def _insured_calmly(self) -> None:
        """All who have an insurance have one that no day of this world ends."""
        if self.troubles:
            for side in SIDES:
                id, expires = self.troubles.last(side), self._now().date() + 400 * _DAY
                await self._calmly("renew", side=side, policy_id=id, expires=expires)

    async def in_the_end(self) -> None:
        """What the product itself says about the ledger, besides what is counted here."""
        dealer = self._dealer()
        proof = await dealer.process.run(verify(dealer.process.bell, "default"))
        self.misfits = [
            Violation(invariant="verified", key=str(each.booking_id), text=each.what)
            for each in proof.misfits
        ]

    def _can_pay(self) -> bool:
        """Until the cutoff, as where it is earliest here, and long before it."""
        return self._now().weekday() < 2

    async def _revive(self, dealer: Dealer) -> None:
        ids = [row["id"] for row in self._monitor.execute(_DEAD).fetchall()]
        if not ids:
            return
        async with dealer.process.bell.transaction() as tx:
            await dealer.process.bell.revive(tx, ids=ids)

    async def _booked_calmly(self) -> Deal:
        for person in WORKERS:
            turn = await self._taken(self._order(person, "Europe/Berlin", name="calm_book"))
            if turn.answer == "done":
                return self._deal_of(turn)
        # Everybody is taken: somebody is set free.
        for deal in list(self._wanted.values()):
            await self._taken(Turn(name=self._name("free"), verb="cancel", booking_id=deal.id))
        return self._deal_of(await self._calmly("book", new=self._order(WORKERS[0], "Europe/Berlin").new))

    async def _calmly(self, verb: Verb, **given: Any) -> Turn:
        turn = await self._taken(Turn(name=self._name(f"calm_{verb.replace('-', '_')}"), verb=verb, **given))
        if turn.answer != "done":
            raise RuntimeError(f"{verb} came to nothing although all was calm: {turn}")
        return turn

    def changes(self) -> Sequence[Change]:
        """What the clock decides about a shift counts as much as what somebody does."""
        return [*self.turns, *decided(self._monitor)]

    def check(self, ending: Ending) -> Sequence[Violation]:
        books = Books(self._monitor, self.turns, ending)
        found = [*self.misfits, *books.check()]
        self._callers[0].wire.counts.update(books.counts)
        return found

    def leave(self) -> None:
        for each in list(self._going):
            each.cancel()

    def has_ended(self) -> bool:
        return self.is_over

    def now(self) -> datetime:
        return self._now()

    def name(self, sort: str) -> str:
        return self._name(sort)

    def go_on(self, work: Coroutine[Any, Any, Any]) -> None:
        """People go on whatever becomes of the processes that they ask."""
        wire = self._callers[0].wire
        made = wire.loop.create_task(work, context=wire.nobody)
        self._going[made] = None
        made.add_done_callback(self._going.pop)
        made.add_done_callback(wire.loop.note_end)

    async def _taken(self, turn: Turn) -> Turn:
        dealer = self._dealer()
        try:
            taken: Turn = await dealer.process.run(dealer.take(turn))
        except asyncio.CancelledError:
            return turn
        if self.troubles and not self.is_over and taken.verb == "dispute" and taken.dispute_id is not None:
            assert taken.booking_id is not None
            self.go_on(self.troubles.end(taken.booking_id, taken.dispute_id))
        return taken

    async def at_once(self, *turns: Turn) -> None:
        await asyncio.gather(*map(self._taken, turns))

    def _decide(self) -> None:
        trigger: Literal["verification", "webhook"] = (
            "webhook" if self._chance.random() < 0.5 else "verification"
        )
        self.go_on(self.at_once(Turn(name=self._name("settings"), verb="settings", trigger=trigger)))

    def _lend(self) -> None:
        self.go_on(self._deal())

    def _order(self, person: str, zone: str, *, name: str = "book") -> Turn:
        """Some shifts within the next weeks. Who began last week is paid for by now, and is charged for what is left of
        this week too."""
        chance, now = self._chance, self._now()
        today = now.astimezone(ZoneInfo(zone)).date()
        first = today - 7 * _DAY if chance.random() < 0.7 or name != "book" else today
        days = (
            [0, 1, 2, 3, 7, *range(8, 11)]
            if name != "book"
            else sorted([*chance.sample(range(9), 4), chance.randint(14, 17)])
        )
        begin = now.replace(minute=0, second=0, microsecond=0) + chance.randint(7, 12) * _HOUR
        shifts = [
            NewShift(
                start=begin + day * _DAY,
                end=begin + day * _DAY + chance.choice([1, 4, 8]) * _HOUR,
                amount=100 * chance.randint(1, 900) + number,
            )
            for number, day in enumerate(days)
        ]
        new = self._dealer().order(person, zone, shifts, start_date=first, end_date=today + 20 * _DAY)
        return Turn(name=self._name(name), verb="book", new=new)

    def _deal_of(self, turn: Turn) -> Deal:
        assert turn.booking_id is not None
        rows = self._monitor.execute(_SHIFTS, [turn.booking_id]).fetchall()
        deal = Deal(id=turn.booking_id, shifts=[row["id"] for row in rows])
        for id in (deal.id, *deal.shifts):
            self._wanted[id] = deal
        return deal

    async def _deal(self) -> None:
        """Somebody is booked, and then works, and somebody pays; at times it is cancelled."""
        chance = self._chance
        turn = self._order(chance.choice(WORKERS), chance.choice(ZONES))
        turn = await self._taken(turn)
        if turn.answer != "done":
            return
        deal = self._deal_of(turn)
        for row in self._monitor.execute(_SHIFTS, [deal.id]).fetchall():
            self.go_on(self._work(deal, row["id"], row["scheduled_start"], row["scheduled_end"]))
        if chance.random() < 0.15:
            self.go_on(self._later(chance.random() * 7 * 86_400, self._turn("cancel", deal)))
        while not self.is_over:
            if chance.random() < 0.6:
                count = 1 if chance.random() < 0.7 else 2
                await self.at_once(*(self._turn("pay", deal) for _ in range(count)))
            await asyncio.sleep(chance.random() * 2 * 86_400)

    async def _later(self, seconds: float, *turns: Turn) -> None:
        await asyncio.sleep(seconds)
        if not self.is_over:
            await self.at_once(*turns)

    async def _work(self, deal: Deal, shift: UUID, start: datetime, end: datetime) -> None:
        """One shift, from clocking in to its end."""
        chance = self._chance
        await asyncio.sleep(self._until(start) + chance.choice([0.0, 5.0, 1_800.0]))
        if self.is_over or chance.random() < 0.1:
            return
        await self._taken(self._turn("clock-in", deal, shift))
        if chance.random() < 0.15:
            self.go_on(self._report(deal, shift))
        if chance.random() < 0.2:
            await self.at_once(self._turn("edit", deal, shift, end=end + chance.choice([-30, 20]) * _MINUTE))
        if chance.random() < 0.3:
            await asyncio.sleep(max(0.0, self._until(end) - 600))
            await self.at_once(self._turn("draft", deal, shift, end=end))
        near = timedelta(milliseconds=chance.randint(-50, 1_500))
        ends = (end - 10 * _MINUTE, end + 5 * _MINUTE + near, end + 30 * _MINUTE + near, end + 90 * _MINUTE)
        await asyncio.sleep(self._until(chance.choice(ends)))
        if not self.is_over:
            verbs: Sequence[Verb] = chance.choice([("submit",), ("submit",), ("force",), ("submit", "force")])
            await self.at_once(*(self._turn(verb, deal, shift) for verb in verbs))
            await self._look_after(deal, shift)

    async def _look_after(self, deal: Deal, shift: UUID) -> None:
        """The timesheet is verified or disputed, at times at the very moment at which the clock would approve it."""
        chance = self._chance
        row = self._monitor.execute(_STATUS, [shift]).fetchone()
        if row is None or row["auto_approval_time"] is None or chance.random() < 0.25:
            return
        deadline: datetime = row["auto_approval_time"]
        near = timedelta(milliseconds=chance.randint(-400, 400))
        moments = (
            row["clock_out_time"] + _MINUTE,
            row["clock_out_time"] + _HOUR + near,
            row["clock_out_time"] + 3 * _HOUR + near,
            deadline - 20 * _MINUTE,
            deadline + near,
            deadline + near,
        )
        await asyncio.sleep(self._until(chance.choice(moments)))
        sets: Sequence[Sequence[Verb]] = (
            ("verify",),
            ("verify",),
            ("dispute",),
            ("verify", "dispute"),
            ("edit",),
            ("dispute", "edit"),
        )
        if not self.is_over:
            await self.at_once(*(self._turn(verb, deal, shift) for verb in chance.choice(sets)))

    async def _report(self, deal: Deal, shift: UUID) -> None:
        reported = await self._taken(self._turn("report", deal, shift))
        await asyncio.sleep(self._chance.random() * 2 * 86_400)
        if reported.incident_id is not None and not self.is_over:
            closing = replace(self._turn("close", deal, shift), incident_id=reported.incident_id)
            await self.at_once(closing)

    def _turn(
        self, verb: Verb, deal: Deal, shift: UUID | None = None, *, end: datetime | None = None
    ) -> Turn:
        return Turn(
            name=self._name(verb.replace("-", "_")),
            verb=verb,
            booking_id=deal.id,
            time_log_id=shift,
            end=end,
            option="B" if self._chance.random() < 0.2 else "A",
        )

    def _regret(self, id: UUID) -> None:
        """Somebody does something about a booking just when something happens to it."""
        deal: Deal = self._wanted[id]
        verb: Verb = self._chance.choice(["pay", "dispute", "verify", "submit", "force", "report", "cancel"])
        if verb == "cancel" and self._chance.random() < 0.7:
            verb = "dispute"
        shift = (
            None if verb in ("pay", "cancel") else id if id != deal.id else self._chance.choice(deal.shifts)
        )
        if verb == "report":
            assert shift is not None
            self.go_on(self._report(deal, shift))
        else:
            self.go_on(self.at_once(self._turn(verb, deal, shift)))
