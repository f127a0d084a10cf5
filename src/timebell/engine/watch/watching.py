"""The watch: asks, one node at a time, every question of the rules for alerts, and opens and closes alerts by the
answers.

What two nodes do at once does no harm: an alert stands once, and closes once. Turns only keep the cost down.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Final
from uuid import UUID

import asyncpg

from timebell.db.pool import Row
from timebell.engine.watch.own_alerts import OWN_RULES, QUESTION_FAILS, TELLING, failing
from timebell.errors import ConfigurationError
from timebell.kernel.alerts import (
    ENGINE,
    AlertNews,
    AlertRule,
    Alerts,
    AlertStore,
    Asked,
    BroughtRule,
    Finding,
    shortened,
)
from timebell.kernel.app import Registry
from timebell.kernel.bell import DEFAULT_TENANT, Timebell
from timebell.logs import Logger
from timebell.rules.alerting import Bounds, Decision, Figure, Place, Standing, decide, is_within, last_of

log = Logger("timebell.watch")

FAILURES: Final = "timebell_alert_questions_failed"
_ASK_SECONDS = 5.0
# Beyond the time that the server gives a statement, for one that does not answer at all.
_PATIENCE_SECONDS = 2.0
_FINDINGS_MAX = 200
_PAGES_MAX = 5
_NEWS_MAX = 100
_STANDING_MAX = 5_000
# Without the database no question can be answered, and it is no fault of theirs. What took too long is one of theirs.
_AWAY = (
    ConnectionError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
)
# Somebody else's pass may have begun a little later than ours.
_EARLY = 0.9


class Watch:
    """One bounded pass at a time."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._database = bell.database
        self._store = AlertStore(bell.clock)
        self._alerts = Alerts(bell)
        self.rules = rules_of(bell.registry)
        # How often in a row each question has failed, and where the next pass over a long answer begins.
        self._failed: Counter[str] = Counter()
        self._after: dict[str, Place | None] = {}

    async def tick(self) -> float:
        every = self._bell.settings.alert_seconds
        await self.look(seconds=every * _EARLY)
        return every

    async def look(self, *, seconds: float = 0.0) -> None:
        """Ask what nobody has asked for so long. None has to wait for another, and none fails for another's sake."""
        apps = {brought.app for brought in self.rules.values()}
        async with self._database.connection() as session:
            taken = await self._store.take_rounds(session, apps=sorted(apps), seconds=seconds)
            standing = await self._store.list_standing_rules(session) if taken else frozenset()
        for brought in self.rules.values():
            if brought.app in taken and brought.rule.question is not None:
                await self._look_at(brought, brought.rule.name in standing)
        if ENGINE in taken:
            await self._tell()

    async def _look_at(self, brought: BroughtRule, stands: bool) -> None:
        name = brought.rule.name
        for _ in range(_PAGES_MAX):
            after = self._after.get(name)
            try:
                until = await self._ask_and_settle(brought, after, stands)
            except _AWAY:
                raise
            except Exception as error:
                self._note_failure(name, error)
                return
            self._failed.pop(name, None)
            self._after[name] = until
            if until is None:
                return

    async def _ask_and_settle(self, brought: BroughtRule, after: Place | None, stands: bool) -> Place | None:
        """Answers with the place up to which a long answer was looked at."""
        findings = await self._ask(brought, after)
        if findings is None:
            return None
        found = figures_of(findings)
        until = last_of(found) if len(findings) >= _FINDINGS_MAX else None
        if found or stands:
            await self._settle(brought, found, after, until)
        return until

    async def _ask(self, brought: BroughtRule, after: Place | None) -> Sequence[Finding] | None:
        """Within a few seconds, and without a way to change anything."""
        rule = brought.rule
        if rule.name == QUESTION_FAILS:
            return failing(self._failed)
        assert rule.question is not None
        async with (
            asyncio.timeout(_ASK_SECONDS + _PATIENCE_SECONDS),
            self._database.transaction() as session,
        ):
            limit = f"SET LOCAL statement_timeout = {round(_ASK_SECONDS * 1_000)}"
            await session.execute(f"SET TRANSACTION READ ONLY; {limit}")
            asked = Asked(
                bell=self._bell, session=session, window=rule.window, limit=_FINDINGS_MAX, after=after
            )
            return await rule.question(asked)

    def _note_failure(self, name: str, error: Exception) -> None:
        """The first is told whole. What goes on failing opens an alert, and the count of it goes on."""
        self._failed[name] += 1
        self._bell.tallies.add(FAILURES, name)
        if self._failed[name] == 1:
            log.error("a question about alerts failed", rule=name, exc_info=error)

    async def _tell(self) -> None:
        """Have operators told of what is new. What could not be told stays as it is, and is told another time."""
        tellers = [app.on_alerts for app in self._bell.registry.apps if app.on_alerts is not None]
        if not tellers or not self._bell.settings.operations_recipients:
            return
        try:
            async with self._bell.transaction() as tx:
                rows = await self._store.take_untold(tx.session, limit=_NEWS_MAX)
                if rows:
                    for tell in tellers:
                        await tell(self._bell, tx, [self._news(row) for row in rows])
                    await self._store.note_told(tx.session, ids=[row["id"] for row in rows])
        except _AWAY:
            raise
        except Exception as error:
            self._note_failure(TELLING, error)
            return
        self._failed.pop(TELLING, None)

    def _news(self, row: Row) -> AlertNews:
        brought = self.rules.get(row["rule"])
        if brought is None:
            return AlertNews(**row)
        return AlertNews(**row, about=brought.rule.about, remedy=brought.rule.remedy)

    async def _settle(
        self, brought: BroughtRule, found: Mapping[Place, Found], after: Place | None, until: Place | None
    ) -> None:
        async with self._database.connection() as session:
            rows = await self._store.list_standing(
                session, rule=brought.rule.name, after=after, limit=_STANDING_MAX
            )
            now = await self._bell.store.read_clock(session)
        ids: dict[Place, UUID] = {}
        standing: dict[Place, Standing] = {}
        for row in rows:
            place = (row["tenant"], row["subject"])
            if is_within(place, after, until):
                ids[place] = row["id"]
                standing[place] = Standing(
                    seen_at=row["seen_at"], is_open=row["is_open"], detail=row["detail"]
                )
        figures = {place: each.figure for place, each in found.items()}
        for tenant, part in parted(decide(self._bounds(brought.rule), figures, standing, now)).items():
            await self._write(brought, tenant, part, found, ids)

    def _bounds(self, rule: AlertRule) -> Bounds:
        """What is a rate needs as many samples as an operator has said."""
        bounds = rule.bounds
        if bounds.samples_min == 1:
            return bounds
        return replace(bounds, samples_min=self._bell.settings.alert_samples_min)

    async def _write(
        self,
        brought: BroughtRule,
        tenant: str,
        part: Decision,
        found: Mapping[Place, Found],
        ids: Mapping[Place, UUID],
    ) -> None:
        """What was decided about the alerts of one tenant, all of it or nothing."""
        details = {place: each.figure.detail for place, each in found.items()}
        async with self._bell.transaction(tenant=tenant) as tx:
            for places, is_open in ((part.seen, False), (part.opened, True)):
                if places:
                    said = [(place[1], details[place]) for place in places]
                    is_of_engine = found[places[0]].is_of_engine
                    await self._alerts.note(tx, brought, said, is_open=is_open, is_of_engine=is_of_engine)
            if part.ripe:
                ripe = [(ids[place], details[place]) for place in part.ripe]
                await self._alerts.open_all(tx, brought, ripe)
            if part.worded:
                await self._store.word_alerts(
                    tx.session,
                    tenant=tenant,
                    ids=[ids[place] for place in part.worded],
                    details=[details[place] for place in part.worded],
                )
            if part.closed:
                await self._alerts.close_all(tx, brought, [ids[place] for place in part.closed])
            if part.forgotten:
                gone = [ids[place] for place in part.forgotten]
                await self._store.forget_sightings(tx.session, tenant=tenant, ids=gone)


