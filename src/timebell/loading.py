"""The loader of a process: its apps, by the names of their modules, its broker, and the providers it tells through."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from timebell.brokers import Broker
from timebell.brokers.app import broker_app
from timebell.brokers.opening import open_broker
from timebell.config import Settings
from timebell.db.migrate import Slice
from timebell.errors import ConfigurationError
from timebell.kernel.app import App, Handler, Registry
from timebell.kernel.jobs import Job
from timebell.kernel.migrations import KERNEL
from timebell.kernel.models import Queue
from timebell.notify import Provider, notify_app
from timebell.notify.migrations import NOTIFY
from timebell.notify.planning.telling import DELIVER
from timebell.providers.building import open_providers
from timebell.web.migrations import WEB
from timebell.web.operation.replies import erase_replies, prune_web

CHECK_KIND = "timebell.check"


async def _nothing(_: Job) -> None:
    """What `timebell check` has run: nothing, so that what it measures is Timebell alone."""


# Every node brings this app. Its jobs are marked at their start, so that the log says exactly when that was.
BUILT_IN = App(
    name="timebell",
    handlers={CHECK_KIND: Handler(run=_nothing, mode="external", queue=CHECK_KIND)},
    queues=[Queue(name=CHECK_KIND)],
    on_erase=erase_replies,
    on_prune=prune_web,
)


def apps_of(settings: Settings, broker: Broker | None = None) -> list[App]:
    """The apps that the settings name. What comes with Timebell may have been taken away, unless somebody names it."""
    names = settings.apps
    if settings.source_of("apps") == "default":
        names = tuple(name for name in names if _is_there(name))
    return load_apps(names, broker)


def _is_there(name: str) -> bool:
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return False
    return spec is not None and spec.origin is not None


def load_apps(names: Iterable[str], broker: Broker | None = None) -> list[App]:
    """The apps of these modules: each has one `App` record under the name `app` or `APP`, or a function `with_broker`
    that makes one of the broker there is, or of None."""
    return [_load_app(name, broker) for name in names]


def _load_app(name: str, broker: Broker | None) -> App:
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise ConfigurationError(
                f"apps: there is no module {name!r}; correct the name, or install what brings it"
            ) from error
        raise ConfigurationError(f"apps: {name!r} cannot be imported ({error}); install that too") from error
    except Exception as error:
        raise ConfigurationError(
            f"apps: {name!r} cannot be imported ({type(error).__name__}: {error}); correct it there"
        ) from error
    for attribute in ("app", "APP"):
        app = getattr(module, attribute, None)
        if isinstance(app, App):
            return app
    if callable(with_broker := getattr(module, "with_broker", None)):
        app = with_broker(broker)
        if isinstance(app, App):
            return app
    raise ConfigurationError(f"apps: {name!r} has no App; put `app = App(name=..., ...)` into it")


def registry_of(
    apps: Sequence[App],
    providers: Sequence[Provider] = (),
    broker: Broker | None = None,
    settings: Settings | None = None,
) -> Registry:
    """Everything that a process with these apps runs. One that brings a `notify_app` of its own goes before ours."""
    ours = () if any(DELIVER in app.handlers for app in apps) else (notify_app(providers),)
    settings = settings or Settings()
    publishing = broker_app(
        broker, tenant=settings.broker_tenant, trusts_tenant=settings.broker_trusts_tenant
    )
    return Registry([BUILT_IN, *ours, *apps, publishing])


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What a process runs. `is_demo_by_default`: nobody asked for demo mode, there is only nothing to send through."""

    registry: Registry
    providers: Sequence[Provider] = ()
    broker: Broker | None = None
    is_demo_by_default: bool = False


@asynccontextmanager
async def load(
    settings: Settings, apps: Sequence[App] = (), *, given: Sequence[Provider] | None = None
) -> AsyncIterator[Loaded]:
    """The apps, the broker, and the providers that were given or that the settings describe, for as long as the block
    lasts."""
    async with _broker_of(settings) as broker:
        brought = [*apps_of(settings, broker), *apps]
        async with _load(settings, brought, broker, given) as loaded:
            yield loaded


@asynccontextmanager
async def _broker_of(settings: Settings) -> AsyncIterator[Broker | None]:
    """Nothing is connected yet: that is done by whoever needs it (`App.on_open`)."""
    if settings.broker_url is None:
        yield None
        return
    broker = open_broker(settings.broker_url)
    try:
        yield broker
    finally:
        await broker.close()


@asynccontextmanager
async def _load(
    settings: Settings, brought: Sequence[App], broker: Broker | None, given: Sequence[Provider] | None
) -> AsyncIterator[Loaded]:
    other = next((app.name for app in brought if DELIVER in app.handlers), None)
    if other is not None:
        for name, value in (("demo", settings.demo), ("providers", given or settings.providers)):
            if value:
                raise ConfigurationError(
                    f"{name}: the app {other!r} brings providers of its own; leave out the one or the other"
                )
        yield Loaded(registry=registry_of(brought, (), broker, settings), broker=broker)
        return
    is_default = given is None and settings.demo is None and settings.is_demo
    async with open_providers(settings, given) as providers:
        yield Loaded(
            registry=registry_of(brought, providers, broker, settings),
            providers=providers,
            broker=broker,
            is_demo_by_default=is_default,
        )


def slices_of(registry: Registry) -> list[Slice]:
    """Whose migrations there are: ours, and those that apps bring for a schema of their own."""
    brought = [app for app in registry.apps if app.migrations is not None]
    own = [Slice(name=app.name, schema=app.name, package=str(app.migrations)) for app in brought]
    return [KERNEL, NOTIFY, WEB, *own]
