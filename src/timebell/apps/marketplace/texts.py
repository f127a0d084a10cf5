"""What people are told by the marketplace. The texts are part of what was agreed, so no tenant may replace them.

They are the same on every channel that may carry them. Who is told by SMS alone has it by mail where there is no phone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal
from uuid import UUID

from timebell.apps.marketplace.searches.texts import DRAFTS as SEARCH_DRAFTS
from timebell.kernel import Timebell
from timebell.notify import Notify, Route, Tell, TemplateDraft, Text, Variable

ACTION_REQUIRED: Final = "marketplace.action_required"
FINAL_WARNING: Final = "marketplace.final_warning"
WORKER_RELEASED: Final = "marketplace.worker_released"
STILL_WORKING: Final = "marketplace.still_working"
CLOCK_OUT_NOW: Final = "marketplace.clock_out_now"
TIMESHEET_SUBMITTED: Final = "marketplace.timesheet_submitted"
TIMESHEET_PENDING: Final = "marketplace.timesheet_pending"
TIMESHEET_URGENT: Final = "marketplace.timesheet_urgent"
AUTO_APPROVED: Final = "marketplace.auto_approved"

# One each, whatever becomes of the other.
SMS_AND_EMAIL: Final = Route(first=("sms",), also=("email",))
SMS: Final = Route(first=("sms",))
_TOPIC: Final = "marketplace"


def _draft(key: str, title: str, line: str, *names: str) -> TemplateDraft:
    return TemplateDraft(
        key=key,
        topic=_TOPIC,
        texts=(
            Text(channel="sms", language="en", body=line),
            Text(channel="email", language="en", subject=title, body=line),
        ),
        variables=tuple(Variable(name=name) for name in names),
    )


DRAFTS: Final = (
    _draft(
        ACTION_REQUIRED,
        "Action Required",
        "Action Required: payment for booking {{ booking_id }} failed. "
        "Complete the payment by end of day Wednesday to avoid worker release.",
        "booking_id",
    ),
    _draft(
        FINAL_WARNING,
        "Final Warning",
        "Payment required for booking {{ booking_id }}. Final warning - payment must be completed by end of day "
        "Wednesday to avoid worker release.",
        "booking_id",
    ),
    _draft(
        WORKER_RELEASED,
        "Worker Released",
        "Booking {{ booking_id }} ended due to non-payment. Worker released effective {{ sunday }}.",
        "booking_id",
        "sunday",
    ),
    _draft(
        STILL_WORKING,
        "Are you still working?",
        "Are you still working? Please clock out if your shift has ended.",
    ),
    _draft(
        CLOCK_OUT_NOW,
        "Urgent: Clock Out.",
        "URGENT: Clock Out. Your scheduled shift ended 30 minutes ago.",
    ),
    _draft(
        TIMESHEET_SUBMITTED,
        "Timesheet submitted",
        "Timesheet for {{ worker }} submitted. Verify: {{ link }}",
        "worker",
        "link",
    ),
    _draft(
        TIMESHEET_PENDING,
        "Timesheet pending verification",
        "Timesheet pending verification for {{ worker }}. Please verify within 4 hours.",
        "worker",
    ),
    _draft(
        TIMESHEET_URGENT,
        "Timesheet will auto-approve in 1 hour",
        "URGENT: Timesheet for {{ worker }} will auto-approve in 1 hour if not verified.",
        "worker",
    ),
    _draft(
        AUTO_APPROVED,
        "Timesheet auto-approved",
        "Timesheet auto-approved after 4 hours. Supervisor did not verify within required timeframe.",
    ),
)


async def ship(bell: Timebell) -> None:
    """Have these be the texts of every tenant."""
    notify = Notify(bell)
    async with bell.transaction() as tx:
        for draft in (*DRAFTS, *SEARCH_DRAFTS):
            await notify.templates.ship(tx, draft, is_locked=True)


def tells(
    template: str,
    recipients: Iterable[UUID],
    *,
    subject: str,
    context: Mapping[str, Any] | None = None,
    channels: Route = SMS_AND_EMAIL,
    urgency: Literal["time_bound", "critical"] = "time_bound",
    key: str | None = None,
    guard: str | None = None,
    correlation_id: str | None = None,
) -> list[Tell]:
    """The same for each of them; whoever has several parts is told once. With a `key`, once for each of them ever.

    It passes quiet hours unless the person wants even this to wait, and is never told before its time.
    """
    return [
        Tell(
            recipient=recipient,
            template=template,
            context=context or {},
            channels=channels,
            urgency=urgency,
            subject=subject,
            key=None if key is None else f"{key}:{recipient}",
            guard=guard,
            on_quiet="drop",
            correlation_id=correlation_id,
        )
        for recipient in dict.fromkeys(recipients)
    ]
