"""Why something was or was not told: a closed list, each reason with the sentence that explains it.

`docs/reference/reasons.md` has a heading for each, and a test compares the two.
"""

from __future__ import annotations

from typing import Final, Literal

DeliveryState = Literal["pending", "sent", "delivered", "failed", "uncertain", "skipped", "suppressed"]
NotificationState = Literal[
    "pending", "held", "sent", "delivered", "failed", "uncertain", "skipped", "suppressed", "withdrawn"
]

REASONS: Final[dict[str, str]] = {
    # skipped: it was decided not to tell, or not on this channel.
    "guard_refused": "the guard said that it is no longer wanted",
    "expired": "its time had passed",
    "no_recipient": "there is no such recipient, or it was erased",
    "no_channel": "none of its channels can reach the recipient",
    "no_address": "the recipient has no address for the channel",
    "no_consent": "the recipient has not agreed to this channel",
    "opted_out": "the recipient does not want this topic on this channel",
    "suppressed": "the address is on the suppression list",
    "address_gone": "the address no longer exists",
    "quiet_hours": "the recipient's quiet hours would have made it late",
    "capped": "the recipient had as many as the cap allows until it expired",
    "rate_limited": "the provider's rate limit would have made it late",
    "template_missing": "there is no such template, or no text of it for the channel",
    "template_incomplete": "a variable that the template requires was not given",
    "template_failed": "the template could not be rendered within its limits",
    "in_digest": "it was told as part of a digest",
    "empty_digest": "there was nothing left to tell when the digest closed",
    "provider_missing": "no provider is set up for the channel",
    "withdrawn": "it was taken back before it was told",
    # held: it waits.
    "held_due": "it waits for the instant at which it is due",
    "held_quiet_hours": "it waits for the end of the recipient's quiet hours",
    "held_capped": "it waits until the cap allows another",
    "held_rate": "it waits for the provider's rate limit",
    "held_breaker": "it waits until the provider answers again",
    "held_retry": "it waits for its next attempt",
    "held_report": "it waits for the provider's report, since nobody knows whether it was taken",
    "held_digest": "it waits for its digest to close",
    # failed
    "rejected": "the provider refused it for good",
    "bounced": "the address refused it after the provider had taken it",
    "complained": "the recipient called it unwanted",
    "exhausted": "every attempt failed",
    "given_up": "its job kept breaking, or cannot be done, and waits for an operator",
    # suppressed
    "demo": "demo mode lets nothing leave; the outbox shows it",
    # uncertain
    "no_answer": "the provider was called and did not answer",
    "crashed": "the process ended while it was being told, and nobody knows how far it came",
    # sent
    "accepted": "the provider took it",
    "shown": "it is in the recipient's inbox",
}
