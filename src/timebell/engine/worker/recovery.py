"""Taking up what nodes had started when they died."""

from __future__ import annotations

from collections.abc import Sequence

from timebell.db.pool import Row, Session
from timebell.engine.node.node import Node
from timebell.engine.store import EngineStore
from timebell.kernel.app import Registry


async def recover(
    session: Session, store: EngineStore, node: Node, registry: Registry, orphans: Sequence[Row]
) -> Sequence[Row]:
    """Bring the jobs of the dead back in the slots that are ours, each counted as crashed.

    Answers with those that are back. The others are not ours, or a caller holds them.
    """
    slots = sorted({row["slot"] for row in orphans} & node.owned.keys())
    if not slots:
        return []
    kinds = {row["id"]: row["kind"] for row in orphans}
    return await store.recover_jobs(
        session,
        ids=list(kinds),
        are_marked=[_is_marked(registry, kind) for kind in kinds.values()],
        slots=slots,
        epochs=[node.owned[slot].epoch for slot in slots],
        incarnation=node.incarnation,
        is_blind=node.is_blind,
    )


def _is_marked(registry: Registry, kind: str) -> bool:
    """Whether every start of its jobs is. Where only careful ones are, the first death leaves no trace on the job."""
    handler = registry.handlers.get(kind)
    return handler is not None and handler.mode == "external"
