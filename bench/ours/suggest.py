"""Suggesting: how often in a second one process finds out when ten people can meet, over HTTP.

Everything is made by requests before: each person has availability for the whole week, in one of three timezones, and
meetings with one other on every working day of four weeks. Those of the pairs follow upon one another, so that little
is left that suits all.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, time, timedelta
from itertools import islice
from pathlib import Path
from typing import Any, Final

import httpx2

from bench.ours.http_load import send_all
from bench.ours.serving import OURS, measured, post, server, settings_of
from timebell.bench.bars import beside_bars
from timebell.bench.ground import throwaway
from timebell.errors import TimebellError
from timebell.loading import load_apps

APP: Final = "timebell.apps.meetings"
PEOPLE: Final = 10
WEEKS: Final = 4
MEETINGS_MAX: Final = 500
_TIMEZONES: Final = ("Europe/Berlin", "Europe/London", "Europe/Athens")
_STRETCHES: Final = (("08:00", "10:30"), ("10:30", "12:00"), ("12:00", "14:15"), ("14:15", "19:00"))
_WORKDAYS: Final = 5
_DAILY: Final = 5
_MEETING: Final = timedelta(minutes=15)
_ROUND: Final = timedelta(minutes=80)
_BETWEEN_PAIRS: Final = timedelta(minutes=15)
_AT_ONCE: Final = 8
_WARM_UP: Final = 50


async def suggest(
    *, requests: int, connections: int, meetings: int, data: Path | None = None
) -> dict[str, Any]:
    key = secrets.token_hex(16)
    async with (
        throwaway(data, load_apps([APP])) as ground,
        server(OURS, settings_of(ground, key, APP), "/readyz") as served,
        _asking(served.port, key) as ask,
    ):
        made = [await ask("/v1/recipients", {"name": f"Person {number}"}) for number in range(PEOPLE)]
        people = [person["id"] for person in made]
        monday = _monday_after(datetime.fromisoformat(made[0]["created_at"]))
        blocks = await _all(ask("/api/availability", body, actor) for actor, body in _blocks(people))
        planned = islice(_meetings(people, monday), meetings)
        accepted = await _all(_meet(ask, *pair, slot) for pair, slot in planned)
        window = {"start": _shown(monday), "end": _shown(monday + timedelta(weeks=WEEKS))}
        wish = {"participants": people[1:], "duration": "PT30M", "window": window}
        found = (await ask("/api/meetings/suggest", wish, people[0]))["data"]
        if not found:
            raise TimebellError("bench: nothing was suggested, so nothing is measured")
        headers = {"authorization": f"Bearer {key}", "timebell-actor": people[0]}
        request = post(served.port, "/api/meetings/suggest", wish, headers)
        await send_all(served.port, request, min(requests, _WARM_UP), connections)
        cost = await measured(ground, served, request, requests, connections)
    result = {
        "bench": "suggest",
        "people": PEOPLE,
        "weeks": WEEKS,
        "blocks": blocks,
        "meetings": accepted,
        "requests": requests,
        "connections": connections,
        "found": len(found),
        "timebell": {**cost.per_job(requests), "per_s": round(requests / cost.seconds, 1)},
    }
    return {**result, "bars": beside_bars(result)}


class _Ask:
    """Sends what makes the ground ready, and wants it done."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http

    async def __call__(self, path: str, body: Mapping[str, Any], actor: str | None = None) -> Any:
        headers = {"idempotency-key": secrets.token_hex(16)}
        if actor is not None:
            headers["timebell-actor"] = actor
        response = await self._http.post(path, json=body, headers=headers)
        if response.status_code not in (200, 201):
            raise TimebellError(f"bench: {path} was refused: {response.text[:500]}")
        return response.json()


@asynccontextmanager
async def _asking(port: int, key: str) -> AsyncIterator[_Ask]:
    headers = {"authorization": f"Bearer {key}"}
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60.0) as http:
        yield _Ask(http)


async def _meet(ask: _Ask, one: str, other: str, slot: Mapping[str, str]) -> None:
    proposed = {"title": "Talk", "participants": [other], "timezone": "UTC", "proposed_slots": [slot]}
    meeting = await ask("/api/meetings", proposed, one)
    await ask(f"/api/meetings/{meeting['id']}/accept", {"slot": slot}, other)


async def _all(given: Iterator[Awaitable[Any]]) -> int:
    """A few at a time; how many there were."""
    places = asyncio.Semaphore(_AT_ONCE)

    async def one(work: Awaitable[Any]) -> None:
        async with places:
            await work

    return len(await asyncio.gather(*(one(work) for work in given)))


def _blocks(people: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, person in enumerate(people):
        for day in range(1, _WORKDAYS + 1):
            for start, end in _STRETCHES:
                yield (
                    person,
                    {
                        "day_of_week": day,
                        "start_time": start,
                        "end_time": end,
                        "timezone": _TIMEZONES[number % len(_TIMEZONES)],
                    },
                )


def _meetings(people: Sequence[str], monday: datetime) -> Iterator[tuple[tuple[str, str], dict[str, str]]]:
    """Five a day for each pair, those of the next pair a quarter of an hour later."""
    pairs = list(zip(people[::2], people[1::2], strict=True))
    for day in (timedelta(days=7 * week + day) for week in range(WEEKS) for day in range(_WORKDAYS)):
        for number, pair in enumerate(pairs):
            for turn in range(_DAILY):
                start = monday + day + timedelta(hours=8) + turn * _ROUND + number * _BETWEEN_PAIRS
                yield pair, {"start": _shown(start), "end": _shown(start + _MEETING)}


def _monday_after(now: datetime) -> datetime:
    """One that is to come, and the day after tomorrow at the earliest."""
    day = (now + timedelta(days=2)).date()
    return datetime.combine(day + timedelta(days=-day.weekday() % 7), time(), UTC)


def _shown(instant: datetime) -> str:
    return instant.isoformat()
