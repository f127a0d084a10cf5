"""Helpers that all commands share: their options, their settings, the way to the database and to the event loop."""

from __future__ import annotations

import asyncio
import gc
import getpass
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import click

from timebell.cli.logs import set_up_logs
from timebell.config import Settings, load_settings, warn_of_retired
from timebell.kernel.app import Registry
from timebell.kernel.bell import DEFAULT_TENANT, Timebell
from timebell.kernel.insights import Insights
from timebell.loading import BUILT_IN, apps_of, registry_of
from timebell.server import database_place, open_bell

Function = TypeVar("Function", bound=Callable[..., Any])
Answer = TypeVar("Answer")

_COLLECTOR = (50_000, 20, 50)
_TERMINATED = 128 + signal.SIGTERM


class IdType(click.ParamType[UUID]):
    """The id of a job."""

    name = "id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> UUID:
        try:
            return value if isinstance(value, UUID) else UUID(str(value))
        except ValueError:
            self.fail(
                f"{str(value)[:100]!r} is not an id such as 01890a5d-ac96-774b-bcce-b302099a8057", param
            )


ID = IdType()


def place_options(function: Function) -> Function:
    """Which settings file, and which database where no server is named."""
    function = click.option(
        "--config", type=click.Path(path_type=Path, dir_okay=False), help="The settings file to read."
    )(function)
    return click.option(
        "--data",
        # Whether it may be read is told, with the remedy, by what reads it.
        type=click.Path(path_type=Path, file_okay=False, readable=False),
        help="The folder of the embedded server's data.",
    )(function)


def tenant_option(function: Function) -> Function:
    return click.option(
        "--tenant", default=DEFAULT_TENANT, show_default=True, help="The tenant whose jobs are meant."
    )(function)


def json_option(function: Function) -> Function:
    return click.option("--json", "as_json", is_flag=True, help="Answer with one JSON document.")(function)


def page_options(function: Function) -> Function:
    function = click.option("--cursor", help="Where the page before ended.")(function)
    return click.option(
        "--limit", type=click.IntRange(1, 500), default=50, show_default=True, help="Lines at most."
    )(function)


def actor_option(function: Function) -> Function:
    return click.option("--actor", help="Who does this, for the record.  [default: cli:USER]")(function)


def actor_or_me(actor: str | None) -> str:
    if actor is not None:
        return actor
    try:
        return f"cli:{getpass.getuser()}"
    except (KeyError, OSError):
        return "cli"


def settings_of(config: Path | None, data: Path | None, **explicit: Any) -> Settings:
    """The settings of this command, and logging as they say."""
    settings = load_settings(config, data=data, **explicit)
    set_up_logs(settings.log_level, settings.log_format)
    warn_of_retired(settings)
    return settings


def spare_the_collector() -> None:
    """Jobs come by the thousand and hardly any is part of a cycle, yet each counts towards the next search for them.

    In a process of our own that search may be rarer; it took a tenth of the time and more. What is there at the start
    stays until the end, and is not looked at again.
    """
    gc.freeze()
    gc.set_threshold(*_COLLECTOR)
    gc.enable()


def run(coroutine: Coroutine[Any, Any, Answer]) -> Answer:
    """On uvloop where there is one: it wakes several times faster.

    SIGTERM ends a command as Ctrl-C does, in order, so that nothing is left of what it has started. One that runs until
    it is told to stop minds signals itself.
    """
    spare_the_collector()
    if sys.platform == "win32":
        return asyncio.run(coroutine)
    import uvloop

    async def until_terminated() -> Answer:
        main = asyncio.current_task()
        assert main is not None

        def terminate() -> None:
            # Another one must not cut off what the first has begun to put away.
            if not main.cancelling():
                main.cancel()

        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminate)
        return await coroutine

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            return runner.run(until_terminated())
        except asyncio.CancelledError:
            sys.exit(_TERMINATED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """What a command works with beside a running Timebell: the verbs and the questions."""

    bell: Timebell
    insights: Insights


@asynccontextmanager
async def desk(settings: Settings, *, has_apps: bool = False) -> AsyncIterator[Desk]:
    """Without the apps, unless one of them asks: whoever looks need not have the code of what runs."""
    registry = registry_of(apps_of(settings), settings=settings) if has_apps else Registry([BUILT_IN])
    async with database_place(settings, "find") as place, open_bell(place, settings, registry) as bell:
        yield Desk(bell=bell, insights=Insights(bell.database, bell.clock))


def ask(
    config: Path | None,
    data: Path | None,
    question: Callable[[Desk], Awaitable[Answer]],
    *,
    has_apps: bool = False,
) -> Answer:
    """Sit down at the desk, ask one thing, and leave."""
    settings = settings_of(config, data)

    async def asking() -> Answer:
        async with desk(settings, has_apps=has_apps) as at:
            return await question(at)

    return run(asking())
