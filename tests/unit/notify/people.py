"""Recipients and facts that the tests of decisions begin with."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from timebell.notify.models import Address, Policy, QuietHours, Recipient, Route
from timebell.notify.rules.deciding import Facts
from timebell.notify.rules.intents import Intent

BERLIN = ZoneInfo("Europe/Berlin")
EMAIL = Address(kind="email", value="ada@example.org", id=UUID(int=1))
PHONE = Address(kind="phone", value="+4915112345678", id=UUID(int=2))
PUSH = Address(kind="push", value="https://push.example.org/1", id=UUID(int=3))
WEBHOOK = Address(kind="webhook", value="https://hooks.example.org/1", id=UUID(int=4))
NIGHT = QuietHours(start=time(22), end=time(7))
NOON = datetime(2026, 1, 14, 12, tzinfo=BERLIN).astimezone(UTC)


def berlin(day: int, hour: int, minute: int = 0) -> datetime:
    """An instant of January 2026."""
    return datetime(2026, 1, day, hour, minute, tzinfo=BERLIN).astimezone(UTC)


def somebody(**changes: Any) -> Recipient:
    return Recipient(
        **{
            "id": UUID(int=7),
            "tenant": "default",
            "name": "Ada",
            "timezone": "Europe/Berlin",
            "addresses": (EMAIL, PHONE),
            **changes,
        }
    )


def intended(**changes: Any) -> Intent:
    return Intent(
        **{
            "recipient": UUID(int=7),
            "template": "meeting.reminder",
            "template_version": 1,
            "topic": "meetings",
            "message_class": "transactional",
            "route": Route(first=("email",)),
            **changes,
        }
    )


def known(*, intent: Intent | None = None, now: datetime = NOON, **changes: Any) -> Facts:
    return Facts(
        **{
            "now": now,
            "intent": intent or intended(),
            "due_at": now - timedelta(seconds=1),
            "recipient": somebody(),
            "policy": Policy(),
            **changes,
        }
    )