@dataclass(frozen=True, slots=True)
class Found:
    """A figure, and whether it is about the installation and no tenant's own."""

    figure: Figure
    is_of_engine: bool


def rules_of(registry: Registry) -> Mapping[str, BroughtRule]:
    """The engine's own rules and those of the apps, by name."""
    own = {rule.name: BroughtRule(app=ENGINE, rule=rule) for rule in OWN_RULES}
    brought = registry.alerts
    for name, each in brought.items():
        if name in own or each.app == ENGINE:
            raise ConfigurationError(
                f"app {each.app!r}: the alert {name!r} is the engine's, or the app has its name; rename it"
            )
    return {**own, **brought}


def figures_of(findings: Sequence[Finding]) -> dict[Place, Found]:
    """By the place that each is about; what is about the installation stands with the tenant `default`."""
    return {
        (DEFAULT_TENANT if each.tenant is None else each.tenant, each.subject): Found(
            Figure(value=each.value, samples=each.samples, detail=shortened(each.detail)), each.tenant is None
        )
        for each in findings
    }


def parted(decision: Decision) -> dict[str, Decision]:
    """What was decided, by tenant: each has a transaction of its own."""
    parts: defaultdict[str, Decision] = defaultdict(Decision)
    for each in fields(Decision):
        for place in getattr(decision, each.name):
            getattr(parts[place[0]], each.name).append(place)
    return parts
