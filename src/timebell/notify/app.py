"""What notify brings to a process: the handlers that deliver and that apply what providers report, and their queues."""

from __future__ import annotations

from collections.abc import Sequence

from timebell.errors import ConfigurationError
from timebell.kernel import App, Handler, Queue
from timebell.notify.delivering import Deliverer
from timebell.notify.incoming import APPLY_REPORTS, apply_reports
from timebell.notify.provider import Provider
from timebell.notify.telling import DELIVER

QUEUE = "notify"
# What came of a message is not to wait behind those that have yet to leave.
REPORTS_QUEUE = "notify.reports"


def notify_app(providers: Sequence[Provider] = (), *, concurrency: int | None = None) -> App:
    """The app that delivers through these providers. For each channel, those named first are tried first."""
    names = [provider.name for provider in providers]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigurationError(f"providers: {twice!r} is there twice; give each a name of its own")
    return App(
        name="notify",
        handlers={
            DELIVER: Handler(run=Deliverer(providers), mode="external", queue=QUEUE),
            APPLY_REPORTS: Handler(run=apply_reports, queue=REPORTS_QUEUE),
        },
        queues=[Queue(name=QUEUE, concurrency=concurrency), Queue(name=REPORTS_QUEUE)],
    )
