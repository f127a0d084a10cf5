"""Who acts in a call over HTTP, as the verbs of the marketplace know them."""

from __future__ import annotations

from timebell.apps.marketplace.models import By
from timebell.apps.marketplace.staffing.refusals import nobody_acts
from timebell.web import Call


def by_caller(call: Call) -> By:
    """Whoever has an admin key and acts for nobody is the operator. Everybody else has to say who acts."""
    is_operator = call.actor is None and call.caller.scope == "admin"
    if call.actor is None and not is_operator:
        raise nobody_acts()
    return By(person=call.actor, name=call.by, is_operator=is_operator, correlation_id=call.correlation_id)
