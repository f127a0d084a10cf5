"""Faults in saved searches."""

from __future__ import annotations

from tests.mutants.planted import Planted

_ROOM = "apps/marketplace/searches"
_RULES = ("tests/apps/marketplace/test_search_rules.py",)
_ALERTS = "tests/apps/marketplace/test_searches.py"
_DIGESTS = "tests/apps/marketplace/test_search_digests.py"
_FAILURES = "tests/apps/marketplace/test_search_failures.py"
_OWN = (f"{_ALERTS}::test_a_search_is_its_users_alone",)
_FINDS = (f"{_ALERTS}::test_an_alert_finds_what_the_search_finds",)
_LISTED = (f"{_ALERTS}::test_whoever_is_listed_is_looked_for_by_a_job",)
_DAY = (f"{_ALERTS}::test_a_search_tells_of_a_worker_once_a_day",)
_QUIET = (f"{_ALERTS}::test_quiet_hours_are_waited_for_and_then_it_is_asked_again",)
_TEN = (f"{_ALERTS}::test_of_many_in_an_hour_ten_are_told_at_once",)
_FIFTY = (f"{_ALERTS}::test_searches_are_told_fifty_at_a_time",)
_CHOSE = (f"{_ALERTS}::test_everybody_is_told_as_they_chose",)
_ERASED = (f"{_ALERTS}::test_whoever_is_erased_looks_for_nobody",)
_AGAIN = (f"{_DIGESTS}::test_a_worker_is_in_one_digest_and_a_digest_is_told_once",)
_BETWEEN = (f"{_DIGESTS}::test_nobody_is_between_two_digests",)
_LEFT = (f"{_DIGESTS}::test_what_was_too_much_at_once_stands_in_the_digest",)
_MOVED = (f"{_DIGESTS}::test_whoever_moves_has_it_at_five_where_they_are",)
_ENDS = (f"{_DIGESTS}::test_a_search_that_finds_nobody_ends_where_a_tenant_wants_that",)
_HOUR = (f"{_FAILURES}::test_a_digest_waits_an_hour_for_what_is_not_installed",)
_AWAY = (f"{_FAILURES}::test_a_database_that_is_away_is_waited_for",)
_PART = (f"{_FAILURES}::test_of_a_batch_only_what_failed_is_tried_again",)
_SMALL = (f"{_FAILURES}::test_a_batch_that_fails_as_a_whole_comes_again_smaller",)

