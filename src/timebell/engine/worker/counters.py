"""Counters of what came of attempts: for the engine itself, and for the metrics of the process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from timebell.engine.worker.settling import Settlement
from timebell.kernel.tallies import Tallies
from timebell.logs import Logger

log = Logger("timebell.worker")


@dataclass(slots=True)
class Counters:
    """What this worker has done since it started. The dead are among the ended; `not_begun` were not to be had."""

    done: int = 0
    retried: int = 0
    ended: int = 0
    dead: int = 0
    recovered: int = 0
    not_begun: int = 0

    def settle(self, settlements: Sequence[Settlement]) -> None:
        for settlement in settlements:
            if settlement.verdict == "done":
                self.done += 1
            elif settlement.verdict == "retry":
                self.retried += 1
            else:
                self.ended += 1
                if settlement.state == "dead":
                    self.dead += 1
                    _tell_dead(settlement)


def tally(tallies: Tallies, settlements: Sequence[Settlement]) -> None:
    """The first attempt says how late a job was; a later one, whether it was worth trying again."""
    queues = tallies.queues
    for settlement in settlements:
        entry = settlement.entry
        queue = queues[entry.pair[1]]
        word = "retried" if settlement.verdict == "retry" else settlement.state
        queue.states[word] += 1
        if entry.row["attempt"]:
            queue.retry_success_count += word == "done"
        elif settlement.started_at is not None:
            late = (settlement.started_at - entry.due_at).total_seconds()
            queue.lateness.note(late if late > 0.0 else 0.0)


def _tell_dead(settlement: Settlement) -> None:
    row = settlement.entry.row
    log.error(
        "a job is dead",
        job_id=str(row["id"]),
        tenant=row["tenant"],
        kind=row["kind"],
        correlation_id=row["correlation_id"],
        reason=settlement.reason,
        error=(settlement.error or "").split("\n")[0],
    )
