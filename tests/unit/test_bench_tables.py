"""The tables of a benchmark run: medians of the rounds, quotients within a round, and places on the pages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from bench.plan import QUICK, Size, plan
from bench.render import MissingMarker, blocks, by_round, middle, put, quotients
from bench.run import PARTS, Part, written
from bench.scratch import PEERS

JOBS = PARTS["jobs"]


def cost(per_s: float, client: float = 20.0, server: float = 15.0) -> dict[str, float]:
    return {"per_s": per_s, "client_us": client, "server_us": server}


def ours(per_s: float, raw: float, **more: Any) -> dict[str, Any]:
    figures = {"jobs": 60_000, "timebell": cost(per_s), "raw": cost(raw), "ratio": per_s / raw}
    return {**figures, "peak_memory_mb": 80.0, **more}


def run(name: str, round: int, result: Mapping[str, Any]) -> dict[str, Any]:
    weather = {"load": 0.5 + round, "other_cpu": 0.1}
    return {"name": name, "round": round, "at": "12:00:00", "weather": weather, "result": result}


def lateness(**more: Any) -> dict[str, Any]:
    return {"n": 1_500, "p50_ms": 0.9, "p99_ms": 4.04, "max_ms": 12.0, "early": 0, **more}


@pytest.fixture
def results() -> dict[str, Any]:
    """Three rounds, the second of them on a machine that was half as fast."""
    runs = []
    for number, speed in enumerate([1.0, 0.5, 1.1]):
        runs += [
            run("drain plain", number, ours(40_000 * speed, 100_000 * speed)),
            run("drain external", number, ours(30_000, 60_000)),
            run("drain transactional", number, ours(3_000, 6_000)),
            run("drain future", number, ours(36_000 * speed, 90_000, future=1_000_000)),
            run("drain snapshot", number, ours(38_000, 9_000, held_seconds=60, own={"ratio": 0.95})),
            run("enqueue", number, ours(50_000 * speed, 70_000)),
        ]
        peer = {"jobs": 60_000, "version": "1.6.0", "settings": "batch 1000"}
        peer |= {"drain": cost(10_000 * speed), "enqueue": cost(25_000 * speed)}
        runs.append(run("peer pgqueuer", number, peer))
    runs += [
        run("late pgqueuer", 0, lateness(p50_ms=50.0)),
        run("late 100", 0, lateness(rate=100, seconds=15)),
        run("late 1000", 0, lateness(rate=1_000, seconds=15)),
        run("steady", 0, lateness(rate=10_000, seconds=30, written_per_s=9_990, left=0)),
        run("notify inbox", 0, ours(2_500, 5_000)),
        run("notify log", 0, ours(1_500, 2_000)),
    ]
    return {
        "conditions": {
            "date": "2026-11-15",
            "commit": "abc1234",
            "processor": "a processor",
            "processors": 2,
            "memory_gb": 24,
            "system": "Linux",
            "postgresql": "18.4",
            "settings": {"fsync": "on"},
            "versions": {"Python": "3.11.7"},
        },
        "size": {"rounds": 3, "jobs": 60_000},
        "peers": ["pgqueuer", "graphile-worker"],
        "not_run": {"graphile-worker": "Node.js is not installed"},
        "runs": runs,
    }


def row(block: str, title: str) -> list[str]:
    [line] = [line for line in block.splitlines() if line.startswith(f"| {title}")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_cell_is_the_median_with_its_range() -> None:
    assert middle([40_000.4, 20_000, 44_000]) == "40,000 (20,000–44,000)"
    assert middle([0.5, 0.5], 2) == "0.50"
    assert middle([]) == "—"


def test_a_quotient_is_taken_within_its_round(results: dict[str, Any]) -> None:
    beside, plain = (by_round(results, f"drain {name}", "timebell", "per_s") for name in ("future", "plain"))
    assert quotients(beside, plain) == pytest.approx([0.9, 0.9, 0.9])
    assert quotients(beside, {2: 44_000}) == pytest.approx([0.9])


def test_figures_are_in_the_order_of_the_rounds(results: dict[str, Any]) -> None:
    results["runs"].reverse()
    rounds = by_round(results, "enqueue", "timebell", "per_s")
    assert list(rounds.items()) == [(0, 50_000), (1, 25_000), (2, pytest.approx(55_000))]


def test_what_the_system_does_not_tell_is_left_out(results: dict[str, Any]) -> None:
    for run in results["runs"]:
        if run["name"] == "peer pgqueuer":
            run["result"]["drain"]["server_us"] = None
    assert row(blocks(results)["peers"], "pgqueuer")[6] == "20, —"


def test_the_table_of_peers(results: dict[str, Any]) -> None:
    peers = blocks(results)["peers"]
    assert row(peers, "pgqueuer") == [
        "pgqueuer 1.6.0",
        "60,000",
        "25,000 (12,500–27,500)",
        "10,000 (5,000–11,000)",
        "4.00",
        "2.00",
        "20, 15",
        "50.0 / 4.0 / 12.0",
    ]
    assert row(peers, "graphile-worker")[1] == "not run: Node.js is not installed"
    assert "- pgqueuer 1.6.0: batch 1000" in peers


def test_the_table_of_the_raw_loop(results: dict[str, Any]) -> None:
    raw = blocks(results)["raw"]
    assert row(raw, "drain, `plain` |")[2:6] == [
        "40,000 (20,000–44,000)",
        "100,000 (50,000–110,000)",
        "0.40",
        "1.00",
    ]
    assert row(raw, "drain, `plain`, beside 1,000,000 future jobs")[5] == "0.90"
    assert row(raw, "drain, `plain`, an old snapshot held open for 60 s")[5] == "0.95"


def test_what_was_late_early_or_left_is_told(results: dict[str, Any]) -> None:
    late = blocks(results)["late"]
    assert row(late, "1,000/s for 15 s")[2:] == ["0.9", "4.0", "12.0", "0", ""]
    assert row(late, "steady, 10,000/s for 30 s (written: 9,990/s)")[-1] == "0"


def test_what_was_told_stands_beside_its_raw_statements(results: dict[str, Any]) -> None:
    told = blocks(results)["notify"]
    assert row(told, "into the inbox")[1:] == ["60,000", "2,500", "5,000", "0.50", "20, 15", "20, 15"]
    assert row(told, "an e-mail through the log provider")[4] == "0.75"


def test_results_that_are_older_than_a_bench_say_so(results: dict[str, Any]) -> None:
    results["runs"] = [each for each in results["runs"] if not each["name"].startswith("notify")]
    assert blocks(results)["notify"] == "This run did not measure it."


def test_conditions_say_how_busy_the_machine_was(results: dict[str, Any]) -> None:
    conditions = blocks(results)["conditions"]
    assert "load average when a measurement began 0.5–2.5" in conditions
    assert "2026-11-15, commit abc1234, 3 rounds, every other one backwards" in conditions
    assert "other work took 0.1–0.1 processors" in conditions


def test_one_round_has_no_median(results: dict[str, Any]) -> None:
    results["size"]["rounds"] = 1
    texts = blocks(results)
    assert "Measured once on 2026-11-15, one process each" in texts["summary"]
    assert "commit abc1234, one round\n" in texts["conditions"]
    assert "parentheses" not in texts["conditions"]


def test_a_run_without_peers_has_its_tables_too(results: dict[str, Any]) -> None:
    results["peers"] = []
    assert row(blocks(results)["summary"], "**Timebell**")[1] == "**40,000**"


def test_only_what_is_between_the_markers_is_replaced() -> None:
    page = "before\n<!-- bench:late -->\nold\n<!-- /bench:late -->\nafter\n"
    once = put(page, "late", "new")
    assert once == "before\n<!-- bench:late -->\n\nnew\n\n<!-- /bench:late -->\nafter\n"
    assert put(once, "late", "new") == once
    with pytest.raises(MissingMarker, match="peers"):
        put(page, "peers", "new")


def test_every_page_has_a_place_for_its_tables(results: dict[str, Any]) -> None:
    texts = blocks(results)
    for page, names in JOBS.pages.items():
        text = page.read_text(encoding="utf-8")
        for name in names:
            text = put(text, name, texts[name])
    assert {name for names in JOBS.pages.values() for name in names} == texts.keys()


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_the_pages_show_the_newest_results(part: Part) -> None:
    """Nobody writes a figure by hand: `make bench ARGS="--render FILE"` writes the tables from kept results."""
    newest = max(part.results.glob("*.json"), default=None)
    texts = {} if newest is None else part.blocks(json.loads(newest.read_text(encoding="utf-8")))
    for page, names in part.pages.items():
        text = page.read_text(encoding="utf-8")
        for name in names:
            # What was not measured yet is claimed nowhere.
            assert put(text, name, texts.get(name, "Not measured yet.")) == text, (
                f"{page.name} does not show {newest}"
            )


def test_results_are_kept_with_one_run_on_a_line(results: dict[str, Any]) -> None:
    text = written(results)
    assert json.loads(text) == results
    assert sum('"round": ' in line for line in text.splitlines()) == len(results["runs"])


def test_rounds_alternate_and_peers_stand_beside_what_they_are_compared_with() -> None:
    names = [each.name for each in plan(Size(rounds=2), [PEERS["pgqueuer"]]) if each.name != "late pgqueuer"]
    assert names[5:9] == ["drain plain", "peer pgqueuer", "peer pgqueuer", "drain plain"]
    assert names[:7] == names[13:6:-1]


def test_a_quick_run_measures_the_same_things() -> None:
    peers = list(PEERS.values())
    quick, whole = ({each.name for each in plan(size, peers)} for size in (QUICK, Size()))
    assert quick == whole
