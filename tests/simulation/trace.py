"""What happened in a run, in order: the same seed must give the same trace."""

from __future__ import annotations

import hashlib


class Trace:
    """Lines of virtual time, who, what and how much; kept only when asked for, hashed always."""

    def __init__(self, *, is_kept: bool = False) -> None:
        self.lines: list[str] = []
        self.count = 0
        self._is_kept = is_kept
        self._hash = hashlib.sha256()

    def add(self, now_us: int, who: str, what: str, facts: object = "") -> None:
        line = f"{now_us} {who} {what} {facts}"
        self.count += 1
        self._hash.update(line.encode())
        if self._is_kept:
            days, rest = divmod(now_us, 86_400_000_000)
            hours, rest = divmod(rest, 3_600_000_000)
            minutes, rest = divmod(rest, 60_000_000)
            at = f"{days}d {hours:02}:{minutes:02}:{rest / 1_000_000:09.6f}"
            self.lines.append(f"{at}  {who:8} {what} {facts}".rstrip())

    def hash(self) -> str:
        return self._hash.hexdigest()
