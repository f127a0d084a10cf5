"""`GET /metrics`: what this process has counted, and what the database says of all of them, for Prometheus.

A label is the name of a queue, a channel, a provider, a route or a loop, of which there are few; never a tenant or a
person. Figures that begin with `timebell_` are ours. The others carry the names that the specification gives them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import Any, Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from timebell.engine import Engine
from timebell.engine.watch.own_alerts import OWN_RULES
from timebell.engine.watch.watching import FAILURES
from timebell.kernel import App, TableGauge
from timebell.kernel.aside import Aside
from timebell.kernel.holds import Holds
from timebell.kernel.tallies import Spread, Tallies
from timebell.version import __version__
from timebell.web.access.quotas import Quotas
from timebell.web.server.figures import FigureReader, Figures
from timebell.web.server.watching import RequestTally

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_TOLD: Final = frozenset({"sent", "delivered", "suppressed"})
# By the values of the labels; a tuple of one length is no tuple of another to the type checker.
Values = Mapping[Any, float]


@dataclass(slots=True, kw_only=True)
class Metrics:
    """Where the figures of one process come from. What it has none of, such as an engine, is not there."""

    tallies: Tallies = field(default_factory=Tallies)
    requests: RequestTally = field(default_factory=RequestTally)
    figures: FigureReader | None = None
    engine: Engine | None = None
    quotas: Quotas | None = None
    asides: list[Aside] = field(default_factory=list)
    apps: Sequence[App] = ()
    holds: Holds | None = None

    @property
    def rules(self) -> Mapping[str, str]:
        """The severity of each rule for alerts that is known here."""
        brought = {rule.name: rule.severity for app in self.apps for rule in app.alerts}
        return {**{rule.name: rule.severity for rule in OWN_RULES}, **brought}

    async def text(self) -> bytes:
        """The page that Prometheus reads."""
        figures = None if self.figures is None else await self.figures.read(self._asked_gauges())
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Page(self, figures))
        return generate_latest(registry)

    def _asked_gauges(self) -> list[TableGauge]:
        gauges = chain.from_iterable(app.gauges for app in self.apps)
        return [gauge for gauge in gauges if isinstance(gauge, TableGauge)]


class _Page(Collector):
    """One reading, handed to the library that knows how to write it."""

    def __init__(self, metrics: Metrics, figures: Figures | None) -> None:
        self._metrics = metrics
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        metrics, figures = self._metrics, self._figures
        yield _gauge("timebell_info", "The version that runs here.", ["version"], {(__version__,): 1})
        if metrics.figures is not None:
            yield _gauge(
                "timebell_database_up", "Whether the database answers.", (), {(): figures is not None}
            )
        yield from _of_jobs(metrics.tallies)
        yield from _of_deliveries(metrics.tallies)
        yield from _of_secrets(metrics.tallies)
        yield from _of_requests(metrics.requests)
        yield from _of_apps(metrics.apps, metrics.tallies)
        yield from _of_asides(metrics.asides)
        if metrics.quotas is not None:
            yield from _of_quotas(metrics.quotas)
        if metrics.engine is not None:
            yield from _of_loops(metrics.engine)
        if metrics.holds is not None:
            held = {(queue,): 1.0 for queue in metrics.holds.reasons}
            yield _gauge(
                "timebell_queue_held", "Queues that this node cannot serve for now.", ["queue"], held
            )
        if metrics.engine is not None:
            yield from _of_questions(metrics.engine, metrics.tallies)
        if figures is not None:
            yield from _of_alerts(figures, metrics.rules)
            yield from _of_queues(figures)
            yield from _shown_by_apps(metrics.apps, figures)
            yield from _of_health(figures)


def _of_jobs(tallies: Tallies) -> Iterator[Metric]:
    queues = tallies.queues
    yield _counter(
        "timebell_jobs_enqueued", "Jobs that this process has enqueued.", (), {(): tallies.enqueued}
    )
    yield _counter(
        "timebell_jobs_settled",
        "What attempts of this node came to: done, retried, dead, cancelled, skipped, expired.",
        ["queue", "outcome"],
        {(queue, word): count for queue, tally in queues.items() for word, count in tally.states.items()},
    )
    yield _counter(
        "timebell_jobs_done_after_retry",
        "Jobs that were done at a later attempt than the first.",
        ["queue"],
        {(queue,): tally.retry_success_count for queue, tally in queues.items()},
    )
    lateness = {(queue,): tally.lateness for queue, tally in queues.items()}
    yield _histogram(
        "timebell_job_lateness_seconds", "How long after its time a first attempt began.", ["queue"], lateness
    )
    duration = {(queue,): tally.duration for queue, tally in queues.items()}
    yield _histogram("timebell_job_duration_seconds", "How long attempts took.", ["queue"], duration)
    yield _counter(
        "timebell_jobs_cancelled",
        "Jobs that were cancelled before they started.",
        (),
        {(): tallies.cancelled},
    )
    yield _counter("occurrences_upserted", "Occurrences that were planned.", (), {(): tallies.occurrences})
    yield _counter("jobs_upserted", "Jobs that were planned for occurrences.", (), {(): tallies.planned_jobs})


def _of_apps(apps: Iterable[App], tallies: Tallies) -> Iterator[Metric]:
    """What apps count. A counter without labels is there from the first, so that its first increase is seen."""
    for measure in chain.from_iterable(app.measures for app in apps):
        if measure.sort == "histogram":
            yield _histogram(measure.name, measure.about, (), {(): tallies.spreads[measure.name]})
        else:
            counted = tallies.counted[measure.name]
            values = counted if measure.labels else {(): counted[()]}
            yield _counter(measure.name, measure.about, measure.labels, values)


def _shown_by_apps(apps: Iterable[App], figures: Figures) -> Iterator[Metric]:
    depths = {one.queue: one for one in figures.depth}
    for gauge in chain.from_iterable(app.gauges for app in apps):
        if isinstance(gauge, TableGauge):
            values = {(label,): value for label, value in figures.shown.get(gauge.name, {}).items()}
            yield _gauge(gauge.name, gauge.about, [gauge.label], values)
            continue
        value = gauge.of(depths)
        if value is not None:
            yield _gauge(gauge.name, gauge.about, (), {(): value})


def _of_alerts(figures: Figures, rules: Mapping[str, str]) -> Iterator[Metric]:
    """A rule that is known is there before it opens anything, so that its first alert is seen as an increase."""
    values = dict.fromkeys(rules.items(), 0.0)
    yield _gauge(
        "timebell_alerts_open",
        "Alerts that are open, of all tenants.",
        ["rule", "severity"],
        {**values, **figures.open_alerts},
    )


def _of_questions(engine: Engine, tallies: Tallies) -> Iterator[Metric]:
    yield _counter(
        "timebell_alert_questions_failed",
        "Times that a question about alerts failed, by its rule.",
        ["rule"],
        {(name,): tallies.counted[FAILURES][name,] for name in engine.watch.rules},
    )


def _of_secrets(tallies: Tallies) -> Iterator[Metric]:
    yield _counter(
        "timebell_previous_secret_key_uses",
        "Links and tokens that were signed with a secret of before and brought to this process.",
        ["purpose"],
        {(purpose,): count for purpose, count in tallies.previous_keys.items()},
    )


def _of_deliveries(tallies: Tallies) -> Iterator[Metric]:
    yield _counter(
        "timebell_deliveries",
        "What attempts to deliver came to.",
        ["channel", "provider", "state"],
        tallies.deliveries,
    )
    latency = {(): tallies.latency}
    yield _histogram(
        "timebell_delivery_latency_seconds", "From when it was owed until it was sent.", (), latency
    )
    sent = sum(count for (_, _, state), count in tallies.deliveries.items() if state in _TOLD)
    yield _counter("jobs_sent", "Notifications that were sent or shown.", (), {(): sent})
    yield _histogram(
        "latency_ms", "Milliseconds from the planned instant until it was sent.", (), latency, 1_000.0
    )


def _of_requests(requests: RequestTally) -> Iterator[Metric]:
    yield _counter(
        "timebell_http_requests",
        "Requests that were answered.",
        ["method", "route", "status"],
        {(method, route, str(status)): count for (method, route, status), count in requests.counts.items()},
    )
    yield _histogram(
        "timebell_http_request_seconds",
        "How long answers took.",
        ["route"],
        {(route,): spread for route, spread in requests.durations.items()},
    )


def _of_asides(asides: Sequence[Aside]) -> Iterator[Metric]:
    waiting: Counter[tuple[str, str]] = Counter()
    running: Counter[tuple[str, str]] = Counter()
    for one in chain.from_iterable(aside.figures() for aside in asides):
        waiting[one.place, one.what] += one.waiting
        running[one.place, one.what] += one.running
    yield _gauge(
        "timebell_aside_waiting",
        "Reading and rendering that waits for its turn of the loop, or for a thread.",
        ["place", "what"],
        waiting,
    )
    yield _gauge(
        "timebell_aside_running",
        "Reading and rendering that is under way in a thread.",
        ["place", "what"],
        running,
    )


def _of_quotas(quotas: Quotas) -> Iterator[Metric]:
    near = quotas.near()
    yield _counter(
        "timebell_quota_refusals",
        "Requests that were refused since their tenant has as much as it may have.",
        ["quota"],
        {(name,): quotas.refused[name] for name in near},
    )
    yield _gauge(
        "timebell_tenants_near_quota",
        "Tenants that have nine tenths of a quota or more, as far as this process knows.",
        ["quota"],
        {(name,): count for name, count in near.items()},
    )


def _of_loops(engine: Engine) -> Iterator[Metric]:
    loops = engine.loops
    ticks = {(loop.name,): loop.tick_count for loop in loops}
    yield _counter("timebell_loop_ticks", "Passes that a loop of this node has made.", ["loop"], ticks)
    yield _gauge(
        "timebell_loop_up",
        "Whether the last pass of a loop reached the database.",
        ["loop"],
        {(loop.name,): loop.is_well for loop in loops},
    )
    yield _gauge(
        "timebell_jobs_running", "Attempts under way in this node.", (), {(): len(engine.worker.attempts)}
    )
    recovered = {(): engine.worker.counters.recovered}
    yield _counter(
        "timebell_jobs_recovered", "Jobs of nodes that died, taken over by this one.", (), recovered
    )
    planner = engine.planner.counters
    yield _counter(
        "timebell_occurrences_missed",
        "Occurrences whose time was over before they were planned.",
        (),
        {(): planner.missed},
    )
    yield _counter(
        "timebell_schedules_parked", "Schedules that could not be planned.", (), {(): planner.parked}
    )


def _of_queues(figures: Figures) -> Iterator[Metric]:
    depth = figures.depth
    due = {(one.queue,): one.due_count for one in depth}
    yield _gauge("timebell_queue_due", "Jobs that are due and wait to begin.", ["queue"], due)
    started = {(one.queue,): one.started_count for one in depth}
    yield _gauge("timebell_queue_started", "Jobs that have begun.", ["queue"], started)
    parked = {(one.queue,): one.parked_count for one in depth}
    yield _gauge("timebell_queue_parked", "Jobs that are due and held by a pause.", ["queue"], parked)
    future = {(one.queue,): one.future_count for one in depth}
    yield _gauge(
        "timebell_queue_future", "Jobs that are not due yet; where there are many, about.", ["queue"], future
    )
    yield _gauge(
        "timebell_queue_late_seconds",
        "How long the job that is due longest has waited.",
        ["queue"],
        {(one.queue,): one.lateness_seconds for one in depth},
    )
    dead = {(one.queue,): figures.dead.get(one.queue, 0) for one in depth}
    yield _gauge("timebell_queue_dead", "Dead jobs that wait for an operator.", ["queue"], dead)
    pauses = {(queue.name,): len(queue.pauses) for queue in figures.queues}
    yield _gauge("timebell_queue_pauses", "Pauses of a queue, for one tenant or for all.", ["queue"], pauses)


def _of_health(figures: Figures) -> Iterator[Metric]:
    health, lateness = figures.health, figures.lateness
    recent = {
        ("0.5",): lateness.p50_seconds,
        ("0.99",): lateness.p99_seconds,
        ("1",): lateness.seconds_max,
    }
    yield _gauge(
        "timebell_recent_lateness_seconds",
        f"How late first attempts of all nodes began in the last {lateness.minutes} minutes.",
        ["quantile"],
        {label: value for label, value in recent.items() if value is not None},
    )
    yield _gauge("timebell_nodes", "Nodes that are alive.", (), {(): health.node_count})
    yield _gauge("timebell_slots_unowned", "Slots that nobody reads.", (), {(): health.unowned_slot_count})
    yield _gauge(
        "timebell_breakers_open", "Circuit breakers that are not closed.", (), {(): len(figures.breakers)}
    )
    yield _gauge(
        "timebell_kind_left",
        "Jobs that are due and of a kind that no living node has a handler for; the twenty that have most.",
        ["kind"],
        {(kind,): count for kind, count in figures.left_kinds.items()},
    )
    parked = {(): figures.parked_schedule_count}
    yield _gauge(
        "timebell_schedules_parked_now", "Schedules that wait for somebody to edit them.", (), parked
    )
    ahead = {(): health.log_days_ahead}
    yield _gauge("timebell_log_days_ahead", "Days for which the log of jobs is prepared.", (), ahead)
    yield _gauge(
        "timebell_audit_unsealed_seconds",
        "Age of the oldest event after the last seal of the audit trail.",
        (),
        {(): health.unsealed_seconds},
    )
    holder = health.oldest_snapshot
    age = 0.0 if holder is None else holder.age_seconds or 0.0
    yield _gauge(
        "timebell_oldest_snapshot_seconds", "Age of the oldest snapshot of the database.", (), {(): age}
    )


def _counter(name: str, about: str, labels: Sequence[str], values: Values) -> Metric:
    family = CounterMetricFamily(name, about, labels=labels)
    for names, value in values.items():
        family.add_metric(names, value)
    return family


def _gauge(name: str, about: str, labels: Sequence[str], values: Values) -> Metric:
    family = GaugeMetricFamily(name, about, labels=labels)
    for names, value in values.items():
        family.add_metric(names, value)
    return family


def _histogram(
    name: str,
    about: str,
    labels: Sequence[str],
    spreads: Mapping[Any, Spread],
    scale: float = 1.0,
) -> Metric:
    family = HistogramMetricFamily(name, about, labels=labels)
    for names, spread in spreads.items():
        family.add_metric(names, list(_buckets(spread, scale)), spread.total * scale)
    return family


def _buckets(spread: Spread, scale: float) -> Iterable[tuple[str, float]]:
    bounds = [*(f"{bound * scale:g}" for bound in spread.bounds), "+Inf"]
    return zip(bounds, accumulate(spread.counts), strict=True)
