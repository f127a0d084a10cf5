"""Whatever is killed, and whenever: one server, no orphan, no lost data."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import asyncpg
import pytest

from tests.store.embedded.processes import SMALL, Start, ask, is_answering, run_python, until
from timebell.db.data_folder import DataFolder, is_alive
from timebell.db.embedded import EmbeddedServer
from timebell.db.server_user import find_programs, server_user
from timebell.errors import DataFolderInUse

linux_only = pytest.mark.skipif(
    sys.platform != "linux", reason="only the kernel of Linux tells of such a death"
)

START = """
import asyncio, os, sys, time
from pathlib import Path
from timebell.db.embedded import EmbeddedServer

settings = {"fsync": "off", "shared_buffers": "16MB"}
start = EmbeddedServer.start(Path(sys.argv[1]), settings=settings)
"""
RUN = (
    START
    + """
server = asyncio.run(start)
print(server.pid, flush=True)
time.sleep(60)
"""
)
LEAVE = (
    START
    + """
server = asyncio.run(start)
print(server.pid, flush=True)
"""
)
FORK = (
    START
    + """
server = asyncio.run(start)
child = os.fork()
if child == 0:
    time.sleep(60)
    os._exit(0)
asyncio.run(server.stop())
again = asyncio.run(EmbeddedServer.start(Path(sys.argv[1]), settings=settings))
asyncio.run(again.stop())
os.kill(child, 9)
os.waitpid(child, 0)
print("stopped and started")
"""
)

Run = Callable[[str, Path], "subprocess.Popen[str]"]


class AsServer(Protocol):
    """Runs a program as the user that the server of this folder runs as, until the test ends."""

    def __call__(self, folder: DataFolder, *command: str | Path) -> subprocess.Popen[str]: ...


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that do not outlive the test."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate(timeout=10)


@pytest.fixture
def run(processes: list[subprocess.Popen[str]]) -> Run:
    def run_one(script: str, folder: Path) -> subprocess.Popen[str]:
        processes.append(run_python(script, folder))
        return processes[-1]

    return run_one


@pytest.fixture
def as_server(processes: list[subprocess.Popen[str]]) -> AsServer:
    def run_one(folder: DataFolder, *command: str | Path) -> subprocess.Popen[str]:
        user = server_user(folder)
        processes.append(
            subprocess.Popen(
                command,
                stderr=subprocess.DEVNULL,
                text=True,
                user=user.uid if user else None,
                group=user.gid if user else None,
                extra_groups=[] if user else None,
            )
        )
        return processes[-1]

    return run_one


@pytest.fixture
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def first_number(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.strip().isdigit(), process.communicate(timeout=10)
    return int(line)


def kill(*pids: int) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def parent_of(pid: int) -> int:
    shown = subprocess.run(["ps", "-o", "ppid=", "-p", str(pid)], capture_output=True, text=True, check=True)
    return int(shown.stdout)


def servers_on(folder: Path) -> list[int]:
    """Every process that runs `postgres` on this folder, whoever started it."""
    listed = subprocess.run(["ps", "-eww", "-o", "pid=,args="], capture_output=True, text=True, check=True)
    rows = (line.split() for line in listed.stdout.splitlines())
    return [int(pid) for pid, *command in rows if command[1:3] == ["-D", f"{folder}/postgres"]]


async def test_the_server_dies_with_the_process_that_was_killed(
    used_folder: Path, start: Start, run: Run
) -> None:
    process = run(RUN, used_folder)
    pid = first_number(process)
    found = await EmbeddedServer.find(used_folder)
    assert found is not None
    assert found.pid == pid
    await ask(found.url(role="owner"), "CREATE TABLE kept AS SELECT 42 AS answer")
    with pytest.raises(DataFolderInUse, match=f"process {process.pid}\\b"):
        await start(used_folder)

    process.kill()
    process.wait(timeout=10)
    server = await start(used_folder)
    assert not is_alive(pid)
    assert servers_on(used_folder) == [server.pid]
    assert await ask(server.url(role="owner"), "SELECT answer FROM kept") == 42


async def test_the_server_dies_without_anybody_coming_back(used_folder: Path, run: Run) -> None:
    process = run(RUN, used_folder)
    pid = first_number(process)
    assert servers_on(used_folder) == [pid]
    process.kill()
    assert await until(lambda: not is_alive(pid))
    assert servers_on(used_folder) == []
    assert await EmbeddedServer.find(used_folder) is None


async def test_the_server_ends_with_a_process_that_forgot_to_stop_it(used_folder: Path, run: Run) -> None:
    process = run(LEAVE, used_folder)
    pid = first_number(process)
    assert process.wait(timeout=20) == 0
    assert await until(lambda: not is_alive(pid))


@linux_only
async def test_the_server_dies_when_its_keeper_is_killed_too(used_folder: Path, run: Run) -> None:
    process = run(RUN, used_folder)
    pid = first_number(process)
    kill(parent_of(pid), process.pid)
    assert await until(lambda: not is_alive(pid))


@linux_only
async def test_a_killed_keeper_takes_the_server_along(used_folder: Path, start: Start) -> None:
    server = await start(used_folder)
    kill(parent_of(server.pid))
    assert await until(lambda: not server.is_running)
    await server.stop()
    assert await is_answering(await start(used_folder))


async def test_a_killed_server_recovers_at_the_next_start(used_folder: Path, start: Start) -> None:
    server = await start(used_folder, settings={"synchronous_commit": "on"})
    await ask(server.url(role="owner"), "CREATE TABLE kept AS SELECT 42 AS answer")
    kill(server.pid)
    assert await until(lambda: not server.is_running)
    assert await EmbeddedServer.find(used_folder) is None
    with pytest.raises(DataFolderInUse):
        await start(used_folder)
    await server.stop()

    again = await start(used_folder)
    assert again.pid != server.pid
    assert servers_on(used_folder) == [again.pid]
    assert await ask(again.url(role="owner"), "SELECT answer FROM kept") == 42


async def test_processes_that_outlive_a_killed_server_are_waited_for(used_folder: Path, start: Start) -> None:
    server = await start(used_folder)
    connection = await asyncpg.connect(server.url())
    straggler = connection.get_server_pid()
    os.kill(straggler, signal.SIGSTOP)
    kill(server.pid)
    await server.stop()
    log = DataFolder(used_folder).log_file
    starting = asyncio.create_task(start(used_folder))
    try:
        assert await until(lambda: "still in use" in log.read_text())
    finally:
        os.kill(straggler, signal.SIGCONT)
    assert await is_answering(await starting)
    assert not is_alive(straggler)
    connection.terminate()


async def test_an_orphan_is_ended_before_the_next_server_starts(
    used_folder: Path, start: Start, as_server: AsServer, free_port: int
) -> None:
    folder = DataFolder(used_folder)
    await (await start(used_folder)).stop()
    programs = find_programs(server_user(folder)).folder
    options = f"-c unix_socket_directories= -c listen_addresses=127.0.0.1 -c port={free_port}".split()
    orphan = as_server(folder, programs / "postgres", "-D", folder.postgres, *options)
    assert await until(lambda: (running := folder.postmaster()) is not None and running.is_ready)
    server = await start(used_folder)
    assert orphan.wait(timeout=10) == 0
    assert servers_on(used_folder) == [server.pid]
    assert await is_answering(server)


async def test_a_pid_file_that_names_another_program_is_seen_through(
    used_folder: Path, start: Start, as_server: AsServer
) -> None:
    folder = DataFolder(used_folder)
    other = as_server(folder, "sleep", "60")
    stale = [str(other.pid), str(folder.postgres), "1", "5432", "", "127.0.0.1", "0 0", "ready", ""]
    (folder.postgres / "postmaster.pid").write_text("\n".join(stale))
    assert await EmbeddedServer.find(used_folder) is None
    assert await is_answering(await start(used_folder))
    assert is_alive(other.pid)


async def test_an_initialisation_that_was_killed_is_done_again(
    new_folder: Path, start: Start, run: Run
) -> None:
    folder = DataFolder(new_folder)
    process = run(RUN, new_folder)
    assert await until(lambda: (folder.postgres_new / "base").exists())
    process.kill()
    process.wait(timeout=10)
    assert not folder.postgres.exists()

    server = await start(new_folder)
    assert await is_answering(server)
    assert not folder.postgres_new.exists()
    assert servers_on(new_folder) == [server.pid]


async def test_a_half_made_folder_is_made_again(new_folder: Path, start: Start) -> None:
    folder = DataFolder(new_folder)
    (folder.postgres_new / "base").mkdir(parents=True)
    (folder.postgres_new / "PG_VERSION").write_text("18\n")
    assert await is_answering(await start(new_folder))
    assert not folder.postgres_new.exists()


@pytest.mark.parametrize("sign", ["postgres.new/base", "postgres/postmaster.pid"])
async def test_a_start_that_is_cancelled_leaves_nothing_running(
    new_folder: Path, start: Start, sign: str
) -> None:
    starting = asyncio.create_task(EmbeddedServer.start(new_folder, settings=SMALL))
    assert await until((new_folder / sign).exists)
    starting.cancel()
    with suppress(asyncio.CancelledError):
        await (await starting).stop()
    assert starting.cancelled()
    assert servers_on(new_folder) == []
    assert await is_answering(await start(new_folder))


def test_a_child_that_forked_does_not_keep_the_server_or_the_folder(used_folder: Path, run: Run) -> None:
    said, complaints = run(FORK, used_folder).communicate(timeout=30)
    assert said == "stopped and started\n", complaints


async def test_an_interrupt_from_the_terminal_does_not_reach_the_server(
    used_folder: Path, start: Start
) -> None:
    server = await start(used_folder)
    assert os.getsid(server.pid) != os.getsid(0)
    os.kill(parent_of(server.pid), signal.SIGINT)
    os.kill(parent_of(server.pid), signal.SIGTERM)
    assert await is_answering(server)
