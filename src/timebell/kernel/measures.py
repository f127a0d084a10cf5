"""Metrics of an app: measures that it counts for its operators, and gauges of what the database has."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from timebell.db.pool import Session
from timebell.errors import ConfigurationError
from timebell.kernel.insights.records import QueueDepth
from timebell.kernel.statements import Statements

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,99}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A figure that a process adds to: a `counter`, whose name is shown with `_total` behind it, or a `histogram` of
    seconds. A label has few values, and never a tenant or a person."""

    name: str
    about: str
    sort: Literal["counter", "histogram"] = "counter"
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_measure(self.name)
        if self.sort == "histogram" and self.labels:
            raise ConfigurationError(f"measure {self.name!r}: a histogram has no labels here; leave them out")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """A figure that is asked of the depths of the queues, by their names. None where it is not to be had."""

    name: str
    about: str
    of: Callable[[Mapping[str, QueueDepth]], float | None]

    def __post_init__(self) -> None:
        check_measure(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableGauge:
    """Figures that are asked of the tables of an app, by the few values of one label. `ask` is a method of the `store`
    that is given a session which only reads; now and then, together with the other figures of the database."""

    name: str
    about: str
    label: str
    store: type[Statements]
    ask: Callable[[Any, Session], Awaitable[Mapping[str, float]]]

    def __post_init__(self) -> None:
        check_measure(self.name)


def check_measure(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ConfigurationError(f"measure {name!r}: use lower case letters, digits and underscores")
