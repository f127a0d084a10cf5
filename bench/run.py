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
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import click

from bench.alone import COMMANDS
from bench.place import Place, Weather, place
from bench.plan import QUICK, Measurement, Size, plan, plan_digests, plan_messages, plan_sequences
from bench.render import Results, blocks, put
from bench.render_digests import digest_blocks
from bench.render_messages import message_blocks
from bench.render_sequences import sequence_blocks
from bench.scratch import MESSAGE_PEERS, PEERS, ROOT, NotRun, Peer, command, node_version
from timebell.bench.rabbit import BrokerPlace, private_rabbit, rabbit_version
from timebell.errors import TimebellError

_PERFORMANCE = ROOT / "docs" / "explanation" / "performance.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What is measured together and can be measured alone, where its results are kept, and the tables it writes."""

    results: Path
    unpublished: Path
    pages: Mapping[Path, Sequence[str]]
    plan: Callable[[Size, Sequence[Peer]], Iterator[Measurement]]
    peers: Mapping[str, Peer]
    blocks: Callable[[Results], dict[str, str]]
    libraries: Sequence[str]
    has_broker: bool = False


PARTS: Mapping[str, Part] = {
    "jobs": Part(
        results=ROOT / "bench" / "results",
        unpublished=ROOT / "build" / "bench.json",
        pages={
            ROOT / "README.md": ["summary"],
            _PERFORMANCE: ["conditions", "peers", "raw", "late", "notify", "memory"],
        },
        plan=plan,
        peers=PEERS,
        blocks=blocks,
        libraries=("timebell", "asyncpg", "uvloop", "orjson"),
    ),
    "messages": Part(
        results=ROOT / "bench" / "results" / "messages",
        unpublished=ROOT / "build" / "bench-messages.json",
        pages={_PERFORMANCE: ["message-conditions", "messages", "message-late"]},
        plan=plan_messages,
        peers=MESSAGE_PEERS,
        blocks=message_blocks,
        libraries=("timebell", "asyncpg", "pika", "uvloop", "orjson"),
        has_broker=True,
    ),
    "sequences": Part(
        results=ROOT / "bench" / "results" / "sequences",
        unpublished=ROOT / "build" / "bench-sequences.json",
        pages={_PERFORMANCE: ["sequence-conditions", "sequences"]},
        plan=plan_sequences,
        peers={},
        blocks=sequence_blocks,
        libraries=("timebell", "asyncpg", "uvloop", "orjson"),
    ),
    "digests": Part(
        results=ROOT / "bench" / "results" / "digests",
        unpublished=ROOT / "build" / "bench-digests.json",
        pages={_PERFORMANCE: ["digest-conditions", "digests", "digest-late"]},
        plan=plan_digests,
        peers={},
        blocks=digest_blocks,
        libraries=("timebell", "asyncpg", "uvloop", "orjson"),
    ),
}
_DEADLINE_SECONDS = 900.0
_SHOWN_SETTINGS = ("fsync", "synchronous_commit", "full_page_writes", "shared_buffers", "max_wal_size")


class Failed(Exception):
    """A process that was to be measured ended badly; its last words are on standard error."""


async def measure(part: Part, size: Size, peers: Sequence[Peer]) -> dict[str, Any]:
    """All measurements of the plan, one after the other, and the conditions they were made under."""
    not_run: dict[str, str] = {}
    runs: list[dict[str, Any]] = []
    ready = [peer for peer in peers if _is_ready(peer, not_run)]
    began = time.monotonic()
    async with place() as here, _broker(part) as broker:
        results = {
            "conditions": await _conditions(here, part),
            "size": asdict(size),
            "peers": [peer.name for peer in peers],
            "not_run": not_run,
            "runs": runs,
        }
        for measurement in part.plan(size, ready):
            if measurement.peer is not None and measurement.peer.name in not_run:
                continue
            _tell(f"{time.monotonic() - began:5.0f} s  {measurement.name}, round {measurement.round + 1}")
            try:
                runs.append(await _run(here, broker, measurement))
            except Failed:
                if measurement.peer is None:
                    raise
                not_run[measurement.peer.name] = "it ended with an error"
            # What has been measured should survive what goes wrong later.
            keep(results, part.unpublished)
    return results


@asynccontextmanager
async def _broker(part: Part) -> AsyncIterator[BrokerPlace | None]:
    """One for all that is measured on it."""
    if not part.has_broker:
        yield None
        return
    async with private_rabbit() as broker:
        yield broker


