"""The ledger of the jobs that a node has in memory: in which stage each one is, a heap of those that are coming, and
fair piles of those that are due.

It is the one owner of a job's stage. Whoever begins, runs or settles a job tells it, and what may not follow on each
other is refused. It holds no database and no clock, so that everything about order and fairness can be argued and
tested here.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from sys import getsizeof
from uuid import UUID

from timebell.config import Settings
from timebell.db.pool import Row
from timebell.engine.ledger.entry import (
    CHOSEN,
    FOLLOWING,
    OVER,
    PARKING,
    RETURNING,
    RUNNING,
    SETTLING,
    STARTING,
    WAITING,
    JobEntry,
    Stage,
)
from timebell.engine.ledger.places import Places
from timebell.engine.ledger.turns import NORMAL, SUSPECT, Pair, Pile, Round, Turns

Position = tuple[datetime, UUID]
# A read sends a character more of a payload or cursor that is longer.
_CHARACTERS_MAX = 4_000
# What takes up so little is bounded by how many jobs are held, and not counted.
_FEW_CHARACTERS = 256


class JobLedger:
    """Accepts rows, hands out due jobs in turn between tenants, and remembers what it has seen.

    A tenant's queue that has more due than its share stays in the table past a mark, and is read again from
    there when its pile has shrunk; so nobody's backlog keeps another's job from being read.
    """

    def __init__(self, *, total_max: int, pair_max: int, bytes_max: int) -> None:
        self._total_max = total_max
        self._pair_max = pair_max
        self._bytes_max = bytes_max
        self._bytes = 0
        # The number makes the order total, so that two entries are never compared themselves.
        self._heap: list[tuple[datetime, int, JobEntry]] = []
        self._turns: Turns[JobEntry] = Turns()
        self._counts: dict[Pair, int] = {}
        # The newest that was read of each job, until it is over and no read can bring it back.
        self._entries: dict[UUID, JobEntry] = {}
        self._retired: list[JobEntry] = []
        self._stages: dict[Stage, int] = dict.fromkeys(FOLLOWING, 0)
        self._total = 0
        self._order = 0
        self._reads_open = 0
        self._read_at = 0.0
        self._due_until = datetime.min.replace(tzinfo=UTC)
        self.overflow: dict[Pair, dict[tuple[int, int], Position]] = {}

    @classmethod
    def within(cls, settings: Settings) -> JobLedger:
        return cls(
            total_max=settings.tuning.held_jobs_max,
            pair_max=settings.tuning.held_per_tenant_queue_max,
            bytes_max=settings.held_bytes_max,
        )

    def __len__(self) -> int:
        return self._total

    def accept(self, row: Row) -> bool:
        """Hold a row that was read, unless this version was seen or its tenant's queue has its share already."""
        id = row["id"]
        known = self._entries.get(id)
        if known is not None and known.version >= row["version"]:
            return False
        entry = JobEntry(row, self._read_at)
        pair = entry.pair
        count = self._counts.get(pair, 0)
        if count >= self._pair_max or (self._total >= self._total_max and count >= self._share(pair)):
            self.leave_behind(pair, (entry.slot, entry.lane), (entry.run_at, id))
            return False
        if known is not None and known.stage is WAITING:
            self._end(known)
        self._order += 1
        self._entries[id] = entry
        self._stages[WAITING] += 1
        self._counts[pair] = count + 1
        self._total += 1
        payload = row["payload"]
        if payload is None or len(payload) > _FEW_CHARACTERS or row["has_cursor"]:
            self._keep_contents(entry)
        if entry.run_at <= self._due_until:
            self._pile_up(self._order, entry)
        else:
            heapq.heappush(self._heap, (entry.run_at, self._order, entry))
        return True

    def _keep_contents(self, entry: JobEntry) -> None:
        """Hold what the job is to be run with, or leave that in the table where there is no room for it."""
        row = entry.row
        payload, cursor = row["payload"], row["cursor"]
        is_whole = payload is not None and len(payload) <= _CHARACTERS_MAX
        if is_whole and row["has_cursor"]:
            is_whole = cursor is not None and len(cursor) <= _CHARACTERS_MAX
        size = getsizeof(payload) + (0 if cursor is None else getsizeof(cursor))
        if is_whole and self._bytes + size <= self._bytes_max:
            entry.contents_bytes = size
            self._bytes += size
        else:
            entry.row = {**row, "payload": None, "cursor": None}
            entry.is_left_behind = True

    def leave_behind(self, pair: Pair, place: tuple[int, int], mark: Position) -> None:
        """Remember where to read on once the pair has room again."""
        marks = self.overflow.setdefault(pair, {})
        if place not in marks or mark < marks[place]:
            marks[place] = mark

    def _share(self, pair: Pair) -> int:
        if self._total < self._total_max:
            return self._pair_max
        count = len(self._counts) + (pair not in self._counts)
        return min(self._pair_max, max(16, self._total_max // (2 * count)))

    def promote(self, now: datetime) -> None:
        """Move what is due from the heap to the piles."""
        self._due_until = now
        heap = self._heap
        while heap and heap[0][0] <= now:
            _, order, entry = heapq.heappop(heap)
            # A later version may have taken its place, or its slot left.
            if entry.stage is WAITING:
                self._pile_up(order, entry)
            else:
                self._uncount(entry)

    def _pile_up(self, order: int, entry: JobEntry) -> None:
        lane = SUSPECT if entry.row["crash_count"] else min(entry.lane, NORMAL)
        self._turns.add(lane, entry.pair, (-entry.row["priority"], entry.run_at, order, entry))

    def _uncount(self, entry: JobEntry) -> None:
        self._total -= 1
        self._bytes -= entry.contents_bytes
        left = self._counts[entry.pair] - 1
        if left:
            self._counts[entry.pair] = left
        else:
            del self._counts[entry.pair]

    def choose(
        self, count: int, budgets: dict[str, int], admit: Callable[[JobEntry], bool], places: Places
    ) -> list[JobEntry]:
        """Up to `count` due jobs, in turn between tenants.

        `budgets` says how many of a limited queue may start; it is used up here. A queue that is not in it
        has no limit. `admit` is asked about each job in its turn and takes its place where there is one. In `places`
        each of them has one, which whoever chose it gives back.
        """
        chosen: list[JobEntry] = []

        def take(pile: Pile[JobEntry], room: int) -> int:
            before = len(chosen)
            self._take(pile, room, admit, chosen)
            number = len(chosen) - before
            self._stages[WAITING] -= number
            self._stages[CHOSEN] += number
            return number

        self._turns.choose(Round(count, budgets, places, take))
        return chosen

    def _take(
        self, pile: Pile[JobEntry], room: int, admit: Callable[[JobEntry], bool], chosen: list[JobEntry]
    ) -> None:
        end = len(chosen) + room
        while len(chosen) < end:
            entry = pile.first()
            if entry is None:
                return
            if entry.stage is WAITING:
                if not admit(entry):
                    return
                entry.stage = CHOSEN
                chosen.append(entry)
            pile.pop()
            self._uncount(entry)

    def ready_counts(self) -> dict[str, int]:
        """How many due jobs wait, by queue."""
        return self._turns.counts()

    def earliest_run_at(self) -> datetime | None:
        """When the next job becomes due."""
        while self._heap and self._heap[0][2].stage is not WAITING:
            self._uncount(heapq.heappop(self._heap)[2])
        return self._heap[0][0] if self._heap else None

    def parking(self, entries: Iterable[JobEntry]) -> None:
        """They must wait although their turn has come; their rows are being put aside."""
        for entry in entries:
            self._move(entry, PARKING)

    def starting(self, entries: Iterable[JobEntry]) -> None:
        """Their starts are to be marked."""
        for entry in entries:
            self._move(entry, STARTING)

    def running(self, entry: JobEntry) -> None:
        """Its attempt is launched."""
        self._move(entry, RUNNING)

    def settling(self, entry: JobEntry) -> None:
        """It is decided what becomes of it."""
        self._move(entry, SETTLING)

    def returning(self, entry: JobEntry) -> None:
        """It did not begin after all, and its start may bear a mark."""
        self._move(entry, RETURNING)

    def retire(self, entries: Iterable[JobEntry]) -> None:
        """The database has acknowledged that these are over at this version.

        A read that began before may still bring the row back, so it stays seen until every such read has ended.
        """
        for entry in entries:
            self._end(entry)
            if self._reads_open:
                self._retired.append(entry)
            else:
                self._drop(entry)

    def forget(self, entry: JobEntry) -> None:
        """The job was not ours to start after all; what the next read finds counts."""
        self._end(entry)
        self._drop(entry)

    def _move(self, entry: JobEntry, stage: Stage) -> None:
        before = entry.stage
        assert stage in FOLLOWING[before], f"job {entry.id} is {before}, and cannot be {stage} next"
        entry.stage = stage
        self._stages[before] -= 1
        self._stages[stage] += 1

    def _end(self, entry: JobEntry) -> None:
        """Those that are over are not counted: the ledger is done with them."""
        before = entry.stage
        assert OVER in FOLLOWING[before], f"job {entry.id} is {before}, and cannot be {OVER} next"
        entry.stage = OVER
        self._stages[before] -= 1

    def _drop(self, entry: JobEntry) -> None:
        """A later version of it may stand in its place, and stays."""
        if self._entries.get(entry.id) is entry:
            del self._entries[entry.id]

    @property
    def starting_count(self) -> int:
        return self._stages[STARTING]

    @property
    def under_way_count(self) -> int:
        """How many were chosen to begin and have not ended: their start is being marked, or they run."""
        return self._stages[STARTING] + self._stages[RUNNING]

    def by_stage(self) -> dict[Stage, int]:
        """How many there are in each stage, where there are any."""
        return {stage: count for stage, count in self._stages.items() if count}

    def knows(self, id: UUID) -> bool:
        """Whether the job is held, running or being settled here, at whatever version."""
        return id in self._entries

    def is_waiting(self, id: UUID) -> bool:
        """Whether the job is held and was not chosen yet."""
        entry = self._entries.get(id)
        return entry is not None and entry.stage is WAITING

    @property
    def is_being_read(self) -> bool:
        return self._reads_open > 0

    def read_begins(self, at: float = 0.0) -> None:
        self._reads_open += 1
        self._read_at = at

    def read_ends(self) -> None:
        self._reads_open -= 1
        if not self._reads_open:
            for entry in self._retired:
                self._drop(entry)
            self._retired.clear()

    def take_overflow(self) -> Iterator[tuple[Pair, dict[tuple[int, int], Position]]]:
        """The tenant's queues that have room again, with where to read on."""
        for pair in [pair for pair in self.overflow if self._has_room(pair)]:
            yield pair, self.overflow.pop(pair)

    def room(self, pair: Pair) -> int:
        """How many more of a tenant's queue may be held."""
        return max(0, self._share(pair) - self._counts.get(pair, 0))

    def can_take_overflow(self) -> bool:
        return any(self._has_room(pair) for pair in self.overflow)

    def _has_room(self, pair: Pair) -> bool:
        return self._counts.get(pair, 0) <= self._share(pair) // 2

    def drop_slots(self, slots: set[int]) -> None:
        """Let go of everything in these slots: another node reads them now."""
        leaving = [each for each in self._entries.values() if each.slot in slots and each.stage is WAITING]
        for entry in leaving:
            self.forget(entry)
        for marks in self.overflow.values():
            for key in [key for key in marks if key[0] in slots]:
                del marks[key]
