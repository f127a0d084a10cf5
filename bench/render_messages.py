"""The tables of what goes over a broker: values in, Markdown out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.render import Results, conditions, middle, table

_SIDES = {"publish": "fired and confirmed", "intake": "requests taken in"}
_COSTS = ("client_us", "server_us", "broker_us")


def message_blocks(results: Results) -> dict[str, str]:
    """Every block of text that a page may hold, by the name of its markers."""
    return {
        "message-conditions": conditions(results, "messages_rounds"),
        "messages": beside_raw(results),
        "message-late": late(results),
    }


def beside_raw(results: Results) -> str:
    columns = [
        "",
        "messages",
        "Timebell/s",
        "raw/s",
        "of raw",
        "Timebell: client, server, broker µs each",
        "raw: client, server, broker µs each",
    ]
    rows = []
    for name, title in _SIDES.items():
        result = _result(results, name)
        ours, raw = result["timebell"], result["raw"]
        ratios = [own / theirs for own, theirs in zip(ours["rounds"], raw["rounds"], strict=True)]
        rows.append(
            [
                title,
                f"{result['messages']:,}",
                middle(ours["rounds"]),
                middle(raw["rounds"]),
                middle(ratios, 2),
                _costs(ours),
                _costs(raw),
            ]
        )
    return table(columns, rows)


def late(results: Results) -> str:
    columns = ["", "waiting for another day", "messages", "p50 ms", "p99 ms", "max ms", "early", "memory, MB"]
    ours = _result(results, "publish")["late"]
    rows = [_late_row("Timebell", ours, ours)]
    notes = []
    for peer in results["peers"]:
        if peer in results["not_run"]:
            rows.append([peer, f"not run: {results['not_run'][peer]}", *[""] * (len(columns) - 2)])
            continue
        result = _result(results, f"late {peer}")
        rows += [_late_row(f"{peer} {result['version']}", late, result) for late in result["late"]]
        notes.append(f"- {peer} {result['version']}: {result['settings']}")
    return "\n\n".join(
        [table(columns, rows), *(["Settings of the peer:", "\n".join(notes)] if notes else [])]
    )


def _late_row(name: str, figures: Mapping[str, Any], beside: Mapping[str, Any]) -> list[str]:
    memory = beside["memory_mb"]
    return [
        f"{name}, {figures['rate']:,}/s for {figures['seconds']} s",
        f"{beside['future']:,}",
        f"{figures['n']:,}",
        *(f"{figures[part]:,.1f}" for part in ("p50_ms", "p99_ms", "max_ms")),
        str(figures["early"]),
        "—" if memory is None else f"{memory:,.0f}",
    ]


def _costs(side: Mapping[str, Any]) -> str:
    return ", ".join("—" if side[name] is None else f"{side[name]:,.0f}" for name in _COSTS)


def _result(results: Results, name: str) -> Mapping[str, Any]:
    (result,) = (run["result"] for run in results["runs"] if run["name"] == name)
    found: Mapping[str, Any] = result
    return found