def _is_ready(peer: Peer, not_run: dict[str, str]) -> bool:
    try:
        command(peer)
    except NotRun as reason:
        not_run[peer.name] = str(reason)
    return peer.name not in not_run


async def _run(here: Place, broker: BrokerPlace | None, measurement: Measurement) -> dict[str, Any]:
    await here.settle()
    weather = Weather(here.server.pid, None if broker is None else broker.pid)
    at = datetime.now(UTC)
    # A URL is not an argument, since everybody on the machine can read those.
    environment = dict(os.environ) if broker is None else {**os.environ, "BENCH_BROKER_URL": broker.url}
    if measurement.peer is None:
        is_here = measurement.arguments[0] in COMMANDS
        program = ["bench.alone"] if is_here else ["timebell", "bench"]
        bench = [sys.executable, "-m", *program, *measurement.arguments, "--json"]
        given = [*bench, f"--data={here.data}"]
        if broker is not None:
            given.append(f"--broker-pid={broker.pid}")
        result = await asyncio.to_thread(_result, given, ROOT, environment)
    elif broker is not None:
        started, folder = command(measurement.peer)
        result = await asyncio.to_thread(_result, [*started, *measurement.arguments], folder, environment)
    else:
        started, folder = command(measurement.peer)
        given = [*started, *measurement.arguments, f"--server-pid={here.server.pid}"]
        async with here.database("peer") as url:
            result = await asyncio.to_thread(_result, given, folder, {**environment, "BENCH_URL": url})
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


async def _conditions(here: Place, part: Part) -> dict[str, Any]:
    admin = await asyncpg.connect(here.server.url("postgres", role="admin"))
    try:
        settings = {name: await admin.fetchval(f"SHOW {name}") for name in _SHOWN_SETTINGS}
        version = await admin.fetchval("SHOW server_version")
    finally:
        await admin.close()
    versions = {"Python": platform.python_version()}
    versions |= {name: importlib.metadata.version(name) for name in part.libraries}
    if part.has_broker:
        versions["RabbitMQ"] = rabbit_version() or "of an unknown version"
    elif node := node_version():
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


def publish(part: Part, results: Mapping[str, Any]) -> None:
    """Write the tables into the pages."""
    texts = part.blocks(results)
    for page, names in part.pages.items():
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
    "--peer",
    "names",
    multiple=True,
    type=click.Choice([*PEERS, *MESSAGE_PEERS]),
    help="Only this peer; may be repeated.",
)
@click.option("--no-peers", is_flag=True, help="Timebell and the raw loop alone.")
@click.option("--publish/--no-publish", "is_published", default=True, help="Write the tables into the pages.")
@click.option(
    "--only", type=click.Choice(list(PARTS)), help="Measure this part alone, and write its tables alone."
)
@click.option(
    "--render",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Measure nothing, and write the tables of one part from the results of an earlier run.",
)
def main(
    quick: bool,
    rounds: int | None,
    names: tuple[str, ...],
    no_peers: bool,
    is_published: bool,
    only: str | None,
    render: Path | None,
) -> None:
    """Measure Timebell, the raw loop and peers on one server, and publish the tables."""
    if render is not None:
        part = PARTS[only or (render.parent.name if render.parent.name in PARTS else "jobs")]
        publish(part, json.loads(render.read_text(encoding="utf-8")))
        return
    size = QUICK if quick else Size()
    size = replace(size, rounds=rounds or size.rounds, messages_rounds=rounds or size.messages_rounds)
    # What is published is whole: a table with a peer left out would look like a choice.
    is_published = is_published and not (quick or names or no_peers)
    for part in [PARTS[only]] if only else PARTS.values():
        peers = [] if no_peers else [peer for name, peer in part.peers.items() if not names or name in names]
        try:
            results = asyncio.run(measure(part, size, peers))
        except TimebellError as error:
            # There is no broker here. What needs none is worth having all the same.
            if only:
                raise click.ClickException(str(error)) from error
            _tell(f"Not measured: {error}")
            continue
        file = part.results / f"{results['conditions']['date']}.json" if is_published else part.unpublished
        keep(results, file)
        if is_published:
            publish(part, results)
        print("\n\n".join(part.blocks(results).values()))
        _tell(f"The results are in {file.relative_to(ROOT)}.")


if __name__ == "__main__":
    main()
