"""The running product, spoken to by a service that uses a library of its own (aio-pika) and knows nothing but the names
of the exchange, the queues and the fields."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.acceptance.broker.ground import ground_on, heard
from tests.acceptance.broker.talking import DEAD, Heard, Letter, calling, cancel, listening, request
from tests.acceptance.processes import Process, until
from timebell.testing.database import TestDatabase

# The library that these speak through leaves this behind where a connection is lost as it is made.
pytestmark = pytest.mark.filterwarnings(
    "ignore:coroutine 'Connection.close' was never awaited:RuntimeWarning"
)

KEY = "tb_test_0123456789abcdef"
SECOND = timedelta(seconds=1)


@pytest.fixture
def process(place: Path, database: TestDatabase, broker_url: str) -> Iterator[Process]:
    """Everything in one."""
    own = {"TIMEBELL_OWNER_URL": database.owner_url, "TIMEBELL_API_KEY": KEY}
    with ground_on(database, broker_url, place) as ground:
        child = ground.run("up", "up", has_port=True, **own)
        child.wait_ready()
        yield child


def job(process: Process, id: str) -> Any:
    path = f"http://127.0.0.1:{process.port}/api/scheduler/jobs/{quote(id, safe='')}"
    asked = urllib.request.Request(path, headers={"authorization": f"Bearer {KEY}"})
    try:
        with urllib.request.urlopen(asked, timeout=10) as reply:
            return json.load(reply)
    except urllib.error.HTTPError as error:
        with error:
            return {"status": None, "http": error.code}


async def stands(process: Process, id: str, status: str) -> Any:
    """Until it does."""
    await asyncio.to_thread(until, lambda: job(process, id)["status"] == status, 30, f"{id} to be {status}")
    return await asyncio.to_thread(job, process, id)


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


def assert_is_an_event(one: Heard) -> None:
    """What CloudEvents ask of a message in AMQP, read by hand."""
    named = {
        name.removeprefix("cloudEvents:"): value
        for name, value in one.headers.items()
        if name.startswith("cloudEvents:")
    }
    assert named.keys() == {"specversion", "id", "source", "type", "time"}
    assert all(isinstance(value, str) and value for value in named.values()), named
    assert (named["specversion"], named["type"]) == ("1.0", "ScheduleDue")
    assert named["id"] == one.message_id
    assert named["time"] == one.fields["fired_at"]


@pytest.mark.req("S-1.1", "S-1.2")
async def test_requests_and_cancels(process: Process, broker_url: str) -> None:
    now = datetime.now(UTC)
    later = now + timedelta(hours=1)
    payload = {"to": "Zoë", "amounts": [1, 2.5, None]}
    async with calling(broker_url) as caller, listening(broker_url) as ear:
        await caller.send(
            request("once", at=now + 2 * SECOND, payload=payload, correlation_id="order-7"),
            request("past", at=now - timedelta(hours=1)),
            request("never", at=later),
            Letter(
                key="schedule.request",
                type="ScheduleRequest",
                body=json.dumps({"id": "ünï/code", "at": (now + SECOND).isoformat(), "unknown": 1}).encode(),
            ),
            request("thrice", rrule="FREQ=SECONDLY;COUNT=3", dtstart=now + 2 * SECOND, payload=7),
        )
        await stands(process, "never", "pending")
        await caller.send(cancel("never"), cancel("tomb"))
        found = await stands(process, "never", "cancelled")
        assert instant(found["at"]) == later
        await heard(ear.heard, 6)
        for id in ("once", "past", "ünï/code", "thrice"):
            found = await stands(process, id, "done")
            assert found["fire_count"] == (3 if id == "thrice" else 1)
        # By now the cancel that came first is known.
        await caller.send(request("tomb", at=now))
        await caller.send(request("last", at=now))
        await heard(ear.heard, 7)
    assert process.stop() == 0, process.words

    assert Counter(ear.ids()) == {"once": 1, "past": 1, "ünï/code": 1, "thrice": 3, "last": 1}
    for one in ear.heard:
        assert one.routing_key == "schedule.due.default"
        assert (one.type, one.content_type, one.delivery_mode) == ("ScheduleDue", "application/json", 2)
        said = one.fields
        assert {*said} == {"type", "id", "tenant", "fired_at", "scheduled_for", "occurrence", "payload"}
        assert one.message_id == f"default/{said['id']}/{said['scheduled_for']}"
        assert instant(said["scheduled_for"]) <= instant(said["fired_at"]) <= one.received_at
        assert one.timestamp is not None
        assert abs(one.timestamp - instant(said["fired_at"])) <= SECOND
        assert_is_an_event(one)
    by_id = {one.id: one for one in ear.heard}
    assert by_id["once"].fields["payload"] == payload
    assert by_id["once"].correlation_id == "order-7"
    assert instant(by_id["past"].fields["scheduled_for"]) == now - timedelta(hours=1)
    thrice = [one.fields for one in ear.heard if one.id == "thrice"]
    begin = (now + 2 * SECOND).replace(microsecond=0)
    assert [instant(each["scheduled_for"]) for each in thrice] == [
        begin + number * SECOND for number in range(3)
    ]
    assert len({each["occurrence"] for each in thrice}) == 3
    assert {each["payload"] for each in thrice} == {7}


@pytest.mark.req("S-1.5")
async def test_poison_goes_to_the_dead_letters_with_its_reason(process: Process, broker_url: str) -> None:
    now = datetime.now(UTC)

    def written(**fields: object) -> Letter:
        asked = {"type": "ScheduleRequest", **fields}
        return Letter(
            key="schedule.request",
            body=json.dumps(asked).encode(),
            headers={"trace": "t1"},
            correlation_id="c",
        )

    poison = {
        "no_id": written(at=now.isoformat()),
        "no_time": written(id="a"),
        "two_times": written(id="b", at=now.isoformat(), rrule="FREQ=DAILY"),
        "bad_rule": written(id="c", rrule="FREQ=NEVER"),
        "bad_time": written(id="d", at="2026-03-29T09:00:00"),
        "foreign_tenant": written(id="e", at=now.isoformat(), tenant="other"),
        "not_json": Letter(key="schedule.request", body=b"{"),
        "not_utf8": Letter(key="schedule.request", body=b'{"id": "\xff"}'),
        "unknown_type": Letter(key="schedule.cancel", body=b'{"id": "a", "type": "Schedule"}'),
    }
    async with (
        calling(broker_url) as caller,
        listening(broker_url) as ear,
        listening(broker_url, DEAD) as dead,
    ):
        for number, letter in enumerate(poison.values()):
            await caller.send(letter, request(f"good-{number}", at=now))
        await heard(ear.heard, len(poison))
        await heard(dead.heard, len(poison))
    assert process.stop() == 0, process.words
    assert {*ear.ids()} == {f"good-{number}" for number in range(len(poison))}
    by_reason = {one.headers["timebell-reason"]: one for one in dead.heard}
    assert by_reason.keys() == poison.keys()
    for reason, letter in poison.items():
        one = by_reason[reason]
        assert one.body == letter.body
        assert one.correlation_id == letter.correlation_id
        assert all(one.headers[name] == value for name, value in letter.headers.items())
        assert len(str(one.headers["timebell-detail"]).split()) >= 4, one.headers
