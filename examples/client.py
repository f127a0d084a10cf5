"""A weekly report in a sandbox: eight weeks pass, and every reminder is there.

timebell up --sandbox --start 2026-03-01T00:00:00Z
python examples/client.py http://127.0.0.1:8080 KEY
"""

import asyncio
import sys
from datetime import datetime, timedelta

from timebell.client import Client


async def main(url: str, key: str) -> None:
    async with Client(url, key) as client:
        ada = await client.recipients.create(name="Ada", timezone="Europe/Berlin")
        person = client.person(ada.id)
        schedule = await person.schedules.create(
            kind="task",
            title="Submit report",
            tz="Europe/Berlin",
            start_local=datetime(2026, 3, 20, 17, 0),
            rrule="FREQ=WEEKLY;COUNT=3",
            notify_offsets_min=[1440, 180],
        )
        print("planned:", len(schedule.diff.added), "occurrences")

        passed = await client.clock.advance(by=timedelta(weeks=8))
        async for entry in person.inbox.stream(after=0):
            print(f"{entry.due_at:%a %d %b %H:%M} UTC  {entry.title}: {entry.description}")
            if entry.seq == passed.sent:
                break

        async for task in person.tasks.list(completed=False):
            await person.tasks.complete(task.id)
        print("left to do:", len([task async for task in person.tasks.list(completed=False)]))


asyncio.run(main(*sys.argv[1:]))
