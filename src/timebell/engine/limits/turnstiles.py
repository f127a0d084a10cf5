"""Where only a few jobs may be at once: those that need care after a crash, and those that take a connection each."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from timebell.engine.ledger.entry import JobEntry
from timebell.engine.ledger.places import Places

_PROBATION_SECONDS = 0.1
_SOLITUDE_SECONDS = 30.0
_ASK_SECONDS = 1.0


class Turnstile:
    """Lets a few of one sort run at once, and not those of one tenant alone."""

    def __init__(self, inside_max: int, share: float = 1.0) -> None:
        self._places = Places(inside_max, share)
        self._inside: set[UUID] = set()

    def enter(self, entry: JobEntry) -> bool:
        tenant = entry.pair[0]
        if not self._places.room(tenant):
            return False
        self._places.take(tenant)
        self._inside.add(entry.id)
        entry.enclosure = self
        return True

    def leave(self, entry: JobEntry) -> None:
        if entry.id in self._inside:
            self._inside.remove(entry.id)
            self._places.leave(entry.pair[0])


class Probation(Turnstile):
    """Lets the next one in when the one before has left, or has run for a while and done no harm.

    What kills its node mostly does so at once, and then ran with few others; what only takes long holds up nobody.
    """

    def __init__(self, inside_max: int, monotonic: Callable[[], float], share: float = 1.0) -> None:
        super().__init__(inside_max, share)
        self._monotonic = monotonic
        self._newest: UUID | None = None
        self._trusted_at = 0.0

    def enter(self, entry: JobEntry) -> bool:
        if self._newest in self._inside and self._monotonic() < self._trusted_at:
            return False
        if not super().enter(entry):
            return False
        self._newest, self._trusted_at = entry.id, float("inf")
        return True

    def begins(self, entry: JobEntry) -> None:
        """Its start is marked and it runs now; until then it could do no harm, and proved nothing."""
        if self._newest == entry.id:
            self._trusted_at = self._monotonic() + _PROBATION_SECONDS


class Solitude:
    """Lets one job run with nothing beside it: what runs is waited for, and nothing begins meanwhile.

    Both for a while only, so that a long job does not keep its node from its work.
    """

    def __init__(self, monotonic: Callable[[], float], is_waiting: Callable[[UUID], bool]) -> None:
        self._monotonic = monotonic
        self._is_waiting = is_waiting
        self._inside: UUID | None = None
        self._until = 0.0
        # For how long each one that asked has been waited for, and when it asked last.
        self._waited: dict[UUID, tuple[float, float]] = {}
        self._asked_at = 0.0

    def enter(self, entry: JobEntry, *, is_quiet: bool) -> bool:
        if self._inside is not None:
            return False
        now = self._monotonic()
        waited, asked_at = self._waited.pop(entry.id, (0.0, now))
        # A node that stood still has not waited: what ran beside it stood still as well.
        waited += min(now - asked_at, _ASK_SECONDS)
        if not is_quiet and waited < _SOLITUDE_SECONDS:
            self._waited[entry.id] = waited, now
            self._asked_at = now
            return False
        self._inside, self._until = entry.id, now + _SOLITUDE_SECONDS
        entry.enclosure = self
        return True

    def leave(self, entry: JobEntry) -> None:
        if self._inside == entry.id:
            self._inside = None

    def holds_back(self) -> bool:
        """Whether the others must wait. For one that has not asked of late they need not: its queue lets it start
        only now and then, and in between nothing would happen at all."""
        if self._inside is not None:
            return self._monotonic() < self._until
        return bool(self._waited) and self._monotonic() <= self._asked_at + _ASK_SECONDS

    def round_ends(self) -> None:
        """Whoever asked and waits here no longer is not waited for: it may be cancelled, moved or another node's."""
        for id in [id for id in self._waited if not self._is_waiting(id)]:
            del self._waited[id]
