"""What is sent about time logs, in the source's own words."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from timebell.web import Input, Instant

Reason = Annotated[str, Field(min_length=1, max_length=1_000)]


class EndInput(Input):
    """When work ended; without it, as the draft says, or now."""

    end: Instant | None = None


class EditInput(Input):
    """When work began and ended. While somebody works, `end` is when the shift is to end."""

    start: Instant | None = None
    end: Instant | None = None
    reason: Reason
