"""The HTTP API of Timebell, and what an app needs to serve something of its own."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from timebell.db.walls import walled_to
    from timebell.kernel.paging import Page, decode_cursor, encode_cursor, page_of
    from timebell.rules.localtime import show_instant
    from timebell.web.operation.bodies import read_bytes
    from timebell.web.operation.calls import Call
    from timebell.web.operation.fields import (
        Duration,
        Input,
        Instant,
        Listed,
        LocalTime,
        Output,
        PageQuery,
        SecretText,
        listed,
        read_local,
    )
    from timebell.web.operation.pages import page
    from timebell.web.operation.problems import FieldError, Problem, ProblemForm, in_field
    from timebell.web.operation.routes import Answer, Route
    from timebell.web.operation.surface import Surface
    from timebell.web.streams.secret_feeds import SecretFeed

__all__ = [
    "Answer",
    "Call",
    "Duration",
    "FieldError",
    "Input",
    "Instant",
    "Listed",
    "LocalTime",
    "Output",
    "Page",
    "PageQuery",
    "Problem",
    "ProblemForm",
    "Route",
    "SecretFeed",
    "SecretText",
    "Surface",
    "decode_cursor",
    "encode_cursor",
    "in_field",
    "listed",
    "page",
    "page_of",
    "read_bytes",
    "read_local",
    "show_instant",
    "walled_to",
]

_PLACES: Final = {
    "timebell.db.walls": ("walled_to",),
    "timebell.kernel.paging": ("Page", "decode_cursor", "encode_cursor", "page_of"),
    "timebell.rules.localtime": ("show_instant",),
    "timebell.web.operation.bodies": ("read_bytes",),
    "timebell.web.operation.calls": ("Call",),
    "timebell.web.operation.fields": (
        "Duration",
        "Input",
        "Instant",
        "Listed",
        "LocalTime",
        "Output",
        "PageQuery",
        "SecretText",
        "listed",
        "read_local",
    ),
    "timebell.web.operation.pages": ("page",),
    "timebell.web.operation.problems": ("FieldError", "Problem", "ProblemForm", "in_field"),
    "timebell.web.operation.routes": ("Answer", "Route"),
    "timebell.web.streams.secret_feeds": ("SecretFeed",),
    "timebell.web.operation.surface": ("Surface",),
}


def __getattr__(name: str) -> Any:
    """Whoever serves nothing does not load what serves: half of the time that a command takes to start."""
    for place, names in _PLACES.items():
        if name in names:
            return getattr(importlib.import_module(place), name)
    raise AttributeError(f"module 'timebell.web' has no attribute {name!r}")
