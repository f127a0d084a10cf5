"""The app of notify: the handlers that deliver, that apply what providers report and that call whose turn it is, and
their queues."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from timebell.errors import ConfigurationError
from timebell.kernel import App, Handler, Queue
from timebell.notify.alerts.alert_rules import RULES
from timebell.notify.alerts.operators import tell_operators
from timebell.notify.delivery.delivering import Deliverer
from timebell.notify.delivery.turns import TAKE_TURNS, take_turns
from timebell.notify.planning.telling import DELIVER
from timebell.notify.provider import Provider
from timebell.notify.pruning import Pruning
from timebell.notify.reports.incoming import APPLY_REPORTS, apply_reports
from timebell.rules.backoff import RetryPolicy

QUEUE = "notify"
# What came of a message is not to wait behind those that have yet to leave.
REPORTS_QUEUE = "notify.reports"
# Nor is it to wait behind those who wait for their turn that somebody calls them.
TURNS_QUEUE = "notify.turns"
# Those who wait for their turn have nobody else to call them.
_FOR_LONG = RetryPolicy.of_delays((1.0, 5.0, 15.0), max_attempts=100)
# What a provider is called for is rationed by the policy of its tenant. A run itself fails over what passes: a guard
# that cannot look, a lock that is not had, a node that dies. It is given up after some two hours of that.
_DELIVERING = RetryPolicy.exponential(
    base=timedelta(seconds=1), ceiling=timedelta(minutes=15), max_attempts=20
)


def notify_app(providers: Sequence[Provider] = (), *, concurrency: int | None = None) -> App:
    """The app that delivers through these providers. For each channel, those named first are tried first."""
    names = [provider.name for provider in providers]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigurationError(f"providers: {twice!r} is there twice; give each a name of its own")
    return App(
        name="notify",
        handlers={
            DELIVER: Handler(run=Deliverer(providers), mode="external", queue=QUEUE, retry=_DELIVERING),
            APPLY_REPORTS: Handler(run=apply_reports, mode="plain", queue=REPORTS_QUEUE),
            TAKE_TURNS: Handler(run=take_turns, mode="transactional", queue=TURNS_QUEUE, retry=_FOR_LONG),
        },
        queues=[
            Queue(name=QUEUE, concurrency=concurrency),
            Queue(name=REPORTS_QUEUE),
            Queue(name=TURNS_QUEUE),
        ],
        on_prune=Pruning(),
        alerts=RULES,
        on_alerts=tell_operators,
    )
