"""The nouns of saved searches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

AlertChannel = Literal["sms", "email"]
InQuietHours = Literal["defer", "drop"]
Sort = Literal["instant", "digest"]
Cause = Literal["database", "extension", "query"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedSearch:
    """What somebody looks for. The criteria are as they were said."""

    id: UUID
    user_id: UUID
    criteria: Mapping[str, Any]
    is_active: bool
    instant_enabled: bool
    digest_enabled: bool
    send_empty_digest: bool
    channels: Sequence[AlertChannel]
    timezone: str
    last_digest_at: datetime | None
    zero_streak: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """What a tenant decides. `alerts_per_hour` is how many a person is told at once in any hour. What comes in quiet
    hours is told after them, or dropped. `database_minutes` and `extension_minutes` are for how long something that
    cannot be asked is tried. A search whose digests found nobody `zero_digests_max` times ends; None is never."""

    alerts_per_hour: int = 10
    in_quiet_hours: InQuietHours = "defer"
    database_minutes: int = 30
    extension_minutes: int = 60
    zero_digests_max: int | None = None

    @property
    def windows(self) -> Mapping[Cause, timedelta]:
        return {
            "database": timedelta(minutes=self.database_minutes),
            "extension": timedelta(minutes=self.extension_minutes),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A worker who was listed at an instant, and the event that says so."""

    id: UUID
    event: UUID
    trade: str
    zip: str
    skills: Sequence[str]
    hourly_rate: int
    listed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A search that finds a worker, and where in the order of keys it lies."""

    id: UUID
    user_id: UUID
    channels: Sequence[AlertChannel]
    timezone: str
    number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """Which of some matches are told now, and which are left to the next digest."""

    told: Sequence[Match]
    overflow: Sequence[Match]


@dataclass(frozen=True, slots=True, kw_only=True)
class Digested:
    """A search in a digest, and who is new for it. `more_count` is how many there are besides."""

    id: UUID
    user_id: UUID
    title: str
    digest_enabled: bool
    send_empty_digest: bool
    workers: Sequence[Mapping[str, Any]] = ()
    more_count: int = 0
