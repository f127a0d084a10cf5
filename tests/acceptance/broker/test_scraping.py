"""What Prometheus reads from real processes: each role has its page, and each panel of the dashboard something."""

from __future__ import annotations

import json
import re
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.acceptance.broker.test_operating import figures_port
from tests.acceptance.conftest import Up
from tests.acceptance.processes import Process, clean_environment, free_port, until
from tests.ops.figures import RABBITMQ, asked_for, names_on
from tests.ops.test_alerts import rules
from tests.ops.test_dashboard import SCRAPING, expressions
from tests.packages import need_program

__all__ = ["figures_port"]

KEY = "tb_test_0123456789abcdef"
# Figures of what has not happened: nothing failed, was refused, or waits for a broker that is away.
NOT_YET = {"publish_failures_total", "dead_letters_total", "timebell_queue_held"}


def get(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as reply:
        return str(reply.read().decode())


class Roles:
    """`timebell up`, a node and an intake, on one database and one broker."""

    def __init__(self, up: Up, folder: Path, place: Path, processes: list[Process], broker_url: str) -> None:
        self.ports = {
            "timebell-api": up(folder, TIMEBELL_API_KEY=KEY, TIMEBELL_BROKER_URL=broker_url).port or 0
        }
        for job, role in (("timebell-nodes", "work"), ("timebell-intake", "consume")):
            port = free_port()
            process = Process(
                place / role,
                *(role, "--data", folder, "--port", port),
                port=port,
                environment=clean_environment(TIMEBELL_BROKER_URL=broker_url),
            )
            processes.append(process)
            process.wait_ready()
            self.ports[job] = port


def check_pages(roles: Roles) -> None:
    """Each role exports what it counts, and all together what rules and panels ask for."""
    pages = {job: names_on(get(port, "/metrics")) for job, port in roles.ports.items()}
    assert {"jobs_queued_total", "jobs_cancelled_total", "dead_letters_total"} <= pages["timebell-intake"]
    assert {"jobs_due_total", "publish_failures_total", "fire_lag_seconds_bucket"} <= pages["timebell-nodes"]
    for page in pages.values():
        assert {"jobs_pending", "jobs_overdue", "timebell_queue_held", "timebell_database_up"} <= page
    asked = {name for each in (*expressions(), *rules().values()) for name in asked_for(each)}
    assert asked - RABBITMQ <= set().union(*pages.values())


class Prometheus:
    """A real one, with our configuration on other ports."""

    def __init__(self, place: Path, processes: list[Process], ports: dict[str, int], vhost: str) -> None:
        self.port = free_port()
        text = (
            SCRAPING.read_text(encoding="utf-8")
            .replace("15s", "1s")
            .replace('vhost: ["/"]', f'vhost: ["{vhost}"]')
        )
        for job, port in ports.items():
            text = re.sub(rf"(job_name: {job}\n(?:.*\n)*?.*127\.0\.0\.1:)\d+", rf"\g<1>{port}", text)
        (place / "prometheus.yml").write_text(text, encoding="utf-8")
        (place / "alerts.yml").write_text((SCRAPING.parent / "alerts.yml").read_text(encoding="utf-8"))
        arguments = (
            f"--config.file={place / 'prometheus.yml'}",
            f"--storage.tsdb.path={place / 'prometheus'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
        )
        program = (need_program("prometheus"),)
        processes.append(Process(place / "prometheus-notes", *arguments, program=program, port=self.port))

    def ask(self, path: str, **query: str) -> Any:
        try:
            answer = json.loads(get(self.port, f"/api/v1/{path}?{urlencode(query)}"))
        except OSError:
            return None
        assert answer["status"] == "success", answer
        return answer["data"]

    def healths(self) -> dict[str, str]:
        targets = self.ask("targets") or {"activeTargets": []}
        return {each["labels"]["job"]: each["health"] for each in targets["activeTargets"]}


@pytest.mark.slow
@pytest.mark.req("S-6.1", "S-6.3")
def test_a_real_prometheus_has_something_for_every_panel(
    up: Up,
    used_folder: Path,
    place: Path,
    processes: list[Process],
    broker_url: str,
    vhost: str,
    figures_port: int,
) -> None:
    roles = Roles(up, used_folder, place, processes, broker_url)
    check_pages(roles)
    ports = {**roles.ports, "rabbitmq": figures_port, "rabbitmq-queues": figures_port}
    prometheus = Prometheus(place, processes, ports, vhost)
    until(lambda: prometheus.healths() == dict.fromkeys(ports, "up"), 60, "all targets to be up")

    request = urllib.request.Request(
        f"http://127.0.0.1:{roles.ports['timebell-api']}/api/scheduler/jobs",
        json.dumps({"id": "a", "rrule": "FREQ=SECONDLY;COUNT=5"}).encode(),
        {"authorization": f"Bearer {KEY}", "content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=20) as reply:
        assert reply.status == 201

    def due() -> float:
        found = prometheus.ask("query", query="sum(jobs_due_total)")
        return float(found["result"][0]["value"][1]) if found and found["result"] else 0.0

    until(lambda: due() == 5, 30, "five messages")
    wanted = [each for each in expressions() if not asked_for(each) <= NOT_YET]

    def empty() -> list[str]:
        return [each for each in wanted if not prometheus.ask("query", query=each)["result"]]

    with suppress(AssertionError):
        until(lambda: not empty(), 30, "something for every panel")
    assert empty() == []
    loaded = prometheus.ask("rules")["groups"]
    assert {rule["name"]: rule["health"] for group in loaded for rule in group["rules"]} == dict.fromkeys(
        rules(), "ok"
    )
