"""Turns the results of a run into the tables of the pages: values in, Markdown out."""

from __future__ import annotations

import re
import statistics
from collections.abc import Collection, Mapping, Sequence
from typing import Any

Run = Mapping[str, Any]
Results = Mapping[str, Any]

_OURS = ("timebell", "per_s")
_BESIDE_RAW = {
    "drain plain": "drain, `plain`",
    "drain external": "drain, `external`",
    "drain transactional": "drain, `transactional`",
    "drain future": "drain, `plain`, beside future jobs",
    "drain snapshot": "drain, `plain`, an old snapshot held open",
    "enqueue": "enqueue in bulk",
}
_TOLD = {"notify inbox": "into the inbox", "notify log": "an e-mail through the log provider"}


class MissingMarker(Exception):
    """A page has no place for a table."""


def put(page: str, name: str, block: str) -> str:
    """The page with what stands between the markers of this name replaced."""
    begin, end = f"<!-- bench:{name} -->", f"<!-- /bench:{name} -->"
    if not re.search(f"{begin}.*{end}", page, re.DOTALL):
        raise MissingMarker(f"the page has no place for {name}: add a line {begin} and a line {end}")
    before, _, rest = page.partition(begin)
    return f"{before}{begin}\n\n{block.strip()}\n\n{end}{rest.partition(end)[2]}"


def blocks(results: Results) -> dict[str, str]:
    """Every block of text that a page may hold, by the name of its markers."""
    return {
        "summary": summary(results),
        "conditions": conditions(results),
        "peers": peers(results),
        "raw": raw(results),
        "late": late(results),
        "notify": notify(results),
        "memory": memory(results),
    }


def by_round(results: Results, name: str, *path: str) -> dict[int, float]:
    """One figure of each round in which it was measured, in the order of the rounds."""
    found: dict[int, float] = {}
    for run in sorted(_runs(results, name), key=lambda run: int(run["round"])):
        figure = run["result"]
        for part in path:
            figure = figure[part]
        if figure is not None:
            found[run["round"]] = figure
    return found


def quotients(above: Mapping[int, float], below: Mapping[int, float]) -> list[float]:
    """Each round's own quotient: both sides of it had the same weather."""
    return [above[number] / below[number] for number in above if number in below]


def middle(numbers: Collection[float], digits: int = 0) -> str:
    """The median, and from where to where the rounds went."""
    if not numbers:
        return "—"

    def written(number: float) -> str:
        return f"{number:,.{digits}f}"

    text = written(statistics.median(numbers))
    lowest, highest = written(min(numbers)), written(max(numbers))
    return text if lowest == highest else f"{text} ({lowest}–{highest})"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---", *["---:"] * (len(columns) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [columns, rule, *rows])


def summary(results: Results) -> str:
    """What the first page shows."""
    rows = [["**Timebell**", *_own_cells(results)]]
    rows += [[_versioned(results, peer), *_peer_cells(results, peer)] for peer in results["peers"]]
    own, rounds = results["conditions"], results["size"]["rounds"]
    measured = "Measured once" if rounds == 1 else f"Medians of {rounds} rounds"
    return "\n\n".join(
        [
            table(["", "drain, jobs/s", "enqueue, jobs/s", "late by, ms (p50 / p99)"], rows),
            f"{measured} on {own['date']}, one process each on one server, "
            f"{own['processors']} processors shared by everything, durable commits, "
            f"PostgreSQL {own['postgresql']}. {memory(results)}",
        ]
    )


