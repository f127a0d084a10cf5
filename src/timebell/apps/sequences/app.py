"""The app, as a process loads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from timebell.apps.sequences import handlers
from timebell.apps.sequences.bookings import REPLAN
from timebell.apps.sequences.enrolling import CHECK_IN, COMPLETE, MESSAGES
from timebell.apps.sequences.guards import CONTEXT, IS_WANTED, context, is_wanted
from timebell.apps.sequences.service import APPLY
from timebell.apps.sequences.settling import Settling
from timebell.kernel import App, Gauge, Handler, Queue, QueueDepth

QUEUE = "sequences"
# What goes through many subjects is not in the way of what happens to one.
BACKGROUND = "sequences.background"


def _count(depths: Mapping[str, QueueDepth], *, is_overdue: bool) -> float | None:
    depth = depths.get(MESSAGES)
    if depth is None:
        return None
    overdue = depth.due_count + depth.parked_count
    return overdue if is_overdue else overdue + depth.started_count + depth.future_count


GAUGES: Final[Sequence[Gauge]] = (
    Gauge(
        name="sequence_messages_scheduled",
        about="Messages that are to be sent; where there are many, about.",
        of=partial(_count, is_overdue=False),
    ),
    Gauge(
        name="sequence_messages_overdue",
        about="Messages that are due and wait to be sent.",
        of=partial(_count, is_overdue=True),
    ),
)

APP = App(
    name="sequences",
    migrations="timebell.apps.sequences.migrations",
    handlers={
        CHECK_IN: Handler(run=handlers.check_in, mode="transactional", queue=QUEUE),
        COMPLETE: Handler(run=handlers.complete, mode="transactional", queue=QUEUE),
        APPLY: Handler(run=handlers.apply, mode="transactional", queue=BACKGROUND),
        REPLAN: Handler(run=handlers.replan, mode="transactional", queue=BACKGROUND),
    },
    guards={IS_WANTED: is_wanted},
    contexts={CONTEXT: context},
    queues=[Queue(name=QUEUE), Queue(name=BACKGROUND), Queue(name=MESSAGES)],
    routes="timebell.apps.sequences.routes",
    problems="timebell.apps.sequences.problems",
    commands="timebell.apps.sequences.commands",
    on_erase=handlers.erase,
    on_export=handlers.export,
    on_prune=Settling(),
    gauges=GAUGES,
)
