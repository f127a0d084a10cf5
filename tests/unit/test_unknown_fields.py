"""Of a field that is not known it is said which one was probably meant, and which there are."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, ValidationError

from timebell.web.operation.fields import Input
from timebell.web.operation.operations import refusal_of
from timebell.web.operation.unknown_fields import EXPLAINED_MAX


class Shelf(Input):
    width: int = 1
    from_: int = Field(default=1, alias="from")


class Box(Input):
    sort: Literal["box"] = "box"
    height: int = 1


class Rack(Input):
    sort: Literal["rack"] = "rack"
    shelves: list[Shelf] | None = None


class Room(Input):
    title: str = ""
    shelf: Shelf | None = None
    things: list[Annotated[Box | Rack, Field(discriminator="sort")]] = Field(default_factory=list)


class Door(Input):
    width: int


class Nothing(Input):
    pass


def said(model: type[Input], given: Any, prefix: str = "") -> list[tuple[str, str]]:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(given)
    problem = refusal_of(caught.value, prefix, model)
    return [(each.pointer, each.message) for each in problem.errors]


@pytest.mark.parametrize(
    ("given", "pointer", "message"),
    [
        ({"titel": "a"}, "/titel", "did you mean title? There are title, shelf, things"),
        ({"colour": 1}, "/colour", "leave it out. There are title, shelf, things"),
        ({"shelf": {"wide": 1}}, "/shelf/wide", "did you mean width? There are width, from"),
        ({"shelf": {"form": 1}}, "/shelf/form", "did you mean from? There are width, from"),
        ({"things": [{"sort": "box", "hight": 1}]}, "/things/0/box/hight", "did you mean height? There are "),
        (
            {"things": [{"sort": "rack", "shelves": [{"widht": 1}]}]},
            "/things/0/rack/shelves/0/widht",
            "did you mean width? There are width, from",
        ),
    ],
)
def test_what_was_meant_and_what_there_is(given: Any, pointer: str, message: str) -> None:
    [(where, words)] = said(Room, given)
    assert where == pointer
    assert words.startswith("there is no such field here; ")
    assert message in words


def test_a_parameter_is_one_too() -> None:
    [(where, words)] = said(Room, {"titel": "a"}, "?")
    assert (where, "did you mean title?" in words) == ("?titel", True)


def test_a_name_that_is_spelled_wrongly_comes_before_the_one_that_is_missing() -> None:
    with pytest.raises(ValidationError) as caught:
        Door.model_validate({"widht": 1})
    problem = refusal_of(caught.value, "", Door)
    assert [each.pointer for each in problem.errors] == ["/width", "/widht"]
    assert problem.detail == "widht: there is no such field here; did you mean width? There is width"


def test_where_there_is_none_it_is_left_out() -> None:
    assert said(Nothing, {"a": 1}) == [("/a", "there is no such field here; leave it out")]


def test_of_very_many_only_the_first_are_looked_at_closely() -> None:
    messages = [message for _, message in said(Room, {f"titl{number}": 1 for number in range(1_000)})]
    assert len(messages) == 50
    assert sum("did you mean" in message for message in messages) == EXPLAINED_MAX


def test_what_else_is_wrong_is_said_as_before() -> None:
    [(where, words)] = said(Room, {"title": 1})
    assert (where, words) == ("/title", "Input should be a valid string")
