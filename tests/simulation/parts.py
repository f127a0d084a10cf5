"""The apps' parts in a world. Each lies with the tests of its app, and is taken away with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

from tests.history import Record
from tests.simulation.asking import Asking
from tests.simulation.scene import Scene
from timebell.kernel import App

_TESTS = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What an app brings into a world: people who use it, and statements around which a fault is most telling.

    `queries` are the packages that have its statements, and `plants` names the module that has the bugs to plant in it,
    as `PLANTS`. `telling_of_nodes` are statements around which faults hit nodes more often, and `logs` the loggers that
    tell it as an error where a connection was cut. `prepare` is run once in each database, `stretched` is how beats go
    by the hour as those of the engine do, and `texts` has words that are in what people are told by a template, where
    that does not name what it is about.
    """

    app: App
    queries: tuple[str, ...]
    telling: tuple[str, ...]
    telling_of_nodes: tuple[str, ...] = ()
    logs: tuple[str, ...] = ()
    prepare: str = ""
    stretched: Callable[[], AbstractContextManager[object]] = nullcontext
    texts: Mapping[str, str] = field(default_factory=dict)
    plants: str
    make: Callable[[int, Scene, Callable[[Record], None], psycopg.Connection[Any]], Asking]
    is_in: Callable[[Scene], bool]


@cache
def parts() -> Sequence[Part]:
    names = sorted(path.parts[-3] for path in _TESTS.glob("apps/*/simulation/part.py"))
    return [
        import_module(f"tests.apps.{name}.simulation.part").PART
        for name in names
        if find_spec(f"timebell.apps.{name}") is not None
    ]
