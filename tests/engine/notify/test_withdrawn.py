"""What was taken back is shown as taken back at once, whoever cancelled its job, and though nobody told its row."""

from __future__ import annotations

from datetime import time, timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.engine.notify.stage import Owner, Stage, stage
from timebell.notify import Parcel, QuietHours, Sent, Tell, Unavailable, Uncertain
from timebell.notify.provider import Answer
from timebell.testing import RecordingProvider
from timebell.testing.database import TestDatabase

HOUR = timedelta(hours=1)
QUIET: dict[str, Any] = {
    "quiet_hours": QuietHours(start=time(0, 0), end=time(23, 59), channels=frozenset({"email"}))
}


async def owed(s: Stage, subject: str, **tell: Any) -> UUID:
    """A step that is due, and has been looked at."""
    asked = {"recipient": s.recipient, "template": "meeting.reminder", "context": {"title": "x"}, **tell}
    bell = s.harness.bell
    async with bell.transaction() as tx:
        step = await s.notify.step(tx, Tell(**asked), key="remind", at=s.clock.now)
        diff = await bell.set_agenda(tx, subject=subject, steps=[step])
    await s.harness.run_due()
    (added,) = diff.added
    assert added.job_id is not None
    return added.job_id


async def clear(s: Stage, subject: str) -> None:
    async with s.harness.bell.transaction() as tx:
        await s.harness.bell.clear_agenda(tx, subject=subject)


async def listed(s: Stage, state: Any) -> list[UUID]:
    return [line.id for line in (await s.notify.notifications.list(state=state)).lines]


async def test_what_an_agenda_withdraws_is_no_longer_shown_as_held(database_url: TestDatabase) -> None:
    mails = RecordingProvider("mails", channels=["email"])
    async with stage(database_url.url, [mails], terms=QUIET) as s:
        kept = await owed(s, "meeting:1", channels=["email"])
        gone = await owed(s, "meeting:2", channels=["email"])
        assert await listed(s, "held") == [gone, kept]
        await clear(s, "meeting:2")
        assert await listed(s, "held") == [kept]
        assert await listed(s, "withdrawn") == [gone]
        found = await s.now(gone)
        assert (found.state, found.reason, found.held_until) == ("withdrawn", "withdrawn", None)
        assert "withdrawn before it was told" in (await s.notify.explain(gone)).summary
        assert (await s.notify.notifications.list(tenant="b", state="withdrawn")).lines == ()
        async with s.harness.bell.transaction() as tx:
            await s.harness.bell.cancel(tx, id=kept)
        assert await listed(s, "withdrawn") == [gone, kept]
        told = await s.tell(channels=["email"], due_at=s.clock.now + HOUR)
        assert await listed(s, "pending") == [told]
        async with s.harness.bell.transaction() as tx:
            await s.harness.bell.cancel(tx, id=told)
        assert await listed(s, "pending") == []
    assert mails.parcels == []


async def test_what_is_withdrawn_waits_for_nobody(database_url: TestDatabase) -> None:
    mails = RecordingProvider("mails", channels=["email"])
    async with stage(database_url.url, [mails]) as s:
        kept = await owed(s, "meeting:1", channels=["email"], context={})
        gone = await owed(s, "meeting:2", channels=["email"], context={})
        attention = s.notify.notifications.needs_attention
        assert [line.id for line in (await attention()).lines] == [kept, gone]
        await clear(s, "meeting:2")
        assert [line.id for line in (await attention()).lines] == [kept]


async def test_what_may_have_been_told_stays_in_doubt_when_it_is_withdrawn(
    database_url: TestDatabase,
) -> None:
    mails = RecordingProvider("mails", channels=["email"], reports=True)
    mails.answer(Uncertain(reason="hung up"))
    async with stage(database_url.url, [mails]) as s:
        id = await owed(s, "meeting:1", channels=["email"])
        assert (await s.now(id)).state == "uncertain"
        await clear(s, "meeting:1")
        assert (await s.now(id)).state == "uncertain"
        assert [line.id for line in (await s.notify.notifications.needs_attention()).lines] == [id]


@pytest.mark.parametrize(
    ("answer", "state", "way"),
    [
        (Unavailable(reason="greylisted", about="parcel"), "withdrawn", "skipped"),
        (Uncertain(reason="hung up"), "uncertain", "uncertain"),
        (Sent(), "sent", "sent"),
    ],
)
async def test_what_is_withdrawn_as_it_is_told_stands_as_the_provider_says(
    database_url: TestDatabase, answer: Answer, state: str, way: str
) -> None:
    class Slow(RecordingProvider):
        async def send(self, parcel: Parcel) -> Answer:
            async with s.harness.bell.transaction() as tx:
                [taken_back] = await s.notify.withdraw(tx, id=id)
            assert taken_back.answer == "too_late"
            assert (await s.now(id)).state == "uncertain", "nobody knows yet"
            return answer

    async with stage(database_url.url, [Slow("mails", channels=["email"])]) as s:
        id = await s.tell(channels=["email"])
        await s.harness.run_due()
        assert (await s.now(id)).state == state
        [delivery] = (await s.notify.notifications.get(id)).deliveries
        assert delivery.state == way


async def test_what_died_is_not_called_withdrawn(database_url: TestDatabase, owner: Owner) -> None:
    """It waits for an operator, who may revive it."""
    async with stage(database_url.url) as s:
        id = await s.tell(channels=["inbox"])
        await owner.rows("UPDATE timebell.jobs SET payload = '{}'")
        await s.harness.run_due()
        assert await owner.value("SELECT id FROM timebell.dead_jobs") == id
        assert ((await s.now(id)).state, (await s.now(id)).reason) == ("failed", "given_up")
        async with s.harness.bell.transaction() as tx:
            await s.harness.bell.discard(tx, ids=[id])
        assert (await s.now(id)).state == "withdrawn"
