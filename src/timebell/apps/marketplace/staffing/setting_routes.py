"""`/api/marketplace/settings`: what a tenant decides."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from timebell.apps.marketplace.models import EXTENSIONS_MAX, PayoutTrigger
from timebell.apps.marketplace.staffing.store import StaffingStore
from timebell.web import Call, Input, Output, Route

_TAG: Final = "marketplace"


class MarketplaceSettingsInput(Input):
    """What is left out stays as it is."""

    payout_trigger: PayoutTrigger | None = None
    max_extensions: Annotated[int, Field(ge=0, le=EXTENSIONS_MAX)] | None = None
    hold_until_disputes_resolved: bool | None = None


class MarketplaceSettingsRow(Output):
    """`payout_trigger`: the lender is paid for a shift when it is verified, or for a whole week when that is paid for.
    `max_extensions`: how often the time to verify a timesheet may be extended. `hold_until_disputes_resolved`: after an
    insurance was renewed nobody clocks in until nothing is disputed any more."""

    payout_trigger: PayoutTrigger
    max_extensions: int
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
    settings = await store.update_settings(
        call.tx,
        payout_trigger=body.payout_trigger,
        max_extensions=body.max_extensions,
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
