"""The deadline that a provider's traits name, around the one that it keeps itself."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

_MARGIN: Final = timedelta(seconds=5)


def deadline_around(timeout: timedelta) -> timedelta:
    """A little later than the provider's own: its answer knows how far it came, and the deadline only that it was
    broken."""
    return timeout + _MARGIN
