"""The app, as a process loads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from typing import Final

from timebell.apps.scheduler.handlers import DUE, FAILURES, LAG, Firing
from timebell.apps.scheduler.intake import Consuming
from timebell.apps.scheduler.letters import DROPPED, LETTERS
from timebell.apps.scheduler.pruning import Pruning
from timebell.apps.scheduler.rows import FIRE
from timebell.apps.scheduler.service import CANCELLED, QUEUED
from timebell.apps.scheduler.topology import topology
from timebell.brokers import Broker
from timebell.brokers.holding import held_while_away
from timebell.kernel import App, Gauge, Handler, Measure, Queue, QueueDepth, Timebell
from timebell.rules.backoff import RetryPolicy

QUEUE: Final = "scheduler"
NAME: Final = "scheduler"
# A broker that is away takes no attempts; what fails otherwise is tried for long, since every message counts.
_RETRY: Final = RetryPolicy.of_delays((1.0,), max_attempts=100)

MEASURES: Final[Sequence[Measure]] = (
    Measure(name=QUEUED, about="Requests for messages that were new."),
    Measure(name=CANCELLED, about="Requests for messages that were cancelled."),
    Measure(name=DUE, about="Messages that were due and that the broker confirmed."),
    Measure(name=LAG, about="How late messages were published.", sort="histogram"),
    Measure(name=FAILURES, about="Messages that the broker did not take.", labels=("reason",)),
    Measure(name=LETTERS, about="Messages that could not be read or kept.", labels=("reason",)),
    Measure(name=DROPPED, about="Messages that could not be read, and of which the broker took no copy."),
)


def _count(depths: Mapping[str, QueueDepth], *, is_overdue: bool) -> float | None:
    depth = depths.get(QUEUE)
    if depth is None:
        return None
    waiting = depth.due_count + depth.parked_count
    if is_overdue:
        # What came back waits for its next try, and is as late as all else.
        return waiting + depth.retrying_count
    return waiting + depth.started_count + depth.future_count


GAUGES: Final[Sequence[Gauge]] = (
    Gauge(
        name="jobs_pending",
        about="Messages that are to be published; where there are many, about.",
        of=partial(_count, is_overdue=False),
    ),
    Gauge(
        name="jobs_overdue",
        about="Messages that are due and wait to be published.",
        of=partial(_count, is_overdue=True),
    ),
)


def _by_another_door(_: str) -> str:
    """What fires belongs to a request, and to nothing that somebody makes up."""
    return f"jobs of the kind {FIRE} are made for requests; ask for a message with POST /api/scheduler/jobs"


def with_broker(broker: Broker | None) -> App:
    """The app on a broker. Without one nothing is taken in and nothing published here; another process may do so."""
    app = App(
        name=NAME,
        migrations="timebell.apps.scheduler.migrations",
        queues=[Queue(name=QUEUE)],
        routes="timebell.apps.scheduler.routes",
        on_prune=Pruning(),
        refuses={FIRE: _by_another_door},
        measures=MEASURES,
        gauges=GAUGES,
    )
    if broker is None:
        return app
    return replace(
        app,
        handlers={FIRE: Handler(run=Firing(broker), queue=QUEUE, retry=_RETRY, answers_later=True)},
        on_open=_Opening(broker),
        on_consume=Consuming(broker),
    )


class _Opening:
    """Connects, declares, and has the jobs wait whenever the broker is away."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def __call__(self, bell: Timebell) -> AbstractAsyncContextManager[None]:
        return held_while_away(bell, self._broker, QUEUE, topology(bell.settings.broker_due_queue))
