"""Operators hear of alerts once, on their channels, whatever is away."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from typing import Any
from uuid import UUID

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.engine.alert_support import MINUTE, Figures, Watched
from tests.engine.notify.stage import Stage, stage
from tests.log_lines import kept_lines
from timebell.db.pool import Database
from timebell.kernel import AlertRule, Alerts, App, Finding
from timebell.kernel.insights.insights import Insights
from timebell.notify import QuietHours, TemplateDraft, Text, Unavailable, Variable
from timebell.notify.alerts.operators import ALERT
from timebell.testing import ManualClock, RecordingProvider
from timebell.testing.database import TestDatabase
from timebell.web.server.figures import FigureReader
from timebell.web.server.metrics import Metrics

HIGH = Finding(value=1, tenant="shop", subject="shelf:1", detail="1 is high")
STRANGER = UUID("01890a5d-ac96-774b-bcce-b302099a8057")


class Operations(Watched):
    """The same with a provider, and with recipients who are told."""

    def __init__(self, s: Stage, provider: RecordingProvider) -> None:
        super().__init__(s.harness)
        self.stage = s
        self.provider = provider
        self.tell(s.recipient)

    def tell(self, *recipients: UUID) -> None:
        told = tuple(str(recipient) for recipient in recipients)
        self.bell.settings = replace(self.bell.settings, operations_recipients=told)

    async def look(self, later: timedelta = timedelta(0)) -> list[str]:
        opened = await super().look(later)
        await self.h.run_due()
        return opened

    def subjects(self) -> list[str]:
        """What has left by mail."""
        return [str(parcel.content.subject) for parcel in self.provider.parcels]

    async def inbox(self) -> list[dict[str, Any]]:
        return await self.tables.rows(
            "SELECT title, recipient_id FROM timebell_notify.inbox ORDER BY created_at, id"
        )


@asynccontextmanager
async def operations(
    database: TestDatabase, apps: Iterable[App], *, clock: ManualClock | None = None, **options: Any
) -> AsyncIterator[Operations]:
    provider = RecordingProvider(channels=["email"])
    async with stage(
        database.url,
        [provider],
        apps=list(apps),
        clock=clock,
        database_url=database.url,
        phone=None,
        **options,
    ) as s:
        yield Operations(s, provider)


async def test_a_warning_is_told_once(database_url: TestDatabase) -> None:
    figures = Figures()
    async with operations(database_url, [figures.app]) as w:
        figures.found = [HIGH]
        for _ in range(3):
            await w.look(MINUTE)
        assert w.subjects() == ["Warning: figures_are_high (shelf:1)"]
        body = str(w.provider.parcels[0].content.text)
        for said in (
            "Figures are high.",
            "1 is high",
            "Tenant: shop",
            "What to do: Lower them.",
            "--tenant shop",
        ):
            assert said in body, said
        assert len(await w.inbox()) == 1
        figures.found = []
        for _ in range(2):
            await w.look(MINUTE)
        assert len(w.provider.parcels) == 1, "that a warning is over nobody is told"
        figures.found = [HIGH]
        await w.look(MINUTE)
        assert len(w.provider.parcels) == 2


async def test_of_a_critical_one_it_is_told_too_that_it_has_closed(database_url: TestDatabase) -> None:
    figures = Figures(severity="critical")
    async with operations(database_url, [figures.app]) as w:
        figures.found = [HIGH]
        await w.look(MINUTE)
        figures.found = []
        for _ in range(3):
            await w.look(MINUTE)
        assert w.subjects() == ["Critical: figures_are_high (shelf:1)", "Closed: figures_are_high"]


async def test_everybody_who_is_named_is_told_and_one_who_is_gone_keeps_nobody_from_it(
    database_url: TestDatabase,
) -> None:
    figures = Figures()
    async with operations(database_url, [figures.app]) as w:
        async with w.bell.transaction() as tx:
            bob = await w.stage.notify.recipients.add(tx, name="Bob", email="bob@example.org")
        w.tell(STRANGER, w.stage.recipient, bob.id)
        figures.found = [HIGH]
        for _ in range(2):
            await w.look(MINUTE)
        assert sorted(parcel.address for parcel in w.provider.parcels) == [
            "ada@example.org",
            "bob@example.org",
        ]


@pytest.mark.parametrize(("severity", "is_told"), [("critical", True), ("warning", False)])
async def test_only_what_is_critical_passes_quiet_hours(
    database_url: TestDatabase, severity: str, is_told: bool
) -> None:
    figures = Figures(severity=severity)
    terms = {"quiet_hours": QuietHours(start=time(22), end=time(7))}
    clock = ManualClock(datetime(2026, 1, 14, 23, tzinfo=UTC))
    async with operations(database_url, [figures.app], clock=clock, terms=terms) as w:
        figures.found = [HIGH]
        await w.look()
        assert bool(w.provider.parcels) is is_told
        await w.h.advance(timedelta(hours=9))
        assert len(w.provider.parcels) == 1


async def test_many_at_once_are_told_in_one(database_url: TestDatabase) -> None:
    figures = Figures()
    async with operations(database_url, [figures.app]) as w:
        figures.found = [replace(HIGH, subject=f"shelf:{number}") for number in range(10, 40)]
        await w.look()
        assert w.subjects() == ["30 alerts, 0 of them critical"]
        body = str(w.provider.parcels[0].content.text)
        assert "Warning: figures_are_high (shelf:10)" in body
        assert "and 10 more" in body
        await w.look(MINUTE)
        assert len(w.provider.parcels) == 1


async def test_nobody_is_told_where_nobody_is_named_and_later_of_what_is_open_then(
    database_url: TestDatabase,
) -> None:
    figures = Figures()
    async with operations(database_url, [figures.app]) as w:
        w.tell()
        figures.found = [HIGH, replace(HIGH, subject="shelf:2")]
        await w.look()
        figures.found = [HIGH]
        await w.look(MINUTE)
        assert w.provider.parcels == []
        w.tell(w.stage.recipient)
        await w.look(timedelta(days=1))
        assert w.subjects() == ["Warning: figures_are_high (shelf:1)"], "the other is over since yesterday"


async def test_what_an_app_opens_by_itself_is_told_too(database_url: TestDatabase) -> None:
    rule = AlertRule(name="bill_lost", severity="critical", about="A bill was lost.", remedy="Find it.")
    async with operations(database_url, [App(name="bills", alerts=[rule])]) as w:
        async with w.bell.transaction(tenant="shop") as tx:
            await Alerts(w.bell).open(tx, "bill_lost", subject="bill:1", detail="bill 1")
        await w.look()
        [row] = await w.rows("bill_lost")
        async with w.bell.transaction(tenant="shop") as tx:
            await Alerts(w.bell).acknowledge(tx, row["id"], actor="ada")
        await w.look(MINUTE)
        assert w.subjects() == ["Critical: bill_lost (bill:1)"], "whoever closed it knows"


@pytest.mark.req("J-13.5")
async def test_while_notify_is_down_the_alert_is_listed_logged_and_counted_and_told_when_it_is_back(
    database_url: TestDatabase,
) -> None:
    figures = Figures(severity="critical")
    reader = await Database.open(database_url.read_url, size=2)
    with kept_lines() as lines:
        async with operations(database_url, [figures.app]) as w:
            w.tell(STRANGER)
            figures.found = [HIGH]
            opened = [await w.look(MINUTE) for _ in range(4)]
            assert opened[:3] == [["figures_are_high"]] * 3
            assert opened[3] == ["figures_are_high", "alert_question_fails"], (
                "that nobody is told is told here"
            )
            figures_of = FigureReader(Insights(reader, w.clock), w.clock)
            page = (
                await Metrics(tallies=w.bell.tallies, engine=w.h.engine, figures=figures_of).text()
            ).decode()
            assert _samples(page, "timebell_alerts_open")["figures_are_high"] == 1
            w.tell(w.stage.recipient)
            await w.look(MINUTE)
            assert "Critical: figures_are_high (shelf:1)" in w.subjects()
            await w.look(MINUTE)
            assert await w.open() == ["figures_are_high"]
    await reader.close()
    said = [line for line in lines if line["event"] == "an alert has opened"]
    assert (said[0]["rule"], said[0]["remedy"], said[0]["log_level"]) == (
        "figures_are_high",
        "Lower them.",
        "error",
    )


def _samples(page: str, name: str) -> dict[str, float]:
    return {
        sample.labels["rule"]: sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == name
    }


async def test_while_the_provider_is_away_the_inbox_has_it_and_the_mail_leaves_later(
    database_url: TestDatabase,
) -> None:
    figures = Figures(severity="critical")
    async with operations(database_url, [figures.app]) as w:
        w.provider.answer(*[Unavailable(reason="down")] * 3)
        figures.found = [HIGH]
        await w.look()
        assert [row["title"] for row in await w.inbox()] == ["Critical: figures_are_high (shelf:1)"]
        assert not w.provider.taken
        await w.h.advance(timedelta(hours=1))
        assert sum(w.provider.taken.values()) == 1


@pytest.mark.req("S-6.3")
async def test_while_the_broker_is_away_operators_are_told_by_mail(database_url: TestDatabase) -> None:
    async with operations(database_url, []) as w:
        w.bell.holds.hold("broker", "the broker is away")
        await w.h.engine.beat()
        await w.look()
        await w.look(MINUTE)
        assert w.subjects() == ["Critical: broker_away (queue:broker)"]


async def test_a_text_of_their_own_is_used(database_url: TestDatabase) -> None:
    figures = Figures()
    async with operations(database_url, [figures.app]) as w:
        draft = TemplateDraft(
            key=ALERT,
            topic="alerts",
            texts=(
                Text(channel="email", language="en", subject="Look: {{ heading }}", body="{{ text }}"),
                Text(channel="inbox", language="en", subject="Look", body="{{ text }}"),
            ),
            variables=(Variable(name="heading"), Variable(name="text")),
        )
        async with w.bell.transaction() as tx:
            await w.stage.notify.templates.save(tx, draft)
        figures.found = [HIGH]
        await w.look()
        assert w.subjects() == ["Look: Warning: figures_are_high (shelf:1)"]


@pytest.mark.req("X-J60")
async def test_of_somebody_who_was_not_told_of_what_does_not_wait_operators_hear(
    database_url: TestDatabase,
) -> None:
    """Of their own tenant each, while it is new; what may wait is in the list alone."""
    async with operations(database_url, []) as w:

        async def settle(tenant: str, urgency: str, state: str, subject: str | None = None) -> None:
            await w.tables.rows(
                "INSERT INTO timebell_notify.notifications (tenant, id, recipient_id, template, topic, class, urgency, "
                "route, context, subject, due_at, state, created_at, settled_at) VALUES ($1, gen_random_uuid(), $2, "
                "'stop', 'work', 'transactional', $3, '[]', '{}', $4, $6, $5, $6, $6)",
                *(tenant, STRANGER, urgency, subject, state, w.clock.now),
            )

        await settle("shop", "normal", "failed")
        await settle("shop", "critical", "sent")
        assert await w.look() == []
        await settle("shop", "time_bound", "uncertain", "shelf:1")
        await settle("mill", "critical", "failed")
        assert await w.look() == ["somebody_not_told"] * 2
        await settle("shop", "critical", "failed", "shelf:2")
        assert await w.look(MINUTE) == ["somebody_not_told"] * 2
        rows = {row["tenant"]: row for row in await w.rows("somebody_not_told")}
        assert rows["mill"]["detail"] == (
            "1 could not be told of what does not wait within a day; the last was stop"
        )
        assert rows["shop"]["detail"] == (
            "2 could not be told of what does not wait within a day; the last was stop about shelf:2"
        )
        assert not rows["shop"]["is_of_engine"]
        assert w.subjects() == ["Critical: somebody_not_told"] * 2
        assert await w.look(timedelta(days=1) - 2 * MINUTE) == ["somebody_not_told"] * 2
        assert await w.look(MINUTE) == []


@pytest.mark.req("J-12.2")
async def test_one_in_twenty_deliveries_may_fail(database_url: TestDatabase) -> None:
    async with operations(database_url, []) as w:
        w.tell()

        async def deliver(count: int, state: str) -> None:
            await w.tables.rows(
                "INSERT INTO timebell_notify.deliveries (tenant, id, notification_id, recipient_id, channel, provider, "
                "address, state, created_at, updated_at) SELECT 'shop', gen_random_uuid(), gen_random_uuid(), $3, "
                "'email', 'smtp', 'a@example.org', $2, $4, $4 FROM generate_series(1, $1)",
                count,
                state,
                STRANGER,
                w.clock.now,
            )

        await deliver(95, "sent")
        await deliver(5, "failed")
        await deliver(30, "pending")
        assert await w.look() == []
        await w.tables.rows(
            "DELETE FROM timebell_notify.deliveries WHERE id = (SELECT id FROM timebell_notify.deliveries "
            "WHERE state = 'sent' LIMIT 1)"
        )
        await deliver(1, "failed")
        assert await w.look() == ["deliveries_fail"]
        [row] = await w.rows("deliveries_fail")
        assert (row["detail"], row["is_of_engine"]) == ("6 of 100 deliveries by email failed", True)
        assert await w.look(timedelta(hours=2)) == []
