"""The parts that saved searches bring to the app: handlers, guards, queues and measures."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Final

from timebell.apps.marketplace.models import MATCH_SEARCHES
from timebell.apps.marketplace.searches import alerting, composing, cycles, failing
from timebell.apps.marketplace.searches.rules import TRIES_MAX
from timebell.kernel import Handler, Job, Measure, Queue
from timebell.rules.backoff import RetryPolicy

_QUEUE: Final = "marketplace"
ALERTS_QUEUE: Final = "saved-search-alerts"
DIGESTS_QUEUE: Final = "saved-search-digests"
# How long to wait the room says itself, with its own chance; this is for what nobody foresaw.
_RETRY: Final = RetryPolicy.exponential(
    base=timedelta(seconds=30), ceiling=timedelta(minutes=15), jitter="none", max_attempts=TRIES_MAX
)

HANDLERS: Final[Mapping[str, Handler]] = {
    MATCH_SEARCHES: Handler(
        run=alerting.match_searches, mode="transactional", queue=ALERTS_QUEUE, retry=_RETRY
    ),
    alerting.ALERT_SEARCH: Handler(
        run=alerting.alert_search, mode="transactional", queue=ALERTS_QUEUE, retry=_RETRY
    ),
    cycles.ENQUEUE_DIGESTS: Handler(run=cycles.enqueue_digests, mode="transactional", queue=_QUEUE),
    cycles.COMPOSE_DIGESTS: Handler(
        run=composing.compose_digests, mode="transactional", queue=DIGESTS_QUEUE, retry=_RETRY
    ),
}
GUARDS: Final[Mapping[str, Callable[[Job], Awaitable[bool]]]] = {
    alerting.STILL_MATCHES: alerting.still_matches,
}
QUEUES: Final[Sequence[Queue]] = (Queue(name=ALERTS_QUEUE), Queue(name=DIGESTS_QUEUE))
MEASURES: Final[Sequence[Measure]] = (
    Measure(
        name=alerting.SEARCH_ALERTS,
        about="Alerts and digests about saved searches by what became of them.",
        labels=("sort", "outcome"),
    ),
    Measure(
        name=alerting.BATCHES,
        about="Batches of saved searches that were told as a whole, and those of which some were tried again.",
        labels=("outcome",),
    ),
    Measure(
        name=alerting.RETRIES,
        about="Single alerts and digests that were tried again by themselves: told at last, or left out.",
        labels=("outcome",),
    ),
    Measure(
        name=failing.SKIPS,
        about="Alerts and digests that were left out, by why they could not be asked.",
        labels=("sort", "cause"),
    ),
    Measure(
        name=failing.SKIP_SECONDS,
        about="For how long that had lasted by then.",
        sort="histogram",
    ),
)