def peers(results: Results) -> str:
    columns = [
        "",
        "jobs",
        "enqueue/s",
        "drain/s",
        "Timebell drains ×",
        "Timebell enqueues ×",
        "drain: client, server µs/job",
        "late p50 / p99 / max, ms",
    ]
    enqueued = by_round(results, "enqueue", *_OURS)
    drained = by_round(results, "drain plain", *_OURS)
    rows = [
        [
            "**Timebell**, `plain`",
            f"{results['size']['jobs']:,}",
            middle(enqueued.values()),
            middle(drained.values()),
            "1",
            "1",
            _processor(results, "drain plain", "timebell"),
            _lateness(_only(results, "late 100")),
        ]
    ]
    notes = []
    for peer in results["peers"]:
        name = f"peer {peer}"
        if peer in results["not_run"]:
            rows.append([peer, f"not run: {results['not_run'][peer]}", *[""] * (len(columns) - 2)])
            continue
        theirs = {part: by_round(results, name, part, "per_s") for part in ("enqueue", "drain")}
        rows.append(
            [
                _versioned(results, peer),
                f"{_only(results, name)['jobs']:,}",
                middle(theirs["enqueue"].values()),
                middle(theirs["drain"].values()),
                middle(quotients(drained, theirs["drain"]), 2),
                middle(quotients(enqueued, theirs["enqueue"]), 2),
                _processor(results, name, "drain"),
                _lateness(_only(results, f"late {peer}")),
            ]
        )
        notes.append(f"- {_versioned(results, peer)}: {_only(results, name)['settings']}")
    return "\n\n".join([table(columns, rows), "Settings of the peers:", "\n".join(notes)])


def raw(results: Results) -> str:
    columns = [
        "",
        "jobs",
        "Timebell/s",
        "raw/s",
        "of raw",
        "of its own `plain`",
        "Timebell: client, server µs/job",
        "raw: client, server µs/job",
    ]
    rows = []
    plain = by_round(results, "drain plain", *_OURS)
    for name, title in _BESIDE_RAW.items():
        one = _only(results, name)
        ours = by_round(results, name, *_OURS)
        rows.append(
            [
                _with_extent(title, one),
                f"{one['jobs']:,}",
                middle(ours.values()),
                middle(by_round(results, name, "raw", "per_s").values()),
                middle(by_round(results, name, "ratio").values(), 2),
                "" if name == "enqueue" else middle(_of_own(results, name, plain), 2),
                _processor(results, name, "timebell"),
                _processor(results, name, "raw"),
            ]
        )
    return table(columns, rows)


def _of_own(results: Results, name: str, plain: Mapping[int, float]) -> Collection[float]:
    """Beside a snapshot the engine is compared with itself, going, before the snapshot was taken."""
    if "own" in _only(results, name):
        return by_round(results, name, "own", "ratio").values()
    return quotients(by_round(results, name, *_OURS), plain)


def late(results: Results) -> str:
    rows = []
    for name in ("late 100", "late 1000"):
        run = _only(results, name)
        rows.append(
            [
                f"{run['rate']:,}/s for {run['seconds']} s",
                f"{run['n']:,}",
                *(f"{run[part]:,.1f}" for part in ("p50_ms", "p99_ms", "max_ms")),
                str(run["early"]),
                "",
            ]
        )
    run = _only(results, "steady")
    rows.append(
        [
            f"steady, {run['rate']:,}/s for {run['seconds']} s (written: {run['written_per_s']:,}/s)",
            f"{run['n']:,}",
            *(f"{run[part]:,.1f}" for part in ("p50_ms", "p99_ms")),
            "",
            "",
            str(run["left"]),
        ]
    )
    return table(["", "jobs", "p50 ms", "p99 ms", "max ms", "early", "left"], rows)


def notify(results: Results) -> str:
    """Results that are older than this bench have nothing to tell here."""
    rows = []
    for name in _TOLD:
        if not _runs(results, name):
            return "This run did not measure it."
        one = _only(results, name)
        rows.append(
            [
                _TOLD[name],
                f"{one['jobs']:,}",
                f"{one['timebell']['per_s']:,}",
                f"{one['raw']['per_s']:,}",
                f"{one['ratio']:.2f}",
                _processor(results, name, "timebell"),
                _processor(results, name, "raw"),
            ]
        )
    columns = ["", "notifications", "Timebell/s", "raw/s", "of raw"]
    return table([*columns, "Timebell: client, server µs each", "raw: client, server µs each"], rows)


