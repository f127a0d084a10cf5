"""A run whose job was given to another, while its node stood still, writes nothing that the other could not know of."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from tests.store.notify.support import SCHEMA, acquaint, begin, insert
from tests.store.support import NOW, Tables
from timebell.kernel import Timebell
from timebell.notify.delivery.desk import Answered, Desk, Progress, Start
from timebell.notify.planning.telling_store import TellingStore
from timebell.notify.provider import Content
from timebell.notify.rules.standing import Standing

ANA = UUID(int=1)
NOTE = UUID(int=7)
START = Start(
    tenant="default",
    notification_id=NOTE,
    job_version=1,
    recipient_id=ANA,
    channel="email",
    provider="letters",
    address="ana@example.org",
    language="en",
    content=Content(subject="Hello", text="In ten minutes"),
)
SENT = Progress(
    tenant="default",
    id=NOTE,
    recipient_id=ANA,
    state="sent",
    reason="accepted",
    decision={"at": NOW.isoformat(), "checks": []},
    is_settled=True,
)
HELD = replace(SENT, state="held", reason="held_retry", held_until=NOW + timedelta(hours=1), is_settled=False)


async def _noted(bell: Timebell, tables: Tables) -> Desk:
    await acquaint(bell, ANA)
    await begin(bell, NOTE)
    values = {"template": "t", "topic": "t", "class": "transactional", "urgency": "normal", "route": "{}"}
    await insert(
        tables,
        "notifications",
        tenant="default",
        id=NOTE,
        recipient_id=ANA,
        context="{}",
        due_at=NOW,
        created_at=NOW,
        state="pending",
        **values,
    )
    return Desk(bell)


@pytest.mark.req("U-2")
async def test_only_the_run_that_has_the_job_starts_an_attempt(bell: Timebell, tables: Tables) -> None:
    desk = await _noted(bell, tables)
    late = replace(START, job_version=0)
    assert await desk.start(late) is None
    started, refused = await asyncio.gather(desk.start(START), desk.start(late))
    assert started is not None
    assert refused is None
    assert await tables.value(f"SELECT count(*) FROM {SCHEMA}.attempts") == 1


@pytest.mark.req("U-2")
async def test_no_attempt_is_started_once_the_job_is_over(bell: Timebell, tables: Tables) -> None:
    """As where it was withdrawn with its agenda, which the notification does not hear of."""
    desk = await _noted(bell, tables)
    await tables.rows("DELETE FROM timebell.jobs")
    assert await desk.start(START) is None


async def test_what_was_told_is_not_withdrawn(bell: Timebell, tables: Tables) -> None:
    """Who takes it back has read that it was not told yet."""
    desk = await _noted(bell, tables)
    await desk.note(SENT)
    async with bell.database.connection() as session:
        await TellingStore(bell.clock).withdraw_notifications(session, tenant="default", ids=[NOTE])
    (row,) = await tables.rows(f"SELECT state, reason FROM {SCHEMA}.notifications")
    assert row == {"state": "sent", "reason": "accepted"}


async def test_nothing_is_added_to_what_was_erased(bell: Timebell, tables: Tables) -> None:
    """It is under way, so that nobody has settled it yet."""
    await _noted(bell, tables)
    await tables.rows(f"UPDATE {SCHEMA}.notifications SET is_erased = true")
    async with bell.database.connection() as session:
        store = TellingStore(bell.clock)
        assert not await store.mend_context(session, tenant="default", id=NOTE, context='{"name": "Ana"}')
    assert await tables.value(f"SELECT context::text FROM {SCHEMA}.notifications") == "{}"


@pytest.mark.req("U-2")
async def test_what_is_settled_is_not_opened_again(bell: Timebell, tables: Tables) -> None:
    desk = await _noted(bell, tables)
    await desk.note(HELD)
    await desk.note(SENT)
    await desk.note(HELD)
    (row,) = await tables.rows(f"SELECT state, reason, held_until FROM {SCHEMA}.notifications")
    assert row == {"state": "sent", "reason": "accepted", "held_until": None}


@pytest.mark.req("X-C6")
async def test_an_answer_to_an_earlier_attempt_does_not_settle_a_later_one(
    bell: Timebell, tables: Tables
) -> None:
    """The node that made the first stood still meanwhile; another made the second, of which nobody knows."""
    desk = await _noted(bell, tables)
    first, second = await desk.start(START), await desk.start(START)
    assert first is not None
    assert second is not None
    doubt = Answered(
        tenant="default",
        delivery_id=second.delivery_id,
        number=second.number,
        answer="uncertain",
        state="uncertain",
        reason="no_answer",
        provider_id=None,
        detail={},
    )
    assert (await desk.record(doubt)).overtaken is None
    no = replace(doubt, number=first.number, answer="unavailable", state="pending", reason="held_retry")
    assert (await desk.record(no)).overtaken == Standing("uncertain", "no_answer")
    assert await tables.value(f"SELECT state FROM {SCHEMA}.deliveries") == "uncertain"
    yes = replace(doubt, number=first.number, answer="sent", state="sent", reason="accepted")
    assert (await desk.record(yes)).overtaken is None
    assert (await desk.record(doubt)).overtaken == Standing("sent", "accepted")
    answers = await tables.rows(f"SELECT answer FROM {SCHEMA}.attempts ORDER BY number")
    assert [row["answer"] for row in answers] == ["sent", "uncertain"]


@pytest.mark.req("X-C6")
@pytest.mark.parametrize("state", ["sent", "delivered", "failed"])
async def test_no_attempt_leads_back_from_what_was_reported(
    bell: Timebell, tables: Tables, state: str
) -> None:
    desk = await _noted(bell, tables)
    assert await desk.start(START) is not None
    await tables.rows(f"UPDATE {SCHEMA}.deliveries SET state = $1", state)
    assert await desk.start(START) is None
    assert await tables.value(f"SELECT state FROM {SCHEMA}.deliveries") == state
