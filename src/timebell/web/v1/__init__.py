"""The engine's own routes, `/v1`, a module for each noun."""

from __future__ import annotations

from timebell.web import unsubscribing
from timebell.web.operation.routes import Route
from timebell.web.v1 import (
    alerts,
    clock,
    dead_jobs,
    deliveries,
    events,
    inbox,
    jobs,
    keys,
    notifications,
    outbox,
    policy,
    providers,
    queues,
    recipients,
    schedules,
    senders,
    streams,
    suppressions,
    templates,
    tenants,
    usage,
)

ALL: tuple[Route, ...] = (
    # Before those whose path has an id in the place of the word.
    *streams.ROUTES,
    *jobs.ROUTES,
    *dead_jobs.ROUTES,
    *queues.ROUTES,
    *alerts.ROUTES,
    *schedules.ROUTES,
    *events.ROUTES,
    *recipients.ROUTES,
    *templates.ROUTES,
    *notifications.ROUTES,
    *deliveries.ROUTES,
    *inbox.ROUTES,
    *outbox.ROUTES,
    *suppressions.ROUTES,
    *policy.ROUTES,
    *providers.ROUTES,
    *unsubscribing.ROUTES,
    *clock.ROUTES,
    *keys.ROUTES,
    *tenants.ROUTES,
    *usage.ROUTES,
    *senders.ROUTES,
)
