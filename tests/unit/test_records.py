"""A record that is made quickly is the same record."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass, field, replace

import pytest

from timebell.kernel.records import quickly_made


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    name: str
    number: int = 7
    parts: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("name: is empty")


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Quick:
    name: str
    number: int = 7
    parts: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("name: is empty")


@pytest.mark.parametrize("values", [{}, {"number": 8}, {"parts": [1]}, {"number": 0, "parts": []}])
def test_it_has_the_same_fields(values: dict[str, object]) -> None:
    plain, quick = Plain(name="a", **values), Quick(name="a", **values)  # type: ignore[arg-type]
    assert [getattr(quick, name) for name in Quick.__slots__] == [
        getattr(plain, name) for name in Plain.__slots__
    ]
    assert repr(quick) == repr(plain).replace("Plain", "Quick")
    assert quick == Quick(name="a", **values)  # type: ignore[arg-type]
    assert replace(quick, name="b") == Quick(name="b", **values)  # type: ignore[arg-type]


def test_what_is_made_for_one_is_not_shared_with_another() -> None:
    first, second = Quick(name="a"), Quick(name="b")
    first.parts.append(1)
    assert second.parts == []


def test_it_is_still_frozen_and_still_checked() -> None:
    with pytest.raises(FrozenInstanceError):
        Quick(name="a").name = "b"  # type: ignore[misc]
    with pytest.raises(ValueError, match="name: is empty"):
        Quick(name="")


@pytest.mark.parametrize(
    ("values", "refusal"),
    [
        ({}, "missing 1 required keyword-only argument: 'name'"),
        ({"name": "a", "colour": "red"}, "unexpected keyword argument 'colour'"),
    ],
)
def test_what_does_not_fit_is_refused_in_the_same_words(values: dict[str, str], refusal: str) -> None:
    for record in (Plain, Quick):
        with pytest.raises(TypeError, match=refusal):
            record(**values)  # type: ignore[arg-type]
