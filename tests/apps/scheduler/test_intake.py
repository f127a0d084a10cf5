"""The intake under faults: poison is set apart, a database that is away is waited for, and nothing spins."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import asyncpg
import pytest

from tests.apps.scheduler.support import DUE_QUEUE, HOUR, NOW, Desk, desk, message, take_in
from tests.engine.support import Stage
from timebell.apps.scheduler import intake, rows, service
from timebell.apps.scheduler.intake import (
    CANCELS_MAX,
    PATIENCE_SECONDS,
    PREFETCH,
    RECURRENCES_MAX,
    Consuming,
    IntakeLoop,
)
from timebell.apps.scheduler.letters import (
    DROPPED,
    KEPT_BYTES_MAX,
    KEPT_HEADERS_MAX,
    LETTERS,
    Letters,
    copy_of,
    kept_headers,
)
from timebell.apps.scheduler.messages import BODY_BYTES_MAX
from timebell.apps.scheduler.models import Poison
from timebell.apps.scheduler.service import CANCELLED, QUEUED, Scheduler
from timebell.apps.scheduler.topology import CANCELS, DEAD, REQUESTS
from timebell.brokers import Message, Received
from timebell.brokers.carrying import why_not_carried
from timebell.brokers.local_server import Fate
from timebell.errors import OldTimezoneData
from timebell.testing.database import TestDatabase

AT = NOW + HOUR


def request(id: str, **fields: Any) -> Message:
    return message("ScheduleRequest", id, at=AT, **fields)


def rubbish(body: bytes = b"{", **properties: Any) -> Message:
    return Message(exchange="timebell", routing_key="schedule.request", body=body, **properties)


def reasons(post: Desk) -> list[object]:
    return [letter.headers["timebell-reason"] for letter in post.letters()]


@asynccontextmanager
async def consuming(post: Desk) -> AsyncIterator[None]:
    """As a process does that takes in what comes."""
    loop = asyncio.create_task(Consuming(post.broker)(post.bell))
    try:
        async with asyncio.timeout(60):
            yield
    finally:
        loop.cancel()
        await asyncio.wait({loop})
    assert loop.cancelled()


async def has_rows(post: Desk, count: int) -> None:
    while len(await post.rows()) < count:
        pass


async def is_empty(post: Desk) -> None:
    """Until everything that came is acknowledged. To ask the database lets others run."""
    while post.server.messages(REQUESTS):
        await post.rows("SELECT")


@pytest.mark.req("S-1.5")
async def test_poison_between_two_good_ones_is_set_apart(post: Desk) -> None:
    sent = rubbish(
        b'{"type": "ScheduleRequest", "id": "b"}',
        message_id="m-1",
        correlation_id="c-1",
        type="other",
        headers={"x": 1, "y": "z"},
        timestamp=NOW,
    )
    await post.send(request("a"), sent, request("c"))
    assert [row["id"] for row in await post.rows()] == ["a", "c"]
    (letter,) = post.letters()
    assert letter.body == sent.body
    assert letter.headers == {
        "x": 1,
        "y": "z",
        "timebell-reason": "no_time",
        "timebell-detail": "neither at nor rrule is given; give one of them",
        "timebell-exchange": "timebell",
        "timebell-routing-key": "schedule.request",
        "timebell-queue": REQUESTS,
        "timebell-body-bytes": len(sent.body),
    }
    assert (letter.message_id, letter.correlation_id, letter.type) == ("m-1", "c-1", "other")
    assert (letter.timestamp, letter.routing_key) == (NOW, "no_time")
    assert post.counted(LETTERS, "no_time") == 1
    assert post.counted(QUEUED) == 2


@pytest.mark.req("S-1.5")
async def test_each_sort_of_poison_is_a_letter_and_the_next_message_is_taken(post: Desk) -> None:
    await post.send(
        rubbish(b"\xff"),
        rubbish(),
        rubbish(b'{"type": "ScheduleRequest"}'),
        rubbish(b"x" * (BODY_BYTES_MAX + 5)),
        rubbish(b"{}", headers={f"h{n}": n for n in range(65)}),
        request("foreign", tenant="acme"),
        message("ScheduleRequest", "rule", rrule="FREQ=DAILY;UNTIL=20200101T000000Z"),
        rubbish(
            b'{"type": "ScheduleRequest", "id": "u", "at": "2025-07-10T09:00:00Z", "payload": "\\ud800"}'
        ),
        request("good"),
    )
    assert reasons(post) == [
        *("not_utf8", "not_json", "no_id", "too_large", "headers_too_large", "foreign_tenant", "not_json"),
        "bad_rule",
    ]
    assert [row["id"] for row in await post.rows()] == ["good"]
    large = post.letters()[3]
    assert len(large.body) == BODY_BYTES_MAX
    assert large.headers["timebell-body-bytes"] == BODY_BYTES_MAX + 5
    bomb = post.letters()[4]
    assert len(bomb.headers) == KEPT_HEADERS_MAX + 6
    assert "rrule" in str(post.letters()[-1].headers["timebell-detail"])


def received(**properties: Any) -> Received:
    values = {"queue": REQUESTS, "exchange": "", "routing_key": "k", "body": b"{}", "body_bytes": 2, "tag": 1}
    return Received(**{**values, **properties})


def test_of_headers_the_small_ones_are_kept() -> None:
    headers = {
        "table": {"a": 1},
        "list": [1],
        "large": "x" * (KEPT_BYTES_MAX + 1),
        "text": "x",
        "bytes": b"y",
        "at": datetime(2026, 1, 1),
        "none": None,
        "yes": True,
    }
    assert {*kept_headers(headers)} == {"text", "bytes", "at", "none", "yes"}
    assert len(kept_headers({f"{n}": n for n in range(100)})) == KEPT_HEADERS_MAX
    long = copy_of(received(headers=headers), Poison(reason="bad_rule", detail="x" * 2_000))
    assert len(str(long.headers["timebell-detail"])) == 500
    # What a stranger calls by our names is not taken for ours.
    forged = copy_of(received(headers={"timebell-reason": "mine"}), Poison(reason="no_id", detail="d"))
    assert forged.headers["timebell-reason"] == "no_id"


async def test_poison_waits_beside_the_others_while_the_broker_takes_nothing(post: Desk) -> None:
    """The broker hands messages out and takes none, as one that runs out of memory does."""
    await post.post(rubbish(), request("a"), rubbish(), request("b"))
    post.server.block()
    async with consuming(post):
        await has_rows(post, 2)
        assert post.letters() == []
        post.server.unblock()
        await is_empty(post)
    assert reasons(post) == ["not_json", "not_json"]


@pytest.mark.parametrize("fate", ["refuse", "return"])
async def test_what_has_no_place_to_go_is_dropped_and_told(
    post: Desk, caplog: pytest.LogCaptureFixture, fate: Any
) -> None:
    tried = 0

    def unlucky(one: Message) -> Fate:
        nonlocal tried
        tried += one.exchange == DEAD
        return Fate(sort=fate) if one.exchange == DEAD else Fate()

    post.server.fate = unlucky
    await post.send(rubbish(message_id="m-1"), request("a"))
    assert 5 < tried < 50
    assert post.counted(DROPPED) == 1
    assert post.letters() == []
    (line,) = [record.getMessage() for record in caplog.records if "dropped" in record.getMessage()]
    assert "m-1" in line
    assert [row["id"] for row in await post.rows()] == ["a"]


async def test_one_message_that_cannot_be_stored_is_no_burden_to_the_others(post: Desk) -> None:
    """Whatever it is that the database will not have."""
    await post.rows("ALTER TABLE scheduler.requests ADD CHECK (id <> 'bad')")
    await post.send(request("a"), request("bad"), request("c"))
    assert [row["id"] for row in await post.rows()] == ["a", "c"]
    assert reasons(post) == ["cannot_be_stored"]
    assert post.counted(QUEUED) == 2
    (jobs,) = await post.rows("SELECT count(*) AS count FROM timebell.jobs")
    assert jobs["count"] == 2


async def test_a_bug_that_one_message_meets_is_no_burden_to_the_others(
    post: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def buggy(request: Any) -> Any:
        if request.id == "bad":
            raise KeyError("bad")
        return rows.job_of(request)

    monkeypatch.setattr(service, "job_of", buggy)
    await post.send(request("a"), request("bad"), request("c"))
    assert [row["id"] for row in await post.rows()] == ["a", "c"]
    assert reasons(post) == ["cannot_be_stored"]


class Patience:
    """What a process waits, counted: the clock stands still."""

    def __init__(self, post: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pauses: list[float] = []
        self._awaited = float("inf")
        self._reached = asyncio.Event()
        monkeypatch.setattr(post.clock, "sleep", self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        if sum(self.pauses) >= self._awaited:
            self._reached.set()
        await asyncio.sleep(0)

    async def until(self, seconds: float) -> None:
        self._awaited = seconds
        await self._reached.wait()


def log_without_partition() -> asyncpg.CheckViolationError:
    error = asyncpg.CheckViolationError("no partition of relation found for row")
    error.table_name = "job_log"
    return error


@pytest.mark.parametrize(
    "error",
    [
        ConnectionResetError("gone"),
        asyncpg.AdminShutdownError("going"),
        asyncpg.DeadlockDetectedError("both"),
        asyncpg.UndefinedTableError("not yet"),
        log_without_partition(),
    ],
)
async def test_what_passes_is_waited_for(
    scheduler_database: TestDatabase, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    stage = Stage()
    async with desk(scheduler_database, gate=stage) as post:
        patience = Patience(post, monkeypatch)
        for _ in range(3):
            stage.fail("before", "insert_requests", error)
        await post.send(request("a"), request("b"))
        assert len(await post.rows()) == 2
        assert post.letters() == []
        assert patience.pauses == sorted(patience.pauses)
        assert len(patience.pauses) == 3


class Deaf(Stage):
    """A database that answers nothing while it is away."""

    is_away = False
    asked = 0

    async def before(self, name: str) -> None:
        if self.is_away:
            self.asked += 1
            raise ConnectionRefusedError("away")
        await super().before(name)


async def test_while_the_database_is_away_nothing_is_taken(
    scheduler_database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was taken is kept for a minute and then given back, once; nothing more is taken until it answers again."""
    stage = Deaf()
    async with desk(scheduler_database, gate=stage) as post:
        patience = Patience(post, monkeypatch)
        await post.post(*[request(f"{number}") for number in range(20)], rubbish())
        loop = IntakeLoop(post.bell, post.broker, REQUESTS)
        stage.is_away = True
        async with post.broker.intake(REQUESTS, prefetch=PREFETCH, body_bytes_max=BODY_BYTES_MAX) as taking:
            letters = Letters(post.bell, post.broker, taking)
            assert await loop.tick(taking, letters)
            assert not await loop.tick(taking, letters), "nothing comes, and what came cannot be written"
            await loop.rest()
            assert len(post.server.messages(REQUESTS)) == 21
        assert PATIENCE_SECONDS <= sum(patience.pauses) < PATIENCE_SECONDS + 6
        assert max(patience.pauses) <= 5
        assert stage.asked < 40
        taken: list[Sequence[Received]] = []
        entered = post.broker.intake

        def noted(*arguments: Any, **options: Any) -> Any:
            taken.append(())
            return entered(*arguments, **options)

        monkeypatch.setattr(post.broker, "intake", noted)
        async with consuming(post):
            await patience.until(400)
            assert len(taken) == 2
            waiting = [one.body for one in post.server.messages(REQUESTS) if one.body != rubbish().body]
            assert len(waiting) == 20
            stage.is_away = False
            await is_empty(post)
        assert len(await post.rows()) == 20
        assert reasons(post) == ["not_json"]


