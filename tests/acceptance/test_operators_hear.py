"""Prometheus, the broker and the mail are away one after the other, and an operator hears of what is wrong anyway.

Everything is real: one `timebell up`, a broker and a Prometheus of the test's own, and a server that takes mail.
"""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Callable
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.broker.rabbit import own_rabbit
from tests.acceptance.broker.test_scraping import Prometheus
from tests.acceptance.conftest import Up
from tests.acceptance.processes import Process, answer, until
from tests.contract.brokers.rabbit_server import RabbitServer
from tests.contract.providers.mail_server import MailServer, mail_server

KEY = "tb_test_0123456789abcdef"
SECONDS_MAX = 240
# As many as are borne, and one.
COUNT = 101
APP = """
import pathlib
from datetime import timedelta
from timebell import App, Handler

MENDED = pathlib.Path(__file__).with_name("mended")

async def ring(job):
    if not MENDED.exists():
        raise RuntimeError("the bell is broken")

app = App(name="dying", handlers={"dying.ring": Handler(run=ring)})
"""
SETTINGS = """
[[providers]]
kind = "smtp"
name = "mail"
host = "127.0.0.1"
port = {port}
security = "none"
sender = "bell@example.org"
"""


def call(port: int, method: str, path: str, body: Any = None) -> Any:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}",
        None if body is None else json.dumps(body).encode(),
        {"authorization": f"Bearer {KEY}", "content-type": "application/json"},
        method=method,
    )
    with urllib.request.urlopen(request, timeout=20) as reply:
        return json.load(reply)


class Scene:
    """A Timebell that an operator may hear of, and what it depends on."""

    def __init__(self, place: Path, folder: Path, mail: MailServer, rabbit: RabbitServer) -> None:
        self.place, self.folder, self.mail, self.rabbit = place, folder, mail, rabbit
        self.process: Process | None = None
        self.port = 0
        (place / "dying.py").write_text(APP)

    def start(self, up: Up) -> None:
        """Twice, since only then is it known who is to be told."""
        (self.place / "bell.toml").write_text(SETTINGS.format(port=self.mail.port))
        variables: Any = {
            "TIMEBELL_CONFIG": str(self.place / "bell.toml"),
            "TIMEBELL_APPS": "timebell.apps.scheduler,dying",
            "TIMEBELL_API_KEY": KEY,
            "TIMEBELL_ALERT_SECONDS": "1",
            "TIMEBELL_BROKER_URL": self.rabbit.url(),
        }
        first = up(self.folder, **variables)
        made = call(first.port or 0, "POST", "/v1/recipients", {"name": "Ada", "email": "ada@example.org"})
        self.operator = made["id"]
        assert first.stop() == 0, first.words
        self.process = up(self.folder, TIMEBELL_OPERATIONS_RECIPIENTS=made["id"], **variables)
        self.port = self.process.port or 0

    def kill_jobs(self) -> None:
        jobs = [{"kind": "dying.ring", "max_attempts": 1} for _ in range(COUNT)]
        call(self.port, "POST", "/v1/jobs/bulk", {"jobs": jobs})

    def mend(self) -> None:
        (self.place / "mended").touch()
        answer("jobs", "revive", "--kind", "dying.ring", "--data", self.folder, "--limit", 500)

    def subjects(self) -> list[str]:
        mails = [
            message_from_bytes(mail.original_content or b"", policy=policy.default)
            for mail in self.mail.mails
        ]
        return [str(mail["subject"]) for mail in mails]

    def open(self) -> list[str]:
        return [line["rule"] for line in answer("alerts", "--data", self.folder)["data"]]

    async def wait(self, condition: Callable[[], bool], what: str) -> None:
        """The mail is taken by this process, so that it must not stand still meanwhile."""
        await asyncio.to_thread(until, condition, SECONDS_MAX, what)

    async def hear(self, subject: str) -> None:
        await self.wait(lambda: subject in self.subjects(), f"{subject!r} among {self.subjects()}")


async def without_prometheus(scene: Scene) -> None:
    """It has not been started yet."""
    scene.kill_jobs()
    await scene.hear("Critical: many_dead_jobs")
    assert "many_dead_jobs" in await asyncio.to_thread(scene.open)
    await asyncio.to_thread(scene.mend)
    await scene.hear("Closed: many_dead_jobs")


async def without_broker(scene: Scene) -> None:
    await asyncio.to_thread(scene.rabbit.kill)
    await scene.hear("Critical: broker_away (queue:broker)")
    assert "broker_away" in await asyncio.to_thread(scene.open)
    await asyncio.to_thread(scene.rabbit.start)
    await scene.hear("Closed: broker_away")


async def without_mail(scene: Scene, prometheus: Prometheus) -> None:
    """Nothing takes mail: the list, the log, the inbox and Prometheus have it, and the mail leaves when it can."""
    assert scene.process is not None
    process, told = scene.process, len(scene.mail.mails)
    (scene.place / "mended").unlink()
    await asyncio.to_thread(scene.kill_jobs)
    await scene.wait(lambda: "many_dead_jobs" in scene.open(), "the alert in the list")
    lines = [line for line in process.log.splitlines() if "an alert has opened" in line]
    [line] = [line for line in lines if "many_dead_jobs" in line][1:]
    assert "timebell jobs revive" in line

    def firing() -> set[str]:
        found = prometheus.ask("alerts") or {"alerts": []}
        return {each["labels"]["alertname"] for each in found["alerts"] if each["state"] == "firing"}

    await scene.wait(lambda: "TimebellManyDeadJobs" in firing(), "Prometheus")
    rows = await asyncio.to_thread(inbox, scene)
    assert rows.count("Critical: many_dead_jobs") == 2
    assert len(scene.mail.mails) == told


def inbox(scene: Scene) -> list[str]:
    request = urllib.request.Request(
        f"http://127.0.0.1:{scene.port}/v1/inbox",
        headers={"authorization": f"Bearer {KEY}", "timebell-actor": scene.operator},
    )
    with urllib.request.urlopen(request, timeout=20) as reply:
        return [row["title"] for row in json.load(reply)["data"]]


@pytest.mark.slow
@pytest.mark.req("J-12.2", "J-13.5")
async def test_an_operator_hears_whatever_is_away(
    up: Up, used_folder: Path, place: Path, processes: list[Process]
) -> None:
    with own_rabbit(place) as rabbit:
        await asyncio.to_thread(rabbit.wait)
        async with mail_server() as mail:
            scene = Scene(place, used_folder, mail, rabbit)
            await asyncio.to_thread(scene.start, up)
            await without_prometheus(scene)
            await without_broker(scene)
            ports = dict.fromkeys(("timebell-api", "timebell-nodes", "timebell-intake"), scene.port)
            prometheus = Prometheus(place, processes, ports, "/")
        await without_mail(scene, prometheus)
        before = len(mail.mails)
        async with mail_server(port=mail.port, server=mail):
            await scene.wait(lambda: len(mail.mails) > before, "the mail that waited")
            assert scene.subjects().count("Critical: many_dead_jobs") == 2
        assert scene.process is not None
        assert await asyncio.to_thread(scene.process.stop) == 0, scene.process.words
