"""What a history is made of, and the file that several processes write it to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import orjson

Op = Literal["enqueue", "cancel", "plan", "revive", "start", "sign", "end", "fault", "effect", "final"]
Mode = Literal["plain", "external", "transactional"]

NEVER = datetime.max.replace(tzinfo=UTC)
_INSTANTS = frozenset({"invoked_at", "answered_at", "due_at", "expires_at"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One thing that happened. `key` is the job's name, `subject/step` for a step, the subject for a plan, and the
    kind of fault for a fault. Of one key there may be several jobs after another; `job_id` tells them apart.

    On a `final`, `answered_at` is when the job ended. On a `plan`, `running` names the steps that it answered as
    too late, and the order of `steps` is that of an ordered agenda. A `sign` is one of a handler that goes on.
    """

    op: Op
    key: str
    node: str
    invoked_at: datetime
    answered_at: datetime | None = None
    answer: str | None = None
    job_id: str | None = None
    mode: Mode | None = None
    due_at: datetime | None = None
    expires_at: datetime | None = None
    attempt: int | None = None
    steps: Mapping[str, datetime] | None = None
    running: tuple[str, ...] = ()
    is_ordered: bool = False
    count: int | None = None
    state: str | None = None

    def to_json(self) -> bytes:
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return orjson.dumps(
            {name: value for name, value in values.items() if value is not None and value != ()}
        )

    @classmethod
    def from_json(cls, line: bytes) -> Record:
        values: dict[str, Any] = orjson.loads(line)
        for name in _INSTANTS & values.keys():
            values[name] = datetime.fromisoformat(values[name])
        if "steps" in values:
            steps = values["steps"].items()
            values["steps"] = {step: datetime.fromisoformat(due_at) for step, due_at in steps}
        values["running"] = tuple(values.get("running", ()))
        return cls(**values)

    @property
    def ends_at(self) -> datetime:
        """The latest instant at which it may have taken effect."""
        return self.answered_at or NEVER


class HistoryFile:
    """A file that several processes append to, one write for each record."""

    def __init__(self, path: str | Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def append(self, record: Record) -> None:
        os.write(self._file, record.to_json() + b"\n")

    def close(self) -> None:
        os.close(self._file)

    def __enter__(self) -> HistoryFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def load(path: str | Path) -> list[Record]:
    """The records of a file. A last line without its end was cut off by a kill and counts as never written."""
    lines = Path(path).read_bytes().split(b"\n")[:-1]
    return [Record.from_json(line) for line in lines if line]
