"""Finding what is due among millions of rows that are not: a cursor for each slot, and scans behind it.

Each slot and lane is read once, in due order, a little ahead of time. What is written behind the cursor is
found by a hint at once, by a look at what may have been written there since the last such look, every sweep or after
a rest where they take long, and by a look at everything that is due every full sweep. All of these are the same scan
with another place to begin.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

from timebell.config import Settings
from timebell.db.pool import Row, Session
from timebell.db.wakeup import Hints, merge
from timebell.engine.ledger.ledger import JobLedger, Position
from timebell.engine.ledger.turns import CRITICAL, NORMAL, Pair
from timebell.engine.node.node import Node
from timebell.engine.node.timekeeper import Timekeeper
from timebell.engine.store import EngineStore, kinds_as_text

_EPOCH = _BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIRST_ID = UUID(int=0)
_LAST_ID = UUID(int=(1 << 128) - 1)
_LANES = (CRITICAL, NORMAL)
_ROWS_A_READ = 4_000
_ROWS_AT_FIRST = 1_000
# While more than this is due and in memory, the next read may wait for so long.
_PLENTY = 4_000
_PLENTY_SECONDS = 0.1
# For so long at most nothing begins because the rest of a small backlog, with what may be older, is still to be read.
_IN_ORDER_SECONDS = 0.1
# How long after its due instant a job may be committed and still be found by the next look behind the cursor.
_BEHIND = timedelta(seconds=5)
_EVERY_SLOT = -1
_PASSED_OVER_MAX = 100
_REST = 9
_REST_SECONDS_MAX = 4.0
Place = tuple[int, int]


class Scan:
    """A walk in due order over slots and lanes, in bounded reads, from a position for each up to an instant."""

    __slots__ = ("pair", "pending")

    def __init__(self, pair: Pair | None = None) -> None:
        self.pair = pair
        self.pending: dict[Place, Position] = {}

    def begin(self, positions: Mapping[Place, Position]) -> None:
        """Read these places too; one that is already pending keeps the earlier position."""
        for place, position in positions.items():
            known = self.pending.get(place)
            if known is None or position < known:
                self.pending[place] = position

    def absorb(self, asked: Mapping[Place, Position], rows: Sequence[Row], per_slot: int) -> set[Place]:
        """Move past what was read. Answers with the places that were read to the end."""
        last: dict[Place, Row] = {}
        counts: dict[Place, int] = {}
        for row in rows:
            place = (row["slot"], row["lane"])
            last[place] = row
            counts[place] = counts.get(place, 0) + 1
        ended = set()
        for place, position in asked.items():
            if self.pending.get(place) != position:
                continue
            if counts.get(place, 0) < per_slot:
                del self.pending[place]
                ended.add(place)
            else:
                self.pending[place] = (last[place]["run_at"], last[place]["id"])
        return ended

    def drop(self, slots: set[int]) -> None:
        for place in [place for place in self.pending if place[0] in slots]:
            del self.pending[place]


class Reader:
    """Reads the due rows of the node's slots into memory, one bounded statement at a time."""

    def __init__(
        self, store: EngineStore, node: Node, ledger: JobLedger, timekeeper: Timekeeper, settings: Settings
    ) -> None:
        self._store = store
        self._node = node
        self._ledger = ledger
        self._timekeeper = timekeeper
        self._ahead = timedelta(seconds=max(settings.tuning.read_ahead_seconds, settings.sweep_seconds))
        self._sweep_seconds = settings.sweep_seconds
        self._full_sweep_seconds = settings.tuning.full_sweep_seconds
        self._cursors: dict[Place, Position] = {}
        # The slots of others in which we look for some kinds, each kind between two marks.
        self._visited: dict[int, str] = {}
        self._coming = Scan()
        self._hinted = Scan()
        self._recent = Scan()
        self._full = Scan()
        self._overflowed: list[Scan] = []
        self._revisits: list[tuple[float, int, datetime]] = []
        self._next_sweep = float("-inf")
        self._recent_seconds = 0.0
        self._recent_began: datetime | None = None
        self._rest_until = float("-inf")
        self._rows_max = _ROWS_AT_FIRST
        self._plenty_until = float("-inf")
        self._in_order_until = float("-inf")
        # A slot is read from its first row on when it is taken, so the first full look is not due before its time.
        self._next_full_sweep = timekeeper.monotonic() + settings.tuning.full_sweep_seconds
        self.orphans: list[Row] = []
        self.strays: list[Row] = []

    def take(self, slots: Iterable[int]) -> None:
        """Begin with slots of ours from their first row on."""
        slots = list(slots)
        for slot in slots:
            self._visited.pop(slot, None)
        places = {(slot, lane): (_BEGINNING, _FIRST_ID) for slot in slots for lane in _LANES}
        self._cursors.update(places)
        self._coming.begin(places)

    def visit(self, visits: Mapping[int, frozenset[str]]) -> set[int]:
        """Read these kinds in slots of others, and no longer what was visited and is not among them; answers with
        the slots that are left."""
        visited = {slot: kinds_as_text(kinds) for slot, kinds in visits.items()}
        left = self._visited.keys() - visited.keys()
        self.drop(left)
        changed = [slot for slot, kinds in visited.items() if self._visited.get(slot) != kinds]
        self.take(changed)
        self._visited = visited
        return left

    def drop(self, slots: set[int]) -> None:
        for slot in slots & self._visited.keys():
            del self._visited[slot]
        for scan in (self._coming, self._hinted, self._recent, self._full, *self._overflowed):
            scan.drop(slots)
        for place in [place for place in self._cursors if place[0] in slots]:
            del self._cursors[place]

    def hint(self, hints: Hints) -> Hints:
        """Take the hints for slots of ours; the rest is for other nodes, and so is what more than one node reads."""
        every = hints.get(_EVERY_SLOT)
        mine = {slot: at for slot, at in hints.items() if (slot, NORMAL) in self._cursors}
        if every is not None:
            merge(mine, dict.fromkeys({slot for slot, _ in self._cursors}, every))
        self._hinted.begin({(slot, lane): (at, _FIRST_ID) for slot, at in mine.items() for lane in _LANES})
        if self._node.left_kinds:
            return hints
        return {slot: at for slot, at in hints.items() if slot not in mine or slot in self._visited}

    def revisit(self, slot: int, run_at: datetime, seconds: float) -> None:
        """Look again soon: the row was not to be had just now."""
        self._revisits.append((self._timekeeper.monotonic() + seconds, slot, run_at))

    def sweep_everything(self) -> None:
        """Look at all that is due again, now: a node died and may have left started jobs in our slots."""
        self._next_full_sweep = float("-inf")
        self._full.pending.clear()

    def sweep_now(self) -> None:
        self._next_sweep = self._next_full_sweep = self._rest_until = self._plenty_until = float("-inf")

    def read_on(self, places: Iterable[Place]) -> None:
        """Read what has come within reach at these places, now, and look everywhere later."""
        monotonic = self._timekeeper.monotonic()
        self._next_sweep = max(self._next_sweep, monotonic + self._sweep_seconds)
        self._next_full_sweep = max(self._next_full_sweep, monotonic + self._full_sweep_seconds)
        self._coming.begin({place: self._cursors[place] for place in places if place in self._cursors})

    def plan(self) -> None:
        """Begin the scans whose time has come."""
        monotonic = self._timekeeper.monotonic()
        if not self._ledger.is_being_read:
            # A read that is under way may have been sent before there was something to find.
            later = [visit for visit in self._revisits if visit[0] > monotonic]
            for at, slot, run_at in self._revisits:
                if at <= monotonic:
                    self.hint({slot: run_at})
            self._revisits = later
        is_full = monotonic >= self._next_full_sweep and not self._full.pending
        if monotonic >= self._next_sweep:
            self._next_sweep = monotonic + self._sweep_seconds
            self._coming.begin(self._cursors)
            # A look at everything sees what is just behind, too.
            if not is_full and not self._recent.pending and monotonic >= self._rest_until:
                self._look_behind()
        if is_full:
            self._next_full_sweep = monotonic + self._full_sweep_seconds
            self._full.begin(dict.fromkeys(self._cursors, (_BEGINNING, _FIRST_ID)))
        for pair, marks in self._ledger.take_overflow():
            scan = Scan(pair)
            # The mark itself was not taken, and a position is exclusive.
            scan.begin({place: (at, _id_before(id)) for place, (at, id) in marks.items()})
            self._overflowed.append(scan)

    def _look_behind(self) -> None:
        """Look at what may have been written since the last such look began, however long it took and was rested."""
        now = self._timekeeper.now()
        # Where the clock was set back meanwhile, the last look lies in the future.
        since = now if self._recent_began is None else min(now, self._recent_began)
        self._recent_began = now
        self._recent.begin(dict.fromkeys(self._cursors, (since - _BEHIND, _FIRST_ID)))

    def is_wanted(self, in_hand: int = 0) -> bool:
        """Whether a read is due now, where so many jobs are in hand to go on with.

        A backlog is read as fast as it is worked off: what is read beyond the share of a tenant's queue must be passed
        over by every read after it. A little later it is read all the same, since somebody else's job may be among it.
        """
        if in_hand > _PLENTY and self._timekeeper.monotonic() < self._plenty_until:
            return False
        return self._next() is not None

    def is_in_order(self) -> bool:
        """Whether the oldest of what is in memory is the oldest that is due, as far as a small backlog goes.

        A first read takes a few rows of each slot. Where that was not all and yet not much, what a slot has besides may
        be older than what others gave, and is there in a moment. A large backlog is begun at once.
        """
        return self._timekeeper.monotonic() >= self._in_order_until

    def has_work(self) -> bool:
        """Whether something is to be read, or to be looked at again, now."""
        now = self._timekeeper.monotonic()
        if self.is_wanted() or self._ledger.can_take_overflow():
            return True
        return any(at <= now for at, _, _ in self._revisits)

    def _next(self) -> Scan | None:
        for scan in (self._hinted, self._coming, self._recent, *self._overflowed, self._full):
            if scan.pending:
                return scan
        return None

    def next_plan_in(self) -> float:
        """Seconds until the next scan begins by itself."""
        monotonic = self._timekeeper.monotonic()
        upcoming = [self._next_sweep]
        if not self._ledger.is_being_read:
            upcoming += [at for at, _, _ in self._revisits]
        if self._plenty_until > monotonic and self._next() is not None:
            upcoming.append(self._plenty_until)
        if not self._full.pending:
            # While one goes on the next cannot begin, however long its time has come.
            upcoming.append(self._next_full_sweep)
        return max(0.0, min(upcoming) - monotonic)

    async def read(self, session: Session) -> None:
        """One bounded read of the most urgent scan."""
        scan = self._next()
        if scan is None:
            return
        is_behind = scan is self._recent or scan is self._full
        until = self._timekeeper.now() + (timedelta(0) if is_behind else self._ahead)
        asked, visited = dict(scan.pending), dict(self._visited)
        rows_max = self._rows_max
        if scan.pair is not None:
            rows_max = min(rows_max, self._ledger.room(scan.pair))
        per_slot = max(2, rows_max // len(asked))
        tenant, queue = scan.pair if scan.pair is not None else (None, None)
        passed_over = self._passed_over() if scan.pair is None else []
        began = self._timekeeper.monotonic()
        self._ledger.read_begins(began)
        try:
            rows = await self._store.read_due(
                session,
                positions=[(slot, lane, at, id) for (slot, lane), (at, id) in asked.items()],
                until=until,
                per_slot=per_slot,
                tenant=tenant,
                queue=queue,
                passed_over=passed_over,
                visited_kinds=[visited.get(slot) for slot, _ in asked] if visited else (),
                left_kinds=sorted(self._node.left_kinds),
            )
            if rows and self._timekeeper.is_set_back(_EPOCH + rows[0]["told_us"] * _MICROSECOND, began):
                # What is read now must not count as due by what the clock said before.
                self._ledger.promote(self._timekeeper.now())
            for pair in passed_over:
                self._leave_behind(pair, asked)
            for row in rows:
                if (row["slot"], row["lane"]) in self._cursors:
                    self._take_row(row)
        finally:
            self._ledger.read_ends()
        self._plenty_until = self._timekeeper.monotonic() + _PLENTY_SECONDS
        if visited != self._visited:
            # Where other kinds are meant by now, what was read says nothing about those.
            asked = {
                place: at
                for place, at in asked.items()
                if visited.get(place[0]) == self._visited.get(place[0])
            }
        ended = scan.absorb(asked, rows, per_slot)
        # At first a little is wanted soon. Where that was not all there is, the next read is larger, so that it brings
        # enough to run while the one after it is under way.
        self._rows_max = _ROWS_A_READ if scan.pending else _ROWS_AT_FIRST
        is_first = scan in (self._coming, self._hinted) and rows_max == _ROWS_AT_FIRST
        is_cut = is_first and bool(scan.pending) and len(rows) < rows_max
        self._in_order_until = self._timekeeper.monotonic() + _IN_ORDER_SECONDS if is_cut else float("-inf")
        if scan is self._coming:
            self._advance(asked, ended, until)
        elif scan is self._recent:
            self._rest(self._timekeeper.monotonic() - began)
        if scan.pair is not None and scan.pair in self._ledger.overflow:
            # Its share is full again: whatever else is there would be read for nothing, each time anew.
            for place, position in scan.pending.items():
                self._ledger.leave_behind(scan.pair, place, position)
            scan.pending.clear()
        self._overflowed = [each for each in self._overflowed if each.pending]

    def _rest(self, seconds: float) -> None:
        """Behind the cursor of a fresh backlog lies mostly what is in memory already: looking there takes a tenth of
        the time, or more where what nobody announced would have to wait for longer than a few seconds."""
        self._recent_seconds += seconds
        if not self._recent.pending:
            rest = min(_REST * self._recent_seconds, _REST_SECONDS_MAX)
            self._rest_until = self._timekeeper.monotonic() + rest
            self._recent_seconds = 0.0

    def _passed_over(self) -> list[Pair]:
        """Whoever has more due than fits is read by a scan of its own, and all the others leave it out."""
        scanned = {scan.pair for scan in self._overflowed if scan.pair is not None}
        return [*scanned, *(pair for pair in self._ledger.overflow if pair not in scanned)][:_PASSED_OVER_MAX]

    def _leave_behind(self, pair: Pair, positions: Mapping[Place, Position]) -> None:
        """What was passed over from there on is for the scan of its own. A slot may have left during the read."""
        ours = {place: position for place, position in positions.items() if place in self._cursors}
        for scan in self._overflowed:
            if scan.pair == pair:
                scan.begin(ours)
                return
        for place, position in ours.items():
            self._ledger.leave_behind(pair, place, position)

    def _take_row(self, row: Row) -> None:
        started_by = row["started_by"]
        if started_by is None:
            self._ledger.accept(row)
        elif self._ledger.knows(row["id"]):
            # It runs here, or is being settled; also where an earlier life of this node began it.
            return
        elif started_by not in self._node.alive:
            # In a slot that is only visited its owner takes it up.
            if row["slot"] not in self._visited:
                self.orphans.append(row)
        elif started_by == self._node.incarnation:
            # Marked by us, but the answer was lost: nobody runs it.
            self.strays.append(row)

    def _advance(self, asked: Mapping[Place, Position], ended: set[Place], until: datetime) -> None:
        for place in asked:
            if place not in self._cursors:
                continue
            position = (until, _LAST_ID) if place in ended else self._coming.pending.get(place)
            if position is not None and position > self._cursors[place]:
                self._cursors[place] = position

    def has_read(self, run_at: datetime) -> bool:
        """Whether the cursors are already past this instant, so that only a hint would find it in time."""
        return run_at <= self._timekeeper.now() + self._ahead


def _id_before(id: UUID) -> UUID:
    return UUID(int=max(0, id.int - 1))