async def test_what_this_process_is_too_old_for_is_in_nobodys_way(
    post: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is set aside and given back, for a process that can keep it, and the others of its batch are kept."""
    patience = Patience(post, monkeypatch)
    request_many, is_old = Scheduler.request_many, True

    async def old(self: Scheduler, tx: Any, requests: Sequence[Any]) -> Any:
        if is_old and any(one.recurrence is not None for one in requests):
            raise OldTimezoneData("plans were made with newer data")
        return await request_many(self, tx, requests)

    monkeypatch.setattr(Scheduler, "request_many", old)
    await post.post(request("a"), message("ScheduleRequest", "b", rrule="FREQ=DAILY"), request("c"))
    async with consuming(post):
        await has_rows(post, 2)
        await patience.until(3 * PATIENCE_SECONDS)
        assert {row["id"] for row in await post.rows()} == {"a", "c"}
        assert {*patience.pauses} == {PATIENCE_SECONDS}
        is_old = False
        await is_empty(post)
    assert {row["id"] for row in await post.rows()} == {"a", "b", "c"}
    assert post.letters() == []


def test_a_copy_can_always_be_carried() -> None:
    """Whoever may write to a queue decides what its messages look like, and a copy that nobody takes would be lost."""
    received = Received(
        queue=REQUESTS,
        exchange="timebell",
        routing_key="k",
        body=b"{",
        body_bytes=1,
        tag=1,
        type="\\xff" * 100,
        message_id="m" * 255,
        correlation_id="c" * 256,
        headers={"": 1, "n" * 256: 2, "CC": "elsewhere", "kept": "3"},
    )
    copy = copy_of(received, Poison(reason="not_json", detail="the body is not JSON"))
    assert why_not_carried(copy) is None
    assert (copy.type, copy.message_id, copy.correlation_id) == (None, "m" * 255, None)
    assert copy.headers["kept"] == "3"
    assert not {"", "CC", "n" * 256} & copy.headers.keys()


class Slow(Stage):
    """A database that keeps the first batch waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = asyncio.Event()
        self.asked = 0

    async def before(self, name: str) -> None:
        if name == "lock_requests":
            self.asked += 1
            if self.asked == 1:
                await self.goes_on.wait()
        await super().before(name)


@pytest.mark.req("S-1.4")
@pytest.mark.parametrize("is_common", [False, True])
async def test_two_batches_are_written_at_once_unless_both_speak_of_one_name(
    scheduler_database: TestDatabase, monkeypatch: pytest.MonkeyPatch, is_common: bool
) -> None:
    """What was said first counts first, however long it takes to write."""
    monkeypatch.setattr(intake, "BATCH", 2)
    stage = Slow()
    async with desk(scheduler_database, gate=stage) as post:
        names = ("a", "b", "a" if is_common else "c", "d")
        sent = [
            message("ScheduleRequest", name, at=NOW + HOUR, payload=number)
            for number, name in enumerate(names)
        ]
        await post.post(*sent)
        async with consuming(post):
            if is_common:
                async with asyncio.timeout(30):
                    while stage.asked < 1:
                        await post.rows()
                    for _ in range(20):
                        await post.rows()
                assert (stage.asked, len(await post.rows())) == (1, 0)
            else:
                await has_rows(post, 2)
            stage.goes_on.set()
            await is_empty(post)
        kept = {row["id"]: row["payload"] for row in await post.rows("SELECT * FROM scheduler.requests")}
        assert kept == {name: str(number) for number, name in enumerate(names)}


async def test_a_lost_answer_to_a_commit_is_no_second_row(scheduler_database: TestDatabase) -> None:
    stage = Stage()
    async with desk(scheduler_database, gate=stage) as post:
        stage.fail("after", "COMMIT", ConnectionResetError("gone"))
        await post.send(request("a"), message("ScheduleRequest", "b", rrule="FREQ=DAILY"))
        assert len(await post.rows()) == 2
        (row,) = await post.rows("SELECT count(*) AS count FROM timebell.schedules")
        assert row["count"] == 1


async def test_a_broker_that_comes_and_goes_loses_nothing(post: Desk) -> None:
    async with consuming(post):
        for round in range(6):
            await post.post(*[request(f"{round}-{number}") for number in range(50)])
            await has_rows(post, 1)
            for _ in range(round * 3):
                await asyncio.sleep(0)
            post.broker.cut()
        await has_rows(post, 300)
        await is_empty(post)
    assert len(await post.rows()) == 300
    (jobs,) = await post.rows("SELECT count(*) AS count FROM timebell.jobs")
    assert jobs["count"] == 300


async def test_both_queues_are_taken_from_and_what_is_due_is_not(post: Desk) -> None:
    await post.send(request("a"), message("ScheduleCancel", "a"))
    assert post.server.messages(REQUESTS) == post.server.messages(CANCELS) == []
    await post.ask("b", at=NOW)
    await post.harness.run_due()
    await take_in(post.bell, post.broker)
    assert len(post.server.messages(DUE_QUEUE)) == 1


async def test_recurrences_are_taken_in_a_few_at_a_time(scheduler_database: TestDatabase) -> None:
    stage = Stage()
    async with desk(scheduler_database, gate=stage) as post:
        before = stage.counts["COMMIT"]
        count = 2 * RECURRENCES_MAX + 1
        await post.send(
            *[message("ScheduleRequest", f"{n}", rrule="FREQ=YEARLY", dtstart=AT) for n in range(count)],
            request("once"),
        )
        assert len(await post.rows()) == count + 1
        assert stage.counts["COMMIT"] - before == 3


async def test_cancels_are_taken_in_a_few_at_a_time(scheduler_database: TestDatabase) -> None:
    """Whoever is cancelled first is held until the last is, and nothing can be counted for it meanwhile."""
    stage = Stage()
    async with desk(scheduler_database, gate=stage) as post:
        count = 2 * CANCELS_MAX + 1
        await post.send(*[request(f"{n}") for n in range(count)])
        before = stage.counts["COMMIT"]
        await post.cancel(*[f"{n}" for n in range(count)])
        assert stage.counts["COMMIT"] - before == 3
        assert post.counted(CANCELLED) == count