SEARCHES = [
    Planted(
        name="searches-of-others-are-shown",
        file=f"{_ROOM}/service.py",
        old="        if search is None or search.user_id != person:\n",
        new="        if search is None:\n",
        why="What somebody looks for is their own.",
        tests=_OWN,
    ),
    Planted(
        name="searches-exact-is-a-beginning",
        file=f"{_ROOM}/rules.py",
        old="_EXACTLY + zip_key if zip_key and is_exact else zip_key",
        new="zip_key",
        why="An exact zip would be looked for among those that begin so, and found as often as they are.",
        tests=_RULES,
    ),
    Planted(
        name="searches-largest-skill-is-no-key",
        file=f"{_ROOM}/rules.py",
        old="(_ANY, *sorted(set(skills)))",
        new="(_ANY, *sorted(set(skills))[:1])",
        why="Whoever has a second skill would not be found by it.",
        tests=_RULES,
    ),
    Planted(
        name="searches-rate-is-not-minded",
        file="apps/marketplace/migrations/0007_expand_searches.sql",
        old="        AND (p_rate_max IS NULL OR p_of_rate <= p_rate_max)\n",
        new="",
        why="The search and what is told about it share this.",
        tests=_FINDS,
    ),
    Planted(
        name="searches-any-state-tells",
        file="apps/marketplace/staffing/workers.py",
        old='            if "state" in changed and after.state == "Listed":\n',
        new='            if after.state == "Listed":\n',
        why="Whoever changes something about somebody who is listed would tell everybody again.",
        tests=_LISTED,
    ),
    Planted(
        name="searches-told-twice-a-day",
        file=f"{_ROOM}/rules.py",
        old="        if match.id in recent:\n            continue\n",
        new="",
        why="Somebody who is listed again and again would be told of again and again.",
        tests=(*_RULES, *_DAY),
    ),
    Planted(
        name="searches-eleven-an-hour",
        file=f"{_ROOM}/rules.py",
        old="        is_told = left.get(match.user_id, most) > 0\n",
        new="        is_told = left.get(match.user_id, most) >= 0\n",
        why="A person is told of ten in an hour.",
        tests=(*_RULES, *_TEN),
    ),
    Planted(
        name="searches-hour-counts-what-is-left",
        file=f"{_ROOM}/sql/count_alerts.sql",
        old="- interval '1 hour'",
        new="- interval '1 day'",
        why="The next hour has ten more.",
        tests=_TEN,
    ),
    Planted(
        name="searches-not-asked-again",
        file=f"{_ROOM}/alerting.py",
        old="        guard=STILL_MATCHES,\n",
        new="",
        why="After quiet hours it may not be so any more.",
        tests=_QUIET,
    ),
    Planted(
        name="searches-page-begins-anew",
        file=f"{_ROOM}/sql/match_searches.sql",
        old=" AND p.number >= :after_number::bigint",
        new="",
        why="A page would have what stood on the one before it, and never end.",
        tests=_FIFTY,
    ),
    Planted(
        name="searches-ended-tell-on",
        file=f"{_ROOM}/sql/match_searches.sql",
        old="o.is_active AND o.instant_enabled",
        new="o.instant_enabled",
        why="Whoever has ended a search wants to hear of nobody.",
        tests=_CHOSE,
    ),
    Planted(
        name="searches-of-the-erased-stay",
        file="apps/marketplace/people.py",
        old="    await SearchStore(bell.clock).delete_searches_of_person(tx, person=person)\n",
        new="",
        why="What somebody looked for says who they are.",
        tests=_ERASED,
    ),
    Planted(
        name="searches-in-two-digests-of-a-morning",
        file=f"{_ROOM}/sql/read_digest_searches.sql",
        old="s.last_digest_at < :at::timestamptz)",
        new="s.last_digest_at <= :at::timestamptz)",
        why="A morning that is composed again tells nobody again.",
        tests=_AGAIN,
    ),
    Planted(
        name="searches-nobody-looks-back-a-minute",
        file=f"{_ROOM}/rules.py",
        old="LAG: Final = timedelta(minutes=1)\n",
        new="LAG: Final = timedelta(0)\n",
        why="Who is listed while the digest is composed would be in none.",
        tests=_BETWEEN,
    ),
    Planted(
        name="searches-told-is-told-in-the-morning",
        file=f"{_ROOM}/sql/match_digests.sql",
        old="x.state <> 'overflow'",
        new="x.state = 'digested'",
        why="Of whom one was told at once is not new any more.",
        tests=_LEFT,
    ),
    Planted(
        name="searches-moved-stay",
        file=f"{_ROOM}/composing.py",
        old="            if now_in == timezone:\n",
        new="            if timezone:\n",
        why="Five in the morning is where somebody is.",
        tests=_MOVED,
    ),
    Planted(
        name="searches-end-a-day-early",
        file=f"{_ROOM}/sql/settle_digests.sql",
        old="s.zero_streak + 1 < :zero_max::integer",
        new="s.zero_streak + 2 < :zero_max::integer",
        why="So many digests were promised.",
        tests=_ENDS,
    ),
    Planted(
        name="searches-alert-waits-for-an-installation",
        file=f"{_ROOM}/rules.py",
        old='    if cause == "extension" and sort == "instant":\n        return None\n',
        new="",
        why="It needs somebody to do something, and an alert is for now.",
        tests=_RULES,
    ),
    Planted(
        name="searches-digest-waits-for-ever",
        file=f"{_ROOM}/rules.py",
        old="    return None if left <= timedelta(0) else",
        new="    return _SOONEST if left <= timedelta(0) else",
        why="What is not installed comes by nobody's waiting.",
        tests=(*_RULES, *_HOUR),
    ),
    Planted(
        name="searches-window-is-not-minded",
        file=f"{_ROOM}/failing.py",
        old='        if lost is not None and lost > settings.windows["database"]:\n',
        new="        if lost is not None and lost > timedelta.max:\n",
        why="An alert that comes an hour late is none.",
        tests=_AWAY,
    ),
    Planted(
        name="searches-all-of-a-batch-again",
        file=f"{_ROOM}/alerting.py",
        old="    await job.bell.enqueue_many(tx, [_one(job, match) for match in failed])\n",
        new="",
        why="What failed alone is tried again alone, or nobody would hear of it.",
        tests=_PART,
    ),
    Planted(
        name="searches-batch-stays-large",
        file=f"{_ROOM}/alerting.py",
        old="    limit = job.batch(BATCH)\n",
        new="    limit = BATCH\n",
        why="What takes too long for fifty takes too long again.",
        tests=_SMALL,
    ),
]
