"""Circuit breakers for a handler that knows its destination only while it runs: it asks before it reaches outside."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from timebell.rules.backoff import ErrorClass


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Leave to call a destination; or, where its breaker is open, until when not to."""

    destination: str
    is_probe: bool = False
    held_until: datetime | None = None


class Destinations(Protocol):
    """The circuit breakers of all nodes, as a handler sees them."""

    async def ask(self, destination: str) -> Call: ...

    async def answered(
        self, call: Call, error_class: ErrorClass | None, retry_after: timedelta | None = None
    ) -> None:
        """Tell what came of the call: None where it was answered, be it with a no. `retry_after` is what a destination
        with a rate limit asked to wait."""
