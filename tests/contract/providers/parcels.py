"""Parcels to hand to a provider."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from timebell.notify.provider import Channel, Content, Parcel

NOW = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
DELIVERY = UUID("01890a5d-ac96-774b-bcce-b302099a8057")

INVITATION = "\r\n".join(
    (
        "BEGIN:VCALENDAR",
        "VERSION:2.0",
        "METHOD:REQUEST",
        "BEGIN:VEVENT",
        "UID:1@timebell",
        "DTSTART:20260301T100000Z",
        "SUMMARY:Größe\\, Maß",
        "END:VEVENT",
        "END:VCALENDAR",
        "",
    )
)


def parcel(
    channel: Channel = "email",
    address: str = "ann@example.org",
    *,
    text: str = "Your meeting begins at ten.",
    subject: str | None = "Meeting at ten",
    html: str | None = None,
    calendar: str | None = None,
    data: dict[str, Any] | None = None,
    **fields: Any,
) -> Parcel:
    content = Content(text=text, subject=subject, html=html, calendar=calendar, data=data or {})
    defaults: dict[str, Any] = {
        "delivery_id": DELIVERY,
        "tenant": "acme",
        "key": f"delivery-{DELIVERY}",
        "attempted_at": NOW,
        "first_tried_at": NOW,
    }
    return Parcel(channel=channel, address=address, content=content, **{**defaults, **fields})
