"""Fences of statements: which life of the node writes, and under which epochs of its slots and of those of others."""

from __future__ import annotations

from collections.abc import Iterable

from timebell.engine.ledger.entry import JobEntry

_LOCK_TIMEOUT = "50ms"


def fence(
    entries: Iterable[JobEntry], incarnation: int, lock_timeout: str = _LOCK_TIMEOUT
) -> dict[str, object]:
    """Who writes, and under which epochs: a slot that has moved on refuses its own rows and no others."""
    # One that was marked when we owned the slot before, or visited it, needs no epoch to be settled.
    epochs = dict(sorted({(entry.slot, entry.epoch) for entry in entries if not entry.is_visited}))
    return {
        "slots": list(epochs.keys()),
        "epochs": list(epochs.values()),
        "incarnation": incarnation,
        "lock_timeout": lock_timeout,
    }


def visits(entries: Iterable[JobEntry]) -> dict[str, object]:
    """The slots of others among them, under whose epochs the owner is one that leaves these jobs."""
    epochs = {entry.slot: entry.epoch for entry in entries if entry.is_visited}
    return {"visited_slots": list(epochs.keys()), "visited_epochs": list(epochs.values())}
