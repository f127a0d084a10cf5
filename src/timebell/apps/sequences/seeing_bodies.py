"""Request and response bodies that explain messages: why they are sent then or are not, and when each is due."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field

from timebell.apps.sequences.answer_bodies import (
    CamelOutput,
    MessageRow,
    message_row,
)
from timebell.apps.sequences.explaining import Explained
from timebell.apps.sequences.models import Anchor, Message, MessageStatus
from timebell.apps.sequences.preview_bodies import local_time
from timebell.apps.sequences.terms import step_json
from timebell.web import Instant, PageQuery, show_instant


class ConditionRow(CamelOutput):
    """A condition, what it asks for and what was found. `met` is null where there is nobody to ask it of any more."""

    of: Literal["sequence", "step"]
    name: str
    wanted: Any
    found: Any
    met: bool | None


class LineRow(CamelOutput):
    at: Instant | None
    text: str


class ExplanationRow(CamelOutput):
    """Why a message is sent then, or is not: in one sentence, by what it was decided from, and step by step.

    `anchorAt` is the instant that it is counted from, and `measuredAt` the one at which it was measured how many days
    the dates are out; the other conditions are shown as they are now. `version` is the one of the sequence that
    applies; where that has the step no more, `anchor` and `offset` are null.
    """

    id: UUID
    status: MessageStatus
    reason: str | None
    summary: str
    scheduled_for: Instant | None
    local_time: str | None
    timezone: str
    sequence_id: UUID
    version: int
    step_key: str
    anchor: Anchor | None
    anchor_at: Instant | None
    offset: str | None
    at: str | None
    event_at: Instant
    measured_at: Instant
    conditions: list[ConditionRow]
    story: list[LineRow]


class WhyNotQuery(PageQuery):
    limit: Annotated[int, Field(ge=1, le=100, strict=False)] = 50


class WhyNotRow(MessageRow):
    """A message that did not go to the contact; `why` says the reason in a sentence."""

    why: str


class CalendarRow(MessageRow):
    """A message at its instant. `localTime` is that on the booking's wall clock."""

    local_time: str | None
    contact_name: str | None


def explanation_row(explained: Explained) -> dict[str, Any]:
    grounds = explained.grounds
    message, step, timezone = grounds.message, grounds.step, grounds.subject.timezone
    said = None if step is None else step_json(step)
    return {
        "id": message.id,
        "status": message.status,
        "reason": message.reason,
        "summary": explained.summary,
        "scheduledFor": _shown(message.due_at),
        "localTime": local_time(message.due_at, timezone),
        "timezone": timezone,
        "sequenceId": message.sequence_id,
        "version": grounds.version,
        "stepKey": message.step,
        **{name: None if said is None else said[name] for name in ("anchor", "offset", "at")},
        "anchorAt": _shown(grounds.anchor_at),
        "eventAt": _shown(grounds.event_at),
        "measuredAt": _shown(grounds.measured_at),
        "conditions": [
            {"of": one.of, "name": one.name, "wanted": one.wanted, "found": one.found, "met": one.is_met}
            for one in grounds.conditions
        ],
        "story": [{"at": _shown(line.at), "text": line.text} for line in explained.story],
    }


def _shown(at: datetime | None) -> str | None:
    return None if at is None else show_instant(at)


def calendar_row(message: Message, name: str | None, timezone: str) -> dict[str, Any]:
    return {
        **message_row(message),
        "localTime": local_time(message.due_at, timezone),
        "contactName": name,
    }
