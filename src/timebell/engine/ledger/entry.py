"""One job in the memory of a node, and the stages through which it goes there.

Only the ledger moves an entry from one stage to the next; all others read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final, Literal, Protocol
from uuid import UUID

from timebell.db.pool import Row
from timebell.engine.ledger.turns import Pair
from timebell.kernel.app import Handler
from timebell.kernel.destinations import Call

Stage = Literal[
    "waiting", "chosen", "parking", "starting", "running", "settling", "returning its mark", "over"
]

# Read, and not yet chosen: not due, or not at its turn.
WAITING: Final = "waiting"
# Its turn has come, and what is done with it is decided within the same pass.
CHOSEN: Final = "chosen"
# Its queue is paused or held, and its row is being put aside.
PARKING: Final = "parking"
# Its start is to be marked, or nobody knows yet whether it was.
STARTING: Final = "starting"
# Its attempt is under way.
RUNNING: Final = "running"
# What becomes of it is decided and still to be written.
SETTLING: Final = "settling"
# It was marked, or may have been, and did not begin: the mark is being taken back.
RETURNING: Final = "returning its mark"
# This node has nothing more to do with it at this version.
OVER: Final = "over"

FOLLOWING: Final[Mapping[Stage, frozenset[Stage]]] = {
    WAITING: frozenset({CHOSEN, OVER}),
    CHOSEN: frozenset({PARKING, STARTING, RUNNING, SETTLING, OVER}),
    PARKING: frozenset({OVER}),
    STARTING: frozenset({RUNNING, SETTLING, RETURNING, OVER}),
    RUNNING: frozenset({SETTLING, RETURNING, OVER}),
    SETTLING: frozenset({OVER}),
    RETURNING: frozenset({OVER}),
    OVER: frozenset(),
}


class Enclosure(Protocol):
    """Somewhere that has room for a few."""

    def leave(self, entry: JobEntry) -> None: ...


class JobEntry:
    """One job in memory, at the version it was read."""

    __slots__ = (
        "call",
        "contents_bytes",
        "enclosure",
        "epoch",
        "handler",
        "id",
        "incarnation",
        "is_cautious",
        "is_left_behind",
        "is_visited",
        "lane",
        "may_be_marked",
        "pair",
        "read_at",
        "row",
        "run_at",
        "slot",
        "stage",
        "version",
    )

    def __init__(self, row: Row, read_at: float = 0.0) -> None:
        self.row = row
        self.stage: Stage = WAITING
        # When the read that found it began, on the clock of this process.
        self.read_at = read_at
        self.id: UUID = row["id"]
        self.version: int = row["version"]
        self.slot: int = row["slot"]
        self.lane: int = row["lane"]
        self.run_at: datetime = row["run_at"]
        self.pair: Pair = (row["tenant"], row["queue"])
        self.handler: Handler | None = None
        # Under which life of the node and which epoch of the slot it was begun.
        self.incarnation = 0
        self.epoch = 0
        self.is_cautious = False
        # What its payload and its cursor take up among those that are held.
        self.contents_bytes = 0
        # Whether they are to be read before it runs, because they are too large to be held.
        self.is_left_behind = False
        # Whether its slot is another node's, which has no handler for it; the epoch is that of the other then.
        self.is_visited = False
        # Leave to call what the job depends on, where it names that before it runs.
        self.call: Call | None = None
        # Whether the row may say that its start was marked: it does, or nobody heard whether it does.
        self.may_be_marked = False
        # Where it takes up room, if only a few of its sort may run at once.
        self.enclosure: Enclosure | None = None

    def adopt(self, epochs: Mapping[int, int], incarnation: int) -> None:
        """Go on under another life of the node, to which the slot belongs now. One that bears a mark goes by that."""
        if self.slot in epochs and not self.may_be_marked:
            self.incarnation, self.epoch = incarnation, epochs[self.slot]
            self.is_visited = False

    @property
    def due_at(self) -> datetime:
        """The planned instant, which is read only where it is not that of the next try."""
        planned: datetime | None = self.row["due_at"]
        return self.run_at if planned is None else planned
