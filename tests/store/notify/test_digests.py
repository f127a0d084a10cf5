"""Digests: who is in one is decided in the database, so that nothing is in two and each window is told once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import orjson
import pytest
import pytest_asyncio

from tests.store.notify.digest_support import (
    ANA,
    CLOSES_AT,
    DAILY,
    DAY,
    Asked,
    close,
    facts_of,
    intended,
    join,
    joined,
    notify_app,
    snoozed,
    states,
    teller,
    told,
)
from tests.store.notify.support import SCHEMA, insert
from tests.store.support import HOUR, NOW, StillClock, Tables
from timebell.db.pool import Database
from timebell.kernel import Enqueue, Registry, Retry, Timebell
from timebell.notify.delivery.desk import Desk, Progress
from timebell.notify.delivery.digests import MEMBERS_MAX, Digests
from timebell.notify.models import Address, OptOut, Recipient, Route
from timebell.notify.planning.contexts import Untold
from timebell.notify.rules.consent import Suppressed
from timebell.notify.templates.models import TemplateDraft, Text, Variable
from timebell.notify.templates.templates import Templates

SECOND = timedelta(seconds=1)
EMPTY_TOO = replace(DAILY, is_sent_empty=True)
MAIL = Address(kind="email", value="ana@example.org")


@pytest.fixture
def guard() -> Asked:
    return Asked()


@pytest_asyncio.fixture
async def bell(database: Database, clock: StillClock, guard: Asked) -> AsyncIterator[Timebell]:
    made = Timebell(database, registry=Registry([notify_app(guard)]), clock=clock)
    await made.declare()
    yield made
    await made.close()


async def windows(tables: Tables) -> list[dict[str, Any]]:
    return await tables.rows(f"SELECT * FROM {SCHEMA}.digests ORDER BY tenant, closes_at, id")


async def settle(bell: Timebell, job: Any, digest_id: Any, state: str, reason: str) -> None:
    """As the delivery does when the notification that tells a digest came to an end."""
    await Desk(bell).note(
        Progress(
            tenant=job.tenant,
            id=job.id,
            recipient_id=ANA.id,
            state=state,
            reason=reason,
            decision={},
            closes_digest=digest_id,
            is_settled=True,
        )
    )


async def test_the_first_that_joins_opens_a_window_and_plans_its_end(bell: Timebell, tables: Tables) -> None:
    async with bell.transaction() as tx:
        text = Text(channel="email", language="en", subject="News", body="{{ entries | size }} things")
        draft = TemplateDraft(
            key="news.daily", topic="digests", texts=[text], variables=[Variable(name="entries")]
        )
        await Templates(bell).save(tx, draft)
    job = await told(bell, "post:1")
    digest_id, closes_at = await join(Digests(bell), job)
    assert closes_at == CLOSES_AT, "eight o'clock where Ana is"
    (window,) = await windows(tables)
    assert (window["id"], window["closes_at"], window["opened_at"]) == (digest_id, CLOSES_AT, NOW)
    planned = await tables.job(window["notification_id"])
    assert (planned["due_at"], planned["key"], planned["queue"], planned["urgency"]) == (
        CLOSES_AT,
        f"digest:{digest_id}",
        "notify",
        "time_bound",
    )
    assert orjson.loads(planned["payload_text"]) == {
        "recipient": str(ANA.id),
        "template": "news.daily",
        "template_version": 1,
        "topic": "digests",
        "class": "transactional",
        "first": ["email"],
        "also": ["inbox"],
        "urgency": "time_bound",
        "digest_id": str(digest_id),
        "is_noted": True,
    }
    rows = await tables.rows(f"SELECT * FROM {SCHEMA}.notifications")
    noted = {row["id"]: row for row in rows}
    assert noted[planned["id"]]["state"] == "pending"
    assert noted[planned["id"]]["digest_id"] is None
    member = noted[job.id]
    assert (member["digest_id"], member["state"], member["reason"], member["held_until"]) == (
        digest_id,
        "held",
        "held_digest",
        CLOSES_AT,
    )


async def test_others_of_the_key_join_it_and_those_of_another_do_not(bell: Timebell, tables: Tables) -> None:
    digests = Digests(bell)
    first = await joined(bell, "post:1")
    assert await joined(bell, "post:2") == first
    other_key = replace(DAILY, key="jobs")
    weekly = replace(DAILY, closes="FREQ=WEEKLY;BYDAY=MO;BYHOUR=8;BYMINUTE=0")
    for digest in (other_key, weekly):
        joined_id, _ = await join(digests, await told(bell, digest=digest), ANA, NOW)
        assert joined_id != first
    bo = replace(ANA, id=uuid4(), timezone="Asia/Kathmandu")
    _, closes_at = await join(digests, await told(bell, recipient=bo.id), bo, NOW)
    assert closes_at == CLOSES_AT - timedelta(hours=4, minutes=45)
    elsewhere, _ = await join(digests, await told(bell, tenant="b"), ANA, NOW)
    assert elsewhere != first
    assert len(await windows(tables)) == 5
    assert await tables.value("SELECT count(*) FROM timebell.jobs WHERE key LIKE 'digest:%'") == 5


async def test_a_template_that_is_not_there_yet_may_be_when_the_window_closes(
    bell: Timebell, tables: Tables
) -> None:
    await joined(bell, "post:1")
    (window,) = await windows(tables)
    payload = orjson.loads((await tables.job(window["notification_id"]))["payload_text"])
    assert (payload["template_version"], payload["topic"], payload["class"]) == (1, "news", "marketing")


async def test_who_runs_again_after_a_crash_is_in_the_same_digest(bell: Timebell, tables: Tables) -> None:
    job = await told(bell, "post:1")
    digests = Digests(bell)
    first = await join(digests, job, ANA, NOW)
    assert await join(digests, job, ANA, NOW) == first
    assert await join(digests, job, ANA, CLOSES_AT + HOUR) == first, "even when it is long closed"
    assert len(await windows(tables)) == 1


async def test_many_workers_at_once_make_one_digest(
    bell: Timebell, database: Database, clock: StillClock, guard: Asked, tables: Tables
) -> None:
    other = Timebell(database, registry=Registry([notify_app(guard)]), clock=clock)
    jobs = [await told(bell, f"post:{number}") for number in range(40)]
    workers = [Digests(bell), Digests(other)]
    answers = await asyncio.gather(
        *(join(workers[number % 2], job) for number, job in enumerate(jobs)),
        *(join(workers[number % 2], job) for number, job in enumerate(reversed(jobs))),
    )
    await other.close()
    assert len(set(answers)) == 1
    assert len(await windows(tables)) == 1
    assert await tables.value("SELECT count(*) FROM timebell.jobs WHERE key LIKE 'digest:%'") == 1
    members = f"SELECT count(*) FROM {SCHEMA}.notifications WHERE digest_id = $1"
    assert await tables.value(members, answers[0][0]) == 40


async def test_two_runs_of_one_job_at_once_are_in_one_digest(bell: Timebell) -> None:
    """One began before the window closed, the other after."""
    digests = Digests(bell)
    for number in range(10):
        job = await told(bell, f"post:{number}")
        one, other = await asyncio.gather(join(digests, job, ANA, NOW), join(digests, job, ANA, CLOSES_AT))
        assert one == other


async def test_what_was_settled_meanwhile_is_not_held_again(bell: Timebell, tables: Tables) -> None:
    job = await told(bell, "post:1")
    settled = f"UPDATE {SCHEMA}.notifications SET state = 'withdrawn', reason = 'withdrawn', settled_at = $1"
    await tables.rows(settled, NOW)
    assert await Digests(bell).join(job, intended(), ANA, NOW) is None
    assert await states(tables) == {"post:1": ("withdrawn", "withdrawn")}
    assert await windows(tables) == []


async def test_closing_waits_for_whoever_is_joining(bell: Timebell, tables: Tables) -> None:
    digests = Digests(bell)
    digest_id = await joined(bell, "post:1")
    job = await told(bell, "post:2")
    closer = await teller(bell, tables, digest_id)
    async with bell.transaction() as tx:
        await digests._open(tx, EMPTY_TOO, intended(), ANA.timezone, NOW)
        closing = asyncio.create_task(close(digests, closer, digest_id, ANA, CLOSES_AT))
        await tables.until_someone_waits()
        await digests._join(tx, job, intended(), ANA, NOW)
        await tx.session.execute(snoozed(job, digest_id))
    closed = await closing
    assert closed is not None
    assert [line["subject"] for line in closed["entries"]] == ["post:1", "post:2"]


async def test_whoever_comes_too_late_joins_the_next_one(bell: Timebell, tables: Tables) -> None:
    """It had read the time before the window closed, and finds it closed."""
    digests = Digests(bell)
    digest_id = await joined(bell, "post:1")
    late = await told(bell, "post:2")
    async with bell.database.transaction() as session:
        await digests._store.close_digest(session, tenant="default", id=digest_id)
        joining = asyncio.create_task(join(digests, late))
        await tables.until_someone_waits()
    next_id, closes_at = await joining
    assert (next_id != digest_id, closes_at) == (True, CLOSES_AT + DAY)
    closed = await close(digests, await teller(bell, tables, digest_id), digest_id, ANA, CLOSES_AT)
    assert closed is not None
    assert [line["subject"] for line in closed["entries"]] == ["post:1"]


async def test_it_tells_what_joined_in_the_order_in_which_it_was_due(bell: Timebell, tables: Tables) -> None:
    await joined(bell, "post:late", due_at=NOW + HOUR, context={"title": "Late"})
    digest_id = await joined(bell, "post:early", context={"title": "Early", "count": 2})
    job = await teller(bell, tables, digest_id)
    closed = await close(Digests(bell), job, digest_id, ANA, CLOSES_AT)
    early = {"title": "Early", "count": 2, "subject": "post:early"}
    late = {"title": "Late", "subject": "post:late"}
    assert closed == {
        "entries": [
            {**early, "due_at": NOW.isoformat(), "template": "news.one"},
            {**late, "due_at": (NOW + HOUR).isoformat(), "template": "news.one"},
        ],
        "more_count": 0,
    }
    (window,) = await windows(tables)
    assert window["closed_at"] == NOW


@pytest.mark.req("U-4")
async def test_each_is_asked_about_again_when_it_closes(bell: Timebell, tables: Tables, guard: Asked) -> None:
    await joined(bell, "post:wanted", guard="news.wanted", context={"id": 1})
    await joined(bell, "post:unwanted", guard="news.wanted")
    await joined(bell, "post:expired", expires_at=CLOSES_AT)
    await joined(bell, "post:in_time", expires_at=CLOSES_AT + timedelta(microseconds=1))
    await joined(bell, "post:muted", topic="gossip")
    digest_id = await joined(bell, "post:plain")
    guard.unwanted = {"post:unwanted"}
    opt_outs = (OptOut(topic="gossip", channel="email"), OptOut(topic="news", channel="sms"))
    ana = replace(ANA, addresses=(MAIL,), opt_outs=opt_outs)
    job = await teller(bell, tables, digest_id)
    closed = await close(Digests(bell), job, digest_id, ana, CLOSES_AT)
    assert closed is not None
    assert [line["subject"] for line in closed["entries"]] == ["post:wanted", "post:in_time", "post:plain"]
    assert await states(tables) == {
        "post:wanted": ("held", "held_digest"),
        "post:unwanted": ("skipped", "guard_refused"),
        "post:expired": ("skipped", "expired"),
        "post:in_time": ("held", "held_digest"),
        "post:muted": ("skipped", "opted_out"),
        "post:plain": ("held", "held_digest"),
    }
    assert [(asked.subject, asked.kind) for asked in guard.jobs] == [
        ("post:wanted", "notify.deliver"),
        ("post:unwanted", "notify.deliver"),
    ]
    first = guard.jobs[0]
    assert (first.payload["context"], first.payload["template"]) == ({"id": 1}, "news.one")
    assert first.id != job.id
    decisions = await tables.value(
        f"SELECT decisions::text FROM {SCHEMA}.notifications WHERE subject = 'post:unwanted'"
    )
    assert orjson.loads(decisions)[-1]["checks"] == [
        {
            "name": "guard",
            "verdict": "refused",
            "reason": "guard_refused",
            "detail": {"guard": "news.wanted"},
        }
    ]


@pytest.mark.req("X-C12")
@pytest.mark.parametrize(
    ("ana", "route", "suppressed", "reason"),
    [
        (
            replace(ANA, channel_preference="sms", opt_outs=[OptOut(topic="news", channel="email")]),
            Route(),
            [],
            "opted_out",
        ),
        (
            replace(ANA, opt_outs=[OptOut(topic="news", channel="email")]),
            Route(first=["sms"]),
            [],
            "opted_out",
        ),
        (
            ANA,
            Route(first=["email"]),
            [Suppressed(channel="email", address=MAIL.value, message_class="marketing")],
            "suppressed",
        ),
        (replace(ANA, opt_outs=[OptOut(topic="news", channel="sms")]), Route(first=["sms"]), [], None),
    ],
    ids=["preferred", "instead", "class", "unreachable"],
)
async def test_what_is_unwanted_on_the_way_that_a_digest_goes_is_not_in_it(
    bell: Timebell,
    tables: Tables,
    ana: Recipient,
    route: Route,
    suppressed: list[Suppressed],
    reason: str | None,
) -> None:
    """Without a phone number, mail takes the place of an SMS; and what a digest is does not cover what is in it."""
    digest_id = await joined(bell, "post:1")
    await joined(bell, "post:2", topic="other", message_class="transactional")
    job = await teller(bell, tables, digest_id)
    told = intended(template="news.daily", topic="digests", message_class="transactional", route=route)
    job = replace(job, payload=told.payload())
    facts = facts_of(job, replace(ana, addresses=(MAIL,)), suppressed=suppressed)
    closed = await Digests(bell).close(job, digest_id, facts)
    assert isinstance(closed, dict)
    left = ["post:1", "post:2"] if reason is None else ["post:2"]
    assert [line["subject"] for line in closed["entries"]] == left
    expected = ("held", "held_digest") if reason is None else ("skipped", reason)
    assert (await states(tables))["post:1"] == expected


async def test_a_guard_that_nobody_brought_stops_it_before_anything_is_told(
    bell: Timebell, tables: Tables
) -> None:
    digest_id = await joined(bell, "post:1", guard="news.unheard_of")
    with pytest.raises(Untold, match=r"no guard is registered as 'news\.unheard_of'") as untold:
        await close(Digests(bell), await teller(bell, tables, digest_id), digest_id, ANA, CLOSES_AT)
    assert isinstance(untold.value.outcome, Retry)
    assert await states(tables) == {"post:1": ("held", "held_digest")}


async def test_a_second_run_tells_the_same_unless_somebody_thought_better_of_it(
    bell: Timebell, tables: Tables, guard: Asked
) -> None:
    """Until something was written: then it is too late to leave anything out."""
    digest_id = await joined(bell, "post:1", "post:2", "post:3", guard="news.wanted")
    job = await teller(bell, tables, digest_id)
    digests = Digests(bell)
    first = await close(digests, job, digest_id, ANA, CLOSES_AT)
    assert await close(digests, job, digest_id, ANA, CLOSES_AT + HOUR) == first
    guard.unwanted = {"post:1"}
    second = await close(digests, job, digest_id, ANA, CLOSES_AT + HOUR)
    assert second is not None
    assert [line["subject"] for line in second["entries"]] == ["post:2", "post:3"]
    await insert(
        tables,
        "deliveries",
        tenant="default",
        id=uuid4(),
        notification_id=job.id,
        recipient_id=ANA.id,
        channel="email",
        provider="smtp",
        address="ana@example.org",
        content='{"text": "2 and 3"}',
        state="uncertain",
        created_at=NOW,
        updated_at=NOW,
    )
    guard.unwanted = {"post:2", "post:3"}
    assert await close(digests, job, digest_id, ANA, CLOSES_AT + HOUR) == second
    assert (await states(tables))["post:2"] == ("held", "held_digest")


async def test_nothing_is_told_when_nothing_is_left(bell: Timebell, tables: Tables, guard: Asked) -> None:
    digest_id = await joined(bell, "post:1", guard="news.wanted")
    guard.unwanted = {"post:1"}
    job = await teller(bell, tables, digest_id)
    assert await close(Digests(bell), job, digest_id, ANA, CLOSES_AT) is None
    assert await close(Digests(bell), job, uuid4(), ANA, CLOSES_AT) is None, "there is no such digest"
    assert len(await windows(tables)) == 1


async def test_one_that_is_told_empty_goes_on_by_itself(bell: Timebell, tables: Tables, guard: Asked) -> None:
    digest_id = await joined(bell, "post:1", guard="news.wanted", digest=EMPTY_TOO)
    guard.unwanted = {"post:1"}
    job = await teller(bell, tables, digest_id)
    digests = Digests(bell)
    for now in (CLOSES_AT, CLOSES_AT + 3 * DAY):
        assert await close(digests, job, digest_id, ANA, now) == {"entries": [], "more_count": 0}
    first, second = await windows(tables)
    assert (second["closes_at"], second["is_sent_empty"]) == (CLOSES_AT + DAY, True)
    planned = orjson.loads((await tables.job(second["notification_id"]))["payload_text"])
    assert (planned["first"], planned["also"], planned["urgency"]) == (["email"], ["inbox"], "time_bound")
    await join(digests, await told(bell, "post:2"), ANA, CLOSES_AT)
    following = await teller(bell, tables, second["id"])
    async with bell.transaction() as tx:
        await bell.cancel(tx, subject="post:2")
    closed = await close(digests, following, second["id"], ANA, CLOSES_AT + DAY)
    assert closed is None, "the last that joined did not ask for it"
    assert len(await windows(tables)) == 2
    assert first["id"] == digest_id


async def test_a_digest_of_very_many_says_how_many_more_there_are(bell: Timebell, tables: Tables) -> None:
    digest_id = await joined(bell, "post:1")
    async with bell.transaction() as tx:
        more = [
            Enqueue(kind="notify.deliver", payload=intended().payload(), due_at=NOW + number * SECOND)
            for number in range(2, MEMBERS_MAX + 6)
        ]
        ids = [one.id for one in await bell.enqueue_many(tx, more)]
    await tables.rows(
        f"""INSERT INTO {SCHEMA}.notifications (tenant, id, recipient_id, template, template_version, topic, class,
            urgency, route, context, subject, digest_id, due_at, state, created_at)
        SELECT tenant, one.id, recipient_id, template, 1, topic, class, urgency, route, context,
            'post:' || one.number, digest_id, due_at + one.number * interval '1 second', state, created_at
        FROM {SCHEMA}.notifications n, unnest($1::uuid[]) WITH ORDINALITY AS one(id, number)
        WHERE subject = 'post:1'""",
        ids,
    )
    await tables.rows(
        "UPDATE timebell.jobs SET cursor = (SELECT cursor FROM timebell.jobs WHERE subject = 'post:1')"
    )
    job = await teller(bell, tables, digest_id)
    closed = await close(Digests(bell), job, digest_id, ANA, CLOSES_AT)
    assert closed is not None
    assert (len(closed["entries"]), closed["more_count"]) == (MEMBERS_MAX, 5)
    assert closed["entries"][-1]["subject"] == f"post:{MEMBERS_MAX - 1}"
    assert await tables.value("SELECT count(*) FROM timebell.jobs") == 1, (
        "all but the one that tells it are done"
    )


async def test_a_digest_of_very_much_is_cut_too(bell: Timebell, tables: Tables) -> None:
    digest_id = await joined(
        bell, *(f"post:{number}" for number in range(30)), context={"text": "x" * 50_000}
    )
    job = await teller(bell, tables, digest_id)
    closed = await close(Digests(bell), job, digest_id, ANA, CLOSES_AT)
    assert closed is not None
    assert (len(closed["entries"]), closed["more_count"]) == (20, 10)


@pytest.mark.parametrize(
    ("state", "reason", "member_reason"),
    [
        ("sent", "accepted", "in_digest"),
        ("delivered", None, "in_digest"),
        ("failed", "exhausted", "exhausted"),
        ("suppressed", "demo", "demo"),
        ("skipped", "opted_out", "opted_out"),
    ],
)
async def test_what_became_of_it_became_of_everything_in_it(
    bell: Timebell, tables: Tables, guard: Asked, state: str, reason: Any, member_reason: str
) -> None:
    digest_id = await joined(bell, "post:1", "post:2", "post:3", guard="news.wanted")
    other_id = await joined(bell, "post:4", digest=replace(DAILY, key="jobs"))
    guard.unwanted = {"post:2"}
    job = await teller(bell, tables, digest_id)
    await close(Digests(bell), job, digest_id, ANA, CLOSES_AT)
    await settle(bell, job, digest_id, state, reason)
    assert other_id != digest_id
    assert await states(tables) == {
        "post:1": (state, member_reason),
        "post:2": ("skipped", "guard_refused"),
        "post:3": (state, member_reason),
        "post:4": ("held", "held_digest"),
    }
    stored = await tables.rows(f"SELECT * FROM {SCHEMA}.notifications WHERE subject = 'post:1'")
    assert (stored[0]["settled_at"], stored[0]["held_until"]) == (NOW, None)
    decisions = orjson.loads(stored[0]["decisions"])
    assert decisions[-1]["checks"][0]["detail"] == {
        "digest_id": str(digest_id),
        "notification_id": str(job.id),
    }


async def test_that_it_joined_may_be_noted_after_it_was_told(bell: Timebell, tables: Tables) -> None:
    """The worker that joined it was slow, and the digest was told in between."""
    digest_id = await joined(bell, "post:1")
    member = await tables.value(f"SELECT id FROM {SCHEMA}.notifications WHERE subject = 'post:1'")
    job = await teller(bell, tables, digest_id)
    await close(Digests(bell), job, digest_id, ANA, CLOSES_AT)
    await settle(bell, job, digest_id, "sent", "accepted")
    await Desk(bell).note(
        Progress(
            tenant="default",
            id=member,
            recipient_id=ANA.id,
            state="held",
            reason="held_digest",
            decision={},
            held_until=CLOSES_AT,
            digest_id=digest_id,
        )
    )
    assert await states(tables) == {"post:1": ("sent", "in_digest")}
