"""The jobs a node holds in memory: their order, their turns, what was seen, and what stays in the table."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from types import FrameType
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from timebell.engine.ledger.entry import JobEntry
from timebell.engine.ledger.ledger import JobLedger
from timebell.engine.ledger.places import Places
from timebell.engine.ledger.turns import CRITICAL, NORMAL, Leads, Pile

QUICK = settings(max_examples=60, deadline=None)
NOW = datetime(2027, 3, 1, 9, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
_numbers = count(1)


def row(**values: Any) -> dict[str, Any]:
    return {
        "id": UUID(int=next(_numbers)),
        "version": 1,
        "slot": 0,
        "lane": NORMAL,
        "run_at": NOW,
        "tenant": "acme",
        "queue": "default",
        "priority": 0,
        "crash_count": 0,
        "payload": "{}",
        "cursor": None,
        "has_cursor": False,
        **values,
    }


def make(*, total_max: int = 1_000, pair_max: int = 1_000, bytes_max: int = 1_000_000) -> JobLedger:
    return JobLedger(total_max=total_max, pair_max=pair_max, bytes_max=bytes_max)


def admit_all(entry: JobEntry) -> bool:
    return True


def choose(
    ledger: JobLedger,
    number: int = 1_000,
    *,
    budgets: dict[str, int] | None = None,
    admit: Callable[[JobEntry], bool] = admit_all,
    now: datetime = NOW,
    places: Places | None = None,
) -> list[JobEntry]:
    ledger.promote(now)
    places = places or Places(1_000_000, 1.0)
    return ledger.choose(number, {} if budgets is None else budgets, admit, places)


def tenants(entries: list[JobEntry]) -> list[str]:
    return [entry.pair[0] for entry in entries]


def test_nothing_is_chosen_before_it_is_due() -> None:
    ledger = make()
    ledger.accept(row(run_at=NOW + SECOND))
    assert ledger.earliest_run_at() == NOW + SECOND
    assert choose(ledger) == []
    assert [entry.run_at for entry in choose(ledger, now=NOW + SECOND)] == [NOW + SECOND]
    assert len(ledger) == 0


@pytest.mark.req("M-5.2")
@QUICK
@given(st.lists(st.tuples(st.integers(-30, 0), st.integers(-2, 2)), max_size=40))
def test_in_one_tenants_queue_priority_goes_first_and_then_the_oldest(jobs: list[tuple[int, int]]) -> None:
    ledger = make()
    for seconds, priority in jobs:
        ledger.accept(row(run_at=NOW + seconds * SECOND, priority=priority))
    order = [(-entry.row["priority"], entry.run_at) for entry in choose(ledger)]
    assert order == sorted((-priority, NOW + seconds * SECOND) for seconds, priority in jobs)


def test_jobs_of_one_instant_keep_the_order_in_which_they_were_read() -> None:
    ledger = make()
    rows = [row() for _ in range(50)]
    for each in rows:
        ledger.accept(each)
    assert [entry.id for entry in choose(ledger)] == [each["id"] for each in rows]


@pytest.mark.req("U-15")
@QUICK
@given(
    backlog=st.integers(0, 300),
    others=st.lists(st.integers(1, 30), min_size=1, max_size=6),
    at_once=st.integers(1, 40),
)
def test_a_backlog_delays_another_tenant_by_its_turns_only(
    backlog: int, others: list[int], at_once: int
) -> None:
    ledger = make()
    for _ in range(backlog):
        ledger.accept(row(tenant="loud", run_at=NOW - SECOND))
    for number, jobs in enumerate(others):
        for _ in range(jobs):
            ledger.accept(row(tenant=f"quiet {number}"))
    begun: list[str] = []
    while chosen := choose(ledger, at_once):
        begun += tenants(chosen)
    assert len(begun) == backlog + sum(others)
    for number in range(len(others)):
        first = begun.index(f"quiet {number}")
        before = Counter(begun[:first])
        assert all(jobs <= 8 for jobs in before.values()), "somebody had two turns before another had one"


@pytest.mark.req("U-15")
def test_tenants_and_queues_take_turns_also_from_one_pass_to_the_next() -> None:
    ledger = make()
    for _ in range(24):
        for tenant, queue in (("a", "mail"), ("a", "sms"), ("b", "mail")):
            ledger.accept(row(tenant=tenant, queue=queue))
    turns = [dict(Counter(entry.pair for entry in choose(ledger, 8))) for _ in range(6)]
    a_mail, a_sms, b_mail = {("a", "mail"): 8}, {("a", "sms"): 8}, {("b", "mail"): 8}
    assert turns == [a_mail, b_mail, a_sms, b_mail, a_mail, b_mail]


@pytest.mark.req("U-15")
def test_many_queues_are_one_turn() -> None:
    ledger = make(total_max=5_000)
    for number in range(50):
        for _ in range(20):
            ledger.accept(row(tenant="many", queue=f"queue {number}"))
    for _ in range(200):
        ledger.accept(row(tenant="one"))
    begun = [tenant for _ in range(50) for tenant in tenants(choose(ledger, 8))]
    assert Counter(begun) == {"many": 200, "one": 200}


@pytest.mark.req("U-15")
@pytest.mark.parametrize("at_once", [1, 8, 50, 200])
def test_critical_jobs_of_one_tenant_do_not_starve_another(at_once: int) -> None:
    """They go first up to a lead, and the other has as many turns as they afterwards."""
    ledger = make(total_max=5_000, pair_max=5_000)
    for _ in range(2_000):
        ledger.accept(row(tenant="flood", lane=CRITICAL))
    for _ in range(200):
        ledger.accept(row(tenant="other"))
    begun: list[str] = []
    while begun.count("other") < 200:
        begun += tenants(choose(ledger, at_once))
    for end in range(100, len(begun), 50):
        ahead = begun[:end].count("flood") - begun[:end].count("other")
        assert ahead <= 64 + 8 + at_once
    assert begun.count("flood") <= 200 + 64 + 8 + at_once


@pytest.mark.req("U-15")
def test_many_share_alike_whoever_calls_it_critical() -> None:
    ledger = make(total_max=5_000, pair_max=5_000)
    for tenant in "abcdef":
        for _ in range(500):
            ledger.accept(row(tenant=tenant, lane=CRITICAL if tenant == "a" else NORMAL))
    begun = Counter(tenant for _ in range(60) for tenant in tenants(choose(ledger, 20)))
    others = [begun[tenant] for tenant in "bcdef"]
    assert max(others) - min(others) <= 16
    assert begun["a"] <= min(others) + 64 + 16


@pytest.mark.req("U-15")
def test_a_critical_job_overtakes_the_backlog_of_others_and_of_its_own_tenant() -> None:
    ledger = make()
    for tenant in ("a", "b", "c"):
        for _ in range(100):
            ledger.accept(row(tenant=tenant))
    choose(ledger, 24)
    ledger.accept(row(tenant="b", lane=CRITICAL))
    first, *_ = choose(ledger, 8)
    assert (first.pair[0], first.lane) == ("b", CRITICAL)


@pytest.mark.req("U-15")
def test_nothing_stands_idle_because_somebody_is_ahead() -> None:
    ledger = make()
    for _ in range(200):
        ledger.accept(row(tenant="critical", lane=CRITICAL))
        ledger.accept(row(tenant="shut"))
    chosen = choose(ledger, 150, admit=lambda entry: entry.pair[0] != "shut")
    assert tenants(chosen) == ["critical"] * 150


@pytest.mark.req("U-15")
def test_a_tenant_whose_jobs_never_end_leaves_places_to_the_others() -> None:
    ledger, places = make(), Places(100, 0.9)
    for _ in range(300):
        ledger.accept(row(tenant="hangs", lane=CRITICAL))
    assert len(choose(ledger, 100, places=places)) == 90
    assert choose(ledger, 10, places=places) == []
    for tenant in ("b", "c"):
        for _ in range(3):
            ledger.accept(row(tenant=tenant))
    assert Counter(tenants(choose(ledger, 10, places=places))) == {"b": 3, "c": 3}
    for _ in range(4):
        places.leave("hangs")
    assert choose(ledger, 8, places=places) == [], "it has more than its share already"


def steps(work: Callable[[], object]) -> int:
    """How many lines of code are run: the same on a machine that is busy."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def steps_beside(number: int, **options: Any) -> int:
    """What a choice costs beside so many tenants, all of which had a critical job and wait for others."""
    ledger = make(total_max=10_000)
    for tenant in range(number):
        ledger.accept(row(tenant=f"tenant {tenant}", lane=CRITICAL))
        for _ in range(8):
            ledger.accept(row(tenant=f"tenant {tenant}"))
    assert {entry.lane for entry in choose(ledger, number)} == {CRITICAL}
    choose(ledger, 1)
    return steps(lambda: choose(ledger, 16, **options))


