"""What a process has used, as the kernel of the machine says."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path


def peak_megabytes(pid: int) -> float:
    """The most memory that it had at once."""
    status = Path(f"/proc/{pid}/status").read_text()
    [kilobytes] = re.findall(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)
    return int(kilobytes) / 1000


def processor_seconds(pid: int) -> float:
    """Of all its threads, since it began."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def quantile(values: Iterable[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def longest_step_back(instants: Sequence[datetime]) -> timedelta:
    """How far one of these lies before another that came earlier, at most."""
    longest, latest = timedelta(0), None
    for each in instants:
        latest = each if latest is None else max(latest, each)
        longest = max(longest, latest - each)
    return longest
