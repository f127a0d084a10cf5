"""The map is what the imports say, and leads to files that are there."""

from __future__ import annotations

import re

import pytest

from ops import architecture

PAGE = architecture.PAGE.read_text(encoding="utf-8")


def test_the_map_is_what_the_imports_say() -> None:
    assert architecture.page() == PAGE, "draw it anew: python -m ops.architecture"


def test_every_room_says_what_is_in_it() -> None:
    places = [place.strip() for layer in architecture.layers() for place in layer.split("|")]
    rooms = [f"{place}/{room}" for place in places for room in architecture.rooms_of(place)]
    assert [room for room in rooms if not architecture.about(room)] == []


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:\w+/)+\w+\.(?:py|md))`", PAGE))))
def test_what_it_points_at_is_there(path: str) -> None:
    homes = (architecture.ROOT, architecture.PACKAGE, architecture.ROOT / "docs")
    assert any((home / path).exists() for home in homes)


@pytest.mark.parametrize(
    ("module", "room"),
    [
        ("timebell.notify.people.recipients", "notify/people"),
        ("timebell.notify.people", "notify/people"),
        ("timebell.notify.models", "notify"),
        ("timebell.errors", "errors"),
        ("asyncio", None),
    ],
)
def test_where_a_module_is(module: str, room: str | None) -> None:
    assert architecture.room_of(module) == room
