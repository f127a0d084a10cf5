"""The HTTP interface of real processes: the first key, the lines to paste, both halves of a cluster, and the end."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import Up, Work
from tests.acceptance.processes import Process, answer, clean_environment, command, free_port, until
from timebell.testing.database import TestDatabase

CHOSEN = "a-key-that-an-operator-chose"


def ask(
    process: Process, path: str, key: str, body: Any = None, method: str | None = None
) -> tuple[int, Any]:
    request = urllib.request.Request(
        f"http://127.0.0.1:{process.port}{path}",
        data=None if body is None else json.dumps(body).encode(),
        headers={"authorization": f"Bearer {key}", "content-type": "application/json"},
        method=method,
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def shown_key(process: Process) -> str | None:
    found = re.search(r"shown this once: (\S+)", process.words)
    return None if found is None else found[1]


def test_the_first_key_is_made_and_shown_once(place: Path, up: Up) -> None:
    folder = place / "data"
    first = up(folder)
    key = shown_key(first)
    assert key is not None
    assert ask(first, "/v1/keys", key)[0] == 200
    assert ask(first, "/v1/keys", "tb_live_00000000_wrong")[0] == 401
    assert (folder / "secret_key.json").stat().st_mode & 0o777 == 0o600
    assert first.stop() == 0, first.words
    second = up(folder, TIMEBELL_API_KEY=CHOSEN)
    assert shown_key(second) is None
    assert CHOSEN not in second.words
    for each in (key, CHOSEN):
        assert ask(second, "/v1/keys", each)[0] == 200
    made = answer("keys", "create", "robot", "--scope", "read", "--data", folder)
    assert ask(second, "/v1/tenants", made["key"])[0] == 403
    revoked = answer("keys", "revoke", made["id"], "--data", folder)
    assert revoked["revoked_at"] is not None
    until(lambda: ask(second, "/v1/tenants", made["key"])[0] == 401, 5, "the key's end")
    listed = answer("keys", "list", "--data", folder)["data"]
    assert [each["name"] for each in listed] == ["first key", "TIMEBELL_API_KEY", "robot"]
    assert made["key"] not in json.dumps(listed)


def test_a_chosen_key_that_was_revoked_is_refused_in_one_line(used_folder: Path, up: Up) -> None:
    process = up(used_folder, TIMEBELL_API_KEY=CHOSEN)
    _, listed = ask(process, "/v1/keys", CHOSEN)
    [own] = [each for each in listed["data"] if each["name"] == "TIMEBELL_API_KEY"]
    assert ask(process, f"/v1/keys/{own['id']}", CHOSEN, method="DELETE")[0] == 200
    assert process.stop() == 0, process.words
    refused = command("up", "--data", used_folder, "--port", free_port(), TIMEBELL_API_KEY=CHOSEN)
    assert refused.returncode == 2, refused.stderr
    assert "timebell: api_key: this key was revoked" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert "never awaited" not in refused.stderr


def test_tenants_are_made_by_hand_and_have_keys_of_their_own(used_folder: Path, up: Up) -> None:
    process = up(used_folder, TIMEBELL_API_KEY=CHOSEN)
    assert answer("tenants", "create", "acme", "--name", "Acme", "--data", used_folder)["tenant"] == "acme"
    key = answer("keys", "create", "first", "--tenant", "acme", "--days", 2, "--data", used_folder)
    assert key["expires_at"] is not None
    status, listed = ask(process, "/v1/tenants", key["key"])
    assert (status, [each["tenant"] for each in listed["data"]]) == (200, ["acme"])
    listed = answer("tenants", "list", "--data", used_folder)["data"]
    assert [each["tenant"] for each in listed] == ["acme", "default"]
    given = answer("tenants", "quotas", "acme", "--set", "pending_jobs=7", "--data", used_folder)
    assert {"name": "pending_jobs", "limit": 7, "used": 0, "is_own": True} in given
    assert {"name": "pending_jobs", "limit": 7, "used": 0, "is_own": True} in ask(
        process, "/v1/usage", key["key"]
    )[1]["quotas"]
    back = answer("tenants", "quotas", "acme", "--reset", "pending_jobs", "--data", used_folder)
    assert {"name": "pending_jobs", "limit": 1_000_000, "used": 0, "is_own": False} in back
    unknown = command("keys", "create", "x", "--tenant", "nobody", "--data", used_folder)
    assert (unknown.returncode, "no tenant nobody" in unknown.stderr) == (1, True)


def pasted(process: Process) -> list[str]:
    """The lines that are shown to be pasted, each as a shell reads it."""
    return [line.strip() for line in process.words.splitlines() if re.match(r"  (KEY=|curl )", line)]


def paste(lines: list[str]) -> list[str]:
    """What each line answers, all of them pasted into one shell."""
    script = "\n".join(f"{line}; printf '\\n--\\n'" for line in lines)
    done = subprocess.run(
        ["/bin/sh", "-c", script], capture_output=True, text=True, timeout=60, env=os.environ, check=True
    )
    return [part.strip() for part in done.stdout.split("--\n")][: len(lines)]


def test_the_lines_that_are_shown_work_when_they_are_pasted(place: Path, up: Up) -> None:
    process = up(place / "data")
    lines = pasted(process)
    assert len(lines) == 3
    _, schedule, inbox = paste(lines)
    assert json.loads(schedule)["title"] == "Stretch", schedule
    assert "data" in json.loads(inbox), inbox
    assert process.stop() == 0, process.words


@pytest.mark.slow
def test_what_was_pasted_comes_into_the_inbox(place: Path, up: Up) -> None:
    process = up(place / "data")
    lines = pasted(process)
    paste(lines[:2])
    # The recipient's id is known to that shell alone, so it is asked again here.
    key = shown_key(process)
    assert key is not None
    _, people = ask(process, "/v1/recipients", key)
    again = [lines[0].partition(";")[0] + f"; ME={people['data'][0]['id']}", lines[2]]

    def is_there() -> bool:
        return bool(json.loads(paste(again)[1])["data"])

    until(is_there, 90, "the reminder")


def test_both_halves_of_a_cluster(
    place: Path, processes: list[Process], work: Work, database_url: TestDatabase
) -> None:
    variables = {
        "DATABASE_URL": database_url.url,
        "TIMEBELL_OWNER_URL": database_url.owner_url,
        "TIMEBELL_API_URL": database_url.api_url,
        "TIMEBELL_READ_URL": database_url.read_url,
    }
    assert command("migrate", **variables).returncode == 0
    nodes = []
    for number in range(2):
        port = free_port()
        environment = clean_environment(**variables, TIMEBELL_API_KEY=CHOSEN)
        node = Process(place / f"serve{number}", "serve", "--port", port, port=port, environment=environment)
        processes.append(node)
        nodes.append(node)
    for node in nodes:
        node.wait_ready()
    work(**variables)
    status, made = ask(nodes[0], "/v1/keys", CHOSEN, {"name": "x", "scope": "admin"})
    assert status == 201
    assert ask(nodes[1], "/v1/keys", made["key"])[0] == 200
    assert ask(nodes[0], f"/v1/keys/{made['id']}", CHOSEN, method="DELETE")[0] == 200
    for node in nodes:
        until(lambda node=node: ask(node, "/v1/keys", made["key"])[0] == 401, 5, "the key's end")  # type: ignore[misc]
    for node in nodes:
        assert node.stop() == 0, node.words


def test_open_connections_do_not_hold_up_the_end(used_folder: Path, up: Up) -> None:
    process = up(used_folder, TIMEBELL_API_KEY=CHOSEN)
    idle = socket.create_connection(("127.0.0.1", process.port or 0), timeout=10)
    kept = socket.create_connection(("127.0.0.1", process.port or 0), timeout=10)
    kept.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
    assert kept.recv(100).startswith(b"HTTP/1.1 200")
    half = socket.create_connection(("127.0.0.1", process.port or 0), timeout=10)
    head = f"POST /v1/keys HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {CHOSEN}\r\ncontent-length: 900\r\n\r\n{{"
    half.sendall(head.encode())
    until(lambda: process.status("/healthz") == 200, 5, "an answer beside it")
    began = time.monotonic()
    assert process.stop() == 0, process.words
    assert time.monotonic() - began < 10
    assert "Traceback" not in process.words
    for each in (idle, kept, half):
        each.close()


async def test_requests_while_it_stops_are_answered_or_sent_away(used_folder: Path, up: Up) -> None:
    process = up(used_folder, TIMEBELL_API_KEY=CHOSEN)
    statuses: list[int | None] = []

    async def go_on_asking() -> None:
        while process.popen.poll() is None:
            try:
                found: int | None = (await asyncio.to_thread(ask, process, "/v1/keys", CHOSEN))[0]
            except OSError:
                found = None
            statuses.append(found)

    asking = [asyncio.create_task(go_on_asking()) for _ in range(4)]
    while len(statuses) < 40:
        await asyncio.wait(asking, timeout=0.05)
    process.signal()
    await asyncio.gather(*asking)
    assert process.wait() == 0, process.words
    assert set(statuses) <= {200, 503, None}, set(statuses)
    assert "Traceback" not in process.words
