"""The public surface is one list: a name is added to it, or taken away, on purpose."""

from __future__ import annotations

import importlib
from pathlib import Path

PINNED = Path(__file__).with_name("public_names.txt")


def differences(pinned: list[str], exported: list[str]) -> list[str]:
    gone = [
        f"- {name} is pinned in {PINNED.name} but not exported" for name in pinned if name not in exported
    ]
    new = [f"+ {name} is exported but not pinned in {PINNED.name}" for name in exported if name not in pinned]
    twice = [f"! {name} is exported twice" for name in sorted(set(exported)) if exported.count(name) > 1]
    return gone + new + twice


def pinned_names() -> list[str]:
    lines = PINNED.read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def test_the_public_names_are_the_pinned_ones() -> None:
    exported = list(getattr(importlib.import_module("timebell"), "__all__", []))
    found = differences(pinned_names(), exported)
    assert not found, "the public names of timebell have changed:\n" + "\n".join(found)


def test_every_public_name_exists() -> None:
    package = importlib.import_module("timebell")
    missing = [name for name in getattr(package, "__all__", []) if not hasattr(package, name)]
    assert not missing, f"timebell.__all__ names what timebell does not have: {missing}"


def test_the_pinned_names_are_in_order() -> None:
    names = pinned_names()
    assert names == sorted(names, key=str.casefold)


def test_the_comparison_itself() -> None:
    assert differences(["App", "Done"], ["Done", "App"]) == []
    assert differences(["App"], ["Done", "Done"]) == [
        "- App is pinned in public_names.txt but not exported",
        "+ Done is exported but not pinned in public_names.txt",
        "+ Done is exported but not pinned in public_names.txt",
        "! Done is exported twice",
    ]
