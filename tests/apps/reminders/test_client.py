"""`timebell.client` for a person: schedules, tasks and the inbox, as they are served."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any, get_type_hints

import pytest

from tests.apps.reminders.support import NOW
from tests.web.support import open_site
from tests.web.test_client import client_of, required_of, schema_of
from timebell.apps.reminders import APP
from timebell.client import Refused, people
from timebell.clock import SandboxClock
from timebell.testing.database import TestDatabase

FRIDAY = datetime(2026, 3, 6, 17)


async def every(lines: AsyncIterator[Any]) -> list[Any]:
    return [line async for line in lines]


@pytest.mark.req("R-6.1")
async def test_a_person_from_the_schedule_to_the_inbox(reminders_database: TestDatabase) -> None:
    async with (
        open_site(reminders_database, apps=(APP,), clock=SandboxClock(NOW)) as site,
        client_of(site) as client,
    ):
        ada = await client.recipients.create(name="Ada", timezone="Europe/Berlin")
        person = client.person(ada.id)
        made = await person.schedules.create(
            kind="task",
            title="Submit report",
            tz="Europe/Berlin",
            start_local=FRIDAY,
            rrule="FREQ=WEEKLY;COUNT=3",
            notify_offsets_min=[60],
        )
        assert len(made.diff.added) == 3
        first, *_ = await every(person.schedules.occurrences(made.id))
        assert first.local == FRIDAY
        tasks = await every(person.tasks.list(visible="all"))
        assert [task.schedule_id for task in tasks] == [made.id] * 3
        await client.clock.advance(by=timedelta(days=7))
        [entry] = await every(person.inbox.list(status="unseen"))
        assert entry.due_at == made.diff.added[0].occurs_at - timedelta(hours=1)
        assert (await person.inbox.mark(entry.id, "seen")).status == "seen"
        changed = await person.schedules.change(made.id, if_revision=1, start_local=FRIDAY.replace(hour=18))
        assert changed.rev == 2
        with pytest.raises(Refused, match="412"):
            await person.schedules.change(made.id, if_revision=1, title="Late")
        second = FRIDAY.replace(day=13, hour=18)
        skipped = await person.schedules.change_occurrence(made.id, second, skip=True)
        assert [each.original_local for each in skipped.diff.withdrawn] == [second]
        assert (await person.tasks.complete(tasks[0].id)).completed_at is not None
        own = await person.tasks.create(title="Buy milk")
        assert (await person.tasks.get(own.id)).title == "Buy milk"
        await person.schedules.delete(made.id)
        assert not (await person.schedules.get(made.id)).active
        assert await every(person.schedules.list(active=True)) == []


async def test_the_records_are_what_is_served(reminders_database: TestDatabase) -> None:
    async with open_site(reminders_database, apps=(APP,)) as site:
        document = (await site.get("/openapi.json", key=None)).json()
    paths = document["paths"]
    one = "/api/schedules/{id}"
    records: list[tuple[dict[str, Any], Any]] = [
        (paths["/api/schedules"]["post"]["responses"]["201"], people.ChangedReminderSchedule),
        (paths[one]["get"]["responses"]["200"], people.ReminderSchedule),
        (paths["/api/tasks"]["post"]["responses"]["201"], people.Task),
    ]
    for part, record in records:
        assert set(record.model_fields) == set(schema_of(document, part)["properties"])
    schemas = document["components"]["schemas"]
    assert set(people.ReminderOccurrence.model_fields) == set(schemas["OccurrenceRow"]["properties"])
    terms: list[tuple[dict[str, Any], Any]] = [
        (paths["/api/schedules"]["post"]["requestBody"], people.NewReminder),
        (paths[one]["patch"]["requestBody"], people.ReminderTerms),
        (paths["/api/tasks"]["post"]["requestBody"], people.NewTask),
    ]
    for part, said in terms:
        body = schema_of(document, part)
        assert set(get_type_hints(said)) == set(body["properties"])
        assert required_of(said) == set(body.get("required", []))
