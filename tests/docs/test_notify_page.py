"""The page about telling people things shows what works, and what happens is what it says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from tests.docs.markdown import blocks
from tests.shape.tree import ROOT
from timebell.notify import Notify
from timebell.notify.provider import Report
from timebell.testing import Harness, ManualClock, harness
from timebell.testing.database import TestDatabase

PAGE = list(blocks((ROOT / "docs" / "howto" / "notify.md").read_text(encoding="utf-8")))
NOW = datetime(2027, 3, 1, 9, 0, tzinfo=UTC)


def names() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for block in PAGE:
        if block.language == "python":
            exec(block.code, found)
    return found


async def states(notify: Notify, **filters: Any) -> list[tuple[str, str | None]]:
    return [(line.state, line.reason) for line in (await notify.notifications.list(**filters)).lines]


async def test_the_page_does_what_it_says(database_url: TestDatabase) -> None:
    page = names()
    async with harness(database_url.url, page["apps"], clock=ManualClock(NOW)) as bench:
        notify = Notify(bench.bell)
        async with bench.bell.transaction() as tx:
            guest = await page["prepare"](notify, tx)
        first = await _welcomed(page, bench, notify, guest)
        await _reminded(page, bench, notify, guest)
        [delivery] = [
            one for one in (await notify.notifications.get(first)).deliveries if one.channel == "email"
        ]
        assert await page["take"](notify, "log", _Reporter(delivery.id), {}, b"") == 1
        assert (await notify.notifications.get(first)).notification.state == "delivered"
        async with bench.bell.transaction() as tx:
            tried = await page["try_out"](notify, tx, guest, 1)
        await bench.run_due()
        found = (await notify.notifications.get(tried)).notification
        assert (found.state, found.topic) == ("sent", "test")


async def _welcomed(page: dict[str, Any], bench: Harness, notify: Notify, guest: UUID) -> UUID:
    """Once, by mail and in the inbox, and explained."""
    ids = []
    for _ in range(2):
        async with bench.bell.transaction() as tx:
            ids.append(await page["welcome"](notify, tx, guest, "7", NOW + timedelta(hours=5)))
        await bench.run_due()
    assert ids[0] == ids[1]
    assert await states(notify) == [("sent", "accepted")]
    [entry] = (await notify.inbox.list(guest)).lines
    assert (entry.title, entry.description[:11]) == ("Room 7", "Yours from ")
    told = await page["why"](notify, ids[0])
    assert told.startswith("It was sent by email and in the inbox")
    assert "log took it." in told
    return UUID(str(ids[0]))


async def _reminded(page: dict[str, Any], bench: Harness, notify: Notify, guest: UUID) -> None:
    """The first reminder is told, the second finds that the booking was cancelled; without a room both would wait."""
    arrives_at = NOW + timedelta(days=2)
    async with bench.bell.transaction() as tx:
        await page["remind"](bench.bell, notify, tx, "booking:1", guest, "7", arrives_at)
    await bench.advance(to=arrives_at - timedelta(hours=23))
    assert await states(notify, subject="booking:1") == [("sent", "accepted")]
    page["CANCELLED"].add("booking:1")
    await bench.advance(to=arrives_at)
    assert sorted(await states(notify, subject="booking:1")) == [
        ("sent", "accepted"),
        ("skipped", "guard_refused"),
    ]
    async with bench.bell.transaction() as tx:
        told = await notify.tell(tx, guest, "arrival", context={"arrives_at": NOW.isoformat()})
    await bench.run_due()
    [line] = (await notify.notifications.needs_attention()).lines
    assert (line.id, line.reason) == (told.id, "template_incomplete")
    async with bench.bell.transaction() as tx:
        await page["mend"](notify, tx, "arrival")
        await notify.mend(tx, told.id, {"room": "5"})
    await bench.run_due()
    assert (await notify.notifications.get(told.id)).notification.state == "sent"


class _Reporter:
    """A provider whose webhook brought one report."""

    def __init__(self, delivery_id: UUID) -> None:
        self._delivery_id = delivery_id

    def read_reports(self, headers: object, body: bytes, now: datetime) -> list[Report]:
        return [Report(report_id="r1", kind="delivered", delivery_id=self._delivery_id)]


def test_demo_mode_is_built_of_what_cannot_send() -> None:
    [app] = names()["demo"]
    assert app.name == "notify"
