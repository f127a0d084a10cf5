"""The tables of digests that are due at one instant: values in, Markdown out."""

from __future__ import annotations

from bench.render import Results, by_round, conditions, middle, table

_WAYS = {"digests": "composed", "digests sent": "composed, and sent by the same process"}
_LATE = {
    "own": "jobs of the same tenant",
    "others": "jobs of another tenant",
    "reminders": "reminders of another tenant's meetings",
}


def digest_blocks(results: Results) -> dict[str, str]:
    """Every block of text that a page may hold, by the name of its markers."""
    return {
        "digest-conditions": conditions(results, is_turned=False),
        "digests": composed(results),
        "digest-late": late(results),
    }


def composed(results: Results) -> str:
    columns = ["", "digests", "composed/s", "until all is done, s", "client, server µs each"]
    rows = []
    for name, title in _WAYS.items():
        (people,) = set(by_round(results, name, "people").values())
        costs = [
            middle(by_round(results, name, "timebell", side).values()) for side in ("client_us", "server_us")
        ]
        rows.append(
            [
                title,
                f"{int(people):,}",
                middle(by_round(results, name, "timebell", "per_s").values()),
                middle(by_round(results, name, "seconds").values()),
                ", ".join(costs),
            ]
        )
    return table(columns, rows)


def late(results: Results) -> str:
    columns = ["", "counted", "p50 ms", "p99 ms", "max ms"]
    rows = []
    for name, way in _WAYS.items():
        for who, title in _LATE.items():
            figures = [
                middle(by_round(results, name, f"late_{who}", figure).values())
                for figure in ("n", "p50_ms", "p99_ms", "max_ms")
            ]
            rows.append([f"{way}: {title}", *figures])
    return table(columns, rows)
