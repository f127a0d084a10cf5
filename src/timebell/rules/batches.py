"""How large the next batch may be after some that failed."""

from __future__ import annotations

from timebell.errors import InvalidInput


def shrunk(full: int, failures: int) -> int:
    """Half the batch for each failure in a row, and at least one: 100, 50, 25, 12, 6, 3, 1.

    A batch fails for its size or for one poisoned member. Halving ends the first quickly, and brings the
    second down to the member alone, where it can be named.
    """
    if full < 1:
        raise InvalidInput(f"{full} is no batch; give at least 1", field="full")
    if failures < 0:
        raise InvalidInput(f"{failures} is no count; give 0 or more", field="failures")
    return max(1, full >> failures)
