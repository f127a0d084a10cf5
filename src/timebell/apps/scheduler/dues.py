"""The message that goes out: `ScheduleDue`, the same for whoever publishes it and however often."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, NamedTuple
from uuid import UUID

import orjson

from timebell.apps.scheduler.topology import EXCHANGE, due_key
from timebell.brokers import Message
from timebell.rules.planned import occurrence_id

DUE: Final = "ScheduleDue"
SHORT_BYTES_MAX: Final = 255
_SOURCE: Final = "timebell"
_SNOOZE_MIN: Final = timedelta(seconds=1)
_SNOOZE_MAX: Final = timedelta(seconds=60)


class Due(NamedTuple):
    """One request that is due. `occurrence` names which of its occurrences; it has none if it is due once."""

    id: str
    tenant: str
    due_at: datetime
    fired_at: datetime
    occurrence: str | None = None
    payload: str | None = None
    correlation_id: str | None = None


@lru_cache(maxsize=1_024)
def written(instant: datetime) -> str:
    """An instant in UTC, always with six digits, so that the same one is the same text. Many are due at once."""
    return f"{instant.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def message_id(tenant: str, id: str, due_at: datetime) -> str:
    """What duplicates are known by. AMQP gives it 255 bytes; what is longer is named by its hash."""
    return _message_id(tenant, id, written(due_at))


def _message_id(tenant: str, id: str, due: str) -> str:
    name = f"{tenant}/{id}/{due}"
    encoded = name.encode()
    return name if len(encoded) <= SHORT_BYTES_MAX else f"sha256:{sha256(encoded).hexdigest()}"


def message_of(due: Due) -> Message:
    fired_at, due_at = written(due.fired_at), written(due.due_at)
    named = _message_id(due.tenant, due.id, due_at)
    body = orjson.dumps(
        {
            "type": DUE,
            "id": due.id,
            "tenant": due.tenant,
            "fired_at": fired_at,
            "scheduled_for": due_at,
            "occurrence": due.occurrence,
            "payload": None if due.payload is None else orjson.Fragment(due.payload),
        }
    )
    return Message(
        exchange=EXCHANGE,
        routing_key=due_key(due.tenant),
        body=body,
        type=DUE,
        message_id=named,
        correlation_id=_short(due.correlation_id),
        timestamp=due.fired_at,
        headers={
            "cloudEvents:specversion": "1.0",
            "cloudEvents:id": named,
            "cloudEvents:source": _SOURCE,
            "cloudEvents:type": DUE,
            "cloudEvents:time": fired_at,
        },
    )


def _short(text: str | None) -> str | None:
    """A property is a text of AMQP's; what a caller over HTTP gave may be longer."""
    return text if text is not None and len(text.encode()) <= SHORT_BYTES_MAX else None


def occurrence_of(payload: dict[str, Any]) -> str | None:
    """The wall time that an occurrence is known by, marked in the second pass of a fold; None of what is due once."""
    named, schedule = payload.get("occurrence_id"), payload.get("schedule_id")
    if named is None or schedule is None:
        return None
    local = str(payload["original_local"])
    is_second = occurrence_id(UUID(schedule), datetime.fromisoformat(local), 1) == UUID(named)
    return f"{local}~2" if is_second else local


def again_after(lateness: timedelta) -> timedelta:
    """How long to wait with what no queue takes: the later it is, the longer, from a second to a minute."""
    return min(max(lateness / 10, _SNOOZE_MIN), _SNOOZE_MAX)
