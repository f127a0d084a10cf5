"""Hints about a field that is not known: which one was probably meant, and which there are."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails

# A name is compared with those of a model, which takes its time; a body may have thousands of them.
EXPLAINED_MAX: Final = 20
UNKNOWN: Final = "extra_forbidden"
_SHOWN_MAX: Final = 40
_CHARS_MAX: Final = 100


def messages_of(errors: Iterable[ErrorDetails], model: type[BaseModel] | None) -> Iterator[str]:
    """What each error says, and of a name that is not known what to do about it."""
    explained = 0
    for each in errors:
        if each["type"] != UNKNOWN:
            yield each["msg"].removeprefix("Value error, ")
            continue
        explained += 1
        yield unknown_field(model if explained <= EXPLAINED_MAX else None, each["loc"])


def unknown_field(model: type[BaseModel] | None, place: Sequence[int | str]) -> str:
    """What is said of the last name of a place, where a model knows the way to it."""
    names = _names(_models_at(model, place[:-1]))
    if not names:
        return "there is no such field here; leave it out"
    given = str(place[-1])[:_CHARS_MAX]
    nearest = difflib.get_close_matches(given, names, n=1)
    meant = f"; did you mean {nearest[0]}?" if nearest else "; leave it out."
    shown = ", ".join(names[:_SHOWN_MAX]) + (", …" if len(names) > _SHOWN_MAX else "")
    return f"there is no such field here{meant} There {'is' if len(names) == 1 else 'are'} {shown}"


def _models_at(model: type[BaseModel] | None, way: Iterable[int | str]) -> list[type[BaseModel]]:
    """Those that may stand at a place. What is no field on the way is a number in a list, or the name of a choice."""
    found = [] if model is None else [model]
    for part in way:
        fields = [
            field.annotation
            for each in found
            for name, field in each.model_fields.items()
            if part in (field.alias, name)
        ]
        if fields:
            found = [inner for annotation in fields for inner in _models_in(annotation)]
    return found


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        return
    for inner in get_args(annotation):
        yield from _models_in(inner)


def _names(models: Iterable[type[BaseModel]]) -> list[str]:
    """As callers write them, each once, in the order of the models."""
    return list(
        dict.fromkeys(field.alias or name for each in models for name, field in each.model_fields.items())
    )
