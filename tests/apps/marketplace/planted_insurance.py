"""Faults in insurance. They go with the app."""

from __future__ import annotations

from tests.mutants.planted import Planted

_RULES = ("tests/apps/marketplace/test_insurance_rules.py",)
_MONITOR = "tests/apps/marketplace/test_insurance_monitor.py"
_STOPS = "tests/apps/marketplace/test_insurance_stops.py"
_CHECKOUT = "tests/apps/marketplace/test_insured_checkout.py"
_RACES = "tests/apps/marketplace/test_insurance_races.py"
_ROOM = "apps/marketplace/insurance"

INSURANCE = [
    Planted(
        name="insurance-ends-a-day-early",
        file=f"{_ROOM}/rules.py",
        old="    if left < 0:\n",
        new="    if left <= 0:\n",
        why="Work would be stopped on a day on which the insurance is valid.",
        tests=_RULES,
    ),
    Planted(
        name="insurance-warned-on-one-day-alone",
        file=f"{_ROOM}/rules.py",
        old="    return 14 if left <= WARNED_AHEAD.days else None\n",
        new="    return 14 if left == WARNED_AHEAD.days else None\n",
        why="A day on which nobody looked would lose the warning.",
        tests=_RULES,
    ),
    Planted(
        name="insurance-shift-beyond-the-last-day",
        file=f"{_ROOM}/rules.py",
        old="(is_at_work or today <= end_date)",
        new="(today <= end_date)",
        why="Nobody would tell somebody to stop who works over midnight of the last day.",
        tests=_RULES,
    ),
    Planted(
        name="insurance-warned-every-day",
        file=f"{_ROOM}/sql/insert_warnings.sql",
        old="ON CONFLICT DO NOTHING\n",
        new="ON CONFLICT (tenant, policy_id, expiration_date, threshold, recipient_id, channel)"
        " DO UPDATE SET sent_at = excluded.sent_at\n",
        why="Every admin would be warned on each of 14 days.",
        tests=(f"{_MONITOR}::test_what_was_entered_late_is_warned_of_once",),
    ),
    Planted(
        name="insurance-other-side-not-warned",
        file=f"{_ROOM}/sql/insert_warnings.sql",
        old="    UNION SELECT p.id, p.expiration_date, b.borrower_company_id FROM policies p\n",
        new="    UNION SELECT p.id, p.expiration_date, b.lender_company_id FROM policies p\n",
        why="Borrowers would not hear that their workers' insurance ends.",
        tests=(f"{_MONITOR}::test_both_sides_of_a_booking_are_warned_and_who_becomes_an_admin_later",),
    ),
    Planted(
        name="insurance-run-begins-again",
        file=f"{_ROOM}/monitoring.py",
        old='            after_date=date.fromisoformat(cursor["date"]) if cursor else date.min,\n',
        new="            after_date=date.min,\n",
        why="A run with more than one batch would go on for ever.",
        tests=(f"{_MONITOR}::test_a_run_goes_on_where_its_last_batch_ended",),
    ),
    Planted(
        name="insurance-one-poisons-all",
        file=f"{_ROOM}/monitoring.py",
        old="                    await self._tell([policy], threshold, today)\n",
        new="                    await self._tell(policies, threshold, today)\n",
        why="One insurance that nobody can be told of would keep a whole batch from being warned of.",
        tests=(f"{_MONITOR}::test_what_cannot_be_told_keeps_nothing_from_ending",),
    ),
    Planted(
        name="insurance-two-schedules",
        file=f"{_ROOM}/service.py",
        old="        await self._store.lock_monitor(tx)\n",
        new="",
        why="Two first insurances at once would make two daily runs, or one of them would be refused.",
        tests=(f"{_MONITOR}::test_of_several_who_add_the_first_one_makes_the_schedule",),
    ),
    Planted(
        name="stop-what-another-covers",
        file=f"{_ROOM}/stopping.py",
        old="        if await self._policies.is_covered(tx, **about, today=utc_date(now)):\n",
        new="        if False:\n",
        why="Work would be stopped although another insurance of the type is valid.",
        tests=(f"{_STOPS}::test_another_of_the_type_covers_and_each_want_is_made_up_for_by_its_own",),
    ),
    Planted(
        name="resume-what-another-stops",
        file=f"{_ROOM}/stopping.py",
        old="            if not await self._store.is_stopped(tx, booking_id=id):\n",
        new="            if True:\n",
        why="One renewal would let work go on that another insurance has stopped.",
        tests=(f"{_STOPS}::test_another_of_the_type_covers_and_each_want_is_made_up_for_by_its_own",),
    ),
    Planted(
        name="resume-without-cover",
        file=f"{_ROOM}/stopping.py",
        old="        if not await self._policies.is_covered(tx, **about, today=utc_date(now)):\n",
        new="        if False:\n",
        why="An insurance that has expired already would let work go on.",
        tests=(f"{_STOPS}::test_what_has_expired_already_replaces_and_resumes_nothing",),
    ),
    Planted(
        name="resume-without-the-hold",
        file=f"{_ROOM}/stopping.py",
        old="        if is_contested and (await",
        new="        if not is_contested and (await",
        why="After a renewal somebody would work in a booking that is disputed.",
        tests=(f"{_STOPS}::test_after_a_renewal_nobody_clocks_in_until_nothing_is_disputed",),
    ),
    Planted(
        name="hold-never-lifted",
        file="apps/marketplace/staffing/service.py",
        old="        if is_held == booking.clock_in_hold:\n",
        new="        if not is_held or booking.clock_in_hold:\n",
        why="Nobody would clock in any more after the last dispute was resolved.",
        tests=(f"{_STOPS}::test_after_a_renewal_nobody_clocks_in_until_nothing_is_disputed",),
    ),
    Planted(
        name="stop-not-of-who-was-released",
        file="apps/marketplace/shifts/service.py",
        old='        return "Suspended_Insurance" if is_stopped else booking.status\n',
        new="        return booking.status\n",
        why="Whoever was released would work up to Sunday without an insurance.",
        tests=(f"{_STOPS}::test_whoever_was_released_is_stopped_up_to_sunday_and_goes_on_after_a_renewal",),
    ),
    Planted(
        name="stop-leaves-the-busy",
        file=f"{_ROOM}/handlers.py",
        old="    if is_busy:\n",
        new="    if False:\n",
        why="A booking that somebody was changing at midnight would never be stopped.",
        tests=(f"{_STOPS}::test_a_booking_that_somebody_has_keeps_no_other_and_is_stopped_a_second_later",),
    ),
    Planted(
        name="stop-after-a-renewal",
        file=f"{_ROOM}/handlers.py",
        old='    is_same = policy is not None and policy.revision == job.payload["revision"]\n',
        new="    is_same = policy is not None\n",
        why="What was renewed before its stop had run would be stopped.",
        tests=(f"{_STOPS}::test_without_disputes_work_goes_on_at_once",),
    ),
    Planted(
        name="stop-told-although-renewed",
        file=f"{_ROOM}/handlers.py",
        old="    return policy is not None and not policy.is_active and policy.replaced_by is None\n",
        new="    return True\n",
        why="People would be told to stop who may go on by then.",
        tests=(f"{_STOPS}::test_nobody_is_told_to_stop_who_may_go_on_by_then",),
    ),
    Planted(
        name="stop-waits-for-quiet-hours",
        file=f"{_ROOM}/handlers.py",
        old='        urgency="critical",\n        key=',
        new='        urgency="normal",\n        key=',
        why="Somebody would work without an insurance until the morning.",
        tests=(f"{_STOPS}::test_everything_stops_at_midnight_and_everybody_is_told_once",),
    ),
    Planted(
        name="checkout-without-an-insurance",
        file="apps/marketplace/staffing/checkout.py",
        old="        if wanting:\n",
        new="        if False:\n",
        why="Somebody would be booked whom nobody may have at work, and would not hear that work is stopped.",
        tests=(f"{_CHECKOUT}::test_nobody_is_booked_while_an_insurance_is_not_valid",),
    ),
    Planted(
        name="checkout-past-who-stops",
        file="apps/marketplace/staffing/checkout.py",
        old="        await self._policies.share_companies(tx, ids=list(named))\n",
        new="",
        why="A checkout that was under way when an insurance ended would be stopped by nobody.",
        tests=(f"{_RACES}::test_the_end_of_an_insurance_races_with_a_checkout",),
    ),
    Planted(
        name="checkout-believes-what-is-over",
        file=f"{_ROOM}/sql/list_wanting.sql",
        old="AND NOT (p.is_active AND p.expiration_date >= :today::date)\n",
        new="AND NOT p.is_active\n",
        why="Between midnight and the daily run somebody would be booked without an insurance.",
        tests=(f"{_CHECKOUT}::test_one_that_is_over_counts_as_such_before_the_daily_run_has_seen_it",),
    ),
    Planted(
        name="checkout-wants-what-another-covers",
        file=f"{_ROOM}/sql/list_wanting.sql",
        old="AND o.type = p.type)\n",
        new="AND o.type <> p.type)\n",
        why="Nobody could be booked although another insurance of the type is valid.",
        tests=(f"{_CHECKOUT}::test_another_of_the_type_covers_and_others_do_not_matter",),
    ),
    Planted(
        name="stop-told-of-what-was-cancelled",
        file=f"{_ROOM}/sql/list_told_of_stop.sql",
        old=" AND b.status <> 'Cancelled'",
        new="",
        why="Somebody would be told to stop work in a booking that has ended.",
        tests=(
            "tests/apps/marketplace/test_silence.py::test_who_is_told_to_stop_does_not_hear_of_what_was_cancelled_since",
        ),
    ),
]
