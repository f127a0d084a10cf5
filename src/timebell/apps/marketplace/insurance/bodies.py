"""Request and response bodies about insurances, with the names that the source has for their fields."""

from __future__ import annotations

from datetime import date
from typing import Annotated
from uuid import UUID

from pydantic import Field

from timebell.apps.marketplace.insurance.models import Policy
from timebell.apps.marketplace.staffing.bodies import Day
from timebell.web import Input, Instant, Output, PageQuery

PolicyType = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^\S(.*\S)?$")]
Reason = Annotated[str, Field(min_length=1, max_length=1_000, pattern=r"\S")]


class PolicyInput(Input):
    """An insurance of a company. It is valid through `expiration_date`, by the clock of UTC; `type` is your own word,
    and insurances of one type take each other's place."""

    company_id: UUID
    type: PolicyType
    expiration_date: Day


class Renewal(Input):
    """Through which day it is valid from now on."""

    expiration_date: Day


class Invalidation(Input):
    """Why, if there is something to say."""

    reason: Reason | None = None


class PoliciesQuery(PageQuery):
    company_id: UUID | None = None
    is_active: Annotated[bool, Field(strict=False)] | None = None


class PolicyRow(Output):
    """An insurance. `deactivated_at` is when it ended, and `replaced_by` another of its type that came afterwards."""

    id: UUID
    company_id: UUID
    type: str
    expiration_date: date
    is_active: bool
    deactivated_at: Instant | None
    replaced_by: UUID | None
    created_at: Instant
    updated_at: Instant


def policy_row(policy: Policy) -> PolicyRow:
    return PolicyRow.model_validate(policy)
