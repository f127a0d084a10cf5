"""Clocking in and out, and who is reminded of it."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.apps.marketplace.shift_support import (
    CLOCK_OUT_NOW,
    DAY_ONE,
    END,
    PHONES,
    START,
    STILL_WORKING,
    became,
    instant,
    jobs,
    owed,
    read,
    scheduled,
    told,
    working,
)
from tests.apps.marketplace.support import DAY, HOUR, MINUTE, SECOND, Market, done, local, open_market, shift
from timebell.apps.marketplace.shifts.owing import REMIND, REMIND_QUEUE
from timebell.errors import InvalidInput
from timebell.kernel import Timebell
from timebell.notify import Notify, Unavailable
from timebell.testing.database import TestDatabase

REMINDED = {("Wim", STILL_WORKING): 1, ("Sue", STILL_WORKING): 1}
URGED = {**REMINDED, ("Wim", CLOCK_OUT_NOW): 1, ("Sue", CLOCK_OUT_NOW): 1}


@pytest.mark.req("J-6.1", "J-6.2", "J-6.3", "J-0.5", "D-6.3")
async def test_clocking_in_plans_two_reminders(market: Market) -> None:
    row = await scheduled(market)
    await market.pass_until(START)
    answer = await market.clock_in(row["id"])
    assert (answer["status"], instant(answer["clock_in_time"])) == ("Working", START)
    assert await owed(market, row["id"]) == {
        "clock_out_5m": END + 5 * MINUTE,
        "clock_out_30m": END + 30 * MINUTE,
    }
    found = {job["step"]: job for job in await jobs(market, row["id"])}
    assert {(job["kind"], job["queue"]) for job in found.values()} == {(REMIND, REMIND_QUEUE)}
    assert answer["reminder_5m_job_id"] == str(found["clock_out_5m"]["id"])
    assert answer["reminder_30m_job_id"] == str(found["clock_out_30m"]["id"])
    assert await read(market, row["id"]) == answer


@pytest.mark.req("J-6.4", "J-6.5", "J-0.4", "J-0.6", "X-J42")
async def test_who_does_not_clock_out_is_reminded_twice(market: Market) -> None:
    id = await working(market)
    await market.pass_until(END + 5 * MINUTE - SECOND)
    assert told(market) == {}
    await market.pass_until(END + 5 * MINUTE)
    assert told(market) == REMINDED
    await market.pass_until(END + 2 * DAY)
    assert told(market) == URGED
    assert (await read(market, id))["status"] == "Working"
    assert {parcel.channel for parcel in market.arrived} == {"sms"}


@pytest.mark.req("J-6.6", "J-6.7", "J-6.11", "X-J59")
@pytest.mark.parametrize("verb", ["submit", "force-clock-out"])
@pytest.mark.parametrize(
    ("after", "expected", "states"),
    [
        (-HOUR, {}, ("cancelled", "cancelled")),
        (2 * MINUTE, {}, ("cancelled", "cancelled")),
        (10 * MINUTE, REMINDED, ("done", "cancelled")),
        (HOUR, URGED, ("done", "done")),
    ],
)
async def test_clocking_out_ends_the_reminders(
    market: Market, verb: str, after: timedelta, expected: Any, states: tuple[str, str]
) -> None:
    id = await working(market)
    before = await read(market, id)
    await market.pass_until(END + after)
    answer = done(await market.transit("Wim" if verb == "submit" else "Sue", id, verb, {}))
    assert (answer["reminder_5m_job_id"], answer["reminder_30m_job_id"]) == (None, None)
    assert instant(answer["clock_out_time"]) == END + after
    for name, state in zip(("reminder_5m_job_id", "reminder_30m_job_id"), states, strict=True):
        assert await became(market, before[name]) == state
    await market.pass_until(END + after + 3 * HOUR)
    reminded = {key: count for key, count in told(market).items() if key[1] in (STILL_WORKING, CLOCK_OUT_NOW)}
    assert reminded == expected


@pytest.mark.req("J-6.8")
async def test_a_reminder_that_was_not_cancelled_ends_silently(
    market: Market, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither what is owed can be stated, nor what was told taken back: clocking out is not held up."""
    id = await working(market)
    await market.pass_until(END + MINUTE)
    with monkeypatch.context() as broken:
        broken.setattr(Timebell, "set_agenda", _fails)
        broken.setattr(Notify, "withdraw", _fails)
        with caplog.at_level(logging.WARNING):
            await market.submit(id)
    assert {record.levelname for record in caplog.records} >= {"WARNING", "ERROR"}
    assert (await owed(market, id)).keys() == {"clock_out_5m", "clock_out_30m"}
    await market.pass_until(END + 45 * MINUTE)
    assert told(market) == {}
    assert (await read(market, id))["status"] == "Pending_Verification"


