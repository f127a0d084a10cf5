"""How the bench of digests is planned and shown."""

from __future__ import annotations

from typing import Any

from bench.plan import QUICK, Size, plan_digests
from bench.render import put
from bench.render_digests import digest_blocks
from bench.run import PARTS
from tests.unit.test_bench_sequences import CONDITIONS
from timebell.bench.bars import beside_bars


def run(name: str, number: int, per_s: int, late: float | None) -> dict[str, Any]:
    lateness = {"n": 10, "p50_ms": late, "p99_ms": late, "max_ms": late}
    result = {
        "people": 100,
        "seconds": 1.0 * number,
        "timebell": {"per_s": per_s, "client_us": 100.0, "server_us": 200.0},
        **dict.fromkeys(("late_own", "late_others", "late_reminders"), lateness),
    }
    return {"name": name, "round": number, "weather": {"load": 1.0, "other_cpu": 0.0}, "result": result}


def test_both_ways_are_measured_in_each_round() -> None:
    people = f"--people={QUICK.people}"
    assert [each.arguments for each in plan_digests(QUICK, [])] == [
        ("digests", people),
        ("digests", people, "--sends"),
    ]
    assert len(list(plan_digests(Size(rounds=2), []))) == 4


def test_it_is_shown_how_many_and_how_late() -> None:
    runs = [run("digests", 1, 3_000, 20), run("digests", 2, 2_000, 40), run("digests sent", 1, 900, None)]
    shown = digest_blocks({"conditions": CONDITIONS, "size": {"rounds": 2}, "runs": runs})
    assert "2 rounds\n" in shown["digest-conditions"]
    composed, late = (
        [[cell.strip() for cell in row.split("|")[1:-1]] for row in shown[name].splitlines()]
        for name in ("digests", "digest-late")
    )
    assert composed[2] == ["composed", "100", "2,500 (2,000–3,000)", "2 (1–2)", "100, 200"]
    assert late[2] == ["composed: jobs of the same tenant", "10", "30 (20–40)", "30 (20–40)", "30 (20–40)"]
    assert late[-1][0].endswith("reminders of another tenant's meetings")
    assert late[-1][2:] == ["—", "—", "—"]


def test_its_page_has_a_place_for_its_tables() -> None:
    for page, names in PARTS["digests"].pages.items():
        for name in names:
            assert "shown" in put(page.read_text(encoding="utf-8"), name, "shown")


def test_what_is_late_by_more_than_two_seconds_misses_its_bar() -> None:
    result = {**run("digests", 1, 1_000, 2_000)["result"], "bench": "digests"}
    assert all(bar["is_met"] for bar in beside_bars(result))
    slow = {**run("digests", 1, 999, 2_001)["result"], "bench": "digests"}
    missed = [bar["figure"] for bar in beside_bars(slow) if bar["is_met"] is False]
    assert missed == ["timebell.per_s", "late_own.max_ms", "late_others.max_ms", "late_reminders.max_ms"]
    assert len(beside_bars({**slow, "bench": "digests_and_mails"})) == 3
