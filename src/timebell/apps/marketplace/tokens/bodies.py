"""Request and response bodies about magic links."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from pydantic import Field

from timebell.apps.marketplace.tokens.rules import MINUTES_MAX, TOKEN_MAX
from timebell.web import Input, Instant, Output, SecretText


class MagicLinkInput(Input):
    """For whom, and for how long: a day at most."""

    recipient_id: UUID
    minutes: Annotated[int, Field(ge=1, le=MINUTES_MAX)]


class RedeemInput(Input):
    """What a link says."""

    token: Annotated[str, Field(min_length=1, max_length=TOKEN_MAX, pattern=r"^[!-~]+$")]


class MagicLinkRow(Output):
    """A link. The token is shown once; put it behind an address of yours."""

    id: UUID
    recipient_id: UUID
    token: SecretText
    expires_at: Instant


class RedeemedRow(Output):
    """Whom the link was for."""

    id: UUID
    recipient_id: UUID
    used_at: Instant
