"""`POST /api/meetings/suggest`: slots inside everybody's hours, and free of what takes anybody's time."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from tests.apps.meetings.support import DAY, HOUR, MINUTE, NOW, START, Json, Office, done, slot
from tests.web.support import problem

PATH = "/api/meetings/suggest"
# The Monday after, and its week.
MONDAY = NOW.replace(hour=0) + 7 * DAY


def at(day: int, hour: float) -> datetime:
    return MONDAY + day * DAY + hour * HOUR


async def suggest(office: Office, **given: Any) -> list[Json]:
    """What Ada is told who wants to meet Bob on that Monday, for an hour."""
    said = {"participants": [str(office.bob)], "duration": "PT1H", "window": slot(MONDAY, DAY), "limit": 100}
    found = done(await office.ask(office.ada, "POST", PATH, {**said, **given}))
    assert (found["next_cursor"], found["has_more"]) == (None, False)
    data: list[Json] = found["data"]
    return data


async def starts(office: Office, **given: Any) -> list[str]:
    return [one["start"] for one in await suggest(office, **given)]


def shown(*instants: datetime) -> list[str]:
    return [instant.isoformat().replace("+00:00", "Z") for instant in instants]


async def block(
    office: Office, person: Any, start: str, end: str, timezone: str = "UTC", day: int = 1
) -> None:
    body = {"day_of_week": day, "start_time": start, "end_time": end, "timezone": timezone}
    done(await office.ask(person, "POST", "/api/availability", body), 201)


@pytest.mark.req("M-7.2")
async def test_slots_are_inside_the_blocks_of_everybody(office: Office) -> None:
    await block(office, office.ada, "09:00", "12:00", "Europe/Berlin")
    await block(office, office.bob, "08:30", "16:00", "Europe/London")
    # Cleo has no blocks, and so no wishes. In UTC it is 8 to 11 and 8:30 to 16.
    found = await suggest(office, participants=[str(office.bob), str(office.cleo)])
    assert found == [
        {"start": start, "end": end}
        for start, end in zip(shown(at(0, 8.5), at(0, 9.5)), shown(at(0, 9.5), at(0, 10.5)), strict=True)
    ]
    await block(office, office.cleo, "09:00", "10:00", "UTC", day=2)
    assert await suggest(office, participants=[str(office.bob), str(office.cleo)]) == []


@pytest.mark.req("M-7.2")
async def test_the_time_in_common_moves_while_only_one_side_has_changed_its_clocks(office: Office) -> None:
    """New York changes on 14 March 2027, Berlin on the 28th."""
    await block(office, office.ada, "14:00", "17:00", "Europe/Berlin")
    await block(office, office.bob, "09:00", "11:00", "America/New_York")
    window = {"start": NOW.isoformat(), "end": (NOW + 35 * DAY).isoformat()}
    found = await starts(office, duration="PT2H", window=window)
    # 13 to 16 and 14 to 16; then 13 to 15; then 12 to 15 and 13 to 15.
    hours = {"03-01": 14, "03-08": 14, "03-15": 13, "03-22": 13, "03-29": 13}
    assert found == [f"2027-{day}T{hour}:00:00Z" for day, hour in hours.items()]
    found = await starts(office, duration="PT3H", window=window)
    assert found == []


@pytest.mark.req("M-7.2", "M-7.3")
async def test_slots_are_free_of_meetings_of_anybody_and_of_nothing_else(office: Office) -> None:
    await block(office, office.ada, "09:00", "13:00")
    assert await starts(office) == shown(*(at(0, hour) for hour in (9, 10, 11, 12)))
    # Bob meets Dan, whom nobody asked for; Cleo and Dan meet without Bob.
    await office.accept(
        (await office.propose(office.dan, participants=[office.bob], proposed_slots=[slot(at(0, 10))]))["id"],
        at=at(0, 10),
    )
    other = await office.propose(office.dan, participants=[office.cleo], proposed_slots=[slot(at(0, 11))])
    await office.accept(other["id"], office.cleo, at=at(0, 11))
    assert await starts(office) == shown(at(0, 9), at(0, 11), at(0, 12))
    # Proposed is not accepted, and cancelled is not any more.
    pending = await office.propose(proposed_slots=[slot(at(0, 9))])
    assert await starts(office) == shown(at(0, 9), at(0, 11), at(0, 12))
    await office.accept(pending["id"], at=at(0, 9))
    assert await starts(office) == shown(at(0, 11), at(0, 12))
    done(await office.transit(office.bob, pending["id"], "cancel", {}))
    assert await starts(office) == shown(at(0, 9), at(0, 11), at(0, 12))


@pytest.mark.req("M-7.2")
async def test_what_is_suggested_can_be_accepted(office: Office) -> None:
    """Until nothing is left: what is suggested and what is accepted is decided in one place."""
    await block(office, office.bob, "09:00", "12:00", "Europe/Berlin")
    for _ in range(3):
        first = (await suggest(office))[0]
        meeting = await office.propose(participants=[office.bob], proposed_slots=[first])
        done(await office.transit(office.bob, meeting["id"], "accept", {"slot": first}))
    assert await suggest(office) == []


@pytest.mark.req("M-7.4")
async def test_what_a_calendar_says_that_was_imported_is_not_free(office: Office) -> None:
    await block(office, office.ada, "09:00", "12:00")
    await office.rows(
        "INSERT INTO meetings.imported_busy (tenant, recipient_id, import_id, during)"
        " SELECT 'default', $1, gen_random_uuid(), tstzrange($2, $3) FROM generate_series(1, 2)",
        office.bob,
        at(0, 9.5),
        at(0, 10.5),
    )
    assert await starts(office) == shown(at(0, 10.5))
    assert await starts(office, duration=30) == shown(at(0, 9), at(0, 10.5), at(0, 11), at(0, 11.5))


async def test_how_many_how_long_and_how_far_apart(office: Office) -> None:
    await block(office, office.ada, "09:00", "12:00")
    assert await starts(office, limit=2) == shown(at(0, 9), at(0, 10))
    assert await starts(office, interval="PT30M") == shown(*(at(0, hour) for hour in (9, 9.5, 10, 10.5, 11)))
    assert await starts(office, duration="PT3H") == shown(at(0, 9))
    assert await starts(office, duration=181) == []
    wanted = {"participants": [str(office.bob)], "duration": 30, "window": slot(MONDAY, DAY)}
    assert len(done(await office.ask(office.ada, "POST", PATH, wanted))["data"]) == 6
    # Without any blocks and without a limit of one's own it is ten.
    wanted["participants"], wanted["window"] = [str(office.cleo)], slot(MONDAY, 14 * DAY)
    assert len(done(await office.ask(office.dan, "POST", PATH, wanted))["data"]) == 10


async def test_nothing_is_suggested_that_has_begun(office: Office) -> None:
    office.clock.move(10 * MINUTE)
    today = slot(NOW - DAY, DAY + 2 * HOUR)
    assert await starts(office, window=today, duration="PT30M") == shown(
        *(NOW + 10 * MINUTE + number * 30 * MINUTE for number in range(3))
    )
    assert await suggest(office, window=slot(NOW - 2 * DAY, DAY)) == []


REFUSED: list[tuple[Json, str]] = [
    ({"participants": []}, "/participants"),
    ({"participants": [str(uuid4())]}, "/participants"),
    ({"duration": "PT4M"}, "/duration"),
    ({"duration": "P2D"}, "/duration"),
    ({"duration": "P1M"}, "/duration"),
    ({"duration": True}, "/duration"),
    ({"duration": -30}, "/duration"),
    ({"interval": 0}, "/interval"),
    ({"limit": 0}, "/limit"),
    ({"limit": 101}, "/limit"),
    ({"window": slot(MONDAY, timedelta(0))}, "/window"),
    ({"window": slot(MONDAY, 93 * DAY)}, ""),
    ({"window": slot(MONDAY + 731 * DAY, DAY)}, "/window"),
    ({"window": {"start": "9999-12-30T00:00:00Z", "end": "9999-12-31T00:00:00Z"}}, "/window"),
    ({"window": {"start": "2027-03-08T00:00:00", "end": "2027-03-09T00:00:00"}}, "/window/start"),
]


async def test_what_cannot_be_wished_for_is_refused(office: Office) -> None:
    for given, pointer in REFUSED:
        said = {"participants": [str(office.bob)], "duration": 60, "window": slot(MONDAY, DAY), **given}
        response = await office.ask(office.ada, "POST", PATH, said)
        errors = problem(response, 422, "invalid_input")["errors"]
        assert errors[0]["pointer"].startswith(pointer), given


async def test_a_key_that_only_reads_may_ask(office: Office) -> None:
    said = {"participants": [str(office.bob)], "duration": 60, "window": slot(START, DAY)}
    response = await office.site.ask("POST", PATH, key="read", actor=office.ada, json=said)
    assert response.status_code == 200
