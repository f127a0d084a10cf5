"""Mapping of a sequence's terms between records and JSON, which callers write and versions keep. One form for both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import orjson

from timebell.apps.sequences.models import Conditions, SequenceStep, Terms
from timebell.apps.sequences.rules import read_offset, read_time_of_day, show_offset

# The source's names of conditions, and ours.
CONDITIONS: Final[Mapping[str, str]] = {
    "minDaysOut": "days_out_min",
    "maxDaysOut": "days_out_max",
    "bookingSubtype": "subtypes",
    "language": "languages",
    "hasPhone": "has_phone",
    "status": "statuses",
}
_WORDS: Final = frozenset({"subtypes", "languages", "statuses"})


def conditions_json(conditions: Conditions) -> dict[str, Any]:
    """Without what does not matter. One word stands for itself, several are a list."""
    shown: dict[str, Any] = {}
    for name, ours in CONDITIONS.items():
        value = getattr(conditions, ours)
        if ours in _WORDS and value is not None:
            shown[name] = value[0] if len(value) == 1 else list(value)
        elif value is not None:
            shown[name] = value
    return shown


def conditions_of(stored: Mapping[str, Any]) -> Conditions:
    return Conditions(**{CONDITIONS[name]: _value(CONDITIONS[name], value) for name, value in stored.items()})


def _value(ours: str, value: Any) -> Any:
    if ours not in _WORDS:
        return value
    return (value,) if isinstance(value, str) else tuple(value)


def step_json(step: SequenceStep) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "key": step.key,
        "anchor": step.anchor,
        "offset": show_offset(step.offset),
        "at": None if step.at is None else step.at.isoformat("auto" if step.at.second else "minutes"),
        "channel": step.channel,
        "templateId": step.template,
        "contacts": step.contacts,
        "conditions": conditions_json(step.conditions),
    }
    return shown


def step_of(stored: Mapping[str, Any]) -> SequenceStep:
    return SequenceStep(
        key=stored["key"],
        template=stored["templateId"],
        anchor=stored["anchor"],
        offset=read_offset(stored["offset"]),
        at=None if stored["at"] is None else read_time_of_day(stored["at"]),
        channel=stored["channel"],
        contacts=stored["contacts"],
        conditions=conditions_of(stored["conditions"]),
    )


def terms_columns(terms: Terms) -> dict[str, str]:
    return {
        "conditions": orjson.dumps(conditions_json(terms.conditions)).decode(),
        "steps": orjson.dumps([step_json(step) for step in terms.steps]).decode(),
    }


@lru_cache(maxsize=1_000)
def terms_of(conditions: str, steps: str) -> Terms:
    """The same text is the same terms, and many subjects are in few sequences."""
    stored: Sequence[Mapping[str, Any]] = orjson.loads(steps)
    return Terms(
        steps=tuple(step_of(step) for step in stored), conditions=conditions_of(orjson.loads(conditions))
    )
