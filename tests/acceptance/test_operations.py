"""What an operator does with real processes: reads their metrics, takes a backup, moves to another place."""

from __future__ import annotations

import urllib.request
from pathlib import Path

import pytest

from tests.acceptance.conftest import Up
from tests.acceptance.processes import Process, answer, assert_refused, command, free_port
from timebell.testing.database import TestDatabase


def page(process: Process) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{process.port}/metrics", timeout=10) as reply:
        assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
        return str(reply.read().decode())


@pytest.mark.req("U-16", "S-6.3")
def test_a_process_and_a_node_tell_what_they_have_counted(
    used_folder: Path, up: Up, place: Path, processes: list[Process]
) -> None:
    first = up(used_folder)
    answer("check", "--jobs", 20, "--seconds", 1, "--data", used_folder)
    told = page(first)
    assert 'timebell_jobs_settled_total{outcome="done",queue="timebell.check"} 20.0' in told
    assert "timebell_nodes 1.0" in told
    port = free_port()
    node = Process(place / "node", "work", "--data", used_folder, "--port", port, port=port)
    processes.append(node)
    node.wait_ready()
    assert "timebell_loop_up" in page(node)
    assert node.status("/v1/keys") == 404
    assert node.stop() == 0, node.words


@pytest.mark.slow
def test_everything_moves_from_the_embedded_server_to_another(
    used_folder: Path, up: Up, place: Path, empty_database: TestDatabase
) -> None:
    process = up(used_folder)
    answer("check", "--jobs", 20, "--seconds", 1, "--data", used_folder)
    assert process.stop() == 0, process.words
    file = place / "all.zip"
    written = answer("backup", file, "--data", used_folder)
    variables = {
        "DATABASE_URL": empty_database.url,
        "TIMEBELL_OWNER_URL": empty_database.owner_url,
        "TIMEBELL_API_URL": empty_database.api_url,
        "TIMEBELL_READ_URL": empty_database.read_url,
    }
    restored = answer("restore", file, "--due", "run", **variables)
    assert (restored["backup"], restored["held_queues"]) == (written, [])
    finished = answer("jobs", "list", "--state", "finished", "--tenant", "timebell", **variables)["data"]
    assert len(finished) == 20
    assert_refused(command("restore", file, **variables), 2, "restore into one that is empty")


@pytest.mark.slow
def test_a_restored_folder_starts_nothing_until_it_is_let_go(used_folder: Path, up: Up, place: Path) -> None:
    file, folder = place / "all.zip", place / "other"
    answer("backup", file, "--data", used_folder)
    restored = answer("restore", file, "--data", folder)
    assert "timebell.check" in restored["held_queues"]
    up(folder)
    paused = [line["name"] for line in answer("queues", "list", "--data", folder) if line["pauses"]]
    assert sorted(paused) == sorted(restored["held_queues"])
    for queue in paused:
        assert answer("queues", "resume", queue, "--everyone", "--data", folder)["was_paused"]
    assert answer("check", "--jobs", 5, "--seconds", 1, "--data", folder)["finished"] == 5
