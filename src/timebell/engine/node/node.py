"""A node's life: its incarnation, its lease, and the slots that it reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from timebell.clock import Clock
from timebell.db.pool import Row, Session
from timebell.engine.node.vitals import UNTOLD, Vitals
from timebell.engine.store import NOTHING_IN_USE, EngineStore
from timebell.rules.sharing import RUNS_ON_SECONDS, balance_slots, visited_kinds

_SURVIVED_MAX = 16


@dataclass(slots=True)
class Ownership:
    """A slot of ours: its epoch, and until which due instant its jobs are under suspicion.

    An owner that died without releasing the slot may have died of a job that was due there. Where its process lives on,
    and only its lease ran out, it did not.
    """

    epoch: int
    suspect_until: datetime | None = None
    abandoned_by: int | None = None


class SlotUser(Protocol):
    """Whoever works on the slots: told of each change, asked before a slot is given up."""

    def slots_taken(self, slots: set[int]) -> None: ...

    def slots_leaving(self, slots: set[int]) -> None: ...

    def slots_visited(self, visits: Mapping[int, frozenset[str]]) -> None: ...

    def slots_lost(self) -> None: ...

    def idle_slots(self, slots: set[int]) -> set[int]: ...

    def slots_in_long_use(self) -> set[int]: ...

    def nodes_died(self) -> None: ...

    def permits_in_use(self) -> Mapping[str, int]: ...


class Node:
    """Renews the lease, buries the dead and keeps an even share of the slots.

    Nothing may start once the lease could have run out: counted on this machine's monotonic clock from the
    moment the last renewal was sent, and with a margin. What runs under a permit may go on a little longer: others
    wait for as long as that with taking the permit.
    """

    def __init__(
        self,
        store: EngineStore,
        clock: Clock,
        *,
        name: str,
        version: str,
        lease_seconds: float,
        margin_seconds: float,
        is_alone: bool = False,
        kinds: Iterable[str] = (),
    ) -> None:
        self._store = store
        self._clock = clock
        self._version = version
        self._lease_seconds = lease_seconds
        self._margin_seconds = margin_seconds
        self._is_alone = is_alone
        self._start_until = float("-inf")
        self._run_until = float("-inf")
        self._blind_until = float("-inf")
        self._leaving: set[int] = set()
        self._far: dict[int, tuple[datetime, float]] = {}
        self._user: SlotUser | None = None
        # The lives that this process had before, the latest first, and what all nodes say of theirs.
        self._survived: list[int] = []
        self._survivors: frozenset[int] = frozenset()
        self._kinds = frozenset(kinds)
        self._kinds_of: dict[int, frozenset[str] | None] = {}
        self._visits: dict[int, tuple[Ownership, frozenset[str]]] = {}
        self.name = name
        self.incarnation = 0
        self.alive: frozenset[int] = frozenset()
        self.owned: dict[int, Ownership] = {}
        # What other nodes can run and this one cannot: they visit its slots for it.
        self.left_kinds: frozenset[str] = frozenset()
        # Whether the last round did something that other nodes should act on: come, bury, or let slots go.
        self.has_news = False

    def serve(self, user: SlotUser) -> None:
        self._user = user

    @property
    def renew_every_seconds(self) -> float:
        return self._lease_seconds / 6

    def may_start(self) -> bool:
        return self.may_begin(self.incarnation)

    def may_begin(self, incarnation: int) -> bool:
        """Whether what was chosen, and perhaps marked, in that life of the node may still begin.

        While it waited for an answer or for its turn the lease may have run out, and somebody else have begun it.
        """
        return incarnation == self.incarnation and self._clock.monotonic() < self._start_until

    def may_run_on(self) -> bool:
        """Whether what runs under a permit may take one more step; the next life takes the permit with it."""
        return self._clock.monotonic() < self._run_until

    @property
    def is_blind(self) -> bool:
        """Whether it lost its own lease lately and came back. Who seems dead now may only be about to come back too."""
        return self._clock.monotonic() < self._blind_until

    def ownership(self, slot: int) -> Ownership | None:
        """None where nothing of ours may start: the slot is another node's, or is being given away."""
        return None if slot in self._leaving else self.owned.get(slot)

    def visit(self, slot: int, kind: str) -> Ownership | None:
        """Under which epoch of another node's slot we may mark a job that its owner has no handler for, if we may.

        What its owner ran there was not of this kind, so nothing in it is under suspicion.
        """
        ownership, kinds = self._visits.get(slot, (None, frozenset[str]()))
        return ownership if kind in kinds else None

    def slots(self) -> list[int]:
        """All that we read in, our own and those of others."""
        return sorted(self.owned.keys() | self._visits.keys())

    def fence(self, jobs: Iterable[tuple[int, str]]) -> dict[str, object]:
        """The epochs under which we may write to jobs, given by slot and kind, that nobody has started."""
        owned: dict[int, int] = {}
        visited: dict[int, int] = {}
        for slot, kind in jobs:
            visit = self.visit(slot, kind)
            if slot in self.owned:
                owned[slot] = self.owned[slot].epoch
            elif visit is not None:
                visited[slot] = visit.epoch
        return {
            "slots": list(owned.keys()),
            "epochs": list(owned.values()),
            "visited_slots": list(visited.keys()),
            "visited_epochs": list(visited.values()),
            "incarnation": self.incarnation,
        }

    def kinds_alive(self) -> frozenset[str]:
        """All that some living node says it can run."""
        return self._kinds | self.left_kinds

    async def tick(self, session: Session, now: datetime, vitals: Vitals = UNTOLD) -> None:
        """One round: prolong the lease or begin a new life, bury who is dead, move towards an even share."""
        self.has_news = False
        sent = self._clock.monotonic()
        if self.incarnation and not await self._store.renew_node(
            session, incarnation=self.incarnation, lease_seconds=self._lease_seconds, vitals=vitals
        ):
            self._die()
        if not self.incarnation:
            sent = self._clock.monotonic()
            self.incarnation = await self._store.register_node(
                session,
                node=self.name,
                version=self._version,
                lease_seconds=self._lease_seconds,
                survived=self._survived,
                kinds=sorted(self._kinds),
                in_use=self._in_use(),
            )
            self.has_news = True
            if self._survived:
                self._blind_until = sent + self._lease_seconds
        self._start_until = sent + self._lease_seconds - self._margin_seconds
        self._run_until = sent + self._lease_seconds + RUNS_ON_SECONDS
        buried = await self._store.bury_nodes(
            session, incarnation=self.incarnation, is_alone=self._is_alone, frozen=self._frozen()
        )
        self.has_news = self.has_news or bool(buried)
        self._is_alone = False
        rows = await self._store.read_nodes(session, known=list(self._kinds_of))
        alive = frozenset(row["incarnation"] for row in rows)
        self._note_far({row["incarnation"]: row["far_until"] for row in rows if row["far_until"] is not None})
        if self.incarnation not in alive:
            self._die()
            return
        self._trust(frozenset(life for row in rows for life in row["survived"]))
        self._note_kinds(rows)
        died, self.alive = self.alive - alive, alive
        if died and self._user is not None:
            self._user.nodes_died()
        await self._balance(session, now)

    def _trust(self, survivors: frozenset[int]) -> None:
        """Whoever lost its lease and came back did not die of what was due in its slots."""
        self._survivors = survivors
        for ownership in self.owned.values():
            if ownership.abandoned_by in survivors:
                ownership.suspect_until = None

    def _note_kinds(self, rows: Iterable[Row]) -> None:
        """Remember what each life can run; of those that are known it was not told again."""
        known = self._kinds_of
        self._kinds_of = {
            row["incarnation"]: known[row["incarnation"]]
            if row["incarnation"] in known
            else None
            if row["kinds"] is None
            else frozenset(row["kinds"])
            for row in rows
        }
        told = [kinds for kinds in self._kinds_of.values() if kinds is not None]
        self.left_kinds = frozenset().union(*told) - self._kinds

    def _note_far(self, far: dict[int, datetime]) -> None:
        """Remember since when each lease that lasts for ages has stood as it is."""
        now = self._clock.monotonic()
        seen = self._far
        self._far = {
            life: seen[life] if life in seen and seen[life][0] == until else (until, now)
            for life, until in far.items()
        }

    def _frozen(self) -> list[int]:
        """The database's clock was set back: who lives renews its lease to what is right now, and who died meanwhile
        would keep its slots until that time has come again. Whoever is silent for a whole lease is dead."""
        silent_since = self._clock.monotonic() - self._lease_seconds
        return [life for life, (_, since) in self._far.items() if since <= silent_since]

    def _die(self) -> None:
        """The lease was lost: whatever runs is no longer ours to finish unless it was started by mark."""
        self._survived = [self.incarnation, *self._survived][:_SURVIVED_MAX]
        self.incarnation = 0
        self._start_until = float("-inf")
        self.owned.clear()
        self._visits.clear()
        self._leaving.clear()
        if self._user is not None:
            self._user.slots_lost()

    async def _balance(self, session: Session, now: datetime) -> None:
        rows = await self._store.read_slots(session)
        self._reconcile({row["slot"]: row["epoch"] for row in rows if row["owner"] == self.incarnation})
        owners = {row["slot"]: row["owner"] for row in rows}
        epochs = {row["slot"]: row["epoch"] for row in rows}
        # Nothing begins in a slot that is leaving, so one that cannot leave soon stays, and is worked on meanwhile.
        kept = set[int]() if self._user is None else self._user.slots_in_long_use()
        moves = balance_slots(owners, sorted(self.alive), self.incarnation, kept=kept)
        if moves.take:
            rows = await self._store.take_slots(session, incarnation=self.incarnation, slots=moves.take)
            for row in rows:
                self.owned[row["slot"]] = self._taken(row["epoch"], row["abandoned_by"], now)
            if self._user is not None:
                self._user.slots_taken({row["slot"] for row in rows})
        leaving = set(moves.release)
        if self._user is not None:
            self._user.slots_leaving(leaving - self._leaving)
            self._user.slots_taken((self._leaving - leaving) & self.owned.keys())
        self._leaving = leaving
        self._visit_others(owners, epochs)
        if leaving:
            await self._release(session, leaving)

    def _taken(self, epoch: int, abandoned_by: int | None, now: datetime) -> Ownership:
        is_suspect = abandoned_by is not None and abandoned_by not in self._survivors
        return Ownership(epoch, now if is_suspect else None, abandoned_by)

    def _visit_others(self, owners: Mapping[int, int | None], epochs: Mapping[int, int]) -> None:
        """Come for what others leave. Nobody leaves anything where all nodes have the same handlers."""
        if not self._visits and all(
            kinds is None or kinds >= self._kinds for kinds in self._kinds_of.values()
        ):
            return
        visits = visited_kinds(owners, self._kinds_of, self.incarnation)
        self._visits = {slot: (Ownership(epochs[slot]), kinds) for slot, kinds in visits.items()}
        if self._user is not None:
            self._user.slots_visited(visits)

    def _reconcile(self, mine: dict[int, int]) -> None:
        """What the table says is ours is ours, also where the answer to taking or releasing it was lost."""
        gone = {slot for slot, ownership in self.owned.items() if mine.get(slot) != ownership.epoch}
        found = {slot for slot in mine if slot not in self.owned or slot in gone}
        for slot in gone:
            del self.owned[slot]
        for slot in found:
            self.owned[slot] = Ownership(mine[slot])
        if self._user is not None:
            self._user.slots_leaving(gone)
            self._user.slots_taken(found)

    async def _release(self, session: Session, leaving: set[int]) -> None:
        """Give up the slots in which nothing of ours runs unmarked; the others wait for the next round."""
        idle = self._user.idle_slots(leaving) if self._user is not None else leaving
        for slot in idle:
            self.owned.pop(slot, None)
        # Before the statement: were its answer lost, the next round would take them for slots that stay after all.
        self._leaving -= idle
        if idle:
            await self._store.release_slots(session, incarnation=self.incarnation, slots=sorted(idle))
            self.has_news = True

    def _in_use(self) -> Mapping[str, int]:
        return self._user.permits_in_use() if self._user is not None else NOTHING_IN_USE

    async def leave(self, session: Session) -> None:
        """End this life in order: the slots are free at once, and the permits but for what did not end."""
        if self.incarnation:
            await self._store.leave_node(session, incarnation=self.incarnation, in_use=self._in_use())
            self.incarnation = 0
            self._start_until = float("-inf")
            self.owned.clear()
            self._visits.clear()
