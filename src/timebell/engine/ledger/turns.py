"""Whose turn it is: due jobs in piles, asked in turn between tenants, and between the queues of each."""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import ceil
from typing import Generic, TypeVar

from timebell.engine.ledger.places import Places

CRITICAL, NORMAL = 0, 1
# Jobs that were running when a node died have piles of their own. Few of them run at once, so they are asked before
# the others: nobody waits long behind them, and no backlog keeps them from their turn.
SUSPECT = 3
_LANES = (CRITICAL, SUSPECT, NORMAL)
# How many jobs of one tenant, or of one of its queues, are chosen before the next has its turn.
_TURN = 8
# By how many jobs a tenant may get ahead of the others because its jobs are critical.
_LEAD = 64
# From how many tenants on it is looked at who of them is ahead no longer.
_FORGET_AT = 256
_ALL = 1_000_000

Pair = tuple[str, str]
Job = TypeVar("Job")
Due = tuple[int, datetime, int, Job]


class Pile(Generic[Job]):
    """The due jobs of one tenant's queue: by priority, then by their instant, then as they were read.

    Nearly always they come in that order and only have to queue up. Whoever comes out of order goes through a heap.
    """

    __slots__ = ("_heap", "_line")

    def __init__(self) -> None:
        self._line: deque[Due[Job]] = deque()
        self._heap: list[Due[Job]] = []

    def __len__(self) -> int:
        return len(self._line) + len(self._heap)

    def push(self, due: Due[Job]) -> None:
        line = self._line
        if not line or due > line[-1]:
            line.append(due)
        else:
            heapq.heappush(self._heap, due)

    def first(self) -> Job | None:
        line, heap = self._line, self._heap
        if heap and (not line or heap[0] < line[0]):
            return heap[0][3]
        return line[0][3] if line else None

    def pop(self) -> None:
        line, heap = self._line, self._heap
        if heap and (not line or heap[0] < line[0]):
            heapq.heappop(heap)
        else:
            line.popleft()


class Line(Generic[Job]):
    """The due jobs of one tenant in one lane: a pile for each queue, asked in turn."""

    __slots__ = ("left_of_turn", "piles", "turns")

    def __init__(self) -> None:
        self.left_of_turn = _TURN
        self.piles: dict[str, Pile[Job]] = {}
        self.turns: deque[str] = deque()

    def add(self, queue: str) -> Pile[Job]:
        """A queue that has nothing here yet takes its turn after the others."""
        pile: Pile[Job] = Pile()
        self.piles[queue] = pile
        self.turns.append(queue)
        return pile

    def take(self, most: int, round: Round[Job], waiting: dict[str, int]) -> int:
        """A turn that ends because no more is wanted is gone on with the next time."""
        turns, budgets, taken, passed = self.turns, round.budgets, 0, 0
        while passed < len(turns) and taken < most:
            queue = turns[0]
            pile = self.piles[queue]
            # Whoever is alone need not let others have their turn.
            wanted = self.left_of_turn if len(turns) > 1 else most
            room = min(most - taken, wanted, budgets.get(queue, most))
            before = len(pile)
            number = round.take(pile, room)
            left = waiting[queue] - before + len(pile)
            if left:
                waiting[queue] = left
            else:
                del waiting[queue]
            if queue in budgets:
                budgets[queue] -= number
                if budgets[queue] <= 0:
                    round.used_up.add(queue)
            taken += number
            self.left_of_turn -= number
            # One that gave less than there was room for gives no more in this choice.
            passed = 0 if number and number == room else passed + bool(pile)
            if not pile:
                turns.popleft()
                del self.piles[queue]
            elif 0 < number < wanted and taken == most:
                return taken
            else:
                turns.rotate(-1)
            self.left_of_turn = _TURN
        return taken


class Ring:
    """Tenants that have their turn one after the other, each once."""

    __slots__ = ("_inside", "left_of_turn", "tenants")

    def __init__(self) -> None:
        self.tenants: deque[str] = deque()
        self._inside: set[str] = set()
        self.left_of_turn = _TURN

    def add(self, tenant: str) -> None:
        if tenant not in self._inside:
            self._inside.add(tenant)
            self.tenants.append(tenant)

    def drop_first(self) -> None:
        self._inside.discard(self.tenants.popleft())
        self.left_of_turn = _TURN

    def turn(self) -> None:
        self.tenants.rotate(-1)
        self.left_of_turn = _TURN


