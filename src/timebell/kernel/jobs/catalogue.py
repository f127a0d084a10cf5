"""Which kinds and queues exist: those of the apps of this process, and those that other nodes declared."""

from __future__ import annotations

from timebell.db.pool import Session
from timebell.errors import UnknownKind, UnknownQueue
from timebell.kernel.app import Registry
from timebell.kernel.jobs.kinds_alive import KindsAlive
from timebell.kernel.models import check_queue
from timebell.kernel.store import Store
from timebell.logs import Logger

log = Logger("timebell.catalogue")

_REMEMBERED_MAX = 10_000


class Catalogue:
    """Checks names against the registry, then against the database; what it found there it remembers."""

    def __init__(self, registry: Registry, store: Store, kinds_alive: KindsAlive) -> None:
        self._kinds_alive = kinds_alive
        self._registry = registry
        self._store = store
        self._queue_of_kind = {kind: handler.queue for kind, handler in registry.handlers.items()}
        self._queues = set(registry.queues)

    async def declare(self, session: Session, payload_bytes_max: int) -> None:
        if self._registry.unbrought:
            # Most often this is a name that was misspelt.
            log.info(
                "the settings have queues that no app brings; jobs get there by name alone",
                queues=list(self._registry.unbrought),
            )
        queues = sorted(self._registry.queues.values(), key=lambda queue: queue.name)
        handlers = sorted(self._registry.handlers.items())
        await self._store.declare_queues(
            session,
            columns={
                "names": [queue.name for queue in queues],
                "rates": [queue.rate for queue in queues],
                "bursts": [queue.burst for queue in queues],
                "concurrencies": [queue.concurrency for queue in queues],
            },
        )
        await self._store.declare_kinds(
            session,
            payload_bytes_max=payload_bytes_max,
            columns={
                "kinds": [kind for kind, _ in handlers],
                "queues": [handler.queue for _, handler in handlers],
                "modes": [handler.mode for _, handler in handlers],
            },
        )

    async def queue_for(self, session: Session, kind: str, queue: str | None) -> str:
        """The queue a job of this kind goes to, both known to exist."""
        default = self._queue_of_kind.get(kind)
        if default is None:
            row = await self._store.read_kind(session, kind=kind)
            if row is None:
                raise UnknownKind(
                    f"no handler is registered for {kind!r}; load the app that brings it, or start a node "
                    "that does",
                    field="kind",
                )
            default = row["queue"]
            if len(self._queue_of_kind) < _REMEMBERED_MAX:
                self._queue_of_kind[kind] = default
        self._kinds_alive.ask(kind)
        if queue is None:
            return default
        await self.check_queue(session, queue)
        return queue

    async def check_queue(self, session: Session, queue: str) -> None:
        # What cannot name a queue is not looked up: PostgreSQL might refuse it and end the transaction.
        check_queue(queue)
        if queue in self._queues:
            return
        if await self._store.read_queue(session, name=queue) is None:
            shown = f"{queue!r:.100}"
            raise UnknownQueue(
                f"{shown} was not declared; add Queue(name={shown}) to an App, or the queue to the settings",
                field="queue",
            )
        if len(self._queues) < _REMEMBERED_MAX:
            self._queues.add(queue)