def memory(results: Results) -> str:
    run = _only(results, "drain future")
    peak = max(by_round(results, "drain future", "peak_memory_mb").values())
    return (
        f"A worker beside {run['future']:,} future jobs, with {run['jobs']:,} due at once, "
        f"held at most {peak:,.0f} MB of memory."
    )


def conditions(results: Results, rounds_of: str = "rounds", *, is_turned: bool = True) -> str:
    own = results["conditions"]
    loads = [run["weather"]["load"] for run in results["runs"]]
    others = [
        run["weather"]["other_cpu"] for run in results["runs"] if run["weather"]["other_cpu"] is not None
    ]
    busy = f"; other work took {min(others):.1f}–{max(others):.1f} processors" if others else ""
    settings = ", ".join(f"`{name}` {value}" for name, value in own["settings"].items())
    libraries = ", ".join(f"{name} {version}" for name, version in own["versions"].items())
    rounds, cells = "one round", "a cell is what was measured in that round"
    if (number := results["size"][rounds_of]) > 1:
        is_compared = is_turned and len({run["name"] for run in results["runs"]}) > 1
        rounds = f"{number} rounds" + (", every other one backwards" if is_compared else "")
        cells = "a cell is the median of the rounds, with the lowest and the highest in parentheses"
    return "\n".join(
        [
            f"- {own['date']}, commit {own['commit']}, {rounds}",
            f"- {own['processor']}, {own['processors']} processors, {own['memory_gb']} GB of memory, {own['system']}",
            f"- PostgreSQL {own['postgresql']}, embedded, on the same machine: {settings}",
            f"- {libraries}",
            f"- load average when a measurement began {min(loads):.1f}–{max(loads):.1f}{busy}",
            f"- {cells}",
        ]
    )


def _runs(results: Results, name: str) -> list[Run]:
    return [run for run in results["runs"] if run["name"] == name]


def _only(results: Results, name: str) -> Run:
    """The last run of this name: what does not differ between rounds is read from it."""
    result: Run = _runs(results, name)[-1]["result"]
    return result


def _own_cells(results: Results) -> list[str]:
    rates = [by_round(results, name, *_OURS) for name in ("drain plain", "enqueue")]
    run = _only(results, "late 100")
    cells = [*map(_median, rates), f"{run['p50_ms']:,.1f} / {run['p99_ms']:,.1f}"]
    return [f"**{cell}**" for cell in cells]


def _peer_cells(results: Results, peer: str) -> list[str]:
    if peer in results["not_run"]:
        return [f"not run: {results['not_run'][peer]}", "", ""]
    rates = [by_round(results, f"peer {peer}", part, "per_s") for part in ("drain", "enqueue")]
    run = _only(results, f"late {peer}")
    return [*map(_median, rates), f"{run['p50_ms']:,.0f} / {run['p99_ms']:,.0f}"]


def _median(rounds: Mapping[int, float]) -> str:
    return f"{statistics.median(rounds.values()):,.0f}"


def _versioned(results: Results, peer: str) -> str:
    if peer in results["not_run"]:
        return peer
    name, _, setting = peer.partition(",")
    version = _only(results, f"peer {peer}")["version"]
    return f"{name} {version}{',' if setting else ''}{setting}"


def _processor(results: Results, name: str, part: str) -> str:
    """Processor time is steadier than time where a machine has other work."""
    sides = [by_round(results, name, part, side) for side in ("client_us", "server_us")]
    return ", ".join(_median(side) if side else "—" for side in sides)


def _lateness(run: Run) -> str:
    return " / ".join(f"{run[part]:,.1f}" for part in ("p50_ms", "p99_ms", "max_ms"))


def _with_extent(title: str, run: Run) -> str:
    if run.get("future"):
        return title.replace("future jobs", f"{run['future']:,} future jobs")
    if run.get("held_seconds"):
        return title.replace("held open", f"held open for {run['held_seconds']} s before and during")
    return title
