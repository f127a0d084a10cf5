"""The page about Python names everything that is public, each verb and each field."""

from __future__ import annotations

import dataclasses
import inspect
import re

import pytest

import timebell
from tests.shape.tree import ROOT
from timebell.kernel.schedules.schedules import Schedules

PAGE = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
# Fields that the engine fills in for its own use, and what a policy is made of below its two constructors.
INNER = {"is_async", "transaction", "beat", "delays"}
# How the parts are put together is told elsewhere, or is nobody's business but the server's.
INSIDE = {"declare", "close"}
ELSEWHERE = {"Registry", "__version__"}
# Its fields are the answers of an agenda, which have a page of their own.
SPECIFIED = {"AgendaDiff"}


def is_named(name: str) -> bool:
    """In code, or as a heading."""
    return any(re.search(rf"\b{name}\b", told) for told in re.findall(r"`[^`]+`|^#+ .+$", PAGE, re.MULTILINE))


def fields_of(name: str) -> set[str]:
    """What a record is made of; nothing for what is no record."""
    public = getattr(timebell, name)
    if dataclasses.is_dataclass(public):
        return {field.name for field in dataclasses.fields(public)}
    return set(getattr(public, "_fields", ()))


def test_every_public_name_is_told() -> None:
    assert {name for name in timebell.__all__ if not is_named(name)} <= ELSEWHERE


@pytest.mark.parametrize(
    "record", [name for name in timebell.__all__ if fields_of(name) and name not in SPECIFIED]
)
def test_every_field_is_told(record: str) -> None:
    names = fields_of(record) - INNER
    assert {name for name in names if not is_named(name)} == set()


@pytest.mark.parametrize(
    ("owner", "prefix", "elsewhere"),
    [
        (timebell.Timebell, "", INSIDE | {"wake", "transaction", "join"}),
        # What the planner does when clocks are changed by law is nothing that a caller asks for.
        (Schedules, r"schedules\.", {"replan"}),
    ],
)
def test_every_verb_and_its_arguments_are_told(owner: type, prefix: str, elsewhere: set[str]) -> None:
    for name, verb in inspect.getmembers(owner, inspect.isfunction):
        if name.startswith("_") or name in elsewhere:
            continue
        [told] = re.findall(rf"^\| `{prefix}{name}\((.*?)\)` \|", PAGE, re.MULTILINE)
        arguments = set(inspect.signature(verb).parameters) - {"self", "options"}
        assert {each for each in arguments if not re.search(rf"\b{each}\b", told)} == set(), name
