"""The apps' parts in a world. Each lies with the tests of its app, and is taken away with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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

    `plants` names the module that has the bugs to plant in it, as `PLANTS`.
    """

    app: App
    queries: str
    telling: tuple[str, ...]
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
