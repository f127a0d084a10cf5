"""Whoever reads what a process says may leave or stop reading, and the process works and stops as if they had not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.processes import Process, clean_environment, free_port, until
from timebell.testing.database import TestDatabase


class Piped(Process):
    """A process whose words go into a pipe that the test holds."""

    def __init__(self, place: Path, database: TestDatabase) -> None:
        self.port = free_port()
        self._out = self._err = place / "nothing"
        self._out.touch()
        self.reader, writer = os.pipe()
        environment = clean_environment(
            DATABASE_URL=database.url,
            TIMEBELL_OWNER_URL=database.owner_url,
            TIMEBELL_API_URL=database.api_url,
            TIMEBELL_LOG_LEVEL="debug",
        )
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "timebell", "up", "--port", str(self.port)],
            env=environment,
            cwd=place,
            stdin=subprocess.DEVNULL,
            stdout=writer,
            stderr=writer,
            start_new_session=True,
        )
        os.close(writer)

    def leave(self) -> None:
        os.close(self.reader)


@pytest.fixture
def piped(place: Path, processes: list[Process], database_url: TestDatabase) -> Piped:
    process = Piped(place, database_url)
    processes.append(process)
    return process


def test_it_stops_though_the_reader_of_its_log_is_gone(piped: Piped) -> None:
    piped.wait_ready()
    piped.leave()
    assert piped.status("/v1/jobs") == 401, "and the line about it is lost"
    assert piped.stop() == 0


def test_it_starts_and_stops_though_nobody_ever_read(piped: Piped) -> None:
    piped.leave()
    piped.wait_ready()
    assert piped.stop() == 0


@pytest.mark.slow
def test_it_answers_and_stops_though_the_reader_of_its_log_reads_no_more(piped: Piped) -> None:
    piped.wait_ready()
    # More than a pipe holds, at two hundred bytes a line.
    for _ in range(1_000):
        assert piped.status("/v1/nothing") == 404
    assert piped.status() == 200
    assert piped.stop() == 0
    piped.leave()


def test_it_is_not_ready_once_it_stops(piped: Piped) -> None:
    """The port is let go last; whoever still gets an answer meanwhile hears that it stops."""
    piped.wait_ready()
    piped.leave()
    piped.signal()
    until(lambda: piped.status() != 200, 30, "the end of readiness")
    assert piped.wait() == 0