@pytest.mark.req("U-15")
@pytest.mark.parametrize("budget", [None, 0])
def test_a_choice_costs_the_same_however_many_tenants_wait(budget: int | None) -> None:
    """Whether all of them are ahead of each other, or all wait for the rate of one queue."""
    budgets = [{} if budget is None else {"default": budget} for _ in range(2)]
    few, many = steps_beside(20, budgets=budgets[0]), steps_beside(500, budgets=budgets[1])
    assert many < 2 * few


@pytest.mark.req("U-15")
def test_who_was_ahead_is_forgotten_when_the_others_have_caught_up() -> None:
    leads = Leads()
    for tenant in range(10_000):
        leads.note(f"critical {tenant}", 8, others=2, is_ahead=True)
        leads.note("other", 16, others=2, is_ahead=False)
    assert leads.of("critical 9999") == 0
    assert len(leads) < 1_000


@QUICK
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["mail", "sms"])), max_size=60))
def test_it_is_known_how_many_wait_in_each_queue(pairs: list[tuple[str, str]]) -> None:
    ledger, waiting = make(), Counter(queue for _, queue in pairs)
    for tenant, queue in pairs:
        ledger.accept(row(tenant=tenant, queue=queue))
    while True:
        ledger.promote(NOW)
        assert ledger.ready_counts() == +waiting
        chosen = choose(ledger, 7, budgets={"sms": 3})
        if not chosen:
            return
        waiting.subtract(entry.pair[1] for entry in chosen)


