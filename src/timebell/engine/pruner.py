"""The pruner: makes the log's partitions ahead of time, drops the old ones, removes what has outlived its use, and
seals the audit trail."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import asyncpg

from timebell.db.pool import Session
from timebell.engine.store import EngineStore
from timebell.kernel.alerts import AlertStore
from timebell.kernel.app import PruneFunction
from timebell.kernel.bell import Timebell
from timebell.kernel.events import Audit
from timebell.logs import Logger

log = Logger("timebell.pruner")

EVERY_SECONDS = 600.0
_ROWS_MAX = 1_000
_PARTITIONS_MAX = 10
_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


class Pruner:
    """One bounded pass at a time; it asks to come back at once while there is more."""

    def __init__(self, bell: Timebell, store: EngineStore, audit: Audit) -> None:
        self._bell = bell
        self._database = bell.database
        self._audit = audit
        self._store = store
        self._alerts = AlertStore(bell.clock)
        self._settings = bell.settings
        self._agendas_after = _BEGINNING, "", ""
        self._occurrences_after = _BEGINNING, UUID(int=0)

    async def tick(self) -> float:
        settings = self._settings
        async with self._database.connection() as session:
            await self._store.ensure_log_partitions(
                session, days_ahead=settings.tuning.log_partitions_ahead_days
            )
            pruned = [
                await self._store.prune_keys(session, limit=_ROWS_MAX),
                await self._store.prune_breakers(session, limit=_ROWS_MAX),
                await self._store.prune_dead_jobs(session, days=settings.dead_days, limit=_ROWS_MAX),
                await self._alerts.prune_alerts(session, days=settings.alert_days, limit=_ROWS_MAX),
                await self._prune_agendas(session),
                await self._prune_occurrences(session),
            ]
            try:
                for _ in range(_PARTITIONS_MAX):
                    if await self._store.drop_log_partition(session, days=settings.log_days) is None:
                        break
            except asyncpg.LockNotAvailableError:
                # Somebody reads the log. Waiting for the lock would hold up every finish behind it.
                log.info("the log is being read; its old partition is dropped next time")
        pruned += [await prune(self._bell, _ROWS_MAX) for prune in self._brought()]
        await self._audit.seal()
        return 1.0 if max(pruned) >= _ROWS_MAX or self._audit.has_more else EVERY_SECONDS

    def _brought(self) -> list[PruneFunction]:
        return [app.on_prune for app in self._bell.registry.apps if app.on_prune is not None]

    async def _prune_agendas(self, session: Session) -> int:
        last = await self._store.prune_agendas(
            session, days=self._settings.dead_days, after=self._agendas_after, limit=_ROWS_MAX
        )
        if last is None or last["looked_at_count"] < _ROWS_MAX:
            self._agendas_after = _BEGINNING, "", ""
            return 0
        self._agendas_after = last["updated_at"], last["tenant"], last["subject"]
        return _ROWS_MAX

    async def _prune_occurrences(self, session: Session) -> int:
        last = await self._store.prune_occurrences(
            session, days=self._settings.dead_days, after=self._occurrences_after, limit=_ROWS_MAX
        )
        if last is None or last["looked_at_count"] < _ROWS_MAX:
            self._occurrences_after = _BEGINNING, UUID(int=0)
            return 0
        self._occurrences_after = last["occurs_at"], last["id"]
        return _ROWS_MAX
