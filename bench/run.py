"""`make bench`: Timebell, the raw loop and its peers under the same work, on one server, in one run.

The results are kept as JSON, and the tables of README.md and docs/explanation/performance.md are written from them.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import click

from bench.place import Place, Weather, place
from bench.plan import QUICK, Measurement, Size, plan
from bench.render import blocks, put
from bench.scratch import PEERS, ROOT, NotRun, Peer, command, node_version

RESULTS = ROOT / "bench" / "results"
UNPUBLISHED = ROOT / "build" / "bench.json"
PAGES: Mapping[Path, Sequence[str]] = {
    ROOT / "README.md": ["summary"],
    ROOT / "docs" / "explanation" / "performance.md": [
        "conditions",
        "peers",
        "raw",
        "late",
        "notify",
        "memory",
    ],
}
_DEADLINE_SECONDS = 900.0
_SHOWN_SETTINGS = ("fsync", "synchronous_commit", "full_page_writes", "shared_buffers", "max_wal_size")
_LIBRARIES = ("timebell", "asyncpg", "uvloop", "orjson")


class Failed(Exception):
    """A process that was to be measured ended badly; its last words are on standard error."""


async def measure(size: Size, peers: Sequence[Peer]) -> dict[str, Any]:
    """All measurements of the plan, one after the other, and the conditions they were made under."""
    not_run: dict[str, str] = {}
    runs: list[dict[str, Any]] = []
    ready = [peer for peer in peers if _is_ready(peer, not_run)]
    began = time.monotonic()
    async with place() as here:
        results = {
            "conditions": await _conditions(here),
            "size": asdict(size),
            "peers": [peer.name for peer in peers],
            "not_run": not_run,
            "runs": runs,
        }
        for measurement in plan(size, ready):
            if measurement.peer is not None and measurement.peer.name in not_run:
                continue
            _tell(f"{time.monotonic() - began:5.0f} s  {measurement.name}, round {measurement.round + 1}")
            try:
                runs.append(await _run(here, measurement))
            except Failed:
                if measurement.peer is None:
                    raise
                not_run[measurement.peer.name] = "it ended with an error"
            # What has been measured should survive what goes wrong later.
            keep(results, UNPUBLISHED)
    return results


def _is_ready(peer: Peer, not_run: dict[str, str]) -> bool:
    try:
        command(peer)
    except NotRun as reason:
        not_run[peer.name] = str(reason)
    return peer.name not in not_run


async def _run(here: Place, measurement: Measurement) -> dict[str, Any]:
    await here.settle()
    weather = Weather(here.server.pid)
    at = datetime.now(UTC)
    if measurement.peer is None:
        bench = [sys.executable, "-m", "timebell", "bench", *measurement.arguments, "--json"]
        result = await asyncio.to_thread(_result, [*bench, f"--data={here.data}"], ROOT, os.environ)
    else:
        program, folder = command(measurement.peer)
        given = [*program, *measurement.arguments, f"--server-pid={here.server.pid}"]
        async with here.database("peer") as url:
            # Not an argument, since everybody on the machine can read those.
            environment = {**os.environ, "BENCH_URL": url}
            result = await asyncio.to_thread(_result, given, folder, environment)
    return {
        "name": measurement.name,
        "round": measurement.round,
        "at": f"{at:%H:%M:%S}",
        "weather": weather.read(),
        "result": result,
    }


def _result(arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    try:
        ended = subprocess.run(
            arguments,
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            timeout=_DEADLINE_SECONDS,
            check=True,
        )
    except subprocess.SubprocessError as error:
        _tell(str(error))
        raise Failed from error
    result: dict[str, Any] = json.loads(ended.stdout)
    return result


async def _conditions(here: Place) -> dict[str, Any]:
    admin = await asyncpg.connect(here.server.url("postgres", role="admin"))
    try:
        settings = {name: await admin.fetchval(f"SHOW {name}") for name in _SHOWN_SETTINGS}
        version = await admin.fetchval("SHOW server_version")
    finally:
        await admin.close()
    versions = {"Python": platform.python_version()}
    versions |= {name: importlib.metadata.version(name) for name in _LIBRARIES}
    if node := node_version():
        versions["Node.js"] = node.removeprefix("v")
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "commit": _commit(),
        "processor": _processor(),
        "processors": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": platform.system(),
        "postgresql": version,
        "settings": settings,
        "versions": versions,
    }


def _processor() -> str:
    """The model, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _commit() -> str:
    def git(*arguments: str) -> str:
        command = ["git", *arguments]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--", "src")
        return git("rev-parse", "--short", "HEAD") + (" with changes" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def written(results: Mapping[str, Any]) -> str:
    """JSON with one run on a line, which is short and can be compared line by line."""
    lines = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in results.items() if name != "runs"]
    runs = ",\n".join(f"  {json.dumps(run)}" for run in results["runs"])
    return "{\n" + ",\n".join([*lines, f' "runs": [\n{runs}\n ]']) + "\n}\n"


def keep(results: Mapping[str, Any], file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(written(results), encoding="utf-8")


def publish(results: Mapping[str, Any]) -> None:
    """Write the tables into the pages."""
    texts = blocks(results)
    for page, names in PAGES.items():
        text = page.read_text(encoding="utf-8")
        for name in names:
            text = put(text, name, texts[name])
        page.write_text(text, encoding="utf-8")


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@click.command()
@click.option(
    "--quick", is_flag=True, help="Little work and one round, to try the benchmark out. Publishes nothing."
)
@click.option("--rounds", type=click.IntRange(1, 20), help="Rounds of everything that is compared.")
@click.option(
    "--peer", "names", multiple=True, type=click.Choice(list(PEERS)), help="Only this peer; may be repeated."
)
@click.option("--no-peers", is_flag=True, help="Timebell and the raw loop alone.")
@click.option("--publish/--no-publish", "is_published", default=True, help="Write the tables into the pages.")
@click.option(
    "--render",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Measure nothing, and write the tables from the results of an earlier run.",
)
def main(
    quick: bool,
    rounds: int | None,
    names: tuple[str, ...],
    no_peers: bool,
    is_published: bool,
    render: Path | None,
) -> None:
    """Measure Timebell, the raw loop and peers on one server, and publish the tables."""
    if render is not None:
        publish(json.loads(render.read_text(encoding="utf-8")))
        return
    size = QUICK if quick else Size()
    peers = [] if no_peers else [PEERS[name] for name in names or PEERS]
    results = asyncio.run(measure(replace(size, rounds=rounds or size.rounds), peers))
    # What is published is whole: a table with a peer left out would look like a choice.
    is_published = is_published and not (quick or names or no_peers)
    file = RESULTS / f"{results['conditions']['date']}.json" if is_published else UNPUBLISHED
    keep(results, file)
    if is_published:
        publish(results)
    print("\n\n".join(blocks(results).values()))
    _tell(f"The results are in {file.relative_to(ROOT)}.")


if __name__ == "__main__":
    main()