def test_critical_jobs_go_first() -> None:
    ledger = make()
    for lane in (NORMAL, CRITICAL):
        for tenant in ("a", "b"):
            ledger.accept(row(tenant=tenant, lane=lane))
    assert [entry.lane for entry in choose(ledger)] == [CRITICAL] * 2 + [NORMAL] * 2


def test_nobody_waits_behind_a_suspect() -> None:
    """What ran when a node died is let in one by one, and the jobs of the same tenant's queue go on beside it."""
    ledger = make()
    for crash_count in (1, 0, 1, 0):
        ledger.accept(row(crash_count=crash_count))
    chosen = choose(ledger, admit=lambda entry: not entry.row["crash_count"])
    assert [entry.row["crash_count"] for entry in chosen] == [0, 0]
    assert [entry.row["crash_count"] for entry in choose(ledger)] == [1, 1]


@QUICK
@given(
    jobs=st.lists(st.sampled_from(["mail", "sms", "free"]), max_size=60),
    budgets=st.fixed_dictionaries({"mail": st.integers(-1, 20), "sms": st.integers(-1, 20)}),
    tenant_count=st.integers(1, 5),
)
def test_a_budget_is_used_up_and_never_passed(
    jobs: list[str], budgets: dict[str, int], tenant_count: int
) -> None:
    ledger = make()
    for number, queue in enumerate(jobs):
        ledger.accept(row(tenant=f"tenant {number % tenant_count}", queue=queue))
    asked = dict(budgets)
    chosen = Counter(entry.pair[1] for entry in choose(ledger, budgets=budgets))
    for queue in ("mail", "sms"):
        assert chosen[queue] == min(jobs.count(queue), max(0, asked[queue]))
        assert budgets[queue] == asked[queue] - chosen[queue]
    assert chosen["free"] == jobs.count("free")
    assert ledger.ready_counts() == {
        queue: jobs.count(queue) - chosen[queue] for queue in set(jobs) if jobs.count(queue) > chosen[queue]
    }


def test_a_job_that_is_not_admitted_holds_up_its_own_queue_alone() -> None:
    ledger = make()
    for tenant in ("a", "b", "c"):
        for _ in range(3):
            ledger.accept(row(tenant=tenant))
    assert Counter(tenants(choose(ledger, admit=lambda entry: entry.pair[0] != "b"))) == {"a": 3, "c": 3}
    assert tenants(choose(ledger)) == ["b"] * 3


