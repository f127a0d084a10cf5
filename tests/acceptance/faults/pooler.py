"""PgBouncer in front of a server, as many clusters have it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from pathlib import Path

from tests.acceptance.faults.servers import Kept
from tests.acceptance.faults.waiting import until
from tests.acceptance.processes import free_port
from tests.packages import need_program
from timebell.db.data_folder import DataFolder
from timebell.db.server_user import server_user


class Bouncer:
    """PgBouncer in transaction mode in front of a server."""

    def __init__(
        self, folder: Path, server_port: int, passwords: Mapping[str, str], *, pool_size: int = 3
    ) -> None:
        self._program = need_program("pgbouncer")
        self._folder = folder
        self._user = server_user(DataFolder(folder))
        self._kept: Kept | None = None
        self.port = free_port()
        folder.mkdir(parents=True, exist_ok=True)
        users = folder / "users.txt"
        users.write_text("".join(f'"{name}" "{password}"\n' for name, password in passwords.items()))
        self._file = folder / "pgbouncer.ini"
        self._file.write_text(
            f"[databases]\n* = host=127.0.0.1 port={server_port}\n[pgbouncer]\n"
            f"listen_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\n"
            f"auth_type = scram-sha-256\nauth_file = {users}\npool_mode = transaction\n"
            f"default_pool_size = {pool_size}\nmax_client_conn = 500\nserver_login_retry = 1\n"
        )
        for path in (folder, users, self._file):
            if self._user is not None:
                os.chown(path, self._user.uid, self._user.gid)

    async def start(self) -> Bouncer:
        log = self._folder / "pgbouncer.log"
        self._kept = kept = Kept([self._program, str(self._file)], log, self._user, {})

        async def listens() -> bool:
            assert not kept.has_ended, f"PgBouncer ended: {kept.words}"
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
            except OSError:
                return False
            writer.close()
            return True

        await until(listens, 10, "the pooler")
        return self

    async def __aenter__(self) -> Bouncer:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def kill(self) -> None:
        assert self._kept is not None
        pid = self._kept.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await self._kept.ended(10)
        self._kept = None

    async def stop(self) -> None:
        if self._kept is not None:
            await self.kill()
