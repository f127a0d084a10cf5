"""The jobs a node has read and not yet begun: a heap of what is coming, fair piles of what is due, and what was seen.

It holds no database and no clock, so that everything about order and fairness can be argued and tested here.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from sys import getsizeof
from typing import Protocol
from uuid import UUID

from timebell.config import Settings
from timebell.db.pool import Row
from timebell.engine.places import Places
from timebell.engine.turns import NORMAL, SUSPECT, Pair, Pile, Round, Turns
from timebell.kernel.app import Handler
from timebell.kernel.destinations import Call

Position = tuple[datetime, UUID]
# A read sends a character more of a payload or cursor that is longer.
_CHARACTERS_MAX = 4_000
# What takes up so little is bounded by how many jobs are held, and not counted.
_FEW_CHARACTERS = 256


class Enclosure(Protocol):
    """Somewhere that has room for a few."""

    def leave(self, entry: Entry) -> None: ...


class Entry:
    """One job in memory, at the version it was read."""

    __slots__ = (
        "call",
        "contents_bytes",
        "enclosure",
        "epoch",
        "handler",
        "id",
        "incarnation",
        "is_cautious",
        "is_left_behind",
        "is_visited",
        "lane",
        "may_be_marked",
        "pair",
        "read_at",
        "row",
        "run_at",
        "slot",
        "version",
    )

    def __init__(self, row: Row, read_at: float = 0.0) -> None:
        self.row = row
        # When the read that found it began, on the clock of this process.
        self.read_at = read_at
        self.id: UUID = row["id"]
        self.version: int = row["version"]
        self.slot: int = row["slot"]
        self.lane: int = row["lane"]
        self.run_at: datetime = row["run_at"]
        self.pair: Pair = (row["tenant"], row["queue"])
        self.handler: Handler | None = None
        # Under which life of the node and which epoch of the slot it was begun.
        self.incarnation = 0
        self.epoch = 0
        self.is_cautious = False
        # What its payload and its cursor take up among those that are held.
        self.contents_bytes = 0
        # Whether they are to be read before it runs, because they are too large to be held.
        self.is_left_behind = False
        # Whether its slot is another node's, which has no handler for it; the epoch is that of the other then.
        self.is_visited = False
        # Leave to call what the job depends on, where it names that before it runs.
        self.call: Call | None = None
        # Whether the row may say that its start was marked: it does, or nobody heard whether it does.
        self.may_be_marked = False
        # Where it takes up room, if only a few of its sort may run at once.
        self.enclosure: Enclosure | None = None

    def adopt(self, epochs: Mapping[int, int], incarnation: int) -> None:
        """Go on under another life of the node, to which the slot belongs now. One that bears a mark goes by that."""
        if self.slot in epochs and not self.may_be_marked:
            self.incarnation, self.epoch = incarnation, epochs[self.slot]
            self.is_visited = False

    @property
    def due_at(self) -> datetime:
        """The planned instant, which is read only where it is not that of the next try."""
        planned: datetime | None = self.row["due_at"]
        return self.run_at if planned is None else planned


class Held:
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
        self._heap: list[tuple[datetime, int, Entry]] = []
        self._turns: Turns[Entry] = Turns()
        self._counts: dict[Pair, int] = {}
        self._seen: dict[UUID, int] = {}
        self._waiting: dict[UUID, Entry] = {}
        self._retired: list[tuple[UUID, int]] = []
        self._total = 0
        self._order = 0
        self._reads_open = 0
        self._read_at = 0.0
        self._due_until = datetime.min.replace(tzinfo=UTC)
        self.overflow: dict[Pair, dict[tuple[int, int], Position]] = {}

    @classmethod
    def within(cls, settings: Settings) -> Held:
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
        version = self._seen.get(id)
        if version is not None and version >= row["version"]:
            return False
        entry = Entry(row, self._read_at)
        pair = entry.pair
        count = self._counts.get(pair, 0)
        if count >= self._pair_max or (self._total >= self._total_max and count >= self._share(pair)):
            self.leave_behind(pair, (entry.slot, entry.lane), (entry.run_at, id))
            return False
        self._order += 1
        self._seen[id] = entry.version
        self._counts[pair] = count + 1
        self._total += 1
        payload = row["payload"]
        if payload is None or len(payload) > _FEW_CHARACTERS or row["has_cursor"]:
            self._keep_contents(entry)
        self._waiting[id] = entry
        if entry.run_at <= self._due_until:
            self._pile_up(self._order, entry)
        else:
            heapq.heappush(self._heap, (entry.run_at, self._order, entry))
        return True

    def _keep_contents(self, entry: Entry) -> None:
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
            if self._is_stale(entry):
                self._uncount(entry)
            else:
                self._pile_up(order, entry)

    def _pile_up(self, order: int, entry: Entry) -> None:
        lane = SUSPECT if entry.row["crash_count"] else min(entry.lane, NORMAL)
        self._turns.add(lane, entry.pair, (-entry.row["priority"], entry.run_at, order, entry))

    def _is_stale(self, entry: Entry) -> bool:
        """Whether a later version took its place, or its slot left; read again, the row has another entry."""
        return self._waiting.get(entry.id) is not entry

    def _uncount(self, entry: Entry) -> None:
        self._total -= 1
        self._bytes -= entry.contents_bytes
        left = self._counts[entry.pair] - 1
        if left:
            self._counts[entry.pair] = left
        else:
            del self._counts[entry.pair]

    def choose(
        self, count: int, budgets: dict[str, int], admit: Callable[[Entry], bool], places: Places
    ) -> list[Entry]:
        """Up to `count` due jobs, in turn between tenants.

        `budgets` says how many of a limited queue may start; it is used up here. A queue that is not in it
        has no limit. `admit` is asked about each job in its turn and takes its place where there is one. In `places`
        each of them has one, which whoever chose it gives back.
        """
        chosen: list[Entry] = []

        def take(pile: Pile[Entry], room: int) -> int:
            before = len(chosen)
            self._take(pile, room, admit, chosen)
            return len(chosen) - before

        self._turns.choose(Round(count, budgets, places, take))
        return chosen

    def _take(
        self, pile: Pile[Entry], room: int, admit: Callable[[Entry], bool], chosen: list[Entry]
    ) -> None:
        waiting, end = self._waiting, len(chosen) + room
        while len(chosen) < end:
            entry = pile.first()
            if entry is None:
                return
            is_stale = waiting.get(entry.id) is not entry
            if not is_stale:
                if not admit(entry):
                    return
                del waiting[entry.id]
                chosen.append(entry)
            pile.pop()
            self._uncount(entry)

    def ready_counts(self) -> dict[str, int]:
        """How many due jobs wait, by queue."""
        return self._turns.counts()

    def earliest_run_at(self) -> datetime | None:
        """When the next job becomes due."""
        while self._heap and self._is_stale(self._heap[0][2]):
            self._uncount(heapq.heappop(self._heap)[2])
        return self._heap[0][0] if self._heap else None

    def retire(self, entries: Iterable[Entry]) -> None:
        """The database has acknowledged that these are over at this version.

        A read that began before may still bring the row back, so it stays seen until every such read has ended.
        """
        for entry in entries:
            if self._reads_open:
                self._retired.append((entry.id, entry.version))
            else:
                self._drop_seen(entry.id, entry.version)

    def knows(self, id: UUID) -> bool:
        """Whether the job is held, running or being settled here, at whatever version."""
        return id in self._seen

    @property
    def is_being_read(self) -> bool:
        return self._reads_open > 0

    def is_waiting(self, id: UUID) -> bool:
        """Whether the job is held and was not chosen yet."""
        return id in self._waiting

    def forget(self, entry: Entry) -> None:
        """The job was not ours to start after all; what the next read finds counts."""
        self._drop_seen(entry.id, entry.version)

    def _drop_seen(self, id: UUID, version: int) -> None:
        if self._seen.get(id) == version:
            del self._seen[id]

    def read_begins(self, at: float = 0.0) -> None:
        self._reads_open += 1
        self._read_at = at

    def read_ends(self) -> None:
        self._reads_open -= 1
        if not self._reads_open:
            for id, version in self._retired:
                self._drop_seen(id, version)
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
        for entry in [entry for entry in self._waiting.values() if entry.slot in slots]:
            del self._waiting[entry.id]
            self._drop_seen(entry.id, entry.version)
        for marks in self.overflow.values():
            for key in [key for key in marks if key[0] in slots]:
                del marks[key]
