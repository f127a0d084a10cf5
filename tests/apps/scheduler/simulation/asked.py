"""What services want in a world: messages under their own ids, and what they send to have them, or not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from tests.history_records import NEVER
from timebell.apps.scheduler.messages import BODY_BYTES_MAX
from timebell.apps.scheduler.topology import EXCHANGE
from timebell.brokers import Message

Sort = Literal["request", "cancel", "poison"]
_KEYS: Mapping[Sort, str] = {
    "request": "schedule.request",
    "cancel": "schedule.cancel",
    "poison": "schedule.request",
}
_UNITS = ((3600, "HOURLY"), (60, "MINUTELY"), (1, "SECONDLY"))


@dataclass(slots=True, kw_only=True, eq=False)
class Sending:
    """One message that a service sends, as often as it takes until the broker has confirmed it.

    `instants` are when a request is for, and `misfire` is there if it recurs. `taken_at` is when it was first
    acknowledged. `copy_count` says how often it came to the queue, and `taken_count` how often it was acknowledged.
    """

    name: str
    sort: Sort
    body: bytes
    tenant: str = ""
    id: str = ""
    instants: Sequence[datetime] = ()
    misfire: str | None = None
    payload: Any = None
    # Of poison: why it is none of what can be done.
    reason: str | None = None
    sent_at: datetime = NEVER
    taken_at: datetime | None = None
    last_taken_at: datetime | None = None
    is_confirmed: bool = False
    copy_count: int = 0
    taken_count: int = 0

    @property
    def is_under_way(self) -> bool:
        """Whether a copy of it may still be taken."""
        return self.copy_count > self.taken_count

    def again(self, name: str) -> Sending:
        """The same under another name, of which nothing was sent yet."""
        return Sending(
            name=name,
            sort=self.sort,
            body=self.body,
            tenant=self.tenant,
            id=self.id,
            instants=self.instants,
            misfire=self.misfire,
            payload=self.payload,
        )

    def message(self) -> Message:
        return Message(
            exchange=EXCHANGE,
            routing_key=_KEYS[self.sort],
            body=self.body,
            message_id=self.name,
            correlation_id=self.id or None,
        )


@dataclass(slots=True, kw_only=True, eq=False)
class Wish:
    """What a service wants under one id of its own, and all that it sent for that."""

    tenant: str
    id: str
    is_recurring: bool = False
    # Nothing but what was asked for happened to it.
    is_calm: bool = False
    requests: list[Sending] = field(default_factory=list)
    cancels: list[Sending] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, str]:
        return self.tenant, self.id

    @property
    def taken_at(self) -> datetime | None:
        return min((each.taken_at for each in self.requests if each.taken_at), default=None)

    @property
    def cancel_sent_at(self) -> datetime:
        """From when on it may have been cancelled."""
        return min((each.sent_at for each in self.cancels), default=NEVER)

    @property
    def cancel_taken_at(self) -> datetime:
        """From when on it was, for sure."""
        return min((each.taken_at for each in self.cancels if each.taken_at), default=NEVER)

    @property
    def timings(self) -> frozenset[tuple[datetime, ...]]:
        """What was asked for: one, unless another took its place."""
        return frozenset(tuple(each.instants) for each in self.requests)

    @property
    def instants(self) -> frozenset[datetime]:
        return frozenset(instant for each in self.requests for instant in each.instants)


def written(instant: datetime) -> str:
    return instant.astimezone(UTC).isoformat()


def request(name: str, wish: Wish, tenants: Sequence[str], timing: Mapping[str, Any]) -> Sending:
    """A request under the wish's id; what recurs has its instants worked out here, by adding."""
    payload = {"for": name}
    body = {"type": "ScheduleRequest", "id": wish.id, "payload": payload, **_tenant(wish, tenants)}
    if (at := timing.get("at")) is not None:
        body |= {"at": written(at)}
        instants, misfire = [at], None
    else:
        start, step, count = timing["start"], timing["step"], timing["count"]
        misfire = timing["misfire"]
        body |= {"rrule": _rule(step, count), "dtstart": written(start), "misfire": misfire}
        instants = [start + step * number for number in range(count)]
    return Sending(
        name=name,
        sort="request",
        body=json.dumps(body).encode(),
        tenant=wish.tenant,
        id=wish.id,
        instants=instants,
        misfire=misfire,
        payload=payload,
    )


def cancel(name: str, wish: Wish, tenants: Sequence[str]) -> Sending:
    body = {"type": "ScheduleCancel", "id": wish.id, **_tenant(wish, tenants)}
    return Sending(name=name, sort="cancel", body=json.dumps(body).encode(), tenant=wish.tenant, id=wish.id)


def _tenant(wish: Wish, tenants: Sequence[str]) -> dict[str, str]:
    """The first tenant is the broker's own, and need not be named."""
    return {} if wish.tenant == tenants[0] else {"tenant": wish.tenant}


def _rule(step: timedelta, count: int) -> str:
    seconds = int(step.total_seconds())
    size, unit = next((size, unit) for size, unit in _UNITS if seconds % size == 0)
    return f"FREQ={unit};INTERVAL={seconds // size};COUNT={count}"


_ID = b'{"type": "ScheduleRequest", "id": "poison"'
POISONS: Mapping[str, bytes] = {
    "not_json": b"at once, please",
    "not_utf8": b'{"id": "\xff"}',
    "not_an_object": b'["ScheduleRequest"]',
    "unknown_type": b'{"type": "ScheduleDue", "id": "poison"}',
    "no_id": b'{"type": "ScheduleRequest", "at": "2030-01-08T09:00:00Z"}',
    "bad_id": b'{"type": "ScheduleCancel", "id": ""}',
    "no_time": _ID + b"}",
    "two_times": _ID + b', "at": "2030-01-08T09:00:00Z", "rrule": "FREQ=DAILY"}',
    "bad_time": _ID + b', "at": "2030-01-08T09:00:00"}',
    "bad_rule": _ID + b', "rrule": "FREQ=DAILY;UNTIL=20200101T000000Z"}',
    "bad_timezone": _ID + b', "rrule": "FREQ=DAILY", "tz": "Europe/Atlantis"}',
    "bad_misfire": _ID + b', "rrule": "FREQ=DAILY", "misfire": "fire_twice"}',
    "too_large": _ID + b', "payload": "' + b"x" * BODY_BYTES_MAX + b'"}',
}
FOREIGN = {
    "foreign_tenant": b'{"type": "ScheduleCancel", "id": "poison", "tenant": "strangers"}',
}
