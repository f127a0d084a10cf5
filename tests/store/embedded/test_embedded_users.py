"""Root, an ordinary user, and everything between them and the data: owners, closed folders, full disks."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.store.embedded.processes import Start, ask, is_answering, run_python
from timebell.db import server_user as users
from timebell.db.data_folder import DataFolder
from timebell.db.server_user import ServerUser, server_user
from timebell.errors import EmbeddedServerError

IS_ROOT = os.geteuid() == 0
root_only = pytest.mark.skipif(not IS_ROOT, reason="only root can become another user")
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

ONE_LIFE = """
import asyncio, os, sys
from pathlib import Path
import asyncpg
from timebell.db.embedded import EmbeddedServer

async def main():
    folder = Path(sys.argv[1])
    server = await EmbeddedServer.start(folder, settings={"fsync": "off", "shared_buffers": "16MB"})
    found = await EmbeddedServer.find(folder)
    assert found is not None and found.pid == server.pid
    connection = await asyncpg.connect(server.url())
    print(await connection.fetchval("SELECT current_user"), os.stat(f"/proc/{server.pid}").st_uid)
    await connection.close()
    await server.stop()
    assert await EmbeddedServer.find(folder) is None

asyncio.run(main())
"""
REFUSED = """
import asyncio, sys
from pathlib import Path
from timebell.db.embedded import EmbeddedServer
from timebell.errors import EmbeddedServerError

try:
    asyncio.run(EmbeddedServer.start(Path(sys.argv[1])))
except EmbeddedServerError as error:
    print(error)
"""
ON_A_SMALL_DISK = """
import os, sys
size, folder, script = sys.argv[1:]
mount_and_run = 'mount -t tmpfs -o size=$0m none "$1" && exec "$2" -c "$3" "$1"'
shell = ["sh", "-c", mount_and_run, size, folder, sys.executable, script]
os.execvp("unshare", ["unshare", "--mount", "--propagation=private", *shell])
"""


@pytest.fixture
def nobody() -> pwd.struct_passwd:
    return pwd.getpwnam("nobody")


@pytest.fixture
def python_for_nobody(nobody: pwd.struct_passwd) -> str:
    """An interpreter that this user may run; the one that runs the tests may lie in root's home."""
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            process = run_python("import asyncpg, timebell.db.embedded", user=nobody.pw_uid, python=python)
        except OSError:
            continue
        process.communicate(timeout=30)
        if process.returncode == 0:
            return python
    pytest.skip("no interpreter here can be run by `nobody` with the packages of this one")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def owner(path: Path) -> int:
    return path.stat().st_uid


@root_only
@linux_only
async def test_root_hands_the_server_to_a_user_without_privileges(new_folder: Path, start: Start) -> None:
    server = await start(new_folder)
    files = DataFolder(new_folder)
    user = server_user(files)
    assert user is not None
    assert user.name in ("postgres", "nobody")
    assert owner(Path(f"/proc/{server.pid}")) == user.uid
    assert owner(files.postgres) == user.uid
    assert mode(files.postgres) == 0o700
    status = Path(f"/proc/{server.pid}/status").read_text()
    groups = next(line.split()[1:] for line in status.splitlines() if line.startswith("Groups:"))
    assert groups == []
    for ours in (files.path, files.credentials_file, files.lock_file, files.log_file, files.server_file):
        assert owner(ours) == 0


@root_only
@linux_only
async def test_root_hands_the_server_to_the_owner_of_the_folder(
    new_folder: Path, start: Start, nobody: pwd.struct_passwd
) -> None:
    os.mkdir(new_folder, 0o700)
    os.chown(new_folder, nobody.pw_uid, nobody.pw_gid)
    server = await start(new_folder)
    files = DataFolder(new_folder)
    assert owner(Path(f"/proc/{server.pid}")) == nobody.pw_uid
    for theirs in (
        files.postgres,
        files.credentials_file,
        files.lock_file,
        files.log_file,
        files.server_file,
    ):
        assert owner(theirs) == nobody.pw_uid, theirs
    assert mode(files.path) == 0o700


@root_only
async def test_the_owner_of_the_data_is_kept(used_folder: Path, nobody: pwd.struct_passwd) -> None:
    subprocess.run(["chown", "-R", "nobody", used_folder / "postgres"], check=True, timeout=10)  # noqa: ASYNC221
    chosen = server_user(DataFolder(used_folder))
    assert chosen is not None
    assert chosen.uid == nobody.pw_uid


