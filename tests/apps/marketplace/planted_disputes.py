"""Faults in disputes, in what follows from them, and in the payment after them."""

from __future__ import annotations

from tests.mutants.planted import Planted

_ROOM = "apps/marketplace/disputes"
_STAFFING_RULES = ("tests/apps/marketplace/test_staffing_rules.py",)
_RULES = ("tests/apps/marketplace/test_dispute_rules.py",)
_DISPUTES = "tests/apps/marketplace/test_disputes.py"
_SHEETS = ("tests/apps/marketplace/test_timesheets.py",)
_TIMEOUT = "tests/apps/marketplace/test_dispute_timeout.py"
_RESOLVING = "tests/apps/marketplace/test_resolving.py"
_RETRY = "tests/apps/marketplace/test_payment_retry.py"
_FILED = (f"{_DISPUTES}::test_a_dispute_is_filed_with_its_timer",)
_REPORT = (f"{_DISPUTES}::test_a_report_pauses_until_it_is_closed",)
_CANCELLED = (f"{_TIMEOUT}::test_what_is_to_come_is_cancelled_and_what_is_kept_is_frozen",)
_EARLY = (f"{_TIMEOUT}::test_a_timer_that_somebody_hastened_waits",)
_LATER = (f"{_TIMEOUT}::test_what_is_paid_for_later_is_kept_as_far_as_it_was_due",)
_TWO = (f"{_TIMEOUT}::test_of_two_disputes_the_first_cancels_and_both_tell",)
_BROKEN = (f"{_TIMEOUT}::test_a_shift_that_cannot_be_cancelled_keeps_none_of_the_others",)
_SWEPT = (f"{_TIMEOUT}::test_a_dispute_whose_timer_was_lost_times_out_within_the_hour",)
_SETTLED = (f"{_RESOLVING}::test_both_sides_settle_within_three_hours",)
_DIVIDED = (f"{_RESOLVING}::test_what_was_kept_is_divided_too",)
_WHO = (f"{_RESOLVING}::test_who_may_resolve_and_how",)
_STANDING = (f"{_RESOLVING}::test_a_booking_goes_on_as_follows_from_what_is_left",)
_LAST = (f"{_RETRY}::test_only_the_last_resolution_has_it_charged",)
_AGAIN = (f"{_RETRY}::test_what_is_disputed_again_is_not_charged",)
_UNWANTED = (f"{_RETRY}::test_a_booking_that_is_not_to_be_charged_is_not",)
_TRIED = (f"{_RETRY}::test_it_is_tried_four_times_with_one_key",)

