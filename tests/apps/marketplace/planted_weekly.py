"""Faults in the weekly cycle. They go with the app."""

from __future__ import annotations

from tests.mutants.planted import Planted

_CYCLES = "tests/apps/marketplace/test_cycles.py"
_CHARGING = "tests/apps/marketplace/test_charging.py"
_WARNING = "tests/apps/marketplace/test_warning.py"
_CUTOFF = "tests/apps/marketplace/test_cutoff.py"
_OVERDUE = "tests/apps/marketplace/test_overdue.py"
_WEEKS = ("tests/apps/marketplace/test_weeks.py",)
_PAYMENTS = "apps/marketplace/payments"

WEEKLY = [
    Planted(
        name="overdue-asked-once",
        file=f"{_PAYMENTS}/overdue.py",
        old="        return Snooze(delay=OVERDUE_AFTER,",
        new="        return Done() or Snooze(delay=OVERDUE_AFTER,",
        why="A payment that a provider takes days over would stay pending for ever.",
        tests=(_OVERDUE,),
    ),
    Planted(
        name="overdue-nobody-expected",
        file=f"{_PAYMENTS}/charging.py",
        old="        await self._overdue.expect(tx, payment)\n",
        new="",
        why="Of a payment whose answer nobody heard, nobody would ever ask again.",
        tests=(_OVERDUE,),
    ),
    Planted(
        name="overdue-cancelled-too-early",
        file=f"{_PAYMENTS}/overdue.py",
        old="is not None or await self._checking.now(tx) < payment.period_start:",
        new="is not None:",
        why="A payment would be cancelled while a job is about to ask for it.",
        tests=(_OVERDUE,),
    ),
    Planted(
        name="overdue-asked-for-ever",
        file=f"{_PAYMENTS}/overdue.py",
        old="- payment.created_at > ASKED_FOR_MAX:\n",
        new="- payment.created_at > 99 * ASKED_FOR_MAX:\n",
        why="A payment of which nobody knows would be asked about for ever, and nobody would look.",
        tests=(_OVERDUE,),
    ),
    Planted(
        name="overdue-given-up-forgotten",
        file=f"{_PAYMENTS}/overdue.py",
        old='payment.status in ("Cancelled", "Failed") and',
        new="payment.amount < 0 and",
        why="Money that was taken by a call that came late, and of which no report came, would be nobody's.",
        tests=(_OVERDUE,),
    ),
    Planted(
        name="week-begins-after-the-gap",
        file=f"{_PAYMENTS}/weeks.py",
        old='aware(end_of_gap(midnight, place) if mapped.adjusted == "gap" else mapped.instant)',
        new="aware(mapped.instant)",
        why="A day that clocks begin in the middle of a gap would begin an hour late.",
        tests=_WEEKS,
    ),
    Planted(
        name="week-paid-ahead-inclusive",
        file=f"{_PAYMENTS}/weeks.py",
        old="    return funded_period_end < now + PAID_AHEAD\n",
        new="    return funded_period_end <= now + PAID_AHEAD\n",
        why="Who is paid for exactly seven days ahead would be warned and released.",
        tests=_WEEKS,
    ),
    Planted(
        name="cycle-made-twice",
        file=f"{_PAYMENTS}/cycles.py",
        old="        await self._store.lock_cycle(tx, timezone=timezone)\n",
        new="",
        why="Two first projects at once would make two sets of schedules, or one of them would be refused.",
        tests=(f"{_CYCLES}::test_of_several_who_begin_in_a_zone_one_makes_its_schedules",),
    ),
    Planted(
        name="second-try-looks-at-no-booking",
        file=f"{_PAYMENTS}/charging.py",
        old="        is_wanted = is_weekly(booking)\n",
        new="        is_wanted = True\n",
        why="A booking that was cancelled while its provider was away would be charged when it is back.",
        tests=(f"{_CHARGING}::test_a_booking_that_changed_between_two_tries_is_not_charged",),
    ),
    Planted(
        name="second-try-looks-at-no-dispute",
        file=f"{_PAYMENTS}/charging.py",
        old="        if is_wanted and await self._checking.is_contested(tx, booking):\n",
        new="        if False:\n",
        why="A booking that was disputed while its provider was away would be charged when it is back.",
        tests=(f"{_CHARGING}::test_a_booking_that_changed_between_two_tries_is_not_charged",),
    ),
    Planted(
        name="run-after-the-cutoff",
        file=f"{_PAYMENTS}/cycles.py",
        old='        if run != "cutoffs" and await self._store.read_time(job.tx) >= week.cutoff:\n',
        new='        if run == "none":\n',
        why="Payments would be enqueued, and people warned, after the cutoff.",
        tests=(f"{_CYCLES}::test_a_run_that_comes_after_the_cutoff_says_so_and_enqueues_nothing",),
    ),
    Planted(
        name="charge-past-the-cutoff",
        file=f"{_PAYMENTS}/charging.py",
        old="        if now >= week.cutoff:\n",
        new="        if now > week.period.end:\n",
        why="A payment would be accepted after Wednesday.",
        tests=(f"{_CHARGING}::test_a_job_that_comes_after_the_cutoff_charges_nothing",),
    ),
    Planted(
        name="charge-without-looking-up",
        file=f"{_PAYMENTS}/charging.py",
        old="            if begun.was_begun:\n",
        new="            if begun is None:\n",
        why="What may have been charged would be charged again without asking.",
        tests=(f"{_CHARGING}::test_what_passes_is_tried_again_with_one_key",),
    ),
    Planted(
        name="charge-while-disputed",
        file=f"{_PAYMENTS}/charging.py",
        old="        if await self._checking.is_contested(tx, booking):\n",
        new="        if booking is None:\n",
        why="A booking with an open dispute would be charged.",
        tests=(f"{_CHARGING}::test_what_is_disputed_meanwhile_pauses_the_payments",),
    ),
    Planted(
        name="applied-to-a-booking-that-has-ended",
        file=f"{_PAYMENTS}/applying.py",
        old='        if booking.status in ("Cancelled", "Completed"):\n',
        new='        if booking.status == "Suspended_Insurance":\n',
        why="Money for a booking that has ended would be kept.",
        tests=(f"{_CHARGING}::test_money_for_a_booking_that_has_ended_goes_back_and_is_told_of",),
    ),
    Planted(
        name="cancelled-shift-stays-paid",
        file=f"{_PAYMENTS}/applying.py",
        old='        if found["Cancelled"]:\n',
        new="        if not found:\n",
        why="The borrower would pay for a shift that was cancelled while the payment was on its way.",
        tests=(f"{_CHARGING}::test_money_for_a_shift_that_was_cancelled_meanwhile_goes_back",),
    ),
    Planted(
        name="warned-although-disputed",
        file=f"{_PAYMENTS}/warning.py",
        old="        and not await checking.is_contested(tx, booking)\n",
        new="",
        why="Who has filed a dispute would be threatened with a release that does not come.",
        tests=(f"{_WARNING}::test_whoever_need_not_pay_is_not_warned",),
    ),
    Planted(
        name="released-who-was-never-asked",
        file=f"{_PAYMENTS}/cutoff.py",
        old="        if not any(_was_asked(payment) for payment in payments):\n",
        new="        if payments is None:\n",
        why="After an outage of ours workers would be released for what nobody was asked to pay.",
        tests=(
            f"{_CHARGING}::test_an_outage_until_after_the_cutoff_charges_and_releases_nobody",
            f"{_CUTOFF}::test_nobody_is_released_whom_the_provider_was_never_asked_for",
        ),
    ),
    Planted(
        name="released-before-it-was-settled",
        file=f"{_PAYMENTS}/cutoff.py",
        old='            return "unknown" if found.state == "processing" else found\n',
        new="            return found\n",
        why="A worker would be released while the payment can still succeed.",
        tests=(f"{_CUTOFF}::test_a_payment_that_cannot_be_cancelled_is_waited_for_and_then_looked_at",),
    ),
    Planted(
        name="cutoff-for-the-wrong-sunday",
        file=f"{_PAYMENTS}/cutoff.py",
        old="        sunday = sunday_of(week.day)\n",
        new="        sunday = booking.end_date\n",
        why="After downtime the worker would be released on another day than was meant.",
        tests=(f"{_CUTOFF}::test_after_downtime_it_runs_once_for_the_thursday_that_was_meant",),
    ),
    Planted(
        name="weekly-told-to-pay-for-what-has-ended",
        file="apps/marketplace/payments/applying.py",
        old="                guard=IS_GOING_ON,\n",
        new="",
        why="Somebody would be told to pay for a booking that was cancelled.",
        tests=(
            "tests/apps/marketplace/test_silence.py::test_who_is_to_pay_for_what_has_ended_is_told_no_more",
        ),
    ),
    Planted(
        name="weekly-warned-of-what-has-ended",
        file="apps/marketplace/payments/warning.py",
        old="        guard=IS_GOING_ON,\n",
        new="",
        why="Somebody would be warned that a worker is released who has none.",
        tests=(
            "tests/apps/marketplace/test_silence.py::test_who_is_to_pay_for_what_has_ended_is_told_no_more",
        ),
    ),
]
