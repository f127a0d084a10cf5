"""The parts that magic links bring to the app: a handler, a queue and a measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from timebell.apps.marketplace.tokens.cleaning import CLEAN, DELETED, QUEUE, clean_tokens
from timebell.kernel import Handler, Measure, Queue

HANDLERS: Final[Mapping[str, Handler]] = {
    CLEAN: Handler(run=clean_tokens, mode="transactional", queue=QUEUE),
}
QUEUES: Final[Sequence[Queue]] = (Queue(name=QUEUE),)
MEASURES: Final[Sequence[Measure]] = (
    Measure(
        name=DELETED,
        about="Magic links that were deleted: expired, or used by nobody for a day.",
        labels=("reason",),
    ),
)
