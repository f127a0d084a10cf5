"""Quiet hours on the whole way of a notification: told at the right instant, and never when it is too late."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.engine.notify.stage import REMINDER, TITLE, Stage, stage
from timebell.kernel import AgendaDiff, App, Job
from timebell.notify import Digest, QuietHours, Tell, TemplateDraft, Text
from timebell.notify.models import OnQuiet
from timebell.testing import ManualClock, RecordingProvider
from timebell.testing.database import TestDatabase

BERLIN = ZoneInfo("Europe/Berlin")
NIGHT = QuietHours(start=time(22), end=time(7))
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def berlin(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=BERLIN).astimezone(UTC)  # type: ignore[misc, arg-type]


@asynccontextmanager
async def in_berlin(
    url: str, at: datetime, quiet: QuietHours | None = NIGHT, **options: Any
) -> AsyncIterator[tuple[Stage, RecordingProvider]]:
    provider = RecordingProvider()
    terms = {"timezone": "Europe/Berlin", "quiet_hours": quiet}
    async with stage(url, [provider], terms=terms, clock=ManualClock(at), **options) as s:
        yield s, provider


def sent_at(provider: RecordingProvider) -> datetime | None:
    """When the one parcel left, if it did."""
    assert len(provider.parcels) <= 1
    return provider.parcels[0].attempted_at if provider.parcels else None


@pytest.mark.req("U-12")
@pytest.mark.parametrize(
    ("at", "told_at"),
    [
        (berlin(2026, 1, 14, 21, 59), berlin(2026, 1, 14, 21, 59)),
        (berlin(2026, 1, 14, 22, 0), berlin(2026, 1, 15, 7, 0)),
        (berlin(2026, 1, 15, 6, 59), berlin(2026, 1, 15, 7, 0)),
        (berlin(2026, 1, 15, 7, 0), berlin(2026, 1, 15, 7, 0)),
        # The nights in which clocks are changed have eight hours and ten.
        (berlin(2026, 3, 28, 22, 0), datetime(2026, 3, 29, 5, 0, tzinfo=UTC)),
        (berlin(2026, 10, 24, 22, 0), datetime(2026, 10, 25, 6, 0, tzinfo=UTC)),
    ],
)
async def test_it_is_told_at_once_or_when_the_night_is_over(
    database_url: TestDatabase, at: datetime, told_at: datetime
) -> None:
    async with in_berlin(database_url.url, at) as (s, provider):
        told = await s.told(channels=["email"])
        if told_at > at:
            assert (told.state, told.reason, told.held_until) == ("held", "held_quiet_hours", told_at)
            assert provider.parcels == []
            await s.harness.advance(to=told_at - timedelta(microseconds=1))
            assert provider.parcels == []
        await s.harness.advance(to=told_at)
        assert (await s.now(told.id)).state == "sent"
        await s.harness.advance(24 * HOUR)
    assert sent_at(provider) == told_at


@pytest.mark.req("U-12", "X-C15")
@pytest.mark.parametrize(
    ("urgency", "time_bound", "is_held"),
    [
        ("normal", "pass", True),
        ("time_bound", "pass", False),
        ("time_bound", "hold", True),
        ("critical", "hold", False),
    ],
)
async def test_what_cannot_wait_passes(
    database_url: TestDatabase, urgency: str, time_bound: Any, is_held: bool
) -> None:
    quiet = QuietHours(start=time(22), end=time(7), time_bound=time_bound)
    async with in_berlin(database_url.url, berlin(2026, 1, 14, 23), quiet) as (s, _):
        told = await s.told(channels=["email"], urgency=urgency)
        assert told.state == ("held" if is_held else "sent")


MEETING = berlin(2026, 1, 15, 8, 0)
DUE = MEETING - 15 * MINUTE
LONG_NIGHT = QuietHours(start=time(22), end=time(9), time_bound="hold")
EARLY = berlin(2026, 1, 14, 21, 59)
# For each policy: when a mail leaves, if at all; whether the inbox has it; what becomes of the notification.
TOO_LATE: list[tuple[OnQuiet, datetime | None, datetime | None, tuple[str, str]]] = [
    ("early", EARLY, None, ("sent", "accepted")),
    ("other_channel", None, DUE, ("sent", "shown")),
    ("inbox_only", None, DUE, ("sent", "shown")),
    ("drop", None, None, ("skipped", "quiet_hours")),
]


@pytest.mark.req("U-12")
@pytest.mark.parametrize(("on_quiet", "mailed_at", "shown_at", "ends"), TOO_LATE)
@pytest.mark.parametrize("by", ["tell", "step"])
@pytest.mark.parametrize("said_by", ["notification", "tenant"])
async def test_a_reminder_never_comes_after_its_meeting(
    database_url: TestDatabase,
    by: str,
    said_by: str,
    on_quiet: OnQuiet,
    mailed_at: datetime | None,
    shown_at: datetime | None,
    ends: tuple[str, str],
) -> None:
    """The night would end at nine and the meeting begins at eight."""
    async with in_berlin(database_url.url, berlin(2026, 1, 14, 12), LONG_NIGHT) as (s, provider):
        options: dict[str, Any] = {"urgency": "time_bound"}
        options["channels"] = ["email", "inbox"] if on_quiet == "other_channel" else ["email"]
        if said_by == "tenant":
            await s.decide(on_quiet={"time_bound": on_quiet})
        else:
            options["on_quiet"] = on_quiet
        if by == "tell":
            id = await s.tell(due_at=DUE, expires_at=MEETING, **options)
        else:
            tell = Tell(recipient=s.recipient, template=REMINDER.key, context=TITLE, **options)
            async with s.harness.bell.transaction() as tx:
                step = await s.notify.step(
                    tx, tell, key="15m", anchor=MEETING, offset=-15 * MINUTE, expires_after=15 * MINUTE
                )
                diff = await s.harness.bell.set_agenda(tx, subject="meeting:1", anchor=MEETING, steps=[step])
            (id,) = (change.job_id for change in diff.added if change.job_id is not None)
        await s.harness.advance(to=MEETING + 24 * HOUR)
        told = await s.now(id)
        assert (told.state, told.reason) == ends
        shown = (await s.notify.inbox.list(s.recipient)).lines
        assert [line.created_at for line in shown] == ([] if shown_at is None else [shown_at])
    assert sent_at(provider) == mailed_at


async def remind(s: Stage, **options: Any) -> AgendaDiff:
    """State that the recipient is to be reminded a quarter of an hour before the meeting."""
    tell = Tell(
        recipient=s.recipient, template=REMINDER.key, context=TITLE, channels=["email"], urgency="time_bound"
    )
    step = {"key": "15m", "anchor": MEETING, "offset": -15 * MINUTE, "expires_after": 15 * MINUTE}
    async with s.harness.bell.transaction() as tx:
        steps = [await s.notify.step(tx, tell, **{**step, **options})]
        return await s.harness.bell.set_agenda(tx, subject="meeting:1", anchor=MEETING, steps=steps)


@pytest.mark.req("U-12")
@pytest.mark.parametrize("again_at", [EARLY + 30 * SECOND, EARLY + 3 * HOUR, DUE + MINUTE])
@pytest.mark.parametrize("late", ["skip", "run"])
async def test_what_came_early_does_not_come_again_with_its_agenda(
    database_url: TestDatabase, again_at: datetime, late: str
) -> None:
    async with in_berlin(database_url.url, berlin(2026, 1, 14, 12), LONG_NIGHT) as (s, provider):
        await remind(s, late=late)
        await s.harness.advance(to=again_at)
        assert sent_at(provider) == EARLY
        diff = await remind(s, late=late)
        assert [step.key for step in diff.done] == ["15m"]
        await s.harness.advance(to=MEETING + 24 * HOUR)
        assert (await s.notify.inbox.list(s.recipient)).lines == ()
    assert sent_at(provider) == EARLY


@pytest.mark.parametrize(
    ("at", "late", "is_shown"),
    [
        (berlin(2026, 1, 15, 1), {}, True),
        (DUE + MINUTE, {}, False),
        (DUE + MINUTE, {"late": "grace", "grace": MINUTE}, True),
        (DUE + MINUTE, {"late": "grace", "grace": 30 * SECOND}, False),
        (DUE + MINUTE, {"late": "run"}, True),
    ],
)
async def test_a_step_that_should_have_come_early_is_late_from_when_it_is_due(
    database_url: TestDatabase, at: datetime, late: dict[str, Any], is_shown: bool
) -> None:
    """It is stated in the night only, in which the inbox is all that disturbs nobody."""
    async with in_berlin(database_url.url, at, LONG_NIGHT) as (s, provider):
        await remind(s, **late)
        await s.harness.advance(to=MEETING + 24 * HOUR)
        assert len((await s.notify.inbox.list(s.recipient)).lines) == is_shown
    assert provider.parcels == []


@pytest.mark.parametrize(("step", "tell"), [(5, 15), (15, 5), (5, None)])
async def test_a_step_expires_with_what_it_tells(
    database_url: TestDatabase, step: int, tell: int | None
) -> None:
    async with in_berlin(database_url.url, berlin(2026, 1, 14, 12), None) as (s, _):
        asked = Tell(
            recipient=s.recipient,
            template=REMINDER.key,
            context=TITLE,
            expires_at=None if tell is None else DUE + tell * MINUTE,
        )
        async with s.harness.bell.transaction() as tx:
            made = await s.notify.step(tx, asked, key="a", at=DUE, expires_after=step * MINUTE)
    assert datetime.fromisoformat(made.payload["expires_at"]) == DUE + 5 * MINUTE


async def test_who_is_told_of_it_in_the_night_finds_it_in_the_inbox(database_url: TestDatabase) -> None:
    """It was to come early, and the night had begun when it was planned."""
    async with in_berlin(database_url.url, berlin(2026, 1, 15, 1), LONG_NIGHT) as (s, provider):
        id = await s.tell(channels=["email"], urgency="time_bound", due_at=DUE, expires_at=MEETING)
        await s.harness.advance(to=MEETING)
        told = await s.now(id)
        assert (told.state, told.reason) == ("sent", "shown")
        (line,) = (await s.notify.inbox.list(s.recipient)).lines
        assert line.created_at == DUE
    assert provider.parcels == []


async def test_in_time_after_the_night_is_in_time(database_url: TestDatabase) -> None:
    """The night ends at seven and the reminder, due in it, expires at eight."""
    quiet = QuietHours(start=time(22), end=time(7), time_bound="hold")
    async with in_berlin(database_url.url, berlin(2026, 1, 14, 12), quiet) as (s, provider):
        await s.tell(
            channels=["email"], urgency="time_bound", due_at=berlin(2026, 1, 15, 6, 45), expires_at=MEETING
        )
        await s.harness.advance(to=MEETING)
    assert sent_at(provider) == berlin(2026, 1, 15, 7)


async def test_at_0745_it_is_not_night_any_more(database_url: TestDatabase) -> None:
    quiet = QuietHours(start=time(22), end=time(7), time_bound="hold")
    async with in_berlin(database_url.url, berlin(2026, 1, 14, 12), quiet) as (s, provider):
        await s.tell(channels=["email"], urgency="time_bound", due_at=DUE, expires_at=MEETING)
        await s.harness.advance(to=MEETING)
    assert sent_at(provider) == DUE


async def test_quiet_hours_that_are_changed_let_it_go(database_url: TestDatabase) -> None:
    async with in_berlin(database_url.url, berlin(2026, 1, 14, 23)) as (s, provider):
        told = await s.told(channels=["email"])
        await s.harness.advance(HOUR)
        await s.change(quiet_hours=None)
        await s.harness.run_due()
        assert (await s.now(told.id)).state == "sent"
        assert sent_at(provider) == s.clock.now


@pytest.mark.req("U-12")
async def test_the_guard_is_asked_again_after_the_night(database_url: TestDatabase) -> None:
    asked: list[datetime] = []
    clock = ManualClock(berlin(2026, 1, 14, 23))

    async def is_wanted(job: Job) -> bool:
        asked.append(clock.now)
        return len(asked) == 1

    provider = RecordingProvider()
    terms = {"timezone": "Europe/Berlin", "quiet_hours": NIGHT}
    app = App(name="meetings", guards={"meetings.wanted": is_wanted})
    async with stage(database_url.url, [provider], terms=terms, clock=clock, apps=[app]) as s:
        told = await s.told(channels=["email"], guard="meetings.wanted")
        assert told.reason == "held_quiet_hours"
        await s.harness.advance(24 * HOUR)
        told = await s.now(told.id)
        assert (told.state, told.reason) == ("skipped", "guard_refused")
    assert asked == [berlin(2026, 1, 14, 23), berlin(2026, 1, 15, 7)]
    assert provider.parcels == []


async def test_the_inbox_disturbs_nobody(database_url: TestDatabase) -> None:
    async with in_berlin(database_url.url, berlin(2026, 1, 14, 23)) as (s, _):
        assert (await s.told(channels=["inbox"])).state == "sent"


async def test_a_digest_comes_when_it_was_said_to(database_url: TestDatabase) -> None:
    """At six it is night, and that is the instant which was chosen for it."""
    draft = TemplateDraft(
        key="daily", texts=[Text(channel="email", language="en", subject="Daily", body="All")]
    )
    async with in_berlin(database_url.url, berlin(2026, 1, 14, 12)) as (s, provider):
        async with s.harness.bell.transaction() as tx:
            await s.notify.templates.save(tx, draft)
        digest = Digest(key="news", closes="FREQ=DAILY;BYHOUR=6;BYMINUTE=0", template="daily")
        told = await s.told(channels=["email"], digest=digest)
        assert told.reason == "held_digest"
        await s.harness.advance(24 * HOUR)
        assert (await s.now(told.id)).reason == "in_digest"
    assert sent_at(provider) == berlin(2026, 1, 15, 6)
