"""The tables of bookings that enter sequences: values in, Markdown out."""

from __future__ import annotations

from bench.render import Results, by_round, conditions, middle, table

_SIDES = {
    "timebell": "many in one transaction",
    "one_by_one": "a transaction for each",
    "raw": "raw: the same rows, inserted in bulk",
}


def sequence_blocks(results: Results) -> dict[str, str]:
    """Every block of text that a page may hold, by the name of its markers."""
    return {"sequence-conditions": conditions(results), "sequences": enrolled(results)}


def enrolled(results: Results) -> str:
    columns = ["", "messages", "messages/s", "of raw", "client, server µs each"]
    (bookings,) = set(by_round(results, "enrol", "bookings").values())
    (steps,) = set(by_round(results, "enrol", "steps").values())
    raw = by_round(results, "enrol", "raw", "per_s")
    rows = []
    for side, title in _SIDES.items():
        per_s = by_round(results, "enrol", side, "per_s")
        ratios = [per_s[number] / raw[number] for number in per_s]
        costs = [
            middle(by_round(results, "enrol", side, name).values()) for name in ("client_us", "server_us")
        ]
        rows.append(
            [
                title,
                f"{int(bookings * steps):,}",
                middle(per_s.values()),
                "1" if side == "raw" else middle(ratios, 2),
                ", ".join(costs),
            ]
        )
    return table(columns, rows)
