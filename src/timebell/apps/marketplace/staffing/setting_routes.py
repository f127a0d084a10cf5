"""`/api/marketplace/settings`: what a tenant decides."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from timebell.apps.marketplace.models import EXTENSIONS_MAX, NOTICE_HOURS_MAX, PayoutTrigger
from timebell.apps.marketplace.staffing.store import StaffingStore
from timebell.web import Call, Input, Output, Route

_TAG: Final = "marketplace"


_Percent = Annotated[int, Field(ge=0, le=100)]
_Hours = Annotated[int, Field(ge=0, le=NOTICE_HOURS_MAX)]


class PenaltyPolicyInput(Input):
    """What is left out stays as it is."""

    short_term_days: Annotated[int, Field(ge=0, le=731)] | None = None
    short_notice_hours: _Hours | None = None
    short_percent: _Percent | None = None
    long_notice_hours: _Hours | None = None
    long_percent: _Percent | None = None


class MarketplaceSettingsInput(Input):
    """What is left out stays as it is."""

    payout_trigger: PayoutTrigger | None = None
    max_extensions: Annotated[int, Field(ge=0, le=EXTENSIONS_MAX)] | None = None
    penalty_policy: PenaltyPolicyInput | None = None
    hold_until_disputes_resolved: bool | None = None


class PenaltyPolicyRow(Output):
    """What is kept of shifts that are cancelled at short notice. A booking of at most `short_term_days` days keeps
    `short_percent` of each that begins within `short_notice_hours`, a longer one `long_percent` of each within its
    notice of `long_notice_hours`."""

    short_term_days: int
    short_notice_hours: int
    short_percent: int
    long_notice_hours: int
    long_percent: int


class MarketplaceSettingsRow(Output):
    """`payout_trigger`: the lender is paid for a shift when it is verified, or for a whole week when that is paid for.
    `max_extensions`: how often the time to verify a timesheet may be extended. `penalty_policy`: what is kept of the
    shifts that a dispute cancels. `hold_until_disputes_resolved`: after an insurance was renewed nobody clocks in until
    nothing is disputed any more."""

    payout_trigger: PayoutTrigger
    max_extensions: int
    penalty_policy: PenaltyPolicyRow
    hold_until_disputes_resolved: bool


async def get_marketplace_settings(call: Call) -> MarketplaceSettingsRow:
    """What the tenant decided, or the defaults."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        return MarketplaceSettingsRow.model_validate(await StaffingStore(call.bell.clock).read_settings(tx))


async def change_marketplace_settings(
    call: Call, *, body: MarketplaceSettingsInput
) -> MarketplaceSettingsRow:
    """Changes what is named, for everything that happens from then on."""
    store = StaffingStore(call.bell.clock)
    await store.insert_settings(call.tx)
    policy = body.penalty_policy
    settings = await store.update_settings(
        call.tx,
        payout_trigger=body.payout_trigger,
        max_extensions=body.max_extensions,
        penalty_policy={} if policy is None else policy.model_dump(exclude_none=True),
        hold_until_disputes_resolved=body.hold_until_disputes_resolved,
    )
    return MarketplaceSettingsRow.model_validate(settings)


ROUTES: Final = (
    Route(
        method="GET",
        path="/api/marketplace/settings",
        run=get_marketplace_settings,
        summary="Read what was decided about the marketplace",
        tag=_TAG,
        answer=MarketplaceSettingsRow,
    ),
    Route(
        method="PATCH",
        path="/api/marketplace/settings",
        run=change_marketplace_settings,
        summary="Decide about the marketplace",
        tag=_TAG,
        scope="admin",
        body=MarketplaceSettingsInput,
        answer=MarketplaceSettingsRow,
        idempotency="optional",
        example={"payout_trigger": "webhook"},
    ),
)
