"""What calendar programs make of the mails about meetings, with a parser that is not ours."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from icalendar import Calendar

from tests.apps.meetings.support import Office, done, open_office
from timebell.notify import Provider
from timebell.providers.log import captured_providers
from timebell.testing.database import TestDatabase

PUBLIC_URL = "https://bell.example.org"
PAGE = {"accept": "text/html"}
PEOPLE = {
    "Ada": {"email": "ada@example.org", "timezone": "Europe/Berlin"},
    "Bob": {"email": "bob@example.org", "language": "de", "timezone": "Asia/Kolkata"},
    "Cleo": {"email": "cleo@example.org"},
}


@asynccontextmanager
async def open_post(
    database: TestDatabase, providers: Sequence[Provider] | None = None, **settings: Any
) -> AsyncIterator[Office]:
    """An office whose mail is captured, unless it leaves through something else. Dan has no address."""
    through = captured_providers() if providers is None else providers
    chosen = {"public_url": PUBLIC_URL, **settings}
    async with open_office(database, through, people=PEOPLE, **chosen) as office:
        yield office


async def mails(office: Office, person: UUID) -> list[dict[str, Any]]:
    """What would have left for a person, the oldest first."""
    await office.bench.run_due()
    found = await office.site.get(
        "/v1/outbox", key="read", params={"recipient_id": str(person), "channel": "email", "limit": 500}
    )
    lines: list[dict[str, Any]] = done(found)["data"]
    return lines


async def invitations(office: Office, person: UUID) -> list[str]:
    """The calendar parts of those, in the order in which they count: mails that are due at once overtake each other."""
    texts = [
        mail["content"]["calendar"] for mail in await mails(office, person) if "calendar" in mail["content"]
    ]
    return sorted(texts, key=lambda text: int(parsed(text)[1][0]["SEQUENCE"]))


async def answer_path(office: Office, person: UUID) -> str:
    """Where the link leads that was mailed last."""
    links = [
        word
        for mail in await mails(office, person)
        for word in mail["body"].split()
        if word.startswith(f"{PUBLIC_URL}/r/")
    ]
    path: str = urlsplit(links[-1]).path
    return path


def parsed(text: str) -> tuple[str | None, list[Any]]:
    """What a file asks for, and its entries, which have whatever members the parser gives them."""
    calendar: Any = Calendar.from_ical(text)
    method = calendar.get("METHOD")
    return None if method is None else str(method), calendar.walk("VEVENT")


@dataclass(slots=True)
class Program:
    """A calendar program that does as RFC 5546 says: one entry for each UID, of which the newest message counts."""

    entries: dict[str, Any] = field(default_factory=dict)
    sequences: dict[str, int] = field(default_factory=dict)

    def take(self, text: str) -> None:
        method, (event,) = parsed(text)
        uid, sequence = str(event["UID"]), int(event["SEQUENCE"])
        if sequence <= self.sequences.get(uid, -1):
            return
        self.sequences[uid] = sequence
        match method:
            case "REQUEST":
                self.entries[uid] = event
            case "CANCEL":
                self.entries.pop(uid, None)
            case _:
                raise AssertionError(method)
