"""Columns of statements about many rows: what need not be said for each row is said once or not at all.

An array costs the driver as much for thousands of NULLs, or for the same value thousands of times, as for values that
differ. A statement reads `coalesce(row.column, (:columns)[1])` where one value may stand for all.
"""

from __future__ import annotations

from collections.abc import Iterable

from timebell.kernel.statements import Columns


def shorten(columns: Columns, *, alike: Iterable[str] = (), absent: Iterable[str] = ()) -> Columns:
    """Leave the first of the columns in `alike` that have one value, which must not be NULL, and nothing of those in
    `absent` that are all NULL."""
    for name in alike:
        values = columns[name]
        if values and values.count(values[0]) == len(values):
            del values[1:]
    for name in absent:
        values = columns[name]
        if values.count(None) == len(values):
            values.clear()
    return columns
