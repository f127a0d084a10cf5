"""What is asked about notifications from the command line."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest_asyncio

from tests.acceptance.processes import answer, assert_refused, command
from timebell.kernel import Timebell
from timebell.notify import Notify, notify_app
from timebell.notify.models import Tell
from timebell.notify.people.opt_outs import OptOuts
from timebell.notify.people.recipients import Recipients
from timebell.notify.templates.models import TemplateDraft, Text
from timebell.notify.templates.templates import Templates
from timebell.testing import ManualClock, harness
from timebell.testing.database import TestDatabase

NOW = datetime.now(UTC).replace(microsecond=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A database with a recipient, a template and two notifications: one was skipped, one is yet to come."""

    url: str
    recipient: UUID
    skipped: UUID
    pending: UUID

    def ask(self, *arguments: object) -> Any:
        return answer("notifications", *arguments, DATABASE_URL=self.url)

    def show(self, *arguments: object) -> str:
        done = command("notifications", *arguments, DATABASE_URL=self.url)
        assert (done.returncode, done.stderr) == (0, "")
        return " ".join(done.stdout.split())


@pytest_asyncio.fixture
async def told(database_url: TestDatabase) -> AsyncIterator[Told]:
    """The one that is due finds that its recipient does not want it."""
    async with harness(database_url.url, [notify_app()], clock=ManualClock(NOW)) as h:
        recipient = await _recipient(h.bell)
        tell = Tell(recipient=recipient, template="hello", subject="booking:1")
        async with h.bell.transaction() as tx:
            later = Tell(recipient=recipient, template="hello", due_at=NOW + timedelta(days=3))
            skipped, pending = await Notify(h.bell).tell_many(tx, [tell, later])
        await h.run_due()
    yield Told(url=database_url.url, recipient=recipient, skipped=skipped.id, pending=pending.id)


async def _recipient(bell: Timebell) -> UUID:
    text = Text(channel="email", language="en", subject="Hello", body="Hello")
    async with bell.transaction() as tx:
        recipient = await Recipients(bell).add(
            tx, name="Ana", email="ana@example.org", timezone="Europe/Berlin"
        )
        await Templates(bell).save(tx, TemplateDraft(key="hello", texts=[text], topic="news"))
        await OptOuts(bell).add(tx, recipient.id, topic="news")
    return recipient.id


async def test_looking_at_notifications(told: Told) -> None:
    listed = told.ask("list")
    assert [(line["id"], line["state"]) for line in listed["data"]] == [
        (str(told.pending), "pending"),
        (str(told.skipped), "skipped"),
    ]
    assert (listed["has_more"], listed["next_cursor"]) == (False, None)
    for option, value in [("--subject", "booking:1"), ("--state", "skipped")]:
        assert [line["id"] for line in told.ask("list", option, value)["data"]] == [str(told.skipped)]
    assert told.ask("list", "--recipient", uuid4())["data"] == []
    assert told.ask("list", "--tenant", "other")["data"] == []
    shown = told.ask("show", told.skipped)
    assert shown["notification"]["reason"] == "opted_out"
    assert [(one["channel"], one["state"]) for one in shown["deliveries"]] == [("email", "skipped")]
    assert "the recipient does not want this topic" in told.show("show", told.skipped)
    assert told.ask("attention")["data"] == []
    assert told.show("attention") == "Nothing needs attention."


async def test_asking_why(told: Told) -> None:
    """The same words for a person and for a program."""
    explained = told.ask("explain", told.skipped)
    why = "Not by email: the recipient opted out of 'news' on every channel."
    assert explained["summary"] == (
        "It was not told: the recipient does not want this topic on this channel."
    )
    (line,) = [line for line in explained["story"] if line["text"] == why]
    assert (line["name"], line["verdict"], line["reason"]) == ("consent", "refused", "opted_out")
    assert why in told.show("explain", told.skipped)
    asked = told.ask("why-not", told.recipient, "hello")
    assert (asked["answer"], [line["text"] for line in asked["story"]]) == ("not_told", [why])
    assert [each["id"] for each in asked["alike"]] == [str(told.skipped)]
    critical = told.ask("why-not", told.recipient, "hello", "--urgency", "critical")
    assert (critical["answer"], critical["summary"]) == ("told", "Nothing stands in the way.")
    words = told.show("why-not", told.recipient, "hello", "--at", (NOW + timedelta(days=9)).isoformat())
    assert words.startswith("It would not be told: ")
    assert "What there was" not in words


async def test_what_is_refused_in_one_line(told: Told) -> None:
    url = {"DATABASE_URL": told.url}
    assert_refused(command("notifications", "explain", uuid4(), **url), 1, "no notification")
    assert_refused(command("notifications", "show", "42", **url), 2, "42")
    assert_refused(
        command("notifications", "why-not", told.recipient, "hello", "--at", "9:00", **url),
        2,
        "--at",
        "instant",
    )
