"""A server in a process of its own, for as long as it is measured, and requests as they are written to a connection."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import urllib.request
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from bench.ours.http_load import Request, send_all
from timebell.bench.cost import Cost, Meter
from timebell.bench.ground import Ground
from timebell.errors import TimebellError

# Followed by the port.
OURS: Final = (sys.executable, "-m", "timebell", "serve", "--port")
_START_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 15.0


def settings_of(ground: Ground, key: str, apps: str) -> dict[str, str]:
    """What our own server is told. `apps` are modules, by their names."""
    return {
        "DATABASE_URL": ground.url,
        "TIMEBELL_API_URL": ground.api_url,
        "TIMEBELL_API_KEY": key,
        "TIMEBELL_APPS": apps,
        "TIMEBELL_REQUESTS_PER_MINUTE": "100000000",
        "TIMEBELL_LOG_LEVEL": "warning",
    }


def post(port: int, path: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> Request:
    content = orjson.dumps(body)
    lines = [f"POST {path} HTTP/1.1", f"host: 127.0.0.1:{port}", "content-type: application/json"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines += [f"content-length: {len(content)}", "", ""]
    return Request("\r\n".join(lines).encode() + content)


@dataclass(frozen=True, slots=True)
class Served:
    """A process that answers on a port."""

    port: int
    pid: int


async def measured(ground: Ground, served: Served, request: Request, count: int, connections: int) -> Cost:
    """What the same request costs so many times: the process that answers, and PostgreSQL behind it."""
    meter = Meter(ground.server_pid, served.pid)
    seconds = await send_all(served.port, request, count, connections)
    # Opening the connections is not what is measured.
    return replace(meter.read(), seconds=seconds)


@asynccontextmanager
async def server(command: Sequence[str], variables: Mapping[str, str], health: str) -> AsyncIterator[Served]:
    """A process that answers, for as long as the block lasts."""
    port = _free_port()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TIMEBELL_")}
    process = await asyncio.create_subprocess_exec(
        *command,
        str(port),
        env={**kept, **variables},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=None,
    )
    try:
        await _answers(process, f"http://127.0.0.1:{port}{health}")
        yield Served(port, process.pid)
    finally:
        if process.returncode is None:
            process.terminate()
            try:
                async with asyncio.timeout(_STOP_SECONDS):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()


async def _answers(process: asyncio.subprocess.Process, url: str) -> None:
    async with asyncio.timeout(_START_SECONDS):
        while not await asyncio.to_thread(_is_well, url):
            if process.returncode is not None:
                raise TimebellError(f"bench: the server to be measured ended with {process.returncode}")
            # It is a process of its own and tells nobody when it is ready.
            await asyncio.sleep(0.1)


def _is_well(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
