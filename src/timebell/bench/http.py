"""HTTP: how many jobs a second are written by requests, beside the same insert in plain FastAPI and asyncpg.

Both servers are processes of their own, asked over 64 connections by this one, which takes its share of the processors.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import sys
import urllib.request
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import orjson

from timebell.bench.ground import NO_OPS, PAYLOAD, Ground, throwaway
from timebell.bench.http_load import Request, send_all
from timebell.errors import TimebellError

# What the server that is measured loads, by the name of this module.
APP: Final = NO_OPS
BULK: Final = 100
_BULK_CONNECTIONS: Final = 8
_WARM_UP: Final = 500
_START_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 15.0
# Due far ahead, so that nobody would pay it meanwhile.
_JOB: Final = {"kind": "bench.plain", "payload": PAYLOAD, "delay": "P365D"}


async def http(*, requests: int, connections: int, data: Path | None = None) -> dict[str, Any]:
    async with throwaway(data) as ground:
        plain = [sys.executable, "-m", "timebell.bench.http_plain"]
        ours = [sys.executable, "-m", "timebell", "serve", "--port"]
        before = await _plain(plain, ground, requests, connections)
        key = secrets.token_hex(16)
        async with _server(ours, _settings(ground, key), "/readyz") as port:
            single = _request(port, "/v1/jobs", _JOB, key)
            await send_all(port, single, min(requests, _WARM_UP), connections)
            seconds = await send_all(port, single, requests, connections)
            bulk = _request(port, "/v1/jobs/bulk", {"jobs": [_JOB] * BULK}, key)
            bulks = max(1, requests // BULK * 4)
            await send_all(port, bulk, min(bulks, 20), _BULK_CONNECTIONS)
            bulk_seconds = await send_all(port, bulk, bulks, _BULK_CONNECTIONS)
        after = await _plain(plain, ground, requests, connections)
    plain_seconds = 2 * before * after / (before + after)
    return {
        "bench": "http",
        "requests": requests,
        "connections": connections,
        "timebell": {"per_s": round(requests / seconds)},
        "plain": {
            "per_s": round(requests / plain_seconds),
            "before": round(requests / before),
            "after": round(requests / after),
        },
        "ratio": round(plain_seconds / seconds, 3),
        "bulk": {"size": BULK, "requests": bulks, "jobs_per_s": round(bulks * BULK / bulk_seconds)},
    }


async def _plain(command: Sequence[str], ground: Ground, requests: int, connections: int) -> float:
    async with _server(command, {"DATABASE_URL": ground.url}, "/healthz") as port:
        request = _request(port, "/jobs", _JOB, "")
        await send_all(port, request, min(requests, _WARM_UP), connections)
        return await send_all(port, request, requests, connections)


def _settings(ground: Ground, key: str) -> dict[str, str]:
    return {
        "DATABASE_URL": ground.url,
        "TIMEBELL_API_URL": ground.api_url,
        "TIMEBELL_API_KEY": key,
        "TIMEBELL_APPS": __name__,
        "TIMEBELL_REQUESTS_PER_MINUTE": "100000000",
        "TIMEBELL_LOG_LEVEL": "warning",
    }


def _request(port: int, path: str, body: Mapping[str, Any], key: str) -> Request:
    content = orjson.dumps(body)
    head = (
        f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {key}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
    )
    return Request(head.encode() + content)


@asynccontextmanager
async def _server(command: Sequence[str], variables: Mapping[str, str], health: str) -> AsyncIterator[int]:
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
        yield port
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
        with urllib.request.urlopen(url, timeout=5) as reply:  # noqa: S310  (an address of this machine)
            return bool(reply.status == 200)
    except OSError:
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