DISPUTES = [
    Planted(
        name="disputes-freeze-nothing",
        file=f"{_ROOM}/service.py",
        old="        frozen = await self._ledger.freeze(tx, booking, disputed, id)\n",
        new="        frozen = 0\n",
        why="Disputed money would be there to be refunded or released.",
        tests=_FILED,
    ),
    Planted(
        name="disputes-win-although-the-money-is-gone",
        file=f"{_ROOM}/service.py",
        old=' or (answer == "if_unpaid" and not is_kept):',
        new=":",
        why="A shift would be disputed and paid.",
        tests=_SHEETS,
    ),
    Planted(
        name="standing-insurance-comes-last",
        file="apps/marketplace/staffing/rules.py",
        old='    if not is_insured:\n        return "Suspended_Insurance"\n',
        new="",
        why="A booking without insurance would go on when its dispute is resolved.",
        tests=_STAFFING_RULES,
    ),
    Planted(
        name="standing-what-has-ended-goes-on",
        file="apps/marketplace/staffing/rules.py",
        old="    if status in ENDED:\n        return status\n",
        new="",
        why="A booking that was cancelled would be charged again.",
        tests=_STAFFING_RULES,
    ),
    Planted(
        name="standing-renewal-forgets-disputes",
        file="apps/marketplace/staffing/rules.py",
        old='    return "Active" if status == "Active" else "Payment_Paused_Dispute"\n',
        new='    return "Active"\n',
        why="A renewed insurance would have disputed weeks charged.",
        tests=_STAFFING_RULES,
    ),
    Planted(
        name="disputes-close-one-and-go-on",
        file=f"{_ROOM}/standing.py",
        old="        is_contested = await self._shifts.is_contested(tx, booking_id=booking.id)\n",
        new="        is_contested = False\n",
        why="A booking is paused as long as anything about it is open.",
        tests=_REPORT,
    ),
    Planted(
        name="disputes-time-out-with-option-b",
        file=f"{_ROOM}/rules.py",
        old=' and dispute.dispute_option == "A"',
        new="",
        why="With option B everything is over at once.",
        tests=_RULES,
    ),
    Planted(
        name="disputes-time-out-when-resolved",
        file=f"{_ROOM}/rules.py",
        old='dispute.status == "Open" and ',
        new="",
        why="What was settled would cancel shifts all the same.",
        tests=_RULES,
    ),
    Planted(
        name="penalties-at-exactly-the-notice",
        file=f"{_ROOM}/rules.py",
        old="start - now < timedelta",
        new="start - now <= timedelta",
        why="Whoever is told a day before is told in time.",
        tests=_RULES,
    ),
    Planted(
        name="penalties-of-eight-days-are-short",
        file=f"{_ROOM}/rules.py",
        old="is_short = days <= policy",
        new="is_short = days - 1 <= policy",
        why="A booking of eight days is a long one.",
        tests=_RULES,
    ),
    Planted(
        name="settlements-of-one-side",
        file=f"{_ROOM}/rules.py",
        old="all(side is not None for side in sides) and ",
        new="any(side is not None for side in sides) and ",
        why="One side alone would take what is frozen.",
        tests=_RULES,
    ),
    Planted(
        name="retries-after-a-try",
        file=f"{_ROOM}/rules.py",
        old='    if any(payment.created_at >= resolved_at for payment in payments):\n        return "tried"\n',
        new="",
        why="A crash after a decline would have the card tried twice.",
        tests=_RULES,
    ),
    Planted(
        name="timeouts-cancel-what-begins-now",
        file=f"{_ROOM}/timing.py",
        old="cancel_from=now + _LATER",
        new="cancel_from=now",
        why="What begins right now has begun.",
        tests=_CANCELLED,
    ),
    Planted(
        name="timeouts-come-early",
        file=f"{_ROOM}/timing.py",
        old="        if now < dispute.timeout_expiration_time:\n",
        new="        if now > dispute.timeout_expiration_time:\n",
        why="Whoever has a job run at once would cancel shifts that are still to be worked.",
        tests=_EARLY,
    ),
    Planted(
        name="timeouts-keep-nothing",
        file=f"{_ROOM}/timing.py",
        old="        kept = await self._ledger.penalize(tx, booking, due, dispute.id)\n",
        new="        kept = 0\n",
        why="The lender would have nothing to settle about.",
        tests=_CANCELLED,
    ),
    Planted(
        name="timeouts-refund-nothing",
        file=f"{_ROOM}/timing.py",
        old="        await self._payouts.refund_free(tx, booking, shifts, REASON, by)\n",
        new="",
        why="What is not disputed belongs to the borrower.",
        tests=_CANCELLED,
    ),
    Planted(
        name="timeouts-forget-what-is-on-its-way",
        file=f"{_ROOM}/timing.py",
        old="        await self._store.insert_penalties(tx, dispute_id=dispute.id, amounts=due)\n",
        new="",
        why="A payment that comes late would go back as a whole.",
        tests=_LATER,
    ),
    Planted(
        name="timeouts-tell-again",
        file=f"{_ROOM}/timing.py",
        old="        if dispute.timed_out_at is None:\n            await self._note(",
        new="        if True:\n            await self._note(",
        why="Whoever goes on with what is left would tell everybody again.",
        tests=_BROKEN,
        survives="The statement notes it once, and the key of the message tells each person once.",
    ),
    Planted(
        name="timeouts-give-up-silently",
        file=f"{_ROOM}/handlers.py",
        old="    await timing.give_up(job.tx, id, timed_out.failed, by=_by(job))\n",
        new="",
        why="Nobody would know of the shift that is still there.",
        tests=_BROKEN,
    ),
    Planted(
        name="timeouts-are-not-swept",
        file=f"{_ROOM}/handlers.py",
        old="timed_out += await _time_out(job, id)",
        new="timed_out += 0",
        why="A timer that is lost would be lost for ever.",
        tests=_SWEPT,
    ),
    Planted(
        name="settlements-of-less-than-is-frozen",
        file=f"{_ROOM}/resolving.py",
        old="    if settlement.total != dispute.frozen:\n",
        new="    if settlement.total > dispute.frozen:\n",
        why="Money would be left that belongs to nobody.",
        tests=_WHO,
    ),
    Planted(
        name="settlements-leave-the-timer",
        file=f"{_ROOM}/resolving.py",
        old="await self._bell.cancel(tx, subject=dispute.subject, kind=TIME_OUT,",
        new="await self._bell.cancel(tx, subject=booking.subject, kind=TIME_OUT,",
        why="A timer would run for nothing.",
        tests=_SETTLED,
    ),
    Planted(
        name="settlements-are-kept-back",
        file="apps/marketplace/payments/payouts.py",
        old='payout.sort == "transfer" and payout.reason != SETTLED',
        new='payout.sort == "transfer"',
        why="What is kept of a cancelled shift would never reach the lender.",
        tests=_DIVIDED,
    ),
    Planted(
        name="resolutions-by-an-admin-alone",
        file=f"{_ROOM}/resolving.py",
        old='        if not by.is_operator and status != "Settled":\n            raise only_by_settlement()\n',
        new="",
        why="An admin would end a dispute without the other side.",
        tests=_WHO,
    ),
    Planted(
        name="holds-outlive-their-disputes",
        file=f"{_ROOM}/standing.py",
        old="        booking = await self._bookings.hold_clock_in(tx, booking, is_held=False, by=by)\n",
        new="",
        why="Nobody could clock in any more.",
        tests=_STANDING,
    ),
    Planted(
        name="retries-before-the-last-dispute",
        file=f"{_ROOM}/standing.py",
        old="        if is_contested:\n            return booking\n",
        new="",
        why="A booking would be charged while it is disputed.",
        tests=_LAST,
    ),
    Planted(
        name="retries-do-not-look-again",
        file=f"{_ROOM}/retrying.py",
        old='        if await self._checking.is_contested(tx, booking):\n            return "contested"\n',
        new="",
        why="What is disputed again would be charged.",
        tests=_AGAIN,
    ),
    Planted(
        name="retries-charge-whatever-is-there",
        file=f"{_ROOM}/retrying.py",
        old='        if not is_weekly(booking):\n            return "not_wanted"\n',
        new="",
        why="A booking that was cancelled would be charged.",
        tests=_UNWANTED,
    ),
    Planted(
        name="retries-without-end",
        file=f"{_ROOM}/standing.py",
        old='jitter="full", max_attempts=4',
        new='jitter="full", max_attempts=6',
        why="After three more tries somebody has to look.",
        tests=_TRIED,
    ),
    Planted(
        name="dispute-unresolved-told-when-it-is-over",
        file="apps/marketplace/disputes/timing.py",
        old="            guard=IS_UNRESOLVED,\n",
        new="",
        why="Somebody would be told that a dispute is unresolved which was resolved hours before.",
        tests=(
            "tests/apps/marketplace/test_silence.py::test_who_was_not_told_in_time_that_a_dispute_timed_out_is_not_told_when_it_has_ended",
        ),
    ),
]
