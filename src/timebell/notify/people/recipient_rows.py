"""Between recipients and their rows: what is stored, and what is read back."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, time
from typing import Any
from uuid import UUID

import orjson

from timebell.db.pool import Row
from timebell.notify.models import Address, OptOut, QuietHours, Recipient


def encode_quiet_hours(hours: QuietHours | None) -> str | None:
    if hours is None:
        return None
    stored = {
        "start": hours.start.isoformat("minutes"),
        "end": hours.end.isoformat("minutes"),
        "days": sorted(hours.days),
        "time_bound": hours.time_bound,
        "channels": sorted(hours.channels),
    }
    return orjson.dumps(stored).decode()


def quiet_hours_of(stored: Mapping[str, Any] | None) -> QuietHours | None:
    """Quiet hours from JSON that was checked before it was stored."""
    if stored is None:
        return None
    return QuietHours(
        start=time.fromisoformat(stored["start"]),
        end=time.fromisoformat(stored["end"]),
        days=frozenset(stored["days"]),
        time_bound=stored["time_bound"],
        channels=frozenset(stored["channels"]),
    )


def address_of(stored: Mapping[str, Any]) -> Address:
    return Address(
        kind=stored["kind"],
        value=stored["value"],
        id=UUID(stored["id"]),
        detail=stored["detail"],
        verified_at=_instant(stored["verified_at"]),
        gone_at=_instant(stored["gone_at"]),
    )


def opt_out_of(stored: Mapping[str, Any]) -> OptOut:
    return OptOut(topic=stored["topic"] or None, channel=stored["channel"] or None)


def recipient_of(row: Row) -> Recipient:
    """A recipient from its row, in which its addresses and opt-outs are JSON; JSON columns are read as text."""
    quiet_hours = row["quiet_hours"]
    return Recipient(
        id=row["id"],
        tenant=row["tenant"],
        name=row["name"],
        external_id=row["external_id"],
        language=row["language"],
        timezone=row["timezone"],
        channel_preference=row["channel_preference"],
        whatsapp_opt_in=row["whatsapp_opt_in"],
        quiet_hours=None if quiet_hours is None else quiet_hours_of(orjson.loads(quiet_hours)),
        addresses=tuple(address_of(stored) for stored in orjson.loads(row["addresses"])),
        opt_outs=tuple(opt_out_of(stored) for stored in orjson.loads(row["opt_outs"])),
        revision=row["revision"],
        created_at=_instant(row["created_at"]),
        updated_at=_instant(row["updated_at"]),
        erased_at=_instant(row["erased_at"]),
    )


def _instant(value: datetime | str | None) -> datetime | None:
    """A driver answers with instants in its connection's zone, JSON with text; both become UTC."""
    if value is None:
        return None
    return (datetime.fromisoformat(value) if isinstance(value, str) else value).astimezone(UTC)
