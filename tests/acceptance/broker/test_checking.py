"""The judge of these tests notices what it is there for: each fault is planted in a run that is fine without it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.acceptance.broker.checking import (
    Fired,
    Misfire,
    Outage,
    Part,
    Seen,
    Standing,
    Wanted,
    check,
    figures,
    written,
)

START = datetime(2026, 3, 14, 9, tzinfo=UTC)
SECOND = timedelta(seconds=1)
NOTHING = Seen(wanted=(), fired=(), standings={})


def at(seconds: float) -> datetime:
    return START + seconds * SECOND


def once(id: str = "a", due: float = 10) -> Wanted:
    return Wanted(id=id, dues=(at(due),))


def often(id: str = "r", misfire: Misfire = "fire_all") -> Wanted:
    return Wanted(id=id, dues=(at(10), at(12), at(14)), misfire=misfire)


def fired(id: str = "a", due: float = 10, after: float = 0.1, received: float | None = None) -> Fired:
    due_at = at(due)
    return Fired(
        id=id,
        scheduled_for=written(due_at),
        fired_at=due_at + after * SECOND,
        message_id=f"default/{id}/{written(due_at)}",
        received_at=due_at + (after + 0.1 if received is None else received) * SECOND,
    )


def away(part: Part, began: float, ended: float) -> Outage:
    return Outage(part=part, name="x", began=at(began), ended=at(ended))


def done(*ids: str) -> dict[tuple[str, str], Standing]:
    return {("default", id): Standing(status="done", created_at=at(0), changed_at=at(30)) for id in ids}


def cancelled(changed: float = 5) -> dict[tuple[str, str], Standing]:
    return {("default", "a"): Standing(status="cancelled", created_at=at(0), changed_at=at(changed))}


FINE = replace(NOTHING, wanted=[once()], fired=[fired()], standings=done("a"))
A = frozenset({("default", "a")})


def rules(seen: Seen) -> list[str]:
    return [each.rule for each in check(seen)]


def test_a_run_in_which_all_is_well() -> None:
    often_fired = [fired("r", due) for due in (10, 12, 14)]
    seen = Seen(wanted=[once(), often()], fired=[fired(), *often_fired], standings=done("a", "r"))
    assert check(seen) == []
    assert figures(seen).fired == figures(seen).owed == 4


def test_what_never_came_is_lost() -> None:
    assert rules(replace(FINE, fired=[])) == ["lost"]


def test_an_occurrence_that_never_came_is_lost() -> None:
    seen = replace(NOTHING, wanted=[often()], fired=[fired("r", 10), fired("r", 14)], standings=done("r"))
    assert rules(seen) == ["lost"]


@pytest.mark.parametrize(("misfire", "found"), [("fire_once", ["lost"]), ("skip", [])])
def test_what_an_outage_may_leave_out(misfire: Misfire, found: list[str]) -> None:
    seen = replace(NOTHING, wanted=[often(misfire=misfire)], standings=done("r"))
    assert check(replace(seen, fired=[fired("r", 14)])) == []
    assert rules(replace(seen, fired=[fired("r", 12)])) == found


def test_what_nobody_asked_for() -> None:
    assert rules(replace(FINE, fired=[fired(), fired("b")])) == ["strange"]
    assert rules(replace(FINE, fired=[fired(), fired(due=11)])) == ["strange"]
    assert rules(replace(FINE, standings=done("a", "b"))) == ["strange"]


def test_a_tenant_that_nobody_named() -> None:
    assert set(rules(replace(FINE, fired=[replace(fired(), tenant="other")]))) == {"lost", "strange"}


def test_what_comes_too_early() -> None:
    assert rules(replace(FINE, fired=[fired(after=-0.001, received=0.1)])) == ["early"]
    assert rules(replace(FINE, fired=[fired(received=-0.2)])) == ["early"]


@pytest.mark.parametrize("named", [None, "default/a/other"])
def test_another_message_id(named: str | None) -> None:
    assert rules(replace(FINE, fired=[replace(fired(), message_id=named)])) == ["message_id"]


def test_two_under_one_message_id() -> None:
    second = replace(fired("b"), message_id=fired().message_id)
    seen = replace(FINE, wanted=[once(), once("b")], fired=[fired(), second], standings=done("a", "b"))
    assert rules(seen) == ["message_id", "message_id"]


def test_a_row_that_is_missing_or_waits_still() -> None:
    assert rules(replace(FINE, standings={})) == ["row"]
    waiting = Standing(status="pending", created_at=at(0), changed_at=at(0))
    assert rules(replace(FINE, standings={("default", "a"): waiting})) == ["row"]


def test_a_cancel_that_nobody_sent() -> None:
    assert rules(replace(FINE, standings=cancelled(changed=20))) == ["row"]


@pytest.mark.parametrize("part", ["producer", "broker"])
def test_a_second_publish_after_a_kill(part: Part) -> None:
    seen = replace(FINE, fired=[fired(), fired(after=4)])
    assert rules(seen) == ["repeated"]
    assert check(replace(seen, outages=[away(part, 11, 12)])) == []
    assert figures(seen).repeated == 1


@pytest.mark.parametrize(
    "outage",
    [away("intake", 11, 12), away("producer", 3, 4), away("producer", 15, 16), away("broker", 15, 16)],
)
def test_a_second_publish_that_no_kill_explains(outage: Outage) -> None:
    assert rules(replace(FINE, fired=[fired(), fired(after=4)], outages=[outage])) == ["repeated"]


def test_a_broker_that_is_back_may_still_be_without_a_leader() -> None:
    seen = replace(FINE, fired=[fired(), fired(after=4)])
    assert check(replace(seen, outages=[away("broker", 0, 2)])) == []
    assert rules(replace(seen, outages=[away("producer", 0, 2)])) == ["repeated"]


def test_a_third_publish_needs_a_kill_of_its_own() -> None:
    seen = replace(FINE, fired=[fired(), fired(after=4), fired(after=8)], outages=[away("producer", 11, 12)])
    assert rules(seen) == ["repeated"]


def test_a_copy_of_one_publish_is_the_brokers_doing() -> None:
    seen = replace(FINE, fired=[fired(), fired(received=9)])
    assert rules(seen) == ["redelivered"]
    assert check(replace(seen, outages=[away("broker", 11, 12)])) == []
    assert rules(replace(seen, outages=[away("producer", 11, 12)])) == ["redelivered"]
    assert figures(seen).redelivered == 1


def test_what_was_cancelled_long_before_never_comes() -> None:
    seen = replace(FINE, fired=[], standings=cancelled(), cancelled=A, cancelled_early=A)
    assert check(seen) == []
    late = replace(seen, standings=done("a"), fired=[fired()])
    assert rules(late) == ["after_cancel", "row"]
    assert "after_cancel" in rules(replace(seen, fired=[fired()], outages=[away("producer", 11, 12)]))


def test_a_cancel_that_came_too_late_leaves_it_owed() -> None:
    assert check(replace(FINE, cancelled=A)) == []
    assert rules(replace(FINE, cancelled=A, fired=[])) == ["lost"]


def test_what_is_fired_after_its_cancel() -> None:
    killed = [away("producer", 10.2, 11)]
    seen = replace(FINE, cancelled=A, standings=cancelled(changed=7), outages=killed)
    assert rules(seen) == ["after_cancel"]


def test_what_was_fired_and_is_cancelled_all_the_same() -> None:
    """Whoever published it died before it could say so, and then the cancel came."""
    seen = replace(FINE, cancelled=A, standings=cancelled(changed=12))
    assert rules(seen) == ["row"]
    assert check(replace(seen, outages=[away("producer", 11, 12)])) == []
    assert figures(seen).cancelled_and_fired == 1


def test_a_recurrence_may_have_been_fired_before_its_cancel() -> None:
    standings = {("default", "r"): Standing(status="cancelled", created_at=at(0), changed_at=at(11))}
    seen = Seen(
        wanted=[often()],
        fired=[fired("r", 10), fired("r", 12)],
        standings=standings,
        cancelled=frozenset({("default", "r")}),
    )
    assert check(seen) == []
    assert rules(replace(seen, fired=[*seen.fired, fired("r", 14)])) == ["after_cancel"]


def test_a_recurrence_that_was_asked_for_late_begins_late() -> None:
    late = {("default", "r"): Standing(status="done", created_at=at(11), changed_at=at(30))}
    seen = Seen(wanted=[often()], fired=[fired("r", 12), fired("r", 14)], standings=late)
    assert check(seen) == []
    assert rules(replace(seen, standings=done("r"))) == ["lost"]
    assert rules(replace(seen, fired=seen.fired[1:])) == ["lost"]


def test_the_test_itself_must_not_ask_twice() -> None:
    with pytest.raises(ValueError, match="asked for"):
        check(replace(FINE, wanted=[once(), once(due=20)]))
