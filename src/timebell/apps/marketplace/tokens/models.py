"""The nouns of magic links."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from timebell.apps.marketplace.tokens.rules import Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class MagicLink:
    """What is known of a link. What it says is not."""

    id: UUID
    user_id: UUID
    expires_at: datetime
    created_at: datetime
    used_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewLink:
    """A link and its token, which nobody can read again."""

    link: MagicLink
    token: str

    def __repr__(self) -> str:
        return f"NewLink(link={self.link!r}, token='***')"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a token that was brought stands for."""

    link: MagicLink
    standing: Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """What a night has deleted so far: those that had expired, and those that nobody had used for a day."""

    expired: int = 0
    unused: int = 0
    batches: int = 0