@pytest.mark.req("J-6.13", "U-22")
async def test_what_could_not_be_planned_does_not_keep_anybody_from_clocking_in(
    market: Market, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    row = await scheduled(market)
    await market.pass_until(START)
    with monkeypatch.context() as broken, caplog.at_level(logging.ERROR):
        broken.setattr(Timebell, "set_agenda", _fails)
        assert (await market.clock_in(row["id"]))["status"] == "Working"
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert await owed(market, row["id"]) == {}
    # The sweep finds what is missing, and it is told in time.
    await market.pass_until(START + HOUR)
    assert (await owed(market, row["id"])).keys() == {"clock_out_5m", "clock_out_30m"}
    assert (await read(market, row["id"]))["reminder_5m_job_id"] is not None
    await market.pass_until(END + 5 * MINUTE)
    assert told(market) == REMINDED


@pytest.mark.req("J-6.13")
async def test_a_database_that_refuses_does_not_keep_anybody_from_clocking_in(
    market: Market, caplog: pytest.LogCaptureFixture
) -> None:
    row = await scheduled(market)
    await market.pass_until(START)
    await market.rows(
        "ALTER TABLE timebell.jobs ADD CONSTRAINT broken CHECK (step IS DISTINCT FROM 'clock_out_5m')"
    )
    with caplog.at_level(logging.ERROR):
        assert (await market.clock_in(row["id"]))["status"] == "Working"
    assert "what is owed about a time log could not be stated" in caplog.text
    assert await owed(market, row["id"]) == {}
    assert "time_log.clocked_in" in await market.events(f"time_log:{row['id']}")


@pytest.mark.req("J-6.13")
async def test_a_message_that_fails_is_tried_again(market_database: TestDatabase) -> None:
    async with open_market(market_database) as market:
        market.provider.answer(*[Unavailable(reason="away")] * 2)
        await working(market)
        await market.pass_until(END + 5 * MINUTE)
        assert sum(market.provider.taken.values()) == 0
        await market.pass_until(END + 20 * MINUTE)
        assert market.provider.taken == {PHONES["Wim"]: 1, PHONES["Sue"]: 1}


@pytest.mark.req("J-6.9")
async def test_without_an_end_nobody_is_reminded(market: Market, caplog: pytest.LogCaptureFixture) -> None:
    row = await scheduled(market, {**shift(DAY_ONE), "end": None})
    await market.pass_until(START)
    with caplog.at_level(logging.WARNING):
        answer = await market.clock_in(row["id"])
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert await owed(market, row["id"]) == {}
    assert answer["reminder_5m_job_id"] is None


@pytest.mark.req("J-6.1")
async def test_without_an_end_of_its_own_a_shift_ends_when_the_booking_says(market: Market) -> None:
    id = await working(market, {**shift(DAY_ONE), "end": None}, scheduled_end_time="17:00")
    assert (await owed(market, id))["clock_out_5m"] == local(2027, 3, 2, 17, 5)


@pytest.mark.req("J-6.10")
async def test_another_end_moves_the_reminders(market: Market) -> None:
    id = await working(market)
    later = END + HOUR
    answer = await edited(market, id, end=later)
    assert await owed(market, id) == {
        "clock_out_5m": later + 5 * MINUTE,
        "clock_out_30m": later + 30 * MINUTE,
    }
    assert {answer["reminder_5m_job_id"], answer["reminder_30m_job_id"]} == {
        str(job["id"]) for job in await jobs(market, id)
    }
    payload = (await jobs(market, id))[0]["payload"]
    assert later.isoformat() in payload
    await market.pass_until(later)
    assert told(market) == {}
    await market.pass_until(later + HOUR)
    assert told(market) == URGED


@pytest.mark.req("J-6.10")
async def test_an_end_that_has_passed_reminds_nobody(market: Market) -> None:
    id = await working(market)
    await market.pass_until(END - 30 * MINUTE)
    before = await read(market, id)
    answer = await edited(market, id, end=END - HOUR)
    assert await owed(market, id) == {}
    assert (answer["reminder_5m_job_id"], answer["reminder_30m_job_id"]) == (None, None)
    assert await became(market, before["reminder_5m_job_id"]) == "cancelled"
    await market.pass_until(END + HOUR)
    assert told(market) == {}


@pytest.mark.req("J-6.10")
async def test_a_later_end_after_the_first_reminder_reminds_again(market: Market) -> None:
    id = await working(market)
    await market.pass_until(END + 10 * MINUTE)
    await edited(market, id, end=END + HOUR)
    await market.pass_until(END + 2 * HOUR)
    assert told(market) == {
        ("Wim", STILL_WORKING): 2,
        ("Sue", STILL_WORKING): 2,
        ("Wim", CLOCK_OUT_NOW): 1,
        ("Sue", CLOCK_OUT_NOW): 1,
    }


@pytest.mark.req("J-6.12", "X-J64")
async def test_a_draft_is_no_clock_out(market: Market) -> None:
    id = await working(market)
    await market.pass_until(END - 5 * MINUTE)
    answer = done(await market.transit("Wim", id, "draft", {"end": END.isoformat()}))
    assert (answer["status"], answer["clock_out_time"]) == ("Draft", None)
    assert instant(answer["draft_end"]) == END
    await market.pass_until(END + 5 * MINUTE)
    assert told(market) == REMINDED
    answer = await market.submit(id)
    assert instant(answer["work_end"]) == END
    assert instant(answer["clock_out_time"]) == END + 5 * MINUTE
    assert answer["worked_minutes"] == 480


@pytest.mark.req("J-6.14", "X-J43")
async def test_clocking_in_after_the_end_reminds_nobody(market: Market) -> None:
    row = await scheduled(market)
    await market.pass_until(END + MINUTE)
    await market.clock_in(row["id"])
    assert await owed(market, row["id"]) == {}
    await market.pass_until(END + DAY)
    assert told(market) == {}


@pytest.mark.req("J-6.4", "X-J21")
async def test_reminders_pass_quiet_hours_and_are_never_early(market: Market) -> None:
    async with market.bench.bell.transaction() as tx:
        for name in ("Wim", "Sue"):
            await market.notify.recipients.change(
                tx, market.people[name], quiet_hours={"start": "15:00", "end": "20:00"}
            )
    await working(market)
    await market.pass_until(END + 5 * MINUTE - SECOND)
    assert told(market) == {}
    await market.pass_until(END + 5 * MINUTE)
    assert told(market) == REMINDED


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Australia/Lord_Howe"])
@pytest.mark.req("J-6.1")
async def test_a_night_in_which_clocks_change(market_database: TestDatabase, zone: str) -> None:
    """The end is an instant, so that the reminders come five and thirty minutes after it, however long the night is."""
    start, end = (
        datetime.fromisoformat("2027-03-27T21:00:00+00:00"),
        datetime.fromisoformat("2027-03-28T05:00:00+00:00"),
    )
    async with open_market(market_database, timezone=zone) as market:
        said = {"start": start.isoformat(), "end": end.isoformat(), "amount": 100}
        days = {"start_date": "2027-03-27", "end_date": "2027-03-29"}
        id = await working(market, said, **days)
        await market.pass_until(end + 5 * MINUTE)
        assert told(market) == REMINDED
        await market.submit(id)
        assert (await owed(market, id))["auto_approve"] == end + 5 * MINUTE + 4 * HOUR


@pytest.mark.req("J-15.3")
async def test_nobody_clocks_in_to_what_is_over_or_cancelled(market: Market) -> None:
    row = await scheduled(market, end_date="2027-03-02")
    await market.pass_until(START + DAY)
    refused = await market.transit("Wim", row["id"], "clock-in")
    assert (refused.status_code, refused.json()["code"]) == (409, "clock_in_refused")


@pytest.mark.req("J-15.3")
@pytest.mark.parametrize(
    ("status", "hold", "answer"),
    [
        ("Active", False, 200),
        ("Payment_Paused_Dispute", False, 200),
        ("Completed", False, 200),
        ("Suspended_Insurance", False, 409),
        ("Cancelled", False, 409),
        ("Active", True, 409),
    ],
)
async def test_the_gate(market: Market, status: str, hold: bool, answer: int) -> None:
    row = await scheduled(market)
    await market.rows(
        "UPDATE marketplace.staffing_bookings SET status = $2, clock_in_hold = $3 WHERE id = $1",
        *(UUID(row["booking_id"]), status, hold),
    )
    await market.pass_until(START)
    assert (await market.transit("Wim", row["id"], "clock-in")).status_code == answer


@pytest.mark.req("J-15.4")
async def test_what_does_not_follow_is_refused(market: Market) -> None:
    row = await scheduled(market)
    id = row["id"]
    bodies: dict[str, Any] = {"draft": {}, "submit": {}, "force-clock-out": {}, "edit": {"reason": "x"}}

    async def refused(*verbs: str) -> None:
        for verb in verbs:
            answer = await market.transit(None, id, verb, bodies.get(verb))
            assert (answer.status_code, answer.json()["code"]) == (409, "time_log_status"), (
                verb,
                answer.text,
            )
            assert answer.json()["time_log_status"] == (await read(market, id))["status"]

    await refused("draft", "submit", "force-clock-out", "verify", "edit")
    await market.pass_until(START)
    await market.clock_in(id)
    await refused("clock-in", "verify")
    await market.submit(id)
    await refused("clock-in", "draft", "submit", "force-clock-out")
    await market.verify(id)
    await refused("clock-in", "draft", "submit", "force-clock-out", "verify", "edit")


async def test_who_may_do_what(market: Market) -> None:
    """403 for who has another part in it, and 404 for who has none."""
    id = await working(market)
    bodies: dict[str, Any] = {"draft": {}, "submit": {}, "force-clock-out": {}, "edit": {"reason": "x"}}
    may = {
        "clock-in": {"Wim"},
        "draft": {"Wim"},
        "submit": {"Wim"},
        "force-clock-out": {"Sue", "Bea", "Ben"},
        "verify": {"Sue", "Bea", "Ben"},
        "edit": {"Sue", "Bea", "Ben"},
    }
    for verb, allowed in may.items():
        for name in {"Bea", "Ben", "Sue", "Lea", "Leo", "Wim"} - allowed:
            refused = await market.transit(name, id, verb, bodies.get(verb))
            assert (refused.status_code, refused.json()["code"]) == (403, "not_allowed"), (verb, name)
        assert (await market.transit("Zoe", id, verb, bodies.get(verb))).status_code == 404
    for name in ("Bea", "Ben", "Sue", "Lea", "Leo", "Wim"):
        assert (await market.ask(name, "GET", f"time-logs/{id}")).status_code == 200
    assert (await market.ask("Zoe", "GET", f"time-logs/{id}")).status_code == 404
    for name in ("Ben", "Bea"):
        done(await market.transit(name, id, "edit", {"reason": "noted"}))


@pytest.mark.parametrize(
    ("verb", "body", "field"),
    [
        ("submit", {"end": (START - HOUR).isoformat()}, "/end"),
        ("submit", {"end": (END + HOUR).isoformat()}, "/end"),
        ("draft", {"end": (END + 2 * DAY).isoformat()}, "/end"),
        ("edit", {"end": (START - MINUTE).isoformat(), "reason": "x"}, "/end"),
        ("edit", {"start": (END + HOUR).isoformat(), "reason": "x"}, "/start"),
        ("edit", {"reason": ""}, "/reason"),
        ("edit", {}, "/reason"),
        ("submit", {"end": "noon"}, "/end"),
    ],
)
async def test_times_that_cannot_be_are_refused(market: Market, verb: str, body: Any, field: str) -> None:
    id = await working(market)
    await market.pass_until(END - HOUR)
    answer = await market.transit(None, id, verb, body)
    assert answer.status_code == 422, answer.text
    assert [error["pointer"] for error in answer.json()["errors"]] == [field]


async def test_a_transition_has_an_idempotency_key_and_its_repetition_changes_nothing(market: Market) -> None:
    row = await scheduled(market)
    path = f"/api/marketplace/time-logs/{row['id']}/clock-in"
    bare = await market.site.ask("POST", path, actor=market.people["Wim"])
    assert bare.status_code == 400
    first = done(await market.transit("Wim", row["id"], "clock-in", idempotency="once"))
    again = await market.transit("Wim", row["id"], "clock-in", idempotency="once")
    assert done(again) == first
    assert again.headers["idempotent-replayed"] == "true"


async def edited(market: Market, id: str, *, who: str = "Sue", **given: Any) -> Any:
    times = {name: value.isoformat() for name, value in given.items()}
    return done(await market.transit(who, id, "edit", {"reason": "As agreed", **times}))


async def _fails(*_: object, **__: object) -> None:
    raise InvalidInput("out of order")