@root_only
def test_without_any_such_user_the_remedy_is_named(new_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> pwd.struct_passwd:
        raise KeyError(name)

    monkeypatch.setattr(pwd, "getpwnam", unknown)
    with pytest.raises(EmbeddedServerError, match="useradd"):
        server_user(DataFolder(new_folder))


@root_only
async def test_closed_folders_of_root_are_opened_for_passing_only(new_folder: Path, start: Start) -> None:
    top = new_folder.parent
    os.makedirs(new_folder / "a", 0o700)
    for closed in (top, new_folder):
        os.chmod(closed, 0o700)
    assert await is_answering(await start(new_folder / "a" / "b"))
    assert {mode(path) for path in (top, new_folder, new_folder / "a" / "b")} == {0o701}


@root_only
async def test_a_home_is_not_opened_and_left_as_it_was(
    new_folder: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = new_folder.parent
    entry = pwd.struct_passwd(("somebody", "x", 1000, 1000, "", str(home), "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwall", lambda: [entry])
    with pytest.raises(EmbeddedServerError, match=rf"may not pass through {home}\. .*--data DIR"):
        await start(new_folder)
    assert mode(home) == 0o700
    assert os.listdir(home) == []


@root_only
async def test_a_closed_folder_of_another_user_is_not_opened(
    new_folder: Path, start: Start, nobody: pwd.struct_passwd
) -> None:
    os.mkdir(new_folder, 0o700)
    os.chown(new_folder, nobody.pw_uid, nobody.pw_gid)
    os.mkdir(new_folder / "inner")
    with pytest.raises(EmbeddedServerError, match=f"may not pass through {new_folder}"):
        await start(new_folder / "inner")
    assert mode(new_folder) == 0o700


@root_only
async def test_programs_that_the_user_cannot_reach_are_copied_once(
    used_folder: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = used_folder.parent / "closed"
    shared = used_folder.parent / "shared"
    os.chmod(used_folder.parent, 0o755)
    shutil.copytree(users._installed().parent, closed / "postgres", symlinks=True)
    os.chmod(closed, 0o700)
    monkeypatch.setattr(users, "_installed", lambda: closed / "postgres" / "bin")
    monkeypatch.setattr(users, "_SHARED_PROGRAMS", shared)

    server = await start(used_folder)
    copy = shared / f"postgres-{server.version}"
    assert os.listdir(shared) == [copy.name]
    folder = await ask(server.url(role="admin"), "SELECT setting FROM pg_config WHERE name = 'BINDIR'")
    assert folder == str(copy / "bin")
    assert mode(closed) == 0o700
    await server.stop()

    made = copy.stat().st_ino
    assert await is_answering(await start(used_folder))
    assert copy.stat().st_ino == made


def test_a_copy_that_another_process_made_first_is_used(new_folder: Path) -> None:
    installation, target = users._installed().parent, new_folder
    (target / "bin").mkdir(parents=True)
    users._copy(installation, target)
    assert os.listdir(target.parent) == [target.name]
    assert os.listdir(target / "bin") == []


def test_without_the_wheel_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users, "MAJOR", 99)
    with pytest.raises(EmbeddedServerError, match=r"PostgreSQL 99 is not installed.*TIMEBELL_DATABASE_URL"):
        users.find_programs(None)


@root_only
@linux_only
def test_an_ordinary_user_runs_it_all(
    new_folder: Path, nobody: pwd.struct_passwd, python_for_nobody: str
) -> None:
    os.chown(new_folder.parent, nobody.pw_uid, nobody.pw_gid)
    process = run_python(ONE_LIFE, new_folder, user=nobody.pw_uid, python=python_for_nobody)
    said, complaints = process.communicate(timeout=60)
    assert said == f"timebell {nobody.pw_uid}\n", complaints
    assert owner(new_folder) == owner(new_folder / "postgres") == nobody.pw_uid
    assert mode(new_folder) == 0o700


@root_only
@pytest.mark.parametrize("below", ["", "inner"])
def test_a_folder_that_cannot_be_written_is_named(
    new_folder: Path, nobody: pwd.struct_passwd, python_for_nobody: str, below: str
) -> None:
    os.mkdir(new_folder)
    for place in (new_folder, new_folder.parent):
        os.chmod(place, 0o755)
    process = run_python(REFUSED, new_folder / below, user=nobody.pw_uid, python=python_for_nobody)
    said, complaints = process.communicate(timeout=60)
    assert f"closed to user {nobody.pw_uid}" in said, complaints
    assert "--data DIR" in said
    assert os.listdir(new_folder) == []


@root_only
@linux_only
@pytest.mark.parametrize("megabytes", [1, 12])
def test_a_full_disk_is_named(new_folder: Path, megabytes: int) -> None:
    """In a mount namespace of its own, so that nobody else sees the small disk."""
    os.mkdir(new_folder)
    process = run_python(ON_A_SMALL_DISK, str(megabytes), new_folder, REFUSED)
    said, complaints = process.communicate(timeout=60)
    if "unshare" in complaints or "mount" in complaints:
        pytest.skip("mounting is not allowed here")
    assert f"The disk of {new_folder} is full; free some space" in said, complaints


@root_only
@linux_only
async def test_secrets_of_our_environment_do_not_reach_the_server(
    used_folder: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIMEBELL_API_KEY", "do-not-tell-anybody")
    monkeypatch.setenv("PGPORT", "1")
    server = await start(used_folder)
    environment = Path(f"/proc/{server.pid}/environ").read_bytes()
    assert b"PATH=" in environment
    assert b"do-not-tell" not in environment
    assert b"PGPORT" not in environment
    assert await is_answering(server)


def test_the_way_is_judged_by_owner_then_group_then_others(new_folder: Path) -> None:
    os.mkdir(new_folder)
    status = new_folder.stat()
    as_owner = ServerUser(name="o", uid=status.st_uid, gid=status.st_gid + 1)
    as_group = ServerUser(name="g", uid=status.st_uid + 1, gid=status.st_gid)
    as_other = ServerUser(name="x", uid=status.st_uid + 1, gid=status.st_gid + 1)
    for bits, passes in ((0o100, as_owner), (0o010, as_group), (0o001, as_other)):
        os.chmod(new_folder, bits)
        allowed = [
            user for user in (as_owner, as_group, as_other) if users._may_pass(new_folder.stat(), user)
        ]
        assert allowed == [passes]
