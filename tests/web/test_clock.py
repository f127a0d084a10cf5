"""`/v1/clock`: time that passes when it is told to, and what is answered then."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import pytest_asyncio

from tests.web.support import Site, open_site, problem
from timebell import App, Dead, Handler, Job, Outcome, Retry, RetryPolicy, Step
from timebell.clock import SandboxClock
from timebell.db.walls import walled_to
from timebell.engine import Engine
from timebell.notify import Notify, Tell, TemplateDraft, Text
from timebell.testing.database import TestDatabase

START = datetime(2026, 3, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
TEMPLATE = TemplateDraft(
    key="trial.reminder",
    topic="trial",
    texts=(
        Text(channel="inbox", language="en", subject="Soon", body="It is due."),
        Text(channel="email", language="en", subject="Soon", body="It is due."),
    ),
)


class Diary:
    """An app that writes down what ran when, by the clock of the sandbox."""

    def __init__(self, clock: SandboxClock) -> None:
        self.lines: list[tuple[str, datetime]] = []
        self._clock = clock

    def app(self) -> App:
        return App(
            name="diary",
            handlers={
                "diary.note": self._note,
                "diary.twice": Handler(run=self._twice, retry=RetryPolicy(delays=(HOUR,), max_attempts=2)),
                "diary.die": self._die,
            },
        )

    async def _note(self, job: Job) -> None:
        self.lines.append((job.payload.get("what", "note"), self._clock.now))

    async def _twice(self, job: Job) -> Outcome | None:
        self.lines.append(("twice", self._clock.now))
        return Retry("not yet") if job.attempt == 1 else None

    async def _die(self, job: Job) -> Outcome:
        return Dead("as asked")


@pytest.fixture
def clock() -> SandboxClock:
    return SandboxClock(START)


@pytest.fixture
def diary(clock: SandboxClock) -> Diary:
    return Diary(clock)


@pytest_asyncio.fixture
async def sandbox(database_url: TestDatabase, clock: SandboxClock, diary: Diary) -> AsyncIterator[Site]:
    async with open_site(database_url, clock=clock, apps=(diary.app(),)) as opened:
        yield opened


async def owe(site: Site, *kinds: str, **options: Any) -> None:
    async with site.bell.transaction() as tx:
        for kind in kinds:
            await site.bell.enqueue(tx, kind, **options)


async def advance(site: Site, **how: str) -> dict[str, Any]:
    response = await site.post("/v1/clock/advance", how)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def until(site: Site, is_so: Callable[[], bool]) -> None:
    """What the node does by itself, it does in real time; meanwhile somebody asks what time it is."""
    async with asyncio.timeout(30):
        while not is_so():
            await site.get("/v1/clock")


async def test_it_stands_still_until_it_is_told(sandbox: Site, diary: Diary) -> None:
    await owe(sandbox, "diary.note")
    await sandbox.surface.sandbox.engine.worker.look_around()  # type: ignore[union-attr]
    for _ in range(3):
        assert (await sandbox.get("/v1/clock", key="read")).json() == {"now": "2026-03-01T00:00:00Z"}
    assert diary.lines == []
    assert await advance(sandbox, by="PT0S") == {
        "now": "2026-03-01T00:00:00Z",
        "ran": 1,
        "sent": 0,
        "failed": 0,
    }
    assert diary.lines == [("note", START)]


@pytest.mark.req("U-14")
async def test_what_happens_on_the_way_happens_at_its_instant(sandbox: Site, diary: Diary) -> None:
    await owe(sandbox, "diary.twice", delay=2 * HOUR)
    for hours in (5, 1, 3):
        await owe(sandbox, "diary.note", delay=hours * HOUR, payload={"what": str(hours)})
    answer = await advance(sandbox, by="PT4H")
    assert answer == {"now": "2026-03-01T04:00:00Z", "ran": 3, "sent": 0, "failed": 0}
    assert [at - START for _, at in diary.lines] == [HOUR, 2 * HOUR, 3 * HOUR, 3 * HOUR]
    assert [what for what, _ in diary.lines][:2] == ["1", "twice"]
    assert {what for what, _ in diary.lines[2:]} == {"3", "twice"}
    rows = await sandbox.tables.rows("SELECT due_at, finished_at FROM timebell.job_log ORDER BY due_at")
    assert rows[0]["finished_at"] == START + HOUR
    assert await advance(sandbox, to="2026-03-01T06:00:00+01:00") == {
        "now": "2026-03-01T05:00:00Z",
        "ran": 1,
        "sent": 0,
        "failed": 0,
    }


async def test_what_was_sent_and_what_failed_is_counted(sandbox: Site) -> None:
    notify = Notify(sandbox.bell)
    async with sandbox.bell.transaction() as tx:
        await notify.templates.save(tx, TEMPLATE)
        ada = (await notify.recipients.add(tx, name="Ada", email="ada@example.org")).id
        await notify.tell(tx, ada, TEMPLATE.key, channels=("email",), due_at=START + HOUR)
        await notify.tell(tx, ada, TEMPLATE.key, channels=("inbox",), due_at=START + HOUR)
        await sandbox.bell.enqueue(tx, "diary.die")
        tell = Tell(recipient=ada, template=TEMPLATE.key, channels=("inbox",))
        weekly = await notify.step(tx, tell, key="due", offset=timedelta(0))
        await sandbox.bell.schedules.create(
            tx,
            recurrence="FREQ=WEEKLY;COUNT=3",
            start_local=datetime(2026, 3, 26, 9),
            timezone="Europe/Berlin",
            steps=[weekly],
        )
    assert await advance(sandbox, by="PT1H") == {
        "now": "2026-03-01T01:00:00Z",
        "ran": 3,
        "sent": 2,
        "failed": 1,
    }
    page = await notify.outbox.list()
    assert [(line.to, line.at) for line in page.lines] == [("ada@example.org", START + HOUR)]
    answer = await advance(sandbox, by="P8W")
    assert (answer["ran"], answer["sent"], answer["failed"]) == (3, 3, 0)
    shown = await notify.inbox.list(ada)
    assert [entry.created_at.isoformat() for entry in shown.lines][-3:] == [
        "2026-03-26T08:00:00+00:00",
        "2026-04-02T07:00:00+00:00",
        "2026-04-09T07:00:00+00:00",
    ]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/by"),
        ({"by": "PT1H", "to": "2026-03-02T00:00:00Z"}, "/by"),
        ({"by": "P1M"}, "/by"),
        ({"by": "P1Y2D"}, "/by"),
        ({"by": "-PT1H"}, "/by"),
        ({"by": "an hour"}, "/by"),
        ({"by": "P3661D"}, "/by"),
        ({"by": 3600}, "/by"),
        ({"to": "2026-02-28T23:59:59Z"}, "/to"),
        ({"to": "2026-03-02T00:00:00"}, "/to"),
        ({"to": "9999-12-31T23:59:59Z"}, "/to"),
        ({"by": "PT1H", "until": "then"}, "/until"),
    ],
)
async def test_what_is_refused(sandbox: Site, body: dict[str, Any], pointer: str) -> None:
    content = problem(await sandbox.post("/v1/clock/advance", body), 422, "invalid_input")
    assert [error["pointer"] for error in content["errors"]] == [pointer]
    assert (await sandbox.get("/v1/clock")).json() == {"now": "2026-03-01T00:00:00Z"}


async def test_outside_a_sandbox_there_is_no_clock(site: Site) -> None:
    problem(await site.get("/v1/clock"), 404, "not_found")
    problem(await site.post("/v1/clock/advance", {"by": "PT1H"}), 404, "not_found")


async def test_who_may_move_it(sandbox: Site) -> None:
    problem(await sandbox.post("/v1/clock/advance", {"by": "PT1H"}, key="read"), 403, "scope_missing")
    problem(await sandbox.post("/v1/clock/advance", {"by": "PT1H"}, key=None), 401, "unauthenticated")


async def test_one_advance_waits_for_the_other(sandbox: Site, diary: Diary) -> None:
    await owe(sandbox, "diary.note", delay=2 * HOUR)
    answers = await asyncio.gather(*[advance(sandbox, by="PT1H") for _ in range(4)])
    assert sorted(answer["now"] for answer in answers) == [
        f"2026-03-01T0{hour}:00:00Z" for hour in (1, 2, 3, 4)
    ]
    assert [answer["ran"] for answer in sorted(answers, key=lambda each: each["now"])] == [0, 1, 0, 0]
    assert diary.lines == [("note", START + 2 * HOUR)]


async def test_what_a_request_asks_for_is_owed_in_the_time_of_the_sandbox(
    sandbox: Site, diary: Diary
) -> None:
    """The API has a connection of its own, and the engine is not told by the same process."""
    bell = sandbox.surface.bell
    await advance(sandbox, by="P1D")
    with walled_to("default"):
        async with bell.transaction() as tx:
            await bell.enqueue(tx, "diary.note", delay=HOUR)
            step = Step(key="due", kind="diary.note", offset=timedelta(0), payload={"what": "step"})
            await bell.set_agenda(tx, subject="visit:1", anchor=START + 30 * HOUR, steps=[step])
    await advance(sandbox, by="P1D")
    assert diary.lines == [("note", START + 25 * HOUR), ("step", START + 30 * HOUR)]


async def test_the_clock_is_kept_before_anything_happens_at_an_instant(sandbox: Site, diary: Diary) -> None:
    opened = sandbox.surface.sandbox
    assert opened is not None
    kept: list[tuple[datetime, datetime, int]] = []

    async def moved(instant: datetime) -> None:
        rows = await sandbox.tables.rows("SELECT now_at FROM timebell_web.sandbox")
        kept.append((instant, rows[0]["now_at"], len(diary.lines)))

    await owe(sandbox, "diary.note", delay=HOUR)
    await opened.advance(by=timedelta(days=1), moved=moved)
    assert kept == [(START + HOUR, START + HOUR, 0), (START + 24 * HOUR, START + 24 * HOUR, 1)]


async def test_an_advance_is_left_where_it_is_when_the_process_stops(sandbox: Site, diary: Diary) -> None:
    opened = sandbox.surface.sandbox
    assert opened is not None
    await owe(sandbox, "diary.note", delay=HOUR)
    await owe(sandbox, "diary.note", delay=2 * HOUR)

    async def moved(instant: datetime) -> None:
        opened.halt()

    await opened.advance(by=HOUR, moved=moved)
    problem(await sandbox.post("/v1/clock/advance", {"by": "P1D"}), 503, "unavailable")
    assert opened.now == START + HOUR
    assert len(diary.lines) == 1


async def test_whoever_hangs_up_does_not_stop_time_half_way(sandbox: Site, diary: Diary) -> None:
    opened = sandbox.surface.sandbox
    assert opened is not None
    await owe(sandbox, "diary.note", delay=HOUR)
    is_moving = asyncio.Event()

    async def moved(instant: datetime) -> None:
        is_moving.set()

    going = asyncio.create_task(opened.advance(by=timedelta(days=1), moved=moved))
    await is_moving.wait()
    going.cancel()
    with pytest.raises(asyncio.CancelledError):
        await going
    assert (await advance(sandbox, by="PT0S"))["now"] == "2026-03-02T00:00:00Z"
    assert diary.lines == [("note", START + HOUR)]


async def test_it_is_not_moved_while_another_node_has_part_of_the_jobs(sandbox: Site, diary: Diary) -> None:
    opened = sandbox.surface.sandbox
    assert opened is not None
    assert opened.complaints() == []
    other = Engine(sandbox.bell)
    await other.begin()
    await until(sandbox, lambda: opened.complaints() != [])
    content = problem(await sandbox.post("/v1/clock/advance", {"by": "PT1H"}), 503, "unavailable")
    assert "another node" in content["detail"]
    await other.stop()
    await until(sandbox, lambda: opened.complaints() == [])
    assert (await advance(sandbox, by="PT1H"))["now"] == "2026-03-01T01:00:00Z"


@pytest.mark.slow
@pytest.mark.req("U-14")
async def test_a_year_of_a_hundred_schedules_takes_seconds(sandbox: Site) -> None:
    notify = Notify(sandbox.bell)
    async with sandbox.bell.transaction() as tx:
        await notify.templates.save(tx, TEMPLATE)
        for number in range(100):
            person = (await notify.recipients.add(tx, name=f"Person {number}")).id
            tell = Tell(recipient=person, template=TEMPLATE.key, channels=("inbox",))
            due = await notify.step(tx, tell, key="due", offset=-3 * HOUR)
            await sandbox.bell.schedules.create(
                tx,
                recurrence="FREQ=WEEKLY",
                start_local=datetime(2026, 3, 2, 9),
                timezone="Europe/Berlin",
                steps=[due],
            )
    began = time.monotonic()
    answer = await advance(sandbox, to="2027-03-01T00:00:00Z")
    took = time.monotonic() - began
    assert (answer["ran"], answer["sent"], answer["failed"]) == (5_200, 5_200, 0)
    rows = await sandbox.tables.rows("SELECT DISTINCT created_at FROM timebell_notify.inbox ORDER BY 1")
    hours = [row["created_at"].astimezone(ZoneInfo("Europe/Berlin")).strftime("%a %H:%M") for row in rows]
    # The year is over, and what is older than 180 days has gone.
    assert hours == ["Mon 06:00"] * 25
    assert took < 90, "it took 12 s on two busy cores"
