"""The EventSource of the reference, as it stands there, in Node and in Chromium: every message once, come what may.

`make packages` brings Chromium. Node needs packages from the registry of npm besides: where one of the two is missing
its half is skipped. No requirement rests on it.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen
from uuid import UUID

import pytest

from tests.acceptance.faults.waiting import until
from tests.acceptance.processes import Process, clean_environment
from tests.acceptance.streaming import KEY, Server, somebody
from tests.docs.markdown import blocks
from tests.packages import need_program
from tests.shape.tree import ROOT
from timebell.testing.database import TestDatabase

PAGE = ROOT / "docs" / "reference" / "http.md"
TOKEN_SECONDS = 2
PACKAGES = ["eventsource@4.1.1", "eventsource-parser@3.1.1"]
AROUND = """
const timebell = %(server)s;
let shown = Promise.resolve();
const tell = (path, body) => fetch(%(page)s + path, {method: "POST", body: JSON.stringify(body)});
const show = (entry) => { shown = shown.then(() => tell("/shown", entry.seq)); };
const reload = () => tell("/reload", null);
async function freshToken() {
  const answer = await tell("/token", null);
  if (!answer.ok) throw new Error("no token");
  return (await answer.json()).token;
}
%(sample)s
follow();
"""
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def sample() -> str:
    [block] = [each for each in blocks(PAGE.read_text(encoding="utf-8")) if each.language == "javascript"]
    return block.code


class Site:
    """The page of a user's own server: it serves the sample, fetches tokens, and notes what the page shows."""

    def __init__(self, timebell_port: int, person: UUID) -> None:
        self.shown: list[int] = []
        self.reloads = 0
        self.tokens = 0
        self._token_end = 0.0
        self._timebell = f"http://127.0.0.1:{timebell_port}"
        self._person = person
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = f"<!doctype html><script>{site.script}</script>" if self.path == "/" else ""
                self._answer(200, body.encode(), "text/html")

            def do_POST(self) -> None:
                given = json.loads(self.rfile.read(int(self.headers["content-length"])))
                status, answer = site.post(self.path, given)
                self._answer(status, json.dumps(answer).encode(), "application/json")

            def _answer(self, status: int, body: bytes, form: str) -> None:
                self.send_response(status)
                self.send_header("content-type", form)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Nobody reads it."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.script = AROUND % {
            "server": json.dumps(self._timebell),
            "page": json.dumps(self.address),
            "sample": sample(),
        }

    def is_token_over(self) -> bool:
        return time.monotonic() > self._token_end

    def post(self, path: str, given: Any) -> tuple[int, Any]:
        if path == "/shown":
            self.shown.append(given)
        elif path == "/reload":
            self.reloads += 1
        else:
            headers = {
                "authorization": f"Bearer {KEY}",
                "timebell-actor": str(self._person),
                "content-type": "application/json",
            }
            asked = Request(
                f"{self._timebell}/v1/stream-tokens",
                json.dumps({"seconds": TOKEN_SECONDS}).encode(),
                headers,
                method="POST",
            )
            try:
                with urlopen(asked, timeout=5) as reply:
                    answer = json.load(reply)
                    self.tokens += 1
                    self._token_end = time.monotonic() + TOKEN_SECONDS
                    return 200, answer
            except OSError:
                return 503, None
        return 200, None


@contextmanager
def serving(site: Site) -> Iterator[None]:
    thread = threading.Thread(target=site.server.serve_forever)
    thread.start()
    try:
        yield
    finally:
        site.server.shutdown()
        thread.join()
        site.server.server_close()


def node_packages() -> Path:
    """The packages of Node's readers, fetched once and kept beside the environment."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("Node.js is not installed; install nodejs and npm")
    if int(subprocess.check_output([node, "--version"], text=True).lstrip("v").split(".")[0]) < 20:
        pytest.skip("eventsource needs Node.js 20 or newer")
    folder = ROOT / ".venv" / "node-eventsource"
    note = folder / "ready"
    if not note.exists() or note.read_text() != "\n".join(PACKAGES):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text('{"private": true, "type": "module"}\n')
        install = [npm, "install", "--no-audit", "--no-fund", "--no-package-lock", *PACKAGES]
        done = subprocess.run(install, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            pytest.skip(f"npm could not fetch {', '.join(PACKAGES)}: {done.stderr.strip()[-200:]}")
        note.write_text("\n".join(PACKAGES))
    return folder


def in_node(site: Site, place: Path) -> list[str]:
    packages = place / "node_modules"
    if not packages.exists():
        packages.symlink_to(node_packages() / "node_modules")
    program = place / "sample.mjs"
    program.write_text('import { EventSource } from "eventsource";\n' + site.script)
    return ["node", str(program)]


def in_chromium(site: Site, place: Path) -> list[str]:
    return [need_program("chromium"), *FLAGS, f"--user-data-dir={place / 'chromium'}", f"{site.address}/"]


@contextmanager
def reading(command: list[str], place: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (place / "reader.txt").open("wb") as words:
        reader = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=words,
            stderr=words,
            start_new_session=True,
            env=clean_environment(HOME=str(place)),
        )
    try:
        yield reader
        assert reader.poll() is None, (place / "reader.txt").read_text()
    finally:
        os.killpg(reader.pid, signal.SIGKILL)
        reader.wait()


@pytest.mark.slow
@pytest.mark.parametrize("command", [in_node, in_chromium], ids=["node", "chromium"])
async def test_the_sample_shows_every_message_once(
    database_url: TestDatabase,
    place: Path,
    processes: list[Process],
    command: Callable[[Site, Path], list[str]],
) -> None:
    server = Server(database_url, place, processes, TIMEBELL_SECRET_KEY="s" * 32)
    async with somebody(database_url) as source:
        site = Site(server.port, source.person)
        start = partial(server.start, TIMEBELL_ORIGINS=site.address)

        async def all_shown(after: str) -> None:
            await until(lambda: len(site.shown) >= source.told, 60, f"every message after {after}")
            assert site.shown == list(range(1, source.told + 1)), after

        process = await start()
        with serving(site), reading(command(site, place), place):
            await source.tell(3)
            await all_shown("the start")
            for is_over, is_killed in product((False, True), (True, False)):
                tokens = site.tokens
                if is_over:
                    await until(site.is_token_over, 60, "the end of its token")
                await source.tell(3)
                if is_killed:
                    process.end()
                else:
                    assert await asyncio.to_thread(process.stop) == 0, process.words
                await source.tell(3)
                process = await start()
                await source.tell(3)
                await all_shown(f"{is_killed=}, {is_over=}")
                assert site.tokens > tokens or not is_over, "it asked for another"
        assert site.reloads == 0
    assert process.stop() == 0, process.words


def test_the_sample_needs_nothing_but_what_it_says() -> None:
    """The one block of JavaScript on the page, with the names that its comment asks the reader for."""
    code = sample()
    assert re.findall(r"async function (\w+)", code) == ["follow"]
    for name in ("timebell", "freshToken", "show", "reload"):
        assert re.search(rf"\b{name}\b", code.split("let last")[0]), name