def test_what_is_stale_takes_no_turn_from_the_others() -> None:
    ledger = make()
    for tenant, slot in (("stale", 1), ("blocked", 2), ("free", 3)):
        ledger.accept(row(tenant=tenant, slot=slot))
    ledger.promote(NOW)
    ledger.drop_slots({1})
    assert tenants(choose(ledger, admit=lambda entry: entry.pair[0] != "blocked")) == ["free"]


def test_one_version_is_held_once() -> None:
    ledger, first = make(), row()
    assert ledger.accept(first)
    assert not ledger.accept(first)
    assert [entry.version for entry in choose(ledger)] == [1]
    assert not ledger.accept(first), "it runs now"


def test_a_later_version_takes_the_place_of_an_earlier_one() -> None:
    ledger, first = make(), row()
    ledger.accept(first)
    assert ledger.accept({**first, "version": 2, "run_at": NOW + SECOND})
    assert choose(ledger) == []
    assert [entry.version for entry in choose(ledger, now=NOW + SECOND)] == [2]
    assert len(ledger) == 0


def test_what_is_over_stays_seen_until_the_reads_that_may_bring_it_back_have_ended() -> None:
    ledger, first = make(), row()
    ledger.accept(first)
    (entry,) = choose(ledger)
    ledger.read_begins()
    ledger.read_begins()
    ledger.retire([entry])
    ledger.read_ends()
    assert not ledger.accept(first), "a read that began before may still bring it"
    ledger.read_ends()
    assert ledger.accept(first)


def test_a_retry_is_seen_although_the_read_of_its_last_version_is_still_open() -> None:
    ledger, first = make(), row()
    ledger.accept(first)
    (entry,) = choose(ledger)
    ledger.read_begins()
    ledger.retire([entry])
    assert ledger.accept({**first, "version": 2})
    ledger.read_ends()
    assert not ledger.accept({**first, "version": 2})


def test_what_was_forgotten_counts_when_it_is_read_again() -> None:
    ledger, first = make(), row()
    ledger.accept(first)
    (entry,) = choose(ledger)
    ledger.forget(entry)
    assert ledger.accept(first)


@QUICK
@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=30), st.booleans())
def test_a_slot_that_leaves_and_comes_back_brings_each_job_once(
    jobs: list[tuple[int, bool]], is_promoted: bool
) -> None:
    ledger = make()
    rows = [row(slot=slot, run_at=NOW if is_due else NOW + SECOND) for slot, is_due in jobs]
    for each in rows:
        ledger.accept(each)
    if is_promoted:
        ledger.promote(NOW)
    ledger.drop_slots({0, 1})
    for each in rows:
        assert ledger.accept(each) is (each["slot"] in (0, 1))
    chosen = choose(ledger, now=NOW + SECOND)
    assert sorted(entry.id for entry in chosen) == sorted(each["id"] for each in rows)
    assert len(ledger) == 0


def test_the_excess_of_a_tenants_queue_stays_behind_a_mark() -> None:
    ledger = make(pair_max=4)
    rows = [row(run_at=NOW + number * SECOND) for number in range(6)]
    assert [ledger.accept(each) for each in rows] == [True] * 4 + [False] * 2
    assert ledger.accept(row(tenant="another"))
    assert ledger.overflow == {("acme", "default"): {(0, NORMAL): (rows[4]["run_at"], rows[4]["id"])}}
    assert list(ledger.take_overflow()) == []
    assert ledger.room(("acme", "default")) == 0
    choose(ledger, 2, now=NOW + SECOND)
    assert ledger.room(("acme", "default")) == 2
    assert [pair for pair, _ in ledger.take_overflow()] == [("acme", "default")]
    assert ledger.overflow == {}


def test_what_is_due_already_is_in_turn_with_what_was_waited_for() -> None:
    ledger = make()
    late, soon, later = (row(run_at=NOW + number * SECOND) for number in (-1, 1, 2))
    ledger.accept(soon)
    ledger.promote(NOW + 2 * SECOND)
    for each in (later, late):
        ledger.accept(each)
    assert ledger.earliest_run_at() is None, "nothing is left to wait for"
    assert [entry.id for entry in choose(ledger, now=NOW + 2 * SECOND)] == [
        late["id"],
        soon["id"],
        later["id"],
    ]


