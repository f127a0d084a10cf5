"""`/v1/events`: what happened, found by what it was about, by its cause and by its name."""

from __future__ import annotations

import pytest

from tests.web.support import OTHER, Site, problem
from timebell import Timebell


async def record(bell: Timebell, count: int, *, tenant: str = "default") -> None:
    async with bell.transaction(tenant=tenant) as tx:
        for n in range(count):
            await bell.record(
                tx,
                ("guest.came", "guest.left")[n % 2],
                {"n": n},
                subject=f"guest:{n % 3}",
                actor="user:1",
                correlation_id=f"c{n % 4}",
            )


async def numbers(site: Site, query: str, key: str = "read") -> list[int]:
    found: list[int] = []
    cursor = ""
    for _ in range(20):
        response = await site.get(f"/v1/events?limit=2&{query}{cursor}", key=key)
        assert response.status_code == 200, response.text
        page = response.json()
        found += [event["data"]["n"] for event in page["data"] if "n" in event["data"]]
        if not page["has_more"]:
            return found
        cursor = f"&cursor={page['next_cursor']}"
    raise AssertionError("it has no end")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", list(range(8))),
        ("subject=guest:1", [1, 4, 7]),
        ("correlation_id=c3", [3, 7]),
        ("name=guest.left", [1, 3, 5, 7]),
        ("subject=guest:1&name=guest.left", [1, 7]),
        ("subject=guest:1&correlation_id=c3", [7]),
        ("correlation_id=c3&name=guest.came", []),
        ("subject=nobody", []),
    ],
)
async def test_events_are_found_in_either_order(site: Site, query: str, expected: list[int]) -> None:
    await record(site.bell, 8)
    await record(site.bell, 3, tenant=OTHER)
    assert await numbers(site, query) == expected
    assert await numbers(site, f"{query}&sort=-id") == expected[::-1]


async def test_what_an_event_tells(site: Site) -> None:
    await record(site.bell, 1)
    [event] = (await site.get("/v1/events?subject=guest:0", key="read")).json()["data"]
    assert {name: event[name] for name in ("name", "subject", "actor", "data", "correlation_id")} == {
        "name": "guest.came",
        "subject": "guest:0",
        "actor": "user:1",
        "data": {"n": 0},
        "correlation_id": "c0",
    }
    assert event["recorded_at"].endswith("Z")
    assert "tenant" not in event


async def test_what_is_refused(site: Site) -> None:
    for query in ("sort=name", "subject=", "limit=501", "cursor=no", "tenant=other", "name=a&name=b"):
        problem(await site.get(f"/v1/events?{query}"), 422, "invalid_input")
