"""Log lines of the command line: to standard error, for people or for machines, and never with a password."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, MutableMapping
from typing import Any

import structlog
from structlog.typing import Processor

from timebell.cli.lines import Lines
from timebell.cli.printing import harmless
from timebell.logs import FACTS, without_passwords

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_TRACEBACK_CHARS_MAX = 20_000


def _facts(_logger: object, _method: str, entry: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A line of our own brings its facts apart from its words."""
    entry.update(getattr(entry.get("_record"), FACTS, {}))
    return entry


def _each_text(change: Callable[[str], str]) -> Processor:
    def changed(_logger: object, _method: str, entry: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        for name, value in entry.items():
            if isinstance(value, str):
                entry[name] = change(value)
        return entry

    return changed


def _cut(_logger: object, _method: str, entry: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """The beginning and the end of a long traceback tell what there is to be told."""
    text = entry.get("exception")
    if isinstance(text, str) and len(text) > _TRACEBACK_CHARS_MAX:
        half = _TRACEBACK_CHARS_MAX // 2
        entry["exception"] = f"{text[:half]}\n…\n{text[-half:]}"
    return entry


def set_up_logs(level: str, form: str) -> None:
    """Our own lines, those of the libraries and those of apps go the same way, because an operator reads one stream."""
    shared: list[Any] = [
        # What a request or an attempt bound: its correlation id, and which job it is.
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        # Before it is cut, for half a URL does not look like one.
        _each_text(without_passwords),
        _cut,
    ]
    rendering: list[Any] = (
        [structlog.processors.JSONRenderer(default=str)]
        if form == "json"
        else [_each_text(harmless), structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = Lines(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[_facts, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    logging.basicConfig(level=_LEVELS[level], handlers=[handler], force=True)
    # The engine says itself that the database is away; the driver would add a traceback for each connection.
    logging.getLogger("asyncpg").setLevel(logging.ERROR)
    # Below a warning these write out URLs, headers and whole messages, secrets and addresses among them.
    for name in ("apprise", "httpcore2", "urllib3"):
        logging.getLogger(name).setLevel(logging.WARNING)