@QUICK
@given(st.lists(st.one_of(st.none(), st.tuples(st.integers(-2, 2), st.integers(0, 5))), max_size=60))
def test_a_pile_is_in_order_however_it_grew(steps: list[tuple[int, int] | None]) -> None:
    """None takes the first one off."""
    pile, model = Pile[JobEntry](), list[tuple[int, datetime, int, JobEntry]]()
    for number, step in enumerate(steps):
        if step is not None:
            due = (step[0], NOW + step[1] * SECOND, number, JobEntry(row()))
            pile.push(due)
            model = sorted([*model, due])
        elif model:
            assert pile.first() is model.pop(0)[3]
            pile.pop()
        assert len(pile) == len(model)


@QUICK
@given(
    jobs=st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from(["x", "y"]), st.integers(0, 3)), max_size=120
    ),
    total_max=st.integers(1, 20),
    pair_max=st.integers(1, 8),
    at_once=st.integers(1, 10),
)
def test_however_little_is_held_the_marks_bring_everything_back_once(
    jobs: list[tuple[str, str, int]], total_max: int, pair_max: int, at_once: int
) -> None:
    """The table is read in due order, as the reader does: once through, then on from each mark."""
    ledger = make(total_max=total_max, pair_max=min(pair_max, total_max))
    table = [
        row(tenant=tenant, queue=queue, slot=slot, run_at=NOW - (len(jobs) - number) * SECOND)
        for number, (tenant, queue, slot) in enumerate(jobs)
    ]
    for each in table:
        ledger.accept(each)
    begun: list[UUID] = []
    for _ in range(10 * len(table) + 10):
        chosen = choose(ledger, at_once)
        begun += [entry.id for entry in chosen]
        done = {entry.id for entry in chosen}
        table = [each for each in table if each["id"] not in done]
        ledger.retire(chosen)
        for pair, marks in ledger.take_overflow():
            for each in table:
                mark = marks.get((each["slot"], each["lane"]))
                is_beyond = mark is not None and (each["run_at"], each["id"]) >= mark
                if (each["tenant"], each["queue"]) == pair and is_beyond:
                    ledger.accept(each)
    assert table == [], "lost behind a mark"
    assert len(begun) == len(set(begun)) == len(jobs)
    assert len(ledger) == 0
    assert ledger.overflow == {}


def test_marks_leave_with_their_slots() -> None:
    ledger = make(pair_max=1)
    for slot in (0, 1, 1):
        ledger.accept(row(slot=slot))
    ledger.drop_slots({1})
    choose(ledger)
    assert all(not marks for _, marks in ledger.take_overflow())


def test_payloads_are_held_up_to_their_bytes_and_the_others_left_in_the_table() -> None:
    ledger = make(bytes_max=41_000)
    for _ in range(20):
        ledger.accept(row(payload="x" * 2_500, cursor="y" * 1_500, has_cursor=True))
    first = choose(ledger, 10)
    assert Counter(entry.is_left_behind for entry in first) == {False: 10}
    assert all(ledger.accept(row(payload="x" * 4_000)) for _ in range(10))
    rest = choose(ledger)
    assert Counter(entry.is_left_behind for entry in rest) == {True: 10, False: 10}
    assert [entry.row["payload"] for entry in rest if entry.is_left_behind] == [None] * 10


def test_a_wide_letter_makes_all_letters_wide() -> None:
    ledger = make(bytes_max=4_000)
    ledger.accept(row(payload="x" * 999 + "\N{BELL}"))
    ledger.accept(row(payload="x" * 3_900))
    assert [entry.is_left_behind for entry in choose(ledger)] == [True, False]


@pytest.mark.parametrize(
    ("payload", "cursor", "has_cursor", "is_left_behind"),
    [
        ("x" * 4_000, None, False, False),
        ("x" * 4_001, None, False, True),
        (None, None, False, True),
        ("{}", "y" * 4_000, True, False),
        ("{}", "y" * 4_001, True, True),
        ("{}", None, True, True),
    ],
)
def test_what_was_not_read_whole_is_read_before_it_runs(
    payload: str | None, cursor: str | None, has_cursor: bool, is_left_behind: bool
) -> None:
    ledger = make()
    ledger.accept(row(payload=payload, cursor=cursor, has_cursor=has_cursor))
    (entry,) = choose(ledger)
    assert entry.is_left_behind is is_left_behind
    if is_left_behind:
        assert (entry.row["payload"], entry.row["cursor"]) == (None, None)
