"""Templates of the marketplace: what people are told by it. The texts are part of what was agreed, so no tenant may
replace them.

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
DISPUTE_UNRESOLVED: Final = "marketplace.dispute_unresolved"

INSURANCE_EXPIRING: Final = "marketplace.insurance_expiring"
INSURANCE_ENDED: Final = "marketplace.insurance_ended"
INSURANCE_INVALID: Final = "marketplace.insurance_invalid"

# One each, whatever becomes of the other.
SMS_AND_EMAIL: Final = Route(first=("sms",), also=("email",))
SMS: Final = Route(first=("sms",))
EMAIL: Final = Route(first=("email",))
_TOPIC: Final = "marketplace"


def _draft(key: str, title: str, line: str, *names: str, more: str = "") -> TemplateDraft:
    """`more` is what a mail says besides."""
    return TemplateDraft(
        key=key,
        topic=_TOPIC,
        texts=(
            Text(channel="sms", language="en", body=line),
            Text(channel="email", language="en", subject=title, body=line + more),
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
    _draft(
        DISPUTE_UNRESOLVED,
        "Dispute unresolved",
        "Dispute unresolved after 3 hours. All future shifts cancelled until dispute is resolved.",
    ),
    _draft(
        INSURANCE_EXPIRING,
        "Insurance Expiring",
        "Insurance {{ type }} of {{ company }} expires: {{ expiration_date }} is its last valid day. "
        "Renew it to avoid that work is stopped.",
        "type",
        "company",
        "expiration_date",
    ),
    _draft(
        INSURANCE_ENDED,
        "Insurance Not Valid",
        "CRITICAL: insurance {{ type }} of {{ company }} is not valid any more. Renew it before anybody works.",
        "type",
        "company",
    ),
    _draft(
        INSURANCE_INVALID,
        "Insurance Invalid",
        "Insurance Invalid. Work must stop immediately. Please clock out worker.",
        "bookings",
        more="\n\nBookings: {{ bookings }}",
    ),
)


async def ship(bell: Timebell) -> None:
    """Have these be the texts of every tenant."""
    notify = bell.shared.one(Notify)
    async with bell.transaction() as tx:
        await notify.templates.ship_all(tx, (*DRAFTS, *SEARCH_DRAFTS), is_locked=True)


def tells(
    template: str,
    recipients: Iterable[UUID],
    *,
    subject: str,
    context: Mapping[str, Any] | None = None,
    channels: Route = SMS_AND_EMAIL,
    urgency: Literal["normal", "time_bound", "critical"] = "time_bound",
    key: str | None = None,
    guard: str | None = None,
    correlation_id: str | None = None,
) -> list[Tell]:
    """The same for each of them; whoever has several parts is told once. With a `key`, once for each of them ever.

    It passes quiet hours unless the person wants even this to wait, and is never told before its time. What is `normal`
    waits until they are over.
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
            on_quiet=None if urgency == "normal" else "drop",
            correlation_id=correlation_id,
        )
        for recipient in dict.fromkeys(recipients)
    ]
