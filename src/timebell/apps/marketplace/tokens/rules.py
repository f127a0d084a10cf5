"""How a token is made up and known again, and what one that is brought is worth. Pure."""

from __future__ import annotations

from datetime import datetime, time, timedelta
from hashlib import sha256
from typing import Final, Literal

Standing = Literal["good", "used", "expired"]

PREFIX: Final = "tbm_"
TOKEN_MAX: Final = 100
# Whatever nobody has used for a day is deleted, so none is good for longer.
MINUTES_MAX: Final = 24 * 60
BATCH: Final = 1_000
CLEANED_AT: Final = time(2)


def token_of(secret: str) -> str:
    return PREFIX + secret


def hash_of(token: str) -> bytes:
    """What is kept of a token: it is long and by chance, so that nobody finds it from this by trying."""
    return sha256(token.encode("utf-8")).digest()


def standing_of(*, used: bool, expires_at: datetime, now: datetime) -> Standing:
    """What a link is worth that was brought."""
    if used:
        return "used"
    return "expired" if expires_at <= now else "good"


def first_cleaning(now: datetime) -> datetime:
    """The wall time in UTC of the first night that is to come."""
    today = datetime.combine(now.date(), CLEANED_AT)
    return today if today > now.replace(tzinfo=None) else today + timedelta(days=1)
