"""What a schedule owes between two instants, without a database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from timebell.errors import RecurrenceError, UnknownTimezone
from timebell.rules.planned import (
    AHEAD_JOBS,
    PIECE_JOBS,
    CatchUp,
    Compared,
    Existing,
    Override,
    Plan,
    Planned,
    ScheduleFacts,
    compare,
    expires_at,
    occurrence_id,
)
from timebell.rules.planning import (
    end_local,
    find_occurrence,
    is_first,
    moved_to,
    orphans,
    plan,
    remaining_recurrence,
)

NOW = datetime(2027, 3, 1, 9, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
HORIZON = 60 * DAY
TICK = timedelta(microseconds=1)


def local(text: str) -> datetime:
    return datetime.fromisoformat(text)


def facts(
    recurrence: str | None = "FREQ=DAILY", start: str = "2027-03-02T12:00", **options: Any
) -> ScheduleFacts:
    stated = {"timezone": "UTC", "offsets": (timedelta(0),), **options}
    return ScheduleFacts(recurrence=recurrence, start_local=local(start), **stated)


def look(of: ScheduleFacts, *overrides: Override, **options: Any) -> Plan:
    return plan(of, overrides, **{"cursor": NOW, "now": NOW, "horizon": HORIZON, **options})


def told(found: Plan) -> list[tuple[str, str, str]]:
    return [
        (one.original_local.isoformat()[5:16], one.occurs_at.isoformat()[5:16], one.state)
        for one in found.occurrences
    ]


def override(original: str, new: str | None = None, **options: Any) -> Override:
    return Override(original_local=local(original), new_local=None if new is None else local(new), **options)


class TestWindow:
    @pytest.mark.parametrize("catch_up", ["all", "latest", "skip"])
    def test_occurrences_that_are_decades_apart_are_planned_for(self, catch_up: str) -> None:
        """With all of them to catch up, a hundred later ones would decide what is stale: two thousand years."""
        rare = facts("FREQ=MONTHLY;BYMONTH=2;BYMONTHDAY=29;BYDAY=SA", catch_up=catch_up)
        found = look(rare, now=local("2048-02-01T00:00").replace(tzinfo=UTC))
        assert told(found) == [("02-29T12:00", "02-29T12:00", "planned")]
        assert found.plan_at == local("2076-02-29T12:00").replace(tzinfo=UTC) - HORIZON + TICK

    def test_a_plan_reaches_to_the_horizon_and_the_longest_offset(self) -> None:
        found = look(facts(offsets=(-2 * DAY, HOUR)))
        assert found.occurrences[-1].occurs_at == datetime(2027, 5, 1, 12, tzinfo=UTC)
        assert found.planned_until == NOW + 62 * DAY
        assert found.plan_at == datetime(2027, 5, 2, 12, tzinfo=UTC) - 62 * DAY + TICK
        assert not found.is_over

    def test_the_next_plan_begins_where_this_one_ended(self) -> None:
        schedule = facts("every PT7H")
        whole = look(schedule)
        cursor, keys = NOW, []
        while cursor < whole.planned_until:
            part = look(schedule, cursor=cursor, limit=3)
            keys += [one.key for one in part.occurrences]
            cursor = part.planned_until
        assert keys == [one.key for one in whole.occurrences]

    def test_what_is_due_at_the_end_belongs_to_the_next_plan(self) -> None:
        end = local("2027-03-05T12:00").replace(tzinfo=UTC)
        found = look(facts(), horizon=end - NOW)
        assert (found.occurrences[-1].occurs_at, found.planned_until) == (end - DAY, end)

    def test_what_is_due_at_the_cursor_belongs_to_the_plan(self) -> None:
        found = look(facts(start="2027-03-01T09:00"), limit=1)
        assert told(found) == [("03-01T09:00", "03-01T09:00", "planned")]
        assert found.planned_until == NOW + DAY
        assert found.plan_at == NOW + DAY - HORIZON + TICK

    def test_a_series_is_over_when_nothing_more_can_come_of_its_last(self) -> None:
        schedule = facts("FREQ=DAILY;COUNT=2", offsets=(timedelta(0), 2 * HOUR))
        last = datetime(2027, 3, 3, 12, tzinfo=UTC)
        over_at = last + 2 * HOUR + timedelta(minutes=15)
        found = look(schedule)
        assert (found.plan_at, found.is_over) == (over_at, False)
        cursor = found.planned_until
        assert look(schedule, cursor=cursor, now=over_at - HOUR).plan_at == over_at
        over = look(schedule, cursor=cursor, now=over_at)
        assert (over.occurrences, over.plan_at, over.is_over) == ((), None, True)

    def test_a_one_off_far_away_waits(self) -> None:
        found = look(facts(None, start="2028-03-02T12:00"))
        assert found.occurrences == ()
        assert found.plan_at == datetime(2028, 3, 2, 12, tzinfo=UTC) - HORIZON + TICK

    def test_a_long_series_with_an_end_is_looked_at_in_parts(self) -> None:
        found = look(facts("FREQ=DAILY;COUNT=50"), limit=10)
        assert len(found.occurrences) == 10
        ahead = look(facts("FREQ=DAILY;COUNT=50"), limit=10, cursor=NOW + HORIZON)
        assert (ahead.is_over, ahead.plan_at) == (False, datetime(2027, 3, 11, 12, 15, tzinfo=UTC))

    @pytest.mark.parametrize(
        ("of", "error"),
        [
            (facts("FREQ=NEVER"), RecurrenceError),
            (facts(timezone="Mars/Olympus"), UnknownTimezone),
        ],
    )
    def test_what_cannot_be_planned_says_why(self, of: ScheduleFacts, error: type[Exception]) -> None:
        with pytest.raises(error):
            look(of)


class TestOverrides:
    def test_one_is_moved_one_skipped_and_both_keep_their_names(self) -> None:
        found = look(
            facts("FREQ=DAILY;COUNT=3"),
            override("2027-03-03T12:00", "2027-03-02T18:00"),
            override("2027-03-04T12:00"),
        )
        assert told(found) == [
            ("03-02T12:00", "03-02T12:00", "planned"),
            ("03-03T12:00", "03-02T18:00", "planned"),
            ("03-04T12:00", "03-04T12:00", "skipped"),
        ]

    def test_one_that_is_moved_across_the_end_of_the_window_is_planned_with_either_end(self) -> None:
        yearly = facts("FREQ=YEARLY")
        near = override("2028-03-02T12:00", "2027-03-05T12:00")
        assert told(look(yearly, near))[1] == ("03-02T12:00", "03-05T12:00", "planned")
        far = override("2027-03-02T12:00", "2027-12-05T12:00")
        assert told(look(yearly, far)) == [("03-02T12:00", "12-05T12:00", "planned")]

    def test_the_planner_comes_back_for_one_that_is_moved_between_two_others(self) -> None:
        yearly, moved = facts("FREQ=YEARLY"), override("2029-03-02T12:00", "2027-12-05T12:00")
        found = look(yearly, moved)
        assert found.plan_at == datetime(2027, 12, 5, 12, tzinfo=UTC) - HORIZON + TICK
        early = look(yearly, moved, cursor=found.planned_until, now=found.plan_at - TICK)
        assert (told(early), early.plan_at) == ([], found.plan_at)
        later = look(yearly, moved, cursor=found.planned_until, now=found.plan_at)
        assert told(later) == [("03-02T12:00", "12-05T12:00", "planned")]
        assert later.plan_at is not None
        assert later.plan_at > found.plan_at

    def test_a_change_to_what_is_not_there_does_nothing_and_is_an_orphan(self) -> None:
        orphan = override("2027-03-03T12:30", "2027-03-03T18:00")
        known = override("2027-03-03T12:00")
        assert len(look(facts("FREQ=DAILY;COUNT=3"), orphan).occurrences) == 3
        assert orphans(facts("FREQ=DAILY;COUNT=3"), [orphan, known]) == [orphan]

    def test_a_chosen_time_in_a_gap_is_shifted_even_where_the_series_skips_gaps(self) -> None:
        schedule = facts(timezone="Europe/Berlin", on_gap="skip")
        at, adjusted = moved_to(schedule, local("2027-03-28T02:30"))
        assert (at, adjusted) == (datetime(2027, 3, 28, 1, 30, tzinfo=UTC), "gap")

    def test_an_occurrence_is_found_by_its_name(self) -> None:
        berlin = facts("FREQ=DAILY", "2027-01-01T02:30", timezone="Europe/Berlin")
        for name, adjusted in (
            ("2027-03-28T02:30", "gap"),
            ("2027-10-31T02:30", "fold"),
            ("2027-06-01T02:30", None),
        ):
            one = find_occurrence(berlin, local(name))
            assert one is not None
            assert one.adjusted == adjusted
        assert find_occurrence(berlin, local("2027-03-28T03:30")) is None
        assert find_occurrence(berlin, local("2027-10-31T02:30"), fold=1) is None
        elapsed = facts("every PT30M", "2027-01-01T00:00", timezone="Europe/Berlin")
        first, second = (find_occurrence(elapsed, local("2027-10-31T02:30"), fold=fold) for fold in (0, 1))
        assert first is not None
        assert second is not None
        assert second.occurs_at - first.occurs_at == HOUR
        cron = facts("cron 30 2 * * *", "2027-01-01T00:00", timezone="Europe/Berlin")
        one = find_occurrence(cron, local("2027-03-28T02:30"))
        assert one is not None
        assert one.occurs_at == datetime(2027, 3, 28, 1, 0, tzinfo=UTC)


class TestCatchUp:
    """From the last hour of February on nobody planned; it is NOW, and something happens every hour."""

    hourly = facts("every PT1H", "2027-02-01T00:00")
    cursor = datetime(2027, 3, 1, 0, 0, tzinfo=UTC)
    now = NOW + timedelta(minutes=10)

    def past(self, **options: Any) -> list[Planned]:
        stated = {"recurrence": "every PT1H", "start": "2027-02-01T00:00", **options}
        found = look(facts(**stated), cursor=self.cursor, now=self.now)
        return [one for one in found.occurrences if one.occurs_at < self.now]

    @pytest.mark.req("S-3.4", "U-10")
    def test_the_newest_is_caught_up_and_the_others_are_missed(self) -> None:
        past = self.past()
        assert [one.state for one in past] == ["missed"] * 9 + ["planned"]
        assert (past[-1].is_caught_up, past[-1].missed_count, past[-1].occurs_at) == (True, 9, NOW)

    @pytest.mark.req("U-10")
    def test_beyond_its_grace_even_the_newest_is_missed(self) -> None:
        assert {one.state for one in self.past(grace=timedelta(minutes=9))} == {"missed"}
        assert {one.state for one in self.past(catch_up="skip")} == {"missed"}

    @pytest.mark.req("S-3.4", "U-10")
    def test_it_is_missed_from_the_instant_on_at_which_its_grace_ends(self) -> None:
        once = facts(None, "2027-03-01T08:00", grace=HOUR)
        due_at = NOW - HOUR
        for now, state in ((NOW - TICK, "planned"), (NOW, "missed")):
            (one,) = look(once, cursor=due_at, now=now).occurrences
            assert one.state == state

    def test_with_all_as_many_as_the_cap_are_caught_up(self) -> None:
        past = self.past(catch_up="all", catch_up_max=4)
        assert [one.is_caught_up for one in past] == [False] * 6 + [True] * 4
        assert {one.missed_count for one in past if one.is_caught_up} == {6}
        graced = self.past(catch_up="all", catch_up_max=4, grace=2 * HOUR)
        assert [one.is_caught_up for one in graced] == [False] * 8 + [True] * 2
        assert all(one.is_caught_up for one in self.past(catch_up="all"))

    @pytest.mark.parametrize("limit", [1, 4, 9])
    def test_it_makes_no_difference_in_how_many_parts_the_past_is_looked_at(self, limit: int) -> None:
        whole, parts, cursor = self.past(catch_up="all", catch_up_max=4), [], self.cursor
        missed = 0
        while cursor <= self.now:
            schedule = facts("every PT1H", "2027-02-01T00:00", catch_up="all", catch_up_max=4)
            part = look(schedule, cursor=cursor, now=self.now, limit=limit).counting(missed)
            parts += [one for one in part.occurrences if one.occurs_at < self.now]
            missed += sum(one.state == "missed" for one in part.occurrences)
            cursor = part.planned_until
        assert parts == whole

    def test_what_is_to_come_is_planned_with_it(self) -> None:
        found = look(self.hourly, cursor=self.cursor, now=self.now)
        coming = [one for one in found.occurrences if one.occurs_at >= self.now]
        assert coming[0].occurs_at == NOW + HOUR
        assert not any(one.is_caught_up for one in coming)


class TestStaleness:
    def one(self, **options: Any) -> tuple[ScheduleFacts, Planned]:
        schedule = facts(**options)
        return schedule, look(schedule).occurrences[0]

    @pytest.mark.req("U-10")
    @pytest.mark.parametrize(
        ("options", "after"),
        [
            ({"catch_up": "skip", "grace": DAY}, timedelta(seconds=60)),
            ({}, timedelta(minutes=15)),
            ({"grace": timedelta(0)}, timedelta(seconds=1)),
            ({"grace": 3 * DAY}, DAY),
            ({"recurrence": "FREQ=DAILY;COUNT=1", "grace": 3 * DAY}, 3 * DAY),
            ({"catch_up": "all", "catch_up_max": 5}, 5 * DAY),
            ({"catch_up": "all", "catch_up_max": 5, "grace": HOUR}, HOUR),
            ({"catch_up": "all", "recurrence": "FREQ=DAILY;COUNT=9"}, None),
        ],
    )
    def test_a_step_is_stale_so_long_after_it_was_due(
        self, options: dict[str, Any], after: timedelta | None
    ) -> None:
        schedule, one = self.one(**options)
        for offset in (timedelta(0), -7 * HOUR):
            stale_at = expires_at(schedule, one, offset)
            assert stale_at == (None if after is None else one.occurs_at + offset + after)

    def test_what_is_skipped_overtakes_nothing_and_what_is_moved_does(self) -> None:
        schedule = facts("FREQ=DAILY;COUNT=3", grace=5 * DAY)
        skipped = look(schedule, override("2027-03-03T12:00")).occurrences[0]
        assert skipped.overtaken_at == skipped.occurs_at + 2 * DAY
        moved = look(schedule, override("2027-03-04T12:00", "2027-03-02T13:00")).occurrences[0]
        assert moved.overtaken_at == moved.occurs_at + HOUR

    @pytest.mark.parametrize(("catch_up", "days"), [("latest", 1), ("all", 3)])
    def test_what_is_moved_beyond_the_plan_is_overtaken_by_those_that_are_there(
        self, catch_up: CatchUp, days: int
    ) -> None:
        """Although nobody has looked so far, and whatever was skipped or moved there."""
        schedule = facts("FREQ=DAILY", catch_up=catch_up, catch_up_max=3, grace=30 * DAY)
        moved = override("2027-03-03T12:00", "2027-08-10T12:00")
        found = {
            one.original_local: one for one in look(schedule, moved, override("2027-08-11T12:00")).occurrences
        }
        far = found[moved.original_local]
        assert far.overtaken_at == far.occurs_at + (days + 1) * DAY


class TestEnds:
    @pytest.mark.req("R-4.4")
    @pytest.mark.parametrize(
        ("recurrence", "until", "end"),
        [
            ("FREQ=DAILY", None, None),
            ("FREQ=DAILY;COUNT=3", None, "2027-03-04T12:00"),
            ("FREQ=DAILY;COUNT=3", "2027-03-03T00:00", "2027-03-03T00:00"),
            ("FREQ=DAILY;UNTIL=20270309T120000", "2027-12-03T00:00", "2027-03-09T12:00"),
            ("FREQ=DAILY;UNTIL=20270309T113000Z", None, "2027-03-09T12:30"),
            ("FREQ=DAILY;UNTIL=20270309", None, "2027-03-09T23:59:59"),
            ("every PT1H", "2027-03-03T00:00", "2027-03-03T00:00"),
            (None, None, "2027-03-02T12:00"),
        ],
    )
    def test_the_earliest_end_counts(
        self, recurrence: str | None, until: str | None, end: str | None
    ) -> None:
        found = end_local(
            recurrence,
            start_local=local("2027-03-02T12:00"),
            until_local=None if until is None else local(until),
            timezone="Europe/Berlin",
        )
        assert found == (None if end is None else local(end))

    def test_a_counted_end_gives_the_same_occurrences(self) -> None:
        counted = facts("FREQ=MONTHLY;BYDAY=-1FR;COUNT=3", rdates=(local("2027-07-01T12:00"),))
        ended = facts(
            "FREQ=MONTHLY;BYDAY=-1FR;COUNT=3",
            rdates=(local("2027-07-01T12:00"),),
            last_local=local("2027-05-28T12:00"),
        )
        assert look(ended, horizon=300 * DAY) == look(counted, horizon=300 * DAY)
        assert len(look(ended, horizon=300 * DAY).occurrences) == 4


class TestSplitting:
    @pytest.mark.parametrize(
        ("recurrence", "left"),
        [
            ("FREQ=DAILY;COUNT=5", "FREQ=DAILY;COUNT=3"),
            ("freq=daily;count=5;interval=1", "freq=daily;COUNT=3;interval=1"),
            ("FREQ=DAILY;UNTIL=20270310", "FREQ=DAILY;UNTIL=20270310"),
            ("every P1D", "every P1D"),
        ],
    )
    def test_what_is_left_of_a_count_goes_on(self, recurrence: str, left: str) -> None:
        # What was left out counts as well.
        schedule = facts(recurrence, exdates=(local("2027-03-03T12:00"),))
        one = find_occurrence(schedule, local("2027-03-04T12:00"))
        assert one is not None
        assert remaining_recurrence(schedule, one) == left
        assert not is_first(schedule, one)

    def test_a_single_date_begins_no_series(self) -> None:
        schedule = facts(rdates=(local("2027-03-04T07:00"),))
        one = find_occurrence(schedule, local("2027-03-04T07:00"))
        assert one is not None
        assert remaining_recurrence(schedule, one) is None


class TestComparing:
    def test_each_occurrence_is_in_one_list(self) -> None:
        found = look(facts("FREQ=DAILY;COUNT=5"), override("2027-03-05T12:00"), override("2027-03-06T12:00"))
        first, second, third, fourth, fifth = found.occurrences
        existing = [
            Existing(original_local=first.original_local, fold=0, occurs_at=first.occurs_at),
            Existing(original_local=second.original_local, fold=0, occurs_at=second.occurs_at - HOUR),
            Existing(original_local=fourth.original_local, fold=0, occurs_at=fourth.occurs_at),
            Existing(original_local=fifth.original_local, fold=0, occurs_at=fifth.occurs_at, state="skipped"),
            Existing(original_local=local("2027-03-02T11:00"), fold=0, occurs_at=NOW + DAY),
        ]
        assert compare(existing, found.occurrences) == Compared(
            kept=((first, existing[0]),),
            moved=((second, existing[1]),),
            added=(third,),
            withdrawn=(existing[2], existing[4]),
            skipped=(fourth, fifth),
        )

    def test_what_was_skipped_and_is_owed_again_is_added(self) -> None:
        (one,) = look(facts(None)).occurrences
        existing = Existing(
            original_local=one.original_local, fold=0, occurs_at=one.occurs_at, state="skipped"
        )
        assert compare([existing], [one]).added == (one,)


@pytest.mark.req("X-J2")
def test_an_occurrence_has_one_id_for_ever() -> None:
    schedule = UUID("01890000-0000-7000-8000-000000000001")
    first = occurrence_id(schedule, local("2027-10-31T02:30"))
    assert first == UUID("fad92b98-43de-557c-979c-28caad04024f")
    assert first == occurrence_id(schedule, local("2027-10-31T02:30:00.5"))
    assert first != occurrence_id(schedule, local("2027-10-31T02:30"), fold=1)
    assert first != occurrence_id(UUID(int=1), local("2027-10-31T02:30"))


_RULES = st.sampled_from(
    [
        "FREQ=DAILY",
        "FREQ=WEEKLY;BYDAY=MO,SU",
        "FREQ=MONTHLY;BYMONTHDAY=31",
        "every PT5H",
        "cron 30 2 * * *",
        "FREQ=DAILY;COUNT=40",
    ]
)


@settings(deadline=None, max_examples=50)
@given(
    rule=_RULES,
    timezone=st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC"]),
    steps=st.lists(st.integers(1, 1_400), min_size=1, max_size=4),
    limit=st.integers(5, 40),
    changes=st.dictionaries(st.integers(0, 30), st.none() | st.integers(-2_000, 2_000), max_size=4),
)
def test_planning_in_any_parts_gives_the_same_occurrences(
    rule: str, timezone: str, steps: list[int], limit: int, changes: dict[int, int | None]
) -> None:
    """Whoever plans, however often and however late within the horizon: the same occurrences come out, each once."""
    schedule = facts(rule, "2027-03-02T02:30", timezone=timezone)
    end = NOW + sum(steps) * HOUR + HORIZON
    base = plan(schedule, cursor=NOW, now=NOW, horizon=end - NOW, limit=2_000).occurrences
    overrides = [
        Override(
            original_local=base[at].original_local,
            fold=base[at].fold,
            new_local=None
            if hours is None
            else max(base[at].local + hours * HOUR, local("2027-03-03T00:00")),
        )
        for at, hours in changes.items()
        if at < len(base)
    ]
    whole = plan(schedule, overrides, cursor=NOW, now=NOW, horizon=end - NOW, limit=2_000)
    found: dict[Any, Planned] = {}
    now = cursor = NOW
    for hours in (*steps, 0):
        for _ in range(2_000):
            part = plan(schedule, overrides, cursor=cursor, now=now, horizon=HORIZON, limit=limit)
            for one in part.occurrences:
                found.setdefault(one.key, one)
            cursor = part.planned_until
            if cursor >= now + HORIZON:
                break
        now += hours * HOUR
    in_reach = {one.key: (one.occurs_at, one.state) for one in whole.occurrences if one.occurs_at < end}
    assert {key: (one.occurs_at, one.state) for key, one in found.items() if one.occurs_at < end} == in_reach


@pytest.mark.parametrize(("steps", "occurrences"), [(1, 500), (10, 500), (200, 25), (300, 16), (1_000, 5)])
def test_what_is_planned_at_once_is_bounded_by_its_jobs(steps: int, occurrences: int) -> None:
    found = look(facts("every PT1M", "2027-03-01T09:01", offsets=(timedelta(0),) * steps))
    assert len(found.occurrences) == occurrences
    assert found.planned_until == NOW + (occurrences + 1) * timedelta(minutes=1)
    assert found.plan_at is not None
    assert found.plan_at < NOW, "the planner goes on at once"


@pytest.mark.parametrize("steps", [1, 7, 200])
@pytest.mark.parametrize("lead", [timedelta(0), HOUR])
def test_a_crowded_schedule_is_planned_less_far_ahead_and_never_late(steps: int, lead: timedelta) -> None:
    """A day in the life of a planner: it looks when it is due, and each look is a piece."""
    of = facts("every PT1M", "2027-03-01T09:01", offsets=(-lead, *(timedelta(0),) * (steps - 1)))
    now, cursor, ahead = NOW, NOW, 0
    planned: list[datetime] = []
    while now < NOW + DAY:
        found = look(of, cursor=cursor, now=now)
        assert all(one.state == "planned" for one in found.occurrences)
        planned += [one.occurs_at for one in found.occurrences]
        assert found.plan_at is not None
        cursor, now = found.planned_until, max(now, found.plan_at)
        assert cursor > now + lead, "what is due next was planned before"
        ahead = max(ahead, sum(at > now for at in planned[-AHEAD_JOBS:]) * steps)
    assert planned == [NOW + timedelta(minutes=each) for each in range(1, len(planned) + 1)]
    lead_jobs = lead / timedelta(minutes=1) * steps
    assert ahead <= AHEAD_JOBS + PIECE_JOBS + lead_jobs


def test_what_is_not_crowded_is_planned_to_the_horizon() -> None:
    found = look(facts("every PT3H", "2027-03-01T09:01", offsets=(timedelta(0),) * 40))
    assert found.planned_until < NOW + HORIZON
    while found.plan_at is not None and found.plan_at <= NOW:
        found = look(facts("every PT3H", "2027-03-01T09:01"), cursor=found.planned_until)
    assert found.planned_until >= NOW + HORIZON - 3 * HOUR
