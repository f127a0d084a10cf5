"""What an operator does from the command line, on a database with a past."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest_asyncio

from tests.acceptance.processes import answer, assert_refused, command
from timebell import App, Dead, Done, EnqueueOptions, Job, Outcome, Queue
from timebell.testing import ManualClock, harness
from timebell.testing.database import TestDatabase


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """A database on which things have happened, and the ids of what they happened to."""

    url: str
    done: UUID
    dead: UUID
    pending: UUID

    def ask(self, *arguments: object) -> object:
        return answer(*arguments, DATABASE_URL=self.url)


@pytest_asyncio.fixture
async def past(database_url: TestDatabase) -> AsyncIterator[Past]:
    async def pay(job: Job) -> Outcome:
        return Dead("no such account") if job.payload.get("fails") else Done()

    app = App(name="bills", handlers={"bills.pay": pay}, queues=[Queue(name="slow", rate=2.5)])
    clock = ManualClock(datetime.now(UTC))
    async with harness(database_url.url, [app], clock=clock) as h:
        async with h.bell.transaction() as tx:
            done = await h.bell.enqueue(tx, "bills.pay", {"n": 1}, subject="bill:1")
            dead = await h.bell.enqueue(tx, "bills.pay", {"fails": True}, subject="bill:2")
            later: EnqueueOptions = {"subject": "bill:3", "key": "third", "delay": timedelta(days=1)}
            pending = await h.bell.enqueue(tx, "bills.pay", {"n": 3}, **later)
        await h.run_due()
    yield Past(url=database_url.url, done=done.id, dead=dead.id, pending=pending.id)


def ids(listed: object) -> list[str]:
    assert isinstance(listed, dict)
    assert set(listed) == {"data", "next_cursor", "has_more"}
    return [line["id"] for line in listed["data"]]


async def test_looking_at_jobs(past: Past) -> None:
    assert ids(past.ask("jobs", "list")) == [str(past.pending)]
    assert ids(past.ask("jobs", "list", "--state", "done", "--kind", "bills.pay")) == [str(past.done)]
    assert ids(past.ask("jobs", "list", "--subject", "bill:1", "--state", "finished")) == [str(past.done)]
    assert ids(past.ask("jobs", "list", "--tenant", "another")) == []
    first = past.ask("jobs", "list", "--state", "finished", "--limit", 1)
    assert isinstance(first, dict)
    second = past.ask("jobs", "list", "--state", "finished", "--limit", 1, "--cursor", first["next_cursor"])
    assert ids(first) + ids(second) == [str(past.dead), str(past.done)]
    shown = command("jobs", "show", past.pending, DATABASE_URL=past.url)
    assert shown.returncode == 0
    assert "bill:3" in shown.stdout
    assert_refused(command("jobs", "show", uuid4(), DATABASE_URL=past.url), 1, "no job")


async def test_the_journey_of_one(past: Past) -> None:
    told = past.ask("journey", past.dead)
    assert isinstance(told, dict)
    assert told["entries"][0]["what"] == "enqueued"
    assert told["job"]["state"] == "dead"
    shown = command("journey", past.dead, DATABASE_URL=past.url).stdout
    assert "no such account" in shown


async def test_cancelling(past: Past) -> None:
    gone = past.ask("jobs", "cancel", past.pending, "--reason", "paid otherwise")
    assert gone == [{"id": str(past.pending), "answer": "cancelled", "state": "cancelled"}]
    late = past.ask("jobs", "cancel", past.done)
    assert late == [{"id": str(past.done), "answer": "already_final", "state": "done"}]
    job = past.ask("jobs", "show", past.pending)
    assert isinstance(job, dict)
    assert (job["state"], job["reason"]) == ("cancelled", "paid otherwise")


async def test_dead_jobs(past: Past) -> None:
    listed = past.ask("dead", "list")
    assert ids(listed) == [str(past.dead)]
    causes = past.ask("dead", "causes")
    assert isinstance(causes, dict)
    [cause] = causes["data"]
    assert (cause["job_count"], cause["example_id"]) == (1, str(past.dead))
    assert past.ask("jobs", "revive", past.dead, "--payload", '{"fails": false}') == {
        "revived": [str(past.dead)]
    }
    assert str(past.dead) in ids(past.ask("jobs", "list"))
    assert past.ask("jobs", "discard", past.dead) == {"discarded": []}


async def test_queues(past: Past) -> None:
    lines = past.ask("queues", "list")
    assert isinstance(lines, list)
    rates = {line["name"]: line["rate_per_second"] for line in lines}
    assert (rates["slow"], rates["default"]) == (2.5, None)
    paused = past.ask("queues", "pause", "slow", "--everyone", "--reason", "audit", "--actor", "me")
    assert isinstance(paused, dict)
    [pause] = paused["pauses"]
    assert (pause["tenant"], pause["reason"], pause["actor"]) == (None, "audit", "me")
    assert past.ask("queues", "resume", "slow", "--everyone") == {"queue": "slow", "was_paused": True}
    assert past.ask("queues", "resume", "slow", "--everyone") == {"queue": "slow", "was_paused": False}


async def test_tenants(database_url: TestDatabase) -> None:
    """How much one may have, and in whose name it may send."""
    url = {"DATABASE_URL": database_url.url}
    answer("tenants", "create", "acme", **url)
    given = answer("tenants", "quotas", "acme", "--set", "pending_jobs=7", "--set", "schedules=0", **url)
    assert isinstance(given, list)
    assert {one["name"]: one["limit"] for one in given if one["is_own"]} == {
        "pending_jobs": 7,
        "schedules": 0,
    }
    reset = command("tenants", "quotas", "acme", "--reset", "schedules", **url)
    assert re.search(r"pending_jobs +0 +7 +own", reset.stdout)
    assert re.search(r"schedules +0 +100000 +default", reset.stdout)
    approved = answer("tenants", "senders", "acme", "--approve", "email=acme.example", **url)
    assert isinstance(approved, list)
    assert [(one["kind"], one["value"]) for one in approved] == [("email", "acme.example")]
    wrong = command(
        "tenants", "senders", "acme", "--approve", "sms=Acme", "--withdraw", "email=acme.exmaple", **url
    )
    assert_refused(wrong, 1, "email=acme.exmaple is not approved for acme")
    left = answer("tenants", "senders", "acme", "--withdraw", "email=acme.example", **url)
    assert left == [], "what stood beside a mistake was not done either"


async def test_every_list_is_a_table_too(past: Past) -> None:
    for arguments, word in (
        (["jobs", "list"], str(past.pending)),
        (["dead", "list"], "no such account"),
        (["dead", "causes"], "bills.pay"),
        (["queues", "list"], "slow"),
        (["nodes"], "No node is alive"),
        (["config"], "pool_size"),
    ):
        done = command(*arguments, DATABASE_URL=past.url)
        assert (done.returncode, done.stderr) == (0, "")
        assert word in done.stdout


async def test_check_wants_somebody_to_run_the_jobs(past: Past) -> None:
    assert_refused(command("check", "--json", DATABASE_URL=past.url), 1, "No node is alive")


async def test_migrating(empty_database: TestDatabase) -> None:
    variables = {"DATABASE_URL": empty_database.url, "TIMEBELL_OWNER_URL": empty_database.owner_url}
    pending = answer("migrate", "--dry-run", **variables)
    assert pending["migrations"][0] == "kernel/0001_expand_kernel.sql"
    assert answer("migrate", "--phase", "expand", **variables)["migrations"] == pending["migrations"]
    assert answer("migrate", **variables)["migrations"] == []
    assert answer("nodes", **variables) == []


async def test_secrets_are_not_shown() -> None:
    secret = "a-key-that-nobody-sees"
    done = command("config", "--json", TIMEBELL_API_KEY=secret, DATABASE_URL=f"postgresql://me:{secret}@h/d")
    assert done.returncode == 0
    assert secret not in done.stdout + done.stderr


async def test_the_doctor(database_url: TestDatabase) -> None:
    report = answer("doctor", DATABASE_URL=database_url.url)
    verdicts = {finding["name"]: finding["verdict"] for finding in report["findings"]}
    assert report["is_well"]
    for name in (
        "connection",
        "server version",
        "schema",
        "wake-ups",
        "clock",
        "role's lock_timeout",
        "job log",
        "timezone data",
        "database's timezones",
        "plans' timezone data",
    ):
        assert verdicts[name] == "ok"
    assert verdicts["nodes"] == "warn"
    assert all(finding["remedy"] for finding in report["findings"] if finding["verdict"] != "ok")


async def test_the_doctor_finds_what_is_missing(empty_database: TestDatabase) -> None:
    done = command("doctor", DATABASE_URL=empty_database.url)
    assert done.returncode == 1
    assert "timebell migrate" in done.stdout
    done = command("doctor", DATABASE_URL="postgresql://me@127.0.0.1:1/d")
    assert done.returncode == 1
    assert "cannot connect" in done.stdout
    done = command("doctor", DATABASE_URL=empty_database.owner_url, TIMEBELL_POOLED="true")
    assert done.returncode == 1
    assert "SET lock_timeout = '5s'" in done.stdout
    assert "listen_url" in done.stdout
