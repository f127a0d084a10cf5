"""The welcome text of a process when everything is there: where it is, the first key, and what to try."""

from __future__ import annotations

from collections.abc import Iterator

from timebell.config import Settings
from timebell.process import Ready

_ANYWHERE = ("0.0.0.0", "::")  # noqa: S104  (compared with, not listened on)


def address_of(settings: Settings) -> str:
    """Where this machine itself reaches the port."""
    host = "127.0.0.1" if settings.host in _ANYWHERE else settings.host
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.port}"


def welcome(settings: Settings, ready: Ready) -> Iterator[str]:
    address = address_of(settings)
    yield f"Timebell is ready: {address}, {ready.place.shown}. Ctrl-C stops it."
    yield f"  every operation: {address}/docs"
    if ready.key is not None:
        yield f"  your API key, shown this once: {ready.key.secret}"
        known = f"KEY={ready.key.secret}"
    elif settings.api_key is not None:
        yield "  your API key is the one in TIMEBELL_API_KEY"
        known = "KEY=$TIMEBELL_API_KEY"
    else:
        yield "  your API key was shown at the first start; `timebell keys create NAME` makes another"
        known = "KEY=..."
    start = "'$(date -u +%Y-%m-%dT%H:%M:00)'"
    if ready.sandbox is not None:
        now = ready.sandbox.now
        yield f"  this is a sandbox: it is {now:%Y-%m-%dT%H:%M:%SZ} until you let time pass, and nothing leaves"
        start = f"{now:%Y-%m-%dT%H:%M:00}"
    yield "Lines to paste, one after the other:"
    yield (
        f'  {known}; ME=$(curl -s {address}/v1/recipients -H "Authorization: Bearer $KEY" '
        """-H 'Content-Type: application/json' -d '{"name": "me"}' | sed 's/.*"id":"\\([^"]*\\)".*/\\1/')"""
    )
    if "reminders" in ready.apps:
        yield (
            f'  curl -s {address}/api/schedules -H "Authorization: Bearer $KEY" -H "Timebell-Actor: $ME" '
            """-H 'Content-Type: application/json' -d '{"kind": "reminder", "title": "Stretch", "tz": "UTC", """
            f""""start_local": "{start}", "rrule": "FREQ=MINUTELY;COUNT=5", """
            """"notify_offsets_min": [0]}'"""
        )
    if ready.sandbox is not None:
        yield (
            f'  curl -s {address}/v1/clock/advance -H "Authorization: Bearer $KEY" '
            """-H 'Content-Type: application/json' -d '{"by": "PT1H"}'"""
        )
    yield f'  curl -s {address}/v1/inbox -H "Authorization: Bearer $KEY" -H "Timebell-Actor: $ME"'
