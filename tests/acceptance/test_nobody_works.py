"""Every node is gone, and whoever only serves says so: over HTTP at once, and by an alert when it has lasted."""

from __future__ import annotations

import json
import signal
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import Work
from tests.acceptance.processes import Process, answer, clean_environment, free_port, until
from timebell.testing.database import TestDatabase


def health(process: Process) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{process.port}/health", timeout=10) as reply:
            return int(reply.status), json.load(reply)
    except urllib.error.HTTPError as error:
        with error:
            return int(error.code), json.load(error)


@pytest.mark.slow
@pytest.mark.req("J-12.4", "A-9.1")
def test_who_serves_says_that_nobody_works(
    database_url: TestDatabase, place: Path, processes: list[Process], work: Work
) -> None:
    variables = {
        "DATABASE_URL": database_url.url,
        "TIMEBELL_APPS": "none",
        "TIMEBELL_LEASE_SECONDS": "6",
        "TIMEBELL_LEASE_MARGIN_SECONDS": "1",
        "TIMEBELL_ALERT_SECONDS": "1",
    }
    node = work(**variables)
    port = free_port()
    serve = Process(
        place / "serve", "serve", "--port", port, port=port, environment=clean_environment(**variables)
    )
    processes.append(serve)
    serve.wait_ready()
    until(lambda: health(serve)[0] == 200, 30, "health")
    assert health(serve)[1]["last_pass_at"] is not None
    node.signal(signal.SIGKILL)
    node.popen.wait(10)
    until(lambda: health(serve)[0] == 503, 30, "that nobody makes a pass")
    assert serve.status("/healthz") == 200, "the process itself is well"
    assert health(serve)[1]["status"] == "unhealthy"

    def rules() -> list[str]:
        return [line["rule"] for line in answer("alerts", **variables)["data"]]

    assert rules() == [], "it may be that it is only started again"
    until(lambda: "nobody_works" in rules(), 180, "the alert")
    lines = [
        line for line in serve.log.splitlines() if "an alert has opened" in line and "nobody_works" in line
    ]
    assert len(lines) == 1, "told by who serves, and once"
    other = work(**variables)
    until(lambda: health(serve)[0] == 200, 30, "health")
    until(lambda: rules() == [], 30, "the end of the alert")
    assert other.stop() == 0, other.words
    assert serve.stop() == 0, serve.words
