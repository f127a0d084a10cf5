"""The starting sets: templates and sequences that a tenant can begin with, as files that are there to be read."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

from timebell.apps.sequences.bodies import SequenceInput
from timebell.apps.sequences.models import NewSequence
from timebell.notify import TemplateDraft, Text, Variable

SETS: Final = ("guest_stay", "event_tickets", "trial")


@dataclass(frozen=True, slots=True, kw_only=True)
class StartingSet:
    """What one file says, in the order in which it says it."""

    templates: tuple[TemplateDraft, ...]
    sequences: tuple[NewSequence, ...]


def read_set(name: str) -> StartingSet:
    """A set as it can be saved: its sequences are what `POST /api/sequences` takes."""
    said = tomllib.loads(files(__name__).joinpath(f"{name}.toml").read_text(encoding="utf-8"))
    return StartingSet(
        templates=tuple(_draft_of(each) for each in said["templates"]),
        sequences=tuple(SequenceInput.model_validate(each).sequence() for each in said["sequences"]),
    )


def _draft_of(said: Mapping[str, Any]) -> TemplateDraft:
    given = dict(said)
    texts = [Text(**each) for each in given.pop("texts")]
    variables = [Variable(**each) for each in given.pop("variables")]
    return TemplateDraft(texts=texts, variables=variables, **given)
