"""A planted change: one fault in one file, and the tests that have to notice it."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path

from tests.shape.tree import PACKAGE, TESTS


class Stale(Exception):
    """The text that a change replaces is not there, or is there more than once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """`file` lies in the package. `tests` are what pytest is called with, and take some seconds. `survives` says why no
    test can notice the change, where that is so."""

    name: str
    file: str
    old: str
    new: str
    why: str
    tests: tuple[str, ...]
    survives: str | None = None

    def applied_to(self, text: str) -> str:
        times = text.count(self.old)
        if times != 1:
            raise Stale(
                f"{self.name}: what it replaces is {times} times in {self.file}, and has to be there once"
            )
        return text.replace(self.old, self.new)


def planted() -> list[Planted]:
    """All of them: those of each package here, and those of an app with its tests."""
    homes = sorted((TESTS / "mutants").glob("in_*.py")) + sorted((TESTS / "apps").glob("*/planted.py"))
    return [each for home in homes for each in _list_of(home)]


def _list_of(home: Path) -> list[Planted]:
    module = ".".join(home.relative_to(TESTS.parent).with_suffix("").parts)
    found: list[Planted] = importlib.import_module(module).PLANTED
    return found


def path_of(change: Planted, package: Path = PACKAGE) -> Path:
    return package / change.file
