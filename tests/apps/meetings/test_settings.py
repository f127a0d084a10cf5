"""A tenant that decides anew when people are reminded, while others are at work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import asyncpg
import httpx2

from tests.apps.meetings.support import DAY, START, Office, done, slot

PATH = "/api/meeting-settings"


@dataclass(slots=True)
class Meddler:
    """Does something once, just before a statement of somebody else, and keeps what came of it."""

    name: str
    act: Callable[[], Awaitable[Any]]
    answers: list[Any] = field(default_factory=list)

    async def before(self, name: str) -> None:
        if name == self.name and not self.answers:
            self.answers.append(None)
            self.answers[0] = await self.act()

    async def after(self, name: str) -> None:
        pass


async def change(office: Office, **given: Any) -> httpx2.Response:
    return await office.site.ask("PATCH", PATH, key="admin", json=given)


async def is_held(office: Office, sql: str) -> bool:
    """Whether somebody who wants to change that row would have to wait."""
    try:
        await office.rows(f"{sql} FOR UPDATE NOWAIT")
    except asyncpg.LockNotAvailableError:
        return True
    return False


async def test_of_two_who_change_different_things_neither_undoes_the_other(office: Office) -> None:
    answers = await asyncio.gather(
        change(office, reminder_offsets_min=[30]), change(office, reminder_attempts_max=5)
    )
    assert [answer.status_code for answer in answers] == [200, 200]
    found = done(await office.site.get(PATH))
    assert found == {"reminder_offsets_min": [30], "reminder_attempts_max": 5}


async def test_whoever_changes_them_waits_for_whoever_plans_by_them(office: Office) -> None:
    """Else a meeting that is being accepted is none yet to the job that follows, and keeps what held before."""
    await office.accepted()
    row = await office.propose(proposed_slots=[slot(START + DAY)])
    meddler = Meddler("lock_agenda", lambda: is_held(office, "SELECT FROM meetings.meeting_settings"))
    office.site.surface.bell.database.observer.gate = meddler
    await office.accept(row["id"], at=START + DAY)
    assert meddler.answers == [True]


async def test_they_can_be_changed_while_what_is_on_still_follows_the_last_change(office: Office) -> None:
    id = (await office.accepted())["id"]
    meddler = Meddler("list_accepted", lambda: change(office, reminder_offsets_min=[30]))
    office.bench.bell.database.observer.gate = meddler
    done(await change(office, reminder_offsets_min=[60]))
    await office.bench.run_due()
    done(meddler.answers[0])
    assert {one["reminder_type"] for one in await office.reminders(id, "pending")} == {"30m_before"}


async def test_people_are_held_before_their_meeting_as_where_one_is_erased(office: Office) -> None:
    await office.accepted()
    person = f"SELECT FROM timebell_notify.recipients WHERE id = '{office.bob}'"
    meddler = Meddler("lock_meeting", lambda: is_held(office, person))
    office.bench.bell.database.observer.gate = meddler
    done(await change(office, reminder_offsets_min=[60]))
    await office.bench.run_due()
    assert meddler.answers == [True]
