"""Faults in staffing."""

from __future__ import annotations

from tests.mutants.planted import Planted

_RULES = ("tests/apps/marketplace/test_staffing_rules.py",)
_COMPANIES = ("tests/apps/marketplace/test_companies.py",)
_WORKERS = ("tests/apps/marketplace/test_workers.py",)
_CHECKOUT = "tests/apps/marketplace/test_bookings.py"
_TWICE = (f"{_CHECKOUT}::test_nobody_is_booked_twice_for_one_day",)
_AT_ONCE = (f"{_CHECKOUT}::test_of_five_who_check_out_at_once_one_succeeds",)
_NIGHT = (f"{_CHECKOUT}::test_a_night_shift_takes_the_worker_until_it_ends",)
_SEES = (f"{_CHECKOUT}::test_who_sees_a_booking",)
_LISTED = (f"{_CHECKOUT}::test_bookings_are_listed_page_by_page",)
_HELD = (f"{_CHECKOUT}::test_whoever_does_not_wait_gets_nothing_while_another_holds_a_booking",)
_CANCELLING = "tests/apps/marketplace/test_cancelling.py"
_CANCELLED = (f"{_CANCELLING}::test_a_booking_is_cancelled_with_what_is_to_come",)
_ENDED = (f"{_CANCELLING}::test_what_has_ended_is_not_cancelled_again",)
_MAY_NOT = (f"{_CANCELLING}::test_who_may_not_cancel",)
_ERASED = (f"{_CANCELLING}::test_bookings_of_a_worker_who_is_erased_are_cancelled_and_kept",)

