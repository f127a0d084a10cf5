"""Admission control: whether there is room for one more job of its sort, and what a job takes up while it runs: a place
of its tenant, a permit or an instant of its queue, and a turnstile where only a few of its sort may run at once."""

from __future__ import annotations

from datetime import datetime

from timebell.engine.ledger.entry import SETTLING, JobEntry
from timebell.engine.ledger.places import Places
from timebell.engine.limits.limits import Limits
from timebell.engine.limits.turnstiles import Probation, Solitude, Turnstile
from timebell.engine.worker.dependencies import Dependencies
from timebell.engine.worker.executor import Executor
from timebell.engine.worker.gate import FRESH_SECONDS
from timebell.kernel.app import Handler
from timebell.rules.suspicion import must_be_alone

_CAUTIOUS_MAX = 16
_SUSPECTS_MAX = 4


class Admission:
    """Gives each job that is chosen the room that it needs, and takes it back when the job leaves."""

    def __init__(self, shared: Dependencies, limits: Limits, executor: Executor) -> None:
        settings, monotonic = shared.settings, shared.timekeeper.monotonic
        self._node = shared.node
        self._ledger = shared.ledger
        self._handlers = shared.bell.registry.handlers
        self._monotonic = monotonic
        self._limits = limits
        self._executor = executor
        self.places = Places(settings.concurrency, settings.tenant_share)
        share = self.places.share
        # After a crash nobody knows which job it was: those that had been started begin one after another, those that
        # may have run in a slot whose owner died run a few at a time.
        self._suspects = Probation(_SUSPECTS_MAX, monotonic, share)
        self._cautious = Turnstile(_CAUTIOUS_MAX, share)
        self._transactional = Turnstile(max(1, settings.pool_size - 4), share)
        self._threads = Turnstile(executor.thread_count, share)
        # Who crashed twice runs alone: from then on it counts, and a neighbour must not be the cause of it.
        self._solitude = Solitude(monotonic, shared.ledger.is_waiting)
        self._admitted_count = 0
        self._fresh_since = 0.0

    def stop(self) -> None:
        """Nothing begins any more, and nothing waits for an instant of its queue."""
        self._limits.stop()

    def admit(self, entry: JobEntry) -> bool:
        """Whether there is room for one more job of this sort; if so, it is taken.

        One that cannot begin here at all needs no room: it is chosen to be let go of.
        """
        entry.handler = None
        kind = entry.row["kind"]
        ownership = self._node.ownership(entry.slot)
        entry.is_visited = ownership is None
        if ownership is None:
            ownership = self._node.visit(entry.slot, kind)
            if ownership is None:
                return True
        entry.incarnation, entry.epoch = self._node.incarnation, ownership.epoch
        handler = entry.handler = self._handlers.get(kind)
        if handler is None:
            return True
        until = ownership.suspect_until
        entry.is_cautious = until is not None and _is_cautious(entry, handler, until)
        queue = entry.pair[1]
        is_paced = queue in self._limits.paced
        if is_paced and not self._limits.reserve(entry.id, queue, is_marked=self.must_mark(entry, handler)):
            return False
        is_admitted = self._has_place(entry, handler)
        if is_paced and not is_admitted:
            self._limits.give_up(entry.id, queue)
        self._admitted_count += is_admitted
        return is_admitted

    def _has_place(self, entry: JobEntry, handler: Handler) -> bool:
        crash_count = entry.row["crash_count"]
        is_simple = handler.is_async and handler.mode != "transactional"
        if not crash_count and not entry.is_cautious and is_simple:
            return not self._solitude.holds_back()
        if must_be_alone(crash_count):
            is_quiet = not (self._admitted_count or self._ledger.under_way_count)
            return self._solitude.enter(entry, is_quiet=is_quiet)
        if self._solitude.holds_back():
            return False
        # One that takes a connection for as long as it runs needs a place among those too, however careful the start.
        if handler.mode == "transactional" and not self._transactional.enter(entry):
            return False
        care = self._suspects if crash_count > 0 else self._cautious if entry.is_cautious else None
        if care is not None and not care.enter(entry):
            self._transactional.leave(entry)
            return False
        # Its start is not marked before there is a thread for it: what is marked counts as running.
        if not handler.is_async and (self._executor.is_out_of_threads or not self._threads.enter(entry)):
            self._transactional.leave(entry)
            if care is not None:
                care.leave(entry)
            return False
        if care is not None:
            entry.enclosure = care
        return True

    def round_ends(self) -> None:
        """All that can be chosen in this pass was."""
        self._admitted_count = 0
        self._fresh_since = self._monotonic() - FRESH_SECONDS
        self._solitude.round_ends()

    def must_mark(self, entry: JobEntry, handler: Handler) -> bool:
        """A step is never plain: its agenda may have moved on, and the mark asks. So it does after a long wait, and
        in the slot of another, where nothing but the mark says that the job is ours."""
        if (
            handler.mode == "external"
            or entry.row["crash_count"] > 0
            or entry.is_cautious
            or entry.is_visited
        ):
            return True
        if handler.mode != "plain":
            return False
        return entry.row["step"] is not None or entry.read_at < self._fresh_since

    def begins(self, entry: JobEntry) -> bool:
        """Answers whether it runs under a permit of its queue. One whose start was marked meanwhile begins again."""
        return entry.pair[1] in self._limits.limited and self._limits.started(entry)

    def marked(self, entry: JobEntry) -> None:
        """Its start is marked, and it runs now."""
        if entry.enclosure is self._suspects:
            self._suspects.begins(entry)

    def let_go(self, entry: JobEntry) -> None:
        """It was admitted without any room but a place."""
        self.places.leave(entry.pair[0])

    def never_begins(self, entry: JobEntry) -> None:
        """It was admitted, and ends before its start."""
        self.places.leave(entry.pair[0])
        self._limits.give_up(entry.id, entry.pair[1])
        self._leave(entry)

    def ended(self, entry: JobEntry) -> None:
        """The attempt is over, or never began: its limits and its place are free again."""
        tenant, queue = entry.pair
        if queue in self._limits.limited:
            self._limits.ended(entry)
        self.places.leave(tenant)
        if entry.enclosure is not None:
            self._leave(entry)

    def _leave(self, entry: JobEntry) -> None:
        """A suspect keeps its place until its end is written: were the node to die before, it would be charged, and the
        next one may be what the node dies of."""
        # A suspect that is transactional, or needs a thread, had a place there as well.
        self._transactional.leave(entry)
        self._threads.leave(entry)
        if not (entry.stage is SETTLING and entry.row["crash_count"]):
            self.vacate(entry)

    def vacate(self, entry: JobEntry) -> None:
        """Whatever place it took up is free for the next one."""
        if entry.enclosure is not None:
            entry.enclosure.leave(entry)
            entry.enclosure = None


def _is_cautious(entry: JobEntry, handler: Handler, until: datetime) -> bool:
    """Whether the job was due in this slot when the slot's owner died, and may be what it died of.

    An external one would bear the mark of its start.
    """
    return handler.mode != "external" and entry.run_at <= until
