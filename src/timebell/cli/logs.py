"""Log lines of the command line: to standard error, for people or for machines, and never with a password."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_PASSWORD = re.compile(r"(?P<before>\b[a-z][a-z0-9+.-]*://[^\s:/@]*:)[^\s/@]+(?=@)")


def without_passwords(text: str) -> str:
    """The text with the password of every URL in it masked."""
    return _PASSWORD.sub(r"\g<before>***", text)


def _mask(_logger: object, _method: str, entry: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for name, value in entry.items():
        if isinstance(value, str):
            entry[name] = without_passwords(value)
    return entry


def set_up_logs(level: str, form: str) -> None:
    """Our own lines and those of the libraries go the same way, because an operator reads one stream."""
    shared: list[Any] = [
        # What a request or an attempt bound: its correlation id, and which job it is.
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _mask,
    ]
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if form == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    logging.basicConfig(level=_LEVELS[level], handlers=[handler], force=True)
    # The engine says itself that the database is away; the driver would add a traceback for each connection.
    logging.getLogger("asyncpg").setLevel(logging.ERROR)
    # Below a warning these write out URLs, headers and whole messages, secrets and addresses among them.
    for name in ("apprise", "httpcore2", "urllib3"):
        logging.getLogger(name).setLevel(logging.WARNING)
