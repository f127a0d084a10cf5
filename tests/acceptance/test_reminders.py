"""The scenario of the source over HTTP alone, in a sandbox: a weekly task across the change of the clocks in March."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.acceptance.processes import Process, clean_environment, free_port

KEY = "tb_test_0123456789abcdef"
BERLIN = ZoneInfo("Europe/Berlin")
HOURS = (48, 24, 6, 3)


class Server:
    """A sandbox, called as a client of the person does."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.person: str | None = None

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        url = f"http://127.0.0.1:{self.process.port}{path}"
        request = urllib.request.Request(url, data=data, method=method)
        request.add_header("authorization", f"Bearer {KEY}")
        request.add_header("content-type", "application/json")
        if self.person is not None:
            request.add_header("timebell-actor", self.person)
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                text = reply.read()
                return reply.status, json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def good(self, method: str, path: str, body: Any = None) -> Any:
        status, content = self.call(method, path, body)
        assert status in (200, 201, 204), content
        return content

    def all(self, path: str) -> list[dict[str, Any]]:
        """Every page of a list."""
        found: list[dict[str, Any]] = []
        cursor = ""
        for _ in range(100):
            page = self.good("GET", f"{path}{'&' if '?' in path else '?'}limit=100{cursor}")
            found += page["data"]
            if not page["has_more"]:
                return found
            cursor = f"&cursor={page['next_cursor']}"
        raise AssertionError("a list without an end")

    def told(self) -> list[tuple[int, datetime]]:
        return [
            (line["payload"]["offset_minutes"], datetime.fromisoformat(line["due_at"]))
            for line in self.all("/api/notifications")
        ]

    @property
    def now(self) -> datetime:
        return datetime.fromisoformat(self.good("GET", "/v1/clock")["now"])


@pytest.fixture
def server(place: Path, processes: list[Process]) -> Server:
    port = free_port()
    started = Process(
        place / "sandbox",
        *("up", "--sandbox", "--start", "2026-03-01T00:00:00Z", "--port", port, "--data", place / "data"),
        port=port,
        environment=clean_environment(TIMEBELL_API_KEY=KEY, TMPDIR=str(place)),
    )
    processes.append(started)
    started.wait_ready()
    return Server(started)


def owed(first: datetime, weeks: int, until: datetime) -> list[tuple[int, datetime]]:
    """What the person is told until an instant, from the wall clock of the place alone."""
    fridays = [(first + timedelta(weeks=n)).replace(tzinfo=BERLIN).astimezone(UTC) for n in range(weeks)]
    dues = [(hours * 60, friday - timedelta(hours=hours)) for friday in fridays for hours in HOURS]
    return [due for due in dues if due[1] <= until]


@pytest.mark.req("R-7.3", "R-6.2", "R-6.3")
def test_a_weekly_task_across_the_change_of_the_clocks(server: Server) -> None:
    server.person = server.good("POST", "/v1/recipients", {"name": "Ada", "timezone": "Europe/Berlin"})["id"]
    made = server.good(
        "POST",
        "/api/schedules",
        {
            "kind": "task",
            "title": "Submit report",
            "tz": "Europe/Berlin",
            "start_local": "2026-03-06T17:00:00",
            "rrule": "FREQ=WEEKLY",
            "muted_offsets_min": [720],
        },
    )
    path = f"/api/schedules/{made['id']}"
    server.good("POST", "/v1/clock/advance", {"by": "PT1344H"})
    assert server.told() == owed(datetime(2026, 3, 6, 17), 12, server.now)
    assert len(server.told()) == 32

    changed = server.good("PATCH", path, {"start_local": "2026-03-06T18:30:00"})
    assert changed["rev"] == 2
    assert changed["diff"]["added"]
    server.good("POST", "/v1/clock/advance", {"by": "PT336H"})
    told = server.told()
    assert told[32:] == [
        due
        for due in owed(datetime(2026, 3, 6, 18, 30), 12, server.now)
        if due[1] > told[31][1] + timedelta(days=1)
    ]
    assert max(Counter(told).values()) == 1
    tasks = server.all("/api/tasks?visible=all")
    ahead = {one["id"]: one["occurs_at"] for one in server.all(f"{path}/occurrences")}
    to_come = [task for task in tasks if datetime.fromisoformat(task["due_at"]) >= server.now]
    assert {task["occurrence_id"]: task["due_at"] for task in to_come} == ahead
    assert len(to_come) == len(ahead)

    assert server.call("DELETE", path) == (204, None)
    assert server.good("GET", path)["active"] is False
    server.good("POST", "/v1/clock/advance", {"by": "PT1344H"})
    assert server.told() == told
