"""Magic links."""

from __future__ import annotations

from typing import Final

from timebell.apps.marketplace.calls import by_caller
from timebell.apps.marketplace.models import By
from timebell.apps.marketplace.staffing.refusals import CODES as STAFFING_CODES
from timebell.apps.marketplace.tokens.bodies import MagicLinkInput, MagicLinkRow, RedeemedRow, RedeemInput
from timebell.apps.marketplace.tokens.refusals import CODES
from timebell.apps.marketplace.tokens.service import MagicLinks
from timebell.web import Call, Route

_TAG: Final = "marketplace"
_PATH: Final = "/api/marketplace/magic-links"


async def issue_magic_link(call: Call, *, body: MagicLinkInput) -> MagicLinkRow:
    """The token lets whoever has it in as that person, once. It is answered here and can never be read again."""
    new = await _links(call).issue(call.tx, body.recipient_id, body.minutes, by=by_caller(call))
    return MagicLinkRow(
        id=new.link.id, recipient_id=new.link.user_id, token=new.token, expires_at=new.link.expires_at
    )


async def redeem_magic_link(call: Call, *, body: RedeemInput) -> RedeemedRow:
    """Whom the link is for, to the first who asks. With that go on to a recipient token, for example."""
    by = By(name=call.by, correlation_id=call.correlation_id)
    link = await _links(call).redeem(call.tx, body.token, by=by)
    assert link.used_at is not None, "it was used just now"
    return RedeemedRow(id=link.id, recipient_id=link.user_id, used_at=link.used_at)


def _links(call: Call) -> MagicLinks:
    return MagicLinks(call.bell, call.notify)


ROUTES: Final = (
    Route(
        method="POST",
        path=_PATH,
        run=issue_magic_link,
        summary="Issue a magic link",
        tag=_TAG,
        status=201,
        scope="write",
        acts_for="either",
        body=MagicLinkInput,
        answer=MagicLinkRow,
        example={"recipient_id": "0199a3c2-0000-7000-8000-000000000001", "minutes": 30},
        problems={403: "only the operator may do this", 404: "there is no such recipient"},
        codes={"not_allowed": STAFFING_CODES["not_allowed"]},
    ),
    Route(
        method="POST",
        path=f"{_PATH}/redeem",
        run=redeem_magic_link,
        summary="Redeem a magic link",
        tag=_TAG,
        scope="write",
        body=RedeemInput,
        answer=RedeemedRow,
        idempotency="required",
        example={"token": "tbm_2jd0Ah4Ksd6C9XJ7Q1VwFzYp0mTnR5uLbE8gHiOqWcs"},
        problems={
            404: "there is no such link",
            409: "the link was used before (`magic_link_used`)",
            410: "the link is too old (`magic_link_expired`)",
        },
        codes=CODES,
    ),
)
