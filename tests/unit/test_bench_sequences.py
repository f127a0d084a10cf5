"""How the bench of sequences is planned and shown."""

from __future__ import annotations

from typing import Any

from bench.plan import QUICK, plan_sequences
from bench.render import put
from bench.render_sequences import sequence_blocks
from bench.run import PARTS

CONDITIONS = {
    "date": "2026-11-18",
    "commit": "abc",
    "processor": "one",
    "processors": 2,
    "memory_gb": 24,
    "system": "Linux",
    "postgresql": "18",
    "settings": {},
    "versions": {},
}


def run(number: int, ours: int, raw: int) -> dict[str, Any]:
    side = {"client_us": 60.0, "server_us": 35.0}
    result = {
        "bookings": 100,
        "steps": 8,
        "timebell": {"per_s": ours, **side},
        "one_by_one": {"per_s": ours // 2, **side},
        "raw": {"per_s": raw, **side},
    }
    weather = {"load": 1.0, "other_cpu": 0.0}
    return {"name": "enrol", "round": number, "weather": weather, "result": result}


def test_each_round_is_one_measurement() -> None:
    (only,) = plan_sequences(QUICK, [])
    assert only.arguments == ("enrol", f"--bookings={QUICK.bookings}")


def test_each_side_is_shown_beside_the_raw_one_of_its_own_round() -> None:
    runs = [run(0, 1_000, 2_000), run(1, 3_000, 4_000), run(2, 1_000, 4_000)]
    shown = sequence_blocks({"conditions": CONDITIONS, "size": {"rounds": 3}, "runs": runs})
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in shown["sequences"].splitlines()]
    assert rows[2] == [
        "many in one transaction",
        "800",
        "1,000 (1,000–3,000)",
        "0.50 (0.25–0.75)",
        "60, 35",
    ]
    assert rows[4][2:4] == ["4,000 (2,000–4,000)", "1"]


def test_its_page_has_a_place_for_its_tables() -> None:
    for page, names in PARTS["sequences"].pages.items():
        for name in names:
            assert "shown" in put(page.read_text(encoding="utf-8"), name, "shown")
