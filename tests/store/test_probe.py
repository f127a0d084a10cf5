"""What a server is asked about itself is what it would do."""

from __future__ import annotations

from datetime import UTC, datetime

from timebell.db.probe import timezone_offsets
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
