"""What the tests of digests share: notifications about to join one, and a guard that can be told what to say."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID

from tests.store.notify.support import SCHEMA, acquaint
from tests.store.support import NOW, Tables
from timebell.kernel import App, Handler, Job, Queue, Snooze, Timebell
from timebell.kernel.destinations import Destinations
from timebell.notify.delivery.delivery_store import DeliveryStore
from timebell.notify.delivery.digests import Digests, Waiting
from timebell.notify.models import Digest, Policy, Recipient, Route
from timebell.notify.planning.notes import Note, note_columns
from timebell.notify.rules.deciding import Facts
from timebell.notify.rules.intents import Intent, intent_of

ANA = Recipient(id=UUID(int=1), tenant="default", name="Ana", timezone="Europe/Berlin")
DAILY = Digest(key="news", closes="FREQ=DAILY;BYHOUR=8;BYMINUTE=0", template="news.daily")
# It is 10:00 in Berlin at NOW, so the window is open until the next morning.
CLOSES_AT = datetime(2027, 3, 2, 7, 0, tzinfo=UTC)
DAY = timedelta(days=1)


class Asked:
    """A guard. It remembers what it was asked about and says no to the subjects in `unwanted`."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.unwanted: set[str | None] = set()

    async def __call__(self, job: Job) -> bool:
        self.jobs.append(job)
        return job.subject not in self.unwanted


def notify_app(guard: Asked) -> App:
    """The kind that digests are told with, without the handler that would tell them."""

    async def ring(job: Job) -> None:
        raise AssertionError("nothing runs here")

    async def ask(job: Job) -> bool:
        return await guard(job)

    return App(
        name="notify",
        handlers={"notify.deliver": Handler(run=ring, mode="external", queue="notify")},
        queues=[Queue(name="notify")],
        guards={"news.wanted": ask},
    )


def intended(**changes: Any) -> Intent:
    return Intent(
        **{
            "recipient": ANA.id,
            "template": "news.one",
            "template_version": 3,
            "topic": "news",
            "message_class": "marketing",
            "route": Route(first=("email",), also=("inbox",)),
            "urgency": "time_bound",
            "digest": DAILY,
            **changes,
        }
    )


async def told(
    bell: Timebell,
    subject: str | None = None,
    *,
    tenant: str = "default",
    due_at: datetime = NOW,
    **changes: Any,
) -> Job:
    """A notification and its job, as its handler sees it when it runs."""
    intent = intended(**changes)
    await acquaint(bell, intent.recipient, tenant=tenant)
    async with bell.transaction(tenant=tenant) as tx:
        job = await bell.enqueue(tx, "notify.deliver", intent.payload(), due_at=due_at, subject=subject)
        note = Note(tenant=tenant, id=job.id, intent=intent, due_at=due_at, subject=subject)
        await DeliveryStore(bell.clock).insert_notifications(tx.session, columns=note_columns([note]))
    return as_run(bell, job.id, intent.payload(), tenant=tenant, due_at=due_at, subject=subject)


def as_run(bell: Timebell, id: UUID, payload: dict[str, Any], **values: Any) -> Job:
    return Job(
        **{
            "id": id,
            "tenant": "default",
            "kind": "notify.deliver",
            "queue": "notify",
            "payload": payload,
            "due_at": NOW,
            "attempt": 1,
            "started_at": NOW,
            "bell": bell,
            "destinations": cast(Destinations, None),
            **values,
        }
    )


async def join(
    digests: Digests, job: Job, recipient: Recipient = ANA, now: datetime = NOW
) -> tuple[UUID, datetime]:
    """One run of a job that joins a digest."""
    waiting = await digests.join(job, intent_of(job.payload), recipient, now)
    assert isinstance(waiting, Waiting)
    return waiting.digest_id, waiting.closes_at


def facts_of(job: Job, recipient: Recipient = ANA, now: datetime = CLOSES_AT, **known: Any) -> Facts:
    """What is known when the job that tells a digest runs."""
    intent = intent_of(job.payload)
    return Facts(now=now, intent=intent, due_at=job.due_at, recipient=recipient, policy=Policy(), **known)


async def close(
    digests: Digests, job: Job, digest_id: UUID, recipient: Recipient = ANA, now: datetime = CLOSES_AT
) -> dict[str, Any] | None:
    """One run of the job that tells a digest, which nobody is deciding about."""
    closed = await digests.close(job, digest_id, facts_of(job, recipient, now))
    assert not isinstance(closed, Snooze)
    return closed


def snoozed(job: Job, digest_id: UUID, until: datetime = CLOSES_AT) -> str:
    """The statement that leaves a job as the engine does when its run has joined the digest."""
    return f"""UPDATE timebell.jobs SET cursor = '{{"digest_id": "{digest_id}"}}', version = version + 1,
        run_at = '{until.isoformat()}' WHERE id = '{job.id}'"""


async def put_in(bell: Timebell, job: Job, **values: Any) -> Job:
    """Have the job join its digest; the answer is the job as its next run sees it."""
    digest_id, _ = await join(Digests(bell), job, **values)
    async with bell.database.transaction() as session:
        await session.execute(snoozed(job, digest_id))
    return replace(job, cursor={"digest_id": str(digest_id)})


async def joined(bell: Timebell, *subjects: str, **changes: Any) -> UUID:
    """A digest with these in it."""
    for subject in subjects:
        job = await put_in(bell, await told(bell, subject, **changes))
    assert job.cursor is not None
    return UUID(job.cursor["digest_id"])


async def teller(bell: Timebell, tables: Tables, digest_id: UUID, **values: Any) -> Job:
    """The job that tells a digest, as its handler sees it."""
    (row,) = await tables.rows(f"SELECT * FROM {SCHEMA}.digests WHERE id = $1", digest_id)
    stored = await tables.job(row["notification_id"])
    payload = intended(template="news.daily", digest=None, digest_id=digest_id).payload()
    return as_run(bell, stored["id"], payload, tenant=row["tenant"], due_at=stored["due_at"], **values)


async def entries(
    bell: Timebell, tables: Tables, digest_id: UUID, now: datetime = CLOSES_AT
) -> list[str] | None:
    """What a digest tells, by subject; None where it is not told."""
    closed = await close(Digests(bell), await teller(bell, tables, digest_id), digest_id, now=now)
    return None if closed is None else [entry["subject"] for entry in closed["entries"]]


async def states(tables: Tables) -> dict[str, tuple[str, str | None]]:
    """What became of each notification about a subject."""
    rows = await tables.rows(f"SELECT * FROM {SCHEMA}.notifications WHERE subject IS NOT NULL ORDER BY id")
    return {row["subject"]: (row["state"], row["reason"]) for row in rows}
