"""`App`, the record of what an app brings, and the registry that a process builds from its apps once, at its start."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from timebell.config import QueueSettings
from timebell.errors import ConfigurationError, InvalidInput, UnknownKind, UnknownQueue
from timebell.kernel.alerts.alerting import AlertNews, AlertRule, BroughtRule
from timebell.kernel.jobs.outcomes import Outcome, Refused
from timebell.kernel.measures import Gauge, Measure, TableGauge
from timebell.kernel.models import Mode, Queue, check_between, check_kind
from timebell.rules.backoff import RetryPolicy

if TYPE_CHECKING:
    from timebell.kernel.bell import Timebell
    from timebell.kernel.jobs.job import Job
    from timebell.kernel.transaction import Transaction

HandlerFunction = Callable[["Job"], Awaitable[Outcome | None] | Outcome | None]
GuardFunction = Callable[["Job"], Awaitable[bool | Refused]]
ContextFunction = Callable[["Job"], Awaitable[Mapping[str, Any]]]
DeclareFunction = Callable[["Timebell"], Awaitable[None]]
EraseFunction = Callable[["Timebell", "Transaction", UUID], Awaitable[None]]
ExportFunction = Callable[
    ["Timebell", "Transaction", UUID, UUID | None, int], Awaitable[Sequence[Mapping[str, Any]]]
]
RefuseFunction = Callable[[str], str | None]
PruneFunction = Callable[["Timebell", int], Awaitable[int]]
OpenFunction = Callable[["Timebell"], AbstractAsyncContextManager[None]]
AlertsFunction = Callable[["Timebell", "Transaction", Sequence[AlertNews]], Awaitable[None]]
ConsumeFunction = Callable[["Timebell"], Awaitable[None]]
DEFAULT_QUEUE = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """How jobs of one kind are run.

    `external`, unless you choose another: it may reach outside, so the start is marked first, what was answered
    `cancelled` does not start, and a crash in between is known as uncertain; `on_uncertain` says whether to try again,
    which is the default, or to wait for an operator.
    `transactional`: effect and completion are one transaction on `job.tx`; the effect happens exactly once. The
    database ends one that is idle for two thirds of a lease, or twenty seconds, and the attempt has failed.
    `plain`, for speed: nothing is written before it runs, so that it may still begin up to two seconds after its
    cancel, and run again after a crash.

    `destination` names what an external handler depends on; its breaker opens when that keeps failing.

    `answers_later`: `run` is a plain function that never waits and returns a future of the outcome. It is for those who
    gather what many jobs want and do it at once, and spares each of these jobs the price of a task.
    """

    run: HandlerFunction
    mode: Mode = "external"
    queue: str = DEFAULT_QUEUE
    timeout: timedelta | None = None
    retry: RetryPolicy | None = None
    destination: str | Callable[[Job], str | None] | None = None
    on_uncertain: Literal["retry", "dead"] = "retry"
    answers_later: bool = False
    is_async: bool = field(init=False)

    def __post_init__(self) -> None:
        # An object may have an async `__call__`.
        call = getattr(self.run, "__call__", None)  # noqa: B004
        is_coroutine = inspect.iscoroutinefunction(self.run) or inspect.iscoroutinefunction(call)
        if self.answers_later and is_coroutine:
            raise ConfigurationError("run: whoever answers later returns a future; leave out `async`")
        # Neither needs a thread.
        object.__setattr__(self, "is_async", is_coroutine or self.answers_later)
        if self.mode not in ("plain", "transactional", "external"):
            raise ConfigurationError(f"mode: {self.mode!r} is not plain, transactional or external")
        if self.mode == "transactional" and not self.is_async:
            raise ConfigurationError(
                "run: a transactional handler must be `async def`; its transaction is async"
            )
        if self.mode == "transactional" and self.answers_later:
            raise ConfigurationError(
                "answers_later: a transactional handler cannot; its transaction is its own"
            )
        if self.mode != "external" and self.destination is not None:
            raise ConfigurationError("destination: only an external handler has one; declare mode='external'")
        if self.on_uncertain not in ("retry", "dead"):
            raise ConfigurationError("on_uncertain: must be 'retry' or 'dead'")
        if self.timeout is not None:
            check_between("timeout", self.timeout.total_seconds(), 0.001, 86_400)


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """A frozen record of what an app brings; what is absent is absent.

    A bare function runs as an external handler. `contexts` read, when something is told, what its text says.
    `on_declare` is run when a process that pays starts, after the kinds and queues are known: an app ships its
    templates there. `on_erase` is run in the transaction in which a recipient is erased, by whose id it finds what the
    app keeps about that person. `on_export` answers with that: so many rows as JSON has them, and one more if there
    are more, those behind an id and in the order of their `id`. `on_prune` removes at most so many rows that have
    outlived their use, and answers how many those were; a node calls it now and then. `on_open` is entered before a
    process begins to pay, and left after it has stopped: what an app watches or keeps open. `on_consume` takes what
    comes in by itself, from a broker for example, until it is cancelled; one process runs it, or several do.

    `refuses` says of kinds why a tenant may not ask for them over HTTP, or None if it may; what is not named, all may.
    Whoever may not ask for them may not revive a dead one with another payload either, by whatever door.

    `measures` and `gauges` are what it counts and shows beside the other metrics. `alerts` are the rules by which it is
    known what needs a person; `on_alerts` tells operators of what opened and closed, in the transaction in which it is
    noted that they were told, and is given the same again where it fails.

    `routes` are what it serves, or the name of the module that has them as `ROUTES`, which only whoever serves loads.
    `problems` says how its errors are told over HTTP, a `ProblemForm` for each class of them, or is the name of the
    module that has that as `PROBLEMS`.
    `commands` is the name of the module that has its commands as `COMMANDS`, which only the command line loads.
    """

    name: str
    handlers: Mapping[str, Handler | HandlerFunction] = field(default_factory=dict)
    guards: Mapping[str, GuardFunction] = field(default_factory=dict)
    contexts: Mapping[str, ContextFunction] = field(default_factory=dict)
    queues: Iterable[Queue] = ()
    migrations: str | None = None
    routes: Any = ()
    pages: Any = ()
    problems: Any = field(default_factory=dict)
    commands: str | None = None
    on_declare: DeclareFunction | None = None
    on_erase: EraseFunction | None = None
    on_export: ExportFunction | None = None
    on_prune: PruneFunction | None = None
    on_open: OpenFunction | None = None
    on_consume: ConsumeFunction | None = None
    refuses: Mapping[str, RefuseFunction] = field(default_factory=dict)
    measures: Iterable[Measure] = ()
    gauges: Iterable[Gauge | TableGauge] = ()
    alerts: Iterable[AlertRule] = ()
    on_alerts: AlertsFunction | None = None


class Registry:
    """Everything the loaded apps bring, by name. Built once; a name given twice is refused."""

    def __init__(self, apps: Iterable[App] = ()) -> None:
        self.apps = tuple(apps)
        handlers: dict[str, Handler] = {}
        guards: dict[str, GuardFunction] = {}
        contexts: dict[str, ContextFunction] = {}
        refuses: dict[str, RefuseFunction] = {}
        alerts: dict[str, BroughtRule] = {}
        queues: dict[str, Queue] = {DEFAULT_QUEUE: Queue(name=DEFAULT_QUEUE)}
        for app in self.apps:
            for queue in app.queues:
                _add("queue", queues, queue.name, queue, app, may_replace=DEFAULT_QUEUE)
            for kind, handler in app.handlers.items():
                check_kind(kind)
                _add(
                    "handler",
                    handlers,
                    kind,
                    handler if isinstance(handler, Handler) else Handler(run=handler),
                    app,
                )
            for name, guard in app.guards.items():
                _add("guard", guards, name, guard, app)
            for name, read in app.contexts.items():
                _add("context", contexts, name, read, app)
            for kind, refuse in app.refuses.items():
                check_kind(kind)
                _add("refusal of the kind", refuses, kind, refuse, app)
            for rule in app.alerts:
                _add("alert", alerts, rule.name, BroughtRule(app=app.name, rule=rule), app)
        for kind, handler in handlers.items():
            if handler.queue not in queues:
                raise UnknownQueue(
                    f"{handler.queue!r} of the handler for {kind!r} was not declared; add it to an App",
                    field="queue",
                )
        self.handlers: Mapping[str, Handler] = MappingProxyType(handlers)
        self.guards: Mapping[str, GuardFunction] = MappingProxyType(guards)
        self.contexts: Mapping[str, ContextFunction] = MappingProxyType(contexts)
        self.refuses: Mapping[str, RefuseFunction] = MappingProxyType(refuses)
        self.queues: Mapping[str, Queue] = MappingProxyType(queues)
        self.alerts: Mapping[str, BroughtRule] = MappingProxyType(alerts)
        self.unbrought: tuple[str, ...] = ()

    def limited(self, limits: Iterable[QueueSettings]) -> Registry:
        """The same with limits that go before the apps' own; a queue that no app brings is there by them alone."""
        queues = dict(self.queues)
        for each in limits:
            queues[each.name] = _limited(queues.get(each.name) or Queue(name=each.name), each)
        limited = copy(self)
        limited.queues = MappingProxyType(queues)
        limited.unbrought = tuple(sorted(queues.keys() - self.queues.keys()))
        return limited

    def only(self, queues: Iterable[str]) -> Registry:
        """The same for a process that runs the jobs of these queues alone, and leaves the others to other nodes."""
        named = frozenset(queues)
        unknown = sorted(named - self.queues.keys())
        if unknown:
            raise ConfigurationError(
                f"queues: there is no queue {unknown[0]!r}; give some of {', '.join(sorted(self.queues))}"
            )
        only = copy(self)
        only.handlers = MappingProxyType(
            {kind: handler for kind, handler in self.handlers.items() if handler.queue in named}
        )
        return only

    def handler(self, kind: str) -> Handler:
        try:
            return self.handlers[kind]
        except KeyError:
            raise UnknownKind(f"no handler is registered for {kind!r}; load the app that brings it") from None

    def refusal(self, kind: str, tenant: str) -> str | None:
        """Why a tenant may not ask for jobs of a kind over HTTP; None if it may."""
        refuse = self.refuses.get(kind)
        return None if refuse is None else refuse(tenant)

    def check_new_payload(self, kind: str | None, tenant: str) -> None:
        """Refuse to revive a job with another payload if the tenant may not ask for one of its kind: it would be a job
        that somebody made up."""
        refusal = None if kind is None else self.refusal(kind, tenant)
        if refusal is not None:
            raise InvalidInput(
                f"a job of the kind {kind} is revived with the payload that it has; leave this out ({refusal})",
                field="payload",
            )


def _limited(queue: Queue, given: QueueSettings) -> Queue:
    """What the settings do not speak of stays as it is."""
    rate, concurrency = given.rate_per_second, given.concurrency
    return replace(
        queue,
        rate=queue.rate if rate is None else None if rate == "none" else rate,
        burst=queue.burst if given.burst is None else given.burst,
        concurrency=queue.concurrency
        if concurrency is None
        else None
        if concurrency == "none"
        else concurrency,
    )


def _add(
    noun: str, known: dict[str, Any], name: str, value: object, app: App, may_replace: str | None = None
) -> None:
    if name in known and name != may_replace:
        raise ConfigurationError(
            f"app {app.name!r}: the {noun} {name!r} is already brought by another app; rename one of them"
        )
    known[name] = value
