"""`timebell`: the commands in one place, and one clear line for everything that is refused."""

from __future__ import annotations

import gc
import importlib
import logging
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import click

from timebell.db.failures import DATABASE_ERRORS
from timebell.errors import ConfigurationError, InvalidInput, TimebellError
from timebell.logs import without_passwords
from timebell.version import __version__

_FAILURE = 1
_USAGE = 2
_INTERRUPTED = 130


# The module of each command, in the order of the list. It is loaded when the command is asked for: one that only shows
# something need not wait for the engine and for all that the others use.
_MODULES = {
    "up": "processes",
    "serve": "processes",
    "work": "processes",
    "consume": "processes",
    "migrate": "preparing",
    "backup": "backup",
    "restore": "backup",
    "simulate": "simulate",
    "bench": "bench",
    "check": "check",
    "doctor": "doctor",
    "config": "preparing",
    "keys": "keys",
    "tenants": "tenants",
    "jobs": "jobs",
    "dead": "jobs",
    "journey": "jobs",
    "schedule": "preview",
    "schedules": "schedules",
    "notifications": "notifications",
    "providers": "providers",
    "queues": "queues",
    "nodes": "queues",
    "alerts": "alerts",
    "audit": "audit",
}


# Where a context keeps the settings file that was named, and why the commands of apps are not known.
_CONFIG = "timebell.config"
_UNKNOWN = "timebell.unknown"
_BROUGHT = "timebell.brought"


class _Commands(click.Group):
    """A group whose commands are where `_MODULES` says, and behind them those that apps bring.

    Apps are loaded for the list of all commands, and for a word that is none of the engine's; so nobody else waits
    for them, and nothing that is wrong with an app is in the way of a command of the engine.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        try:
            return [*_MODULES, *_brought(ctx)]
        except ConfigurationError as error:
            # Help has to be had above all where something is wrong.
            ctx.meta[_UNKNOWN] = str(error)
            return list(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _MODULES:
            return _brought(ctx).get(cmd_name)
        module = importlib.import_module(f"timebell.cli.{_MODULES[cmd_name]}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        ctx.meta[_CONFIG] = _config_in(args)
        return super().resolve_command(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if (reason := ctx.meta.get(_UNKNOWN)) is not None:
            formatter.write_paragraph()
            formatter.write_text(f"The commands of apps are not listed: {without_passwords(reason)}")


def _brought(ctx: click.Context) -> Mapping[str, click.Command]:
    if _BROUGHT not in ctx.meta:
        from timebell.cli.brought import brought_commands

        ctx.meta[_BROUGHT] = brought_commands(ctx.meta.get(_CONFIG), _MODULES)
    brought: Mapping[str, click.Command] = ctx.meta[_BROUGHT]
    return brought


def _config_in(args: Sequence[str]) -> Path | None:
    """The settings file that a command names, which says what apps there are, before that command is known."""
    for number, arg in enumerate(args):
        if arg == "--":
            return None
        if arg.startswith("--config="):
            return Path(arg.partition("=")[2])
        if arg == "--config" and number + 1 < len(args):
            return Path(args[number + 1])
    return None


@click.group(
    cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="timebell", message="%(prog)s %(version)s")
def program() -> None:
    """Durable time for applications: what is owed, to whom and when."""


def main() -> NoReturn:
    """Run the command that was asked for and end the process with its code."""
    # All that is made while modules are loaded stays, and searching it for what can go took a tenth of the start. A
    # command that works for longer turns it on again (`common.run`).
    gc.disable()
    # Apps are named by their modules, and the folder one stands in is where one's own modules are.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    _end(_run())


def _run() -> int:
    try:
        answer = program.main(prog_name="timebell", standalone_mode=False)
        return answer if isinstance(answer, int) else 0
    except click.exceptions.Exit as ending:
        return ending.exit_code
    except click.Abort:
        return _INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        return _refuse(_explain(error), error.exit_code)
    except TimebellError as error:
        return _refuse(
            str(error), _USAGE if isinstance(error, ConfigurationError | InvalidInput) else _FAILURE
        )
    except BrokenPipeError:
        # Whoever read the answer has read enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except DATABASE_ERRORS as error:
        return _refuse(f"the database failed: {str(error) or type(error).__name__}", _FAILURE)
    except KeyboardInterrupt:
        return _INTERRUPTED


def _explain(error: click.ClickException) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    help_for = "" if context is None else f" See `{context.command_path} --help`."
    return " ".join(error.format_message().split()).rstrip(".") + "." + help_for


def _refuse(reason: str, code: int) -> int:
    with suppress(OSError):
        click.echo(f"timebell: {without_passwords(reason)}", err=True)
    return code


def _end(code: int) -> NoReturn:
    """A handler's thread that does not end would keep the process alive; its job was given back already."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            # Its reader is gone, and must not become the reason for another code.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    if any(thread.name.startswith("timebell") for thread in threading.enumerate()):
        logging.shutdown()
        os._exit(code)
    sys.exit(code)
