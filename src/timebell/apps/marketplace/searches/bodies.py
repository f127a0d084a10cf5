"""Request and response bodies about saved searches."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from pydantic import Field, field_validator

from timebell.apps.marketplace.searches.models import AlertChannel, InQuietHours, SavedSearch
from timebell.apps.marketplace.staffing.bodies import Criteria
from timebell.web import Input, Instant, Output

_MINUTES_MAX = 24 * 60

Channels = Annotated[list[AlertChannel], Field(min_length=1, max_length=2)]


def _once(channels: list[AlertChannel] | None) -> list[AlertChannel] | None:
    if channels is not None and len(set(channels)) < len(channels):
        raise ValueError("names a channel twice; name each once")
    return channels


def _mail_alone() -> list[AlertChannel]:
    return ["email"]


class SavedSearchInput(Input):
    """What is looked for, and how somebody is told. `instant`: at once on the `channels`, of each worker who is
    listed. `digest`: by mail, every morning at five; `send_empty_digest` says whether also where nobody is new."""

    criteria: Criteria
    instant: bool = True
    digest: bool = True
    channels: Channels = Field(default_factory=_mail_alone)
    send_empty_digest: bool = True

    _each_once = field_validator("channels")(_once)


class SavedSearchChange(Input):
    """What is left out stays as it is. Criteria are replaced as a whole."""

    criteria: Criteria | None = None
    instant: bool | None = None
    digest: bool | None = None
    channels: Channels | None = None
    send_empty_digest: bool | None = None
    is_active: bool | None = None

    _each_once = field_validator("channels")(_once)


class SavedSearchRow(Output):
    """A search. `zero_streak` is how many digests in a row had nobody for it."""

    id: UUID
    user_id: UUID
    criteria: dict[str, Any]
    instant: bool
    digest: bool
    channels: list[AlertChannel]
    send_empty_digest: bool
    is_active: bool
    last_digest_at: Instant | None
    zero_streak: int
    created_at: Instant
    updated_at: Instant


class SearchSettingsInput(Input):
    """What is left out stays as it is; null takes `zero_digests_max` back."""

    alerts_per_hour: Annotated[int, Field(ge=0, le=1_000)] = 10
    in_quiet_hours: InQuietHours = "defer"
    database_minutes: Annotated[int, Field(ge=0, le=_MINUTES_MAX)] = 30
    extension_minutes: Annotated[int, Field(ge=0, le=_MINUTES_MAX)] = 60
    zero_digests_max: Annotated[int, Field(ge=1, le=3_650)] | None = None


class SearchSettingsRow(Output):
    """How many alerts a person gets in an hour, what becomes of those in quiet hours, for how long it is waited for a
    database and for what is not installed, and after how many digests without anybody a search ends."""

    alerts_per_hour: int
    in_quiet_hours: InQuietHours
    database_minutes: int
    extension_minutes: int
    zero_digests_max: int | None


def search_row(search: SavedSearch) -> SavedSearchRow:
    return SavedSearchRow(
        id=search.id,
        user_id=search.user_id,
        criteria=dict(search.criteria),
        instant=search.instant_enabled,
        digest=search.digest_enabled,
        channels=list(search.channels),
        send_empty_digest=search.send_empty_digest,
        is_active=search.is_active,
        last_digest_at=search.last_digest_at,
        zero_streak=search.zero_streak,
        created_at=search.created_at,
        updated_at=search.updated_at,
    )