STAFFING = [
    Planted(
        name="staffing-books-whom-the-database-did-not-take",
        file="apps/marketplace/staffing/checkout.py",
        old="            raise worker_unavailable(worker.id)\n",
        new="            pass\n",
        why="A worker would be at two projects on one day.",
        tests=_TWICE,
    ),
    Planted(
        name="staffing-worker-is-not-locked",
        file="apps/marketplace/staffing/checkout.py",
        old="        await self._store.lock_worker(tx, id=worker.id)\n",
        new="",
        why="Of several who check out at once one goes on.",
        tests=_AT_ONCE,
        survives="The constraint has the last word, and the others wait for it instead.",
    ),
    Planted(
        name="staffing-night-shift-ends-at-midnight",
        file="apps/marketplace/staffing/checkout.py",
        old="    return max([first_instant(new.end_date + _DAY, timezone), *ends])\n",
        new="    return first_instant(new.end_date + _DAY, timezone)\n",
        why="Somebody could be booked for a morning in which they still work.",
        tests=_NIGHT,
    ),
    Planted(
        name="staffing-erased-worker-is-booked",
        file="apps/marketplace/staffing/checkout.py",
        old="        if worker.recipient_id not in there:\n",
        new="        if not there:\n",
        why="Nobody would come.",
        tests=_ERASED,
    ),
    Planted(
        name="staffing-last-day-is-over",
        file="apps/marketplace/staffing/rules.py",
        old='    return "booking_over" if today > end_date else None\n',
        new='    return "booking_over" if today >= end_date else None\n',
        why="Whoever was released works up to the last day, and on it.",
        tests=_RULES,
    ),
    Planted(
        name="staffing-hold-does-not-hold",
        file="apps/marketplace/staffing/rules.py",
        old="    if has_hold:\n",
        new="    if has_hold and today > end_date:\n",
        why="After a renewal with a dispute nobody clocks in until it is resolved.",
        tests=_RULES,
    ),
    Planted(
        name="staffing-shifts-that-touch-overlap",
        file="apps/marketplace/staffing/rules.py",
        old="        if shifts[late].start < _end_of(shifts[early]):\n",
        new="        if shifts[late].start <= _end_of(shifts[early]):\n",
        why="A double shift is two that touch.",
        tests=_RULES,
    ),
    Planted(
        name="staffing-completed-is-cancelled",
        file="apps/marketplace/staffing/service.py",
        old="        if not may_become(booking.status, status):\n",
        new="        if booking.status == status:\n",
        why="What has ended would be ended again, and the database would say so in its own words.",
        tests=_ENDED,
    ),
    Planted(
        name="staffing-colleague-sees-a-booking",
        file="apps/marketplace/staffing/access.py",
        old='            if role == "worker":\n',
        new='            if role == "supervisor":\n',
        why="A worker would read what is paid for colleagues.",
        tests=_SEES,
    ),
    Planted(
        name="staffing-colleague-is-shown-a-booking",
        file="apps/marketplace/staffing/sql/list_bookings_of_person.sql",
        old=" AND m.role <> 'worker'",
        new="",
        why="A worker would be shown the bookings of colleagues.",
        tests=_SEES,
    ),
    Planted(
        name="staffing-page-begins-anew",
        file="apps/marketplace/staffing/sql/list_bookings_of_person.sql",
        old="b.supervisor_id = :person::uuid AND b.id > asked.after",
        new="b.supervisor_id = :person::uuid AND b.id > b.supervisor_id",
        why="A page would have what stood on the one before it.",
        tests=_LISTED,
    ),
    Planted(
        name="staffing-any-key-is-the-operator",
        file="apps/marketplace/calls.py",
        old='call.actor is None and call.caller.scope == "admin"',
        new="call.actor is None",
        why="Whoever may write could do everything.",
        tests=_COMPANIES,
    ),
    Planted(
        name="staffing-manager-is-an-admin",
        file="apps/marketplace/staffing/access.py",
        old="            raise no_company(company_id)\n        if needed and roles.isdisjoint(needed):\n",
        new="            raise no_company(company_id)\n        if needed and not roles:\n",
        why="Every member could make projects and members.",
        tests=_COMPANIES,
    ),
    Planted(
        name="staffing-worker-cancels",
        file="apps/marketplace/staffing/booking_routes.py",
        old="    await Access(call.bell).check(call.tx, booking, by, *_MAY_CANCEL)\n",
        new="    await Access(call.bell).check(call.tx, booking, by)\n",
        why="A worker does not end a booking.",
        tests=_MAY_NOT,
    ),
    Planted(
        name="staffing-role-of-the-other-side",
        file="apps/marketplace/staffing/companies.py",
        old="        if role not in ROLES_OF[company.type]:\n",
        new='        if role == "":\n',
        why="An admin of lenders in a company that borrows would be asked for nothing.",
        tests=_COMPANIES,
    ),
    Planted(
        name="staffing-paid-for-less",
        file="apps/marketplace/staffing/sql/fund_booking.sql",
        old=" AND funded_period_end < :funded_period_end::timestamptz",
        new="",
        why="A late report would take a paid week away.",
        tests=_HELD,
    ),
    Planted(
        name="staffing-waits-for-a-booking",
        file="apps/marketplace/staffing/sql/lock_free_booking.sql",
        old=" FOR UPDATE SKIP LOCKED",
        new="",
        why="A job would act beside somebody who holds the booking.",
        tests=_HELD,
    ),
    Planted(
        name="staffing-cancelled-worker-stays-taken",
        file="apps/marketplace/staffing/sql/free_worker.sql",
        old="SET during = tstzrange(lower(during), :from_at::timestamptz)",
        new="SET during = during",
        why="Nobody could book somebody who is free.",
        tests=_CANCELLED,
    ),
    Planted(
        name="staffing-erased-worker-keeps-bookings",
        file="apps/marketplace/people.py",
        old="    if worker_id is not None:\n",
        new="    if worker_id is None:\n",
        why="Weeks of somebody who is gone would be charged.",
        tests=_ERASED,
    ),
    Planted(
        name="staffing-search-finds-who-is-taken",
        file="apps/marketplace/migrations/0007_expand_searches.sql",
        old="RETURN p_since IS NULL OR NOT EXISTS",
        new="RETURN true OR NOT EXISTS",
        why="Whoever searches would find people whom nobody can book.",
        tests=_WORKERS,
    ),
    Planted(
        name="staffing-search-shows-who-is-not-listed",
        file="apps/marketplace/staffing/workers.py",
        old='        if wanted.state != "Listed" and not by.is_operator:\n',
        new='        if wanted.state == "" and not by.is_operator:\n',
        why="Somebody whom their company does not offer would be found.",
        tests=_WORKERS,
    ),
    Planted(
        name="staffing-zip-is-a-prefix",
        file="apps/marketplace/staffing/bodies.py",
        old="        end = _ZIP_NEXT if self.zip else _ZIP_END\n",
        new="        end = _ZIP_END\n",
        why="Exactly this zip would be every one that begins so.",
        tests=_WORKERS,
    ),
]
