"""What a job carries is read back as what was to be told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from timebell.notify.models import Route
from timebell.notify.rules.intents import Intent, intent_of

OCCURRENCE = {
    "schedule_id": "s",
    "occurrence_id": "o",
    "original_local": "2026-03-06T17:00:00",
    "occurs_at": "2026-03-06T16:00:00+00:00",
}


def intent(context: dict[str, Any]) -> Intent:
    return Intent(
        recipient=UUID(int=1),
        template="a",
        template_version=1,
        topic="a",
        message_class="transactional",
        route=Route(),
        context=context,
    )


def test_what_is_planned_without_a_schedule_is_read_as_it_was_written() -> None:
    assert intent_of(intent({"title": "A", "data": {"n": 1}}).payload()) == intent(
        {"title": "A", "data": {"n": 1}}
    )


def test_what_reads_the_context_goes_along() -> None:
    named = replace(intent({"title": "A"}), context_from="app.facts")
    assert named.payload()["context_from"] == "app.facts"
    assert intent_of(named.payload()) == named
    assert "context_from" not in intent({}).payload()


@pytest.mark.parametrize(
    ("context", "data"),
    [
        ({}, OCCURRENCE),
        ({"data": {"n": 1}}, {**OCCURRENCE, "n": 1}),
        ({"data": {"occurs_at": "mine"}}, {**OCCURRENCE, "occurs_at": "mine"}),
        ({"data": "a text"}, "a text"),
    ],
)
def test_a_step_of_a_schedule_knows_its_occurrence(context: dict[str, Any], data: object) -> None:
    read = intent_of({**intent(context).payload(), **OCCURRENCE, "missed_count": 1})
    assert read.context == {**OCCURRENCE, **context, "data": data}
