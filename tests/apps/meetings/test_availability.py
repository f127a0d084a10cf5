"""`/api/availability`: the hours in which a person may be met, with the names of the source."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from tests.apps.meetings.support import Json, Office, done
from tests.web.support import problem
from timebell.apps.meetings.availability import BLOCKS_MAX

PATH = "/api/availability"
MORNING: Json = {"day_of_week": 1, "start_time": "09:00", "end_time": "12:00", "timezone": "Europe/Berlin"}


async def add(office: Office, **given: Any) -> Json:
    return done(await office.ask(office.ada, "POST", PATH, {**MORNING, **given}), 201)


@pytest.mark.req("M-7.1", "D-3.4")
async def test_a_block_is_kept_as_it_was_given(office: Office) -> None:
    row = await add(office)
    assert row | MORNING == row
    assert row["user_id"] == str(office.ada)
    assert (row["is_recurring"], row["valid_from"], row["valid_until"]) == (True, None, None)
    given = {
        "day_of_week": 0,
        "start_time": "22:30:15",
        "end_time": "24:00",
        "timezone": "Asia/Kolkata",
        "is_recurring": False,
        "valid_from": "2027-03-08",
        "valid_until": "2027-03-20",
    }
    other = await add(office, **given)
    assert other | given == other
    assert done(await office.ask(office.ada, "GET", f"{PATH}/{other['id']}")) == other
    assert await office.data(PATH) == [row, other]
    page = done(await office.ask(office.ada, "GET", PATH, params={"limit": 1}))
    assert (page["data"], page["has_more"]) == ([row], True)
    columns = await office.rows(
        "SELECT column_name FROM information_schema.columns WHERE table_name = 'meeting_availability_blocks'"
    )
    named = "id user_id day_of_week start_time end_time timezone is_recurring valid_from valid_until"
    assert set(named.split()) <= {column[0] for column in columns}


REFUSED: list[tuple[Json, str, str]] = [
    ({"day_of_week": 7}, "/day_of_week", ""),
    ({"day_of_week": -1}, "/day_of_week", ""),
    ({"end_time": "09:00"}, "/end_time", "after start_time"),
    ({"start_time": "22:00", "end_time": "02:00"}, "/end_time", "two blocks"),
    ({"start_time": "24:00", "end_time": "24:00"}, "/end_time", "after start_time"),
    ({"start_time": "9:00"}, "/start_time", "09:00"),
    ({"end_time": "12:00Z"}, "/end_time", "09:00"),
    ({"end_time": "24:01"}, "/end_time", "09:00"),
    ({"timezone": "Europe/Atlantis"}, "/timezone", "Atlantis"),
    ({"is_recurring": False}, "/valid_from", "is_recurring"),
    ({"valid_from": "2027-03-09", "valid_until": "2027-03-08"}, "/valid_until", "before"),
    ({"valid_from": "2027-13-01"}, "/valid_from", ""),
    ({"valid_until": "9999-12-31"}, "/valid_until", ""),
    (
        {"is_recurring": False, "valid_from": "2027-03-09", "valid_until": "2027-03-14"},
        "/valid_until",
        "weekday",
    ),
]


@pytest.mark.req("M-7.1", "X-M16")
async def test_a_block_that_would_never_be_is_refused(office: Office) -> None:
    for given, pointer, says in REFUSED:
        response = await office.ask(office.ada, "POST", PATH, {**MORNING, **given})
        assert response.status_code == 422, given
        (error,) = response.json()["errors"]
        assert error["pointer"] == pointer, given
        assert says in error["message"]
    assert await office.data(PATH) == []


@pytest.mark.req("M-7.1")
async def test_the_database_refuses_it_too(office: Office) -> None:
    await add(office, valid_from="2027-03-01", valid_until="2027-03-08")
    changes = (
        "day_of_week = 7",
        "end_time = '09:00'",
        "is_recurring = false, valid_from = NULL",
        "valid_until = '1999-01-01'",
    )
    for change in changes:
        with pytest.raises(asyncpg.CheckViolationError):
            await office.rows(f"UPDATE meetings.meeting_availability_blocks SET {change}")


@pytest.mark.req("M-7.1")
async def test_a_block_is_changed_and_deleted(office: Office) -> None:
    row = await add(office, valid_until="2027-12-31")
    path = f"{PATH}/{row['id']}"
    response = await office.ask(office.ada, "PATCH", path, {"end_time": "13:00", "valid_until": None})
    assert response.headers["etag"] == '"rev-2"'
    changed = done(response)
    assert changed == {**row, "end_time": "13:00", "valid_until": None, "updated_at": changed["updated_at"]}
    # What is left is looked at as a whole.
    refused = await office.ask(office.ada, "PATCH", path, {"start_time": "13:00"})
    assert problem(refused, 422, "invalid_input")["errors"][0]["pointer"] == "/end_time"
    refused = await office.ask(office.ada, "PATCH", path, {"timezone": None})
    problem(refused, 422, "invalid_input")
    stale = await office.ask(office.ada, "PATCH", path, {"day_of_week": 2}, headers={"if-match": '"rev-1"'})
    problem(stale, 412, "revision_conflict")
    assert done(await office.ask(office.ada, "GET", path)) == changed
    assert (await office.ask(office.ada, "DELETE", path)).status_code == 204
    problem(await office.ask(office.ada, "GET", path), 404, "not_found")
    names = await office.rows(
        "SELECT name FROM timebell.events WHERE subject LIKE 'availability:%' ORDER BY id"
    )
    assert [name[0] for name in names] == [
        "availability.added",
        "availability.edited",
        "availability.removed",
    ]


@pytest.mark.req("M-7.1")
async def test_a_block_is_its_owners(office: Office) -> None:
    row = await add(office)
    path = f"{PATH}/{row['id']}"
    assert await office.data(PATH, office.bob) == []
    for method, body in (("GET", None), ("PATCH", {"day_of_week": 2}), ("DELETE", None)):
        problem(await office.ask(office.bob, method, path, body), 404, "not_found")
        problem(await office.ask(office.ada, method, f"{PATH}/{uuid4()}", body), 404, "not_found")
    assert await office.data(PATH) == [row]


async def test_nobody_has_more_blocks_than_can_be_looked_at(office: Office) -> None:
    await office.rows(
        "INSERT INTO meetings.meeting_availability_blocks (tenant, id, user_id, day_of_week, start_time, end_time,"
        " timezone, created_at, updated_at) SELECT 'default', gen_random_uuid(), $1, 1, '09:00', '10:00', 'UTC', now(),"
        " now() FROM generate_series(1, $2)",
        office.ada,
        BLOCKS_MAX,
    )
    response = await office.ask(office.ada, "POST", PATH, MORNING)
    assert str(BLOCKS_MAX) in problem(response, 422, "invalid_input")["detail"]
    done(await office.ask(office.bob, "POST", PATH, MORNING), 201)


async def test_a_person_who_is_erased_leaves_no_hours_and_no_number(office: Office) -> None:
    meeting = await office.accepted()
    done(await office.ask(office.bob, "POST", PATH, MORNING), 201)
    async with office.bench.bell.transaction() as tx:
        await office.notify.recipients.erase(tx, office.bob)
    for table, column in (
        ("meeting_availability_blocks", "user_id"),
        ("busy", "recipient_id"),
        ("people", "recipient_id"),
    ):
        assert await office.rows(f"SELECT FROM meetings.{table} WHERE {column} = $1", office.bob) == []
    left = await office.rows("SELECT recipient_id FROM meetings.busy WHERE meeting_id = $1", meeting["id"])
    assert {row[0] for row in left} == {office.ada, office.cleo}
