"""What a server is asked about itself is what it would do."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from timebell.cli.doctor import _wall
from timebell.config import Settings
from timebell.db.probe import WallFacts, timezone_offsets, wall_of
from timebell.server import Place
from timebell.testing.database import TestDatabase


async def test_the_clocks_of_the_server(database_url: TestDatabase) -> None:
    moments = [datetime(2026, month, 1, tzinfo=UTC) for month in (1, 7)]
    names = ["Europe/Berlin", "Asia/Kathmandu", "America/St_Johns", "Mars/Olympus"]
    assert await timezone_offsets(database_url.url, names, moments) == {
        "Europe/Berlin": [3600, 7200],
        "Asia/Kathmandu": [20_700, 20_700],
        "America/St_Johns": [-12_600, -9_000],
    }
    assert await timezone_offsets(database_url.url, [], moments) == {}


@pytest.mark.parametrize(
    ("url", "role", "is_walled"),
    [
        ("api_url", "timebell_api", True),
        ("url", "timebell", False),
        ("read_url", "timebell_read", False),
        ("owner_url", "timebell_owner", False),
        ("admin_url", "postgres", False),
    ],
)
async def test_who_is_behind_the_wall(
    database_url: TestDatabase, url: str, role: str, is_walled: bool
) -> None:
    found = await wall_of(getattr(database_url, url), "timebell.jobs")
    assert found == WallFacts(role=role, may_read=True, is_walled=is_walled)


async def test_a_table_that_is_not_there_has_no_wall(empty_database: TestDatabase) -> None:
    found = await wall_of(empty_database.api_url, "timebell.jobs")
    assert found == WallFacts(role="timebell_api", may_read=False, is_walled=False)


async def test_the_doctor_looks_at_the_wall(database_url: TestDatabase, empty_database: TestDatabase) -> None:
    async def verdict(api_url: str | None) -> tuple[str, str]:
        place = Place(url=database_url.url, owner_url=database_url.owner_url, api_url=api_url)
        finding = await _wall(place, Settings(connect_seconds=2.0))
        assert finding.verdict == "ok" or finding.remedy
        return finding.verdict, finding.found

    assert await verdict(database_url.api_url) == ("ok", "timebell_api sees one tenant at a time")
    assert (await verdict(None))[0] == "warn"
    assert await verdict(database_url.admin_url) == ("fail", "postgres is not held to one tenant")
    assert await verdict(empty_database.api_url) == ("fail", "timebell_api may not read the jobs")
    assert (await verdict("postgresql://nobody@127.0.0.1:1/none"))[0] == "fail"