class Leads:
    """Of tenants whose critical jobs went first, by how many jobs they are ahead of what others had on average.

    What all others had is one number that grows, and a lead is a height above it: a turn costs the same however many
    are ahead.
    """

    __slots__ = ("_forget_at", "_level", "_peaks")

    def __init__(self) -> None:
        self._level = 0.0
        self._peaks: dict[str, float] = {}
        self._forget_at = _FORGET_AT

    def __len__(self) -> int:
        return len(self._peaks)

    def of(self, tenant: str) -> float:
        return max(0.0, self._peaks.get(tenant, 0.0) - self._level)

    def note(self, tenant: str, taken: int, *, others: int, is_ahead: bool) -> None:
        """A tenant had its turn, because its jobs are critical or because it was next, beside so many others."""
        lead = self.of(tenant)
        if not is_ahead:
            self._level += taken / others
        if is_ahead or lead:
            self._peaks[tenant] = self._level + lead + taken
            if len(self._peaks) >= self._forget_at:
                self._forget()

    def _forget(self) -> None:
        """Let go of those that are ahead no longer, seldom enough that it counts for nothing."""
        self._peaks = {tenant: peak for tenant, peak in self._peaks.items() if peak > self._level}
        self._forget_at = max(_FORGET_AT, 2 * len(self._peaks))

    def clear(self) -> None:
        self._level = 0.0
        self._peaks.clear()
        self._forget_at = _FORGET_AT


@dataclass(slots=True)
class Round(Generic[Job]):
    """One choice: how many are still wanted, and what bounds them."""

    left: int
    budgets: dict[str, int]
    places: Places
    take: Callable[[Pile[Job], int], int]
    # The queues of which no more may start: thousands may wait for one of these, and are passed by at a glance.
    used_up: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.used_up = {queue for queue, budget in self.budgets.items() if budget <= 0}


class Turns(Generic[Job]):
    """Asks the tenants in turn, however many queues each has, and each for its critical jobs first.

    Between tenants a critical job goes first as well, for as long as its tenant is not far ahead of what the others
    had: nobody's critical jobs keep another's ordinary ones waiting for longer than that.
    """

    def __init__(self) -> None:
        self._lines: dict[int, dict[str, Line[Job]]] = {lane: {} for lane in _LANES}
        # The tenants that may have something in a lane, or in any but the suspects'.
        self._critical = Ring()
        self._suspect = Ring()
        self._everybody = Ring()
        # How many wait, by queue.
        self._waiting: defaultdict[str, int] = defaultdict(int)
        self._leads = Leads()

    def add(self, lane: int, pair: Pair, due: Due[Job]) -> None:
        tenant, queue = pair
        try:
            pile = self._lines[lane][tenant].piles[queue]
        except KeyError:
            pile = self._new_pile(lane, tenant, queue)
        pile.push(due)
        self._waiting[queue] += 1

    def _new_pile(self, lane: int, tenant: str, queue: str) -> Pile[Job]:
        line = self._lines[lane].get(tenant)
        if line is None:
            line = self._lines[lane][tenant] = Line()
            if lane == SUSPECT:
                self._suspect.add(tenant)
            else:
                self._everybody.add(tenant)
            if lane == CRITICAL:
                self._critical.add(tenant)
        return line.add(queue)

    def counts(self) -> dict[str, int]:
        """How many wait, by queue."""
        return dict(self._waiting)

    def choose(self, round: Round[Job]) -> None:
        if self._waiting.keys() <= round.used_up:
            return
        if len(self._everybody.tenants) == 1:
            self._leads.clear()
        self._go_round(round, self._critical, (CRITICAL,))
        self._go_round(round, self._suspect, (SUSPECT,))
        self._go_round(round, self._everybody, (CRITICAL, NORMAL))

    def _go_round(self, round: Round[Job], turns: Ring, lanes: Sequence[int]) -> None:
        """One tenant after the other, until each was passed by because nothing of it can begin."""
        tenants, passed = turns.tenants, 0
        while passed < len(tenants) and round.left > 0:
            tenant = tenants[0]
            lines = [line for lane in lanes if (line := self._lines[lane].get(tenant)) is not None]
            if not lines:
                turns.drop_first()
                continue
            if round.used_up and all(line.piles.keys() <= round.used_up for line in lines):
                passed += 1
                turns.turn()
                continue
            most = self._allowed(turns, tenant)
            room = min(most, round.left, round.places.room(tenant))
            taken = self._take(round, tenant, lanes, room)
            others = len(self._everybody.tenants) - 1
            if taken and turns is not self._suspect and others > 0:
                self._leads.note(tenant, taken, others=others, is_ahead=turns is self._critical)
            # Whoever gave less than there was room for gives no more in this choice.
            passed = 0 if taken and taken == room else passed + 1
            if 0 < taken < most and not round.left:
                # The turn goes on with the next choice.
                turns.left_of_turn = most - taken
                return
            turns.turn()

    def _allowed(self, turns: Ring, tenant: str) -> int:
        """Whoever is alone need not let others have their turn."""
        if turns is not self._suspect and len(self._everybody.tenants) <= 1:
            return _ALL
        if turns is self._critical:
            return min(turns.left_of_turn, max(0, _LEAD - ceil(self._leads.of(tenant))))
        return turns.left_of_turn

    def _take(self, round: Round[Job], tenant: str, lanes: Sequence[int], most: int) -> int:
        taken = 0
        for lane in lanes:
            line = self._lines[lane].get(tenant)
            if line is None:
                continue
            taken += line.take(most - taken, round, self._waiting)
            if not line.turns:
                del self._lines[lane][tenant]
        round.left -= taken
        if taken:
            round.places.take(tenant, taken)
        return taken
