"""`Alerts`: what needs a person. Each is a row: it opens once, is told from there, is acknowledged, and closes once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args
from uuid import UUID

from timebell.clock import Ids
from timebell.db.pool import Row
from timebell.errors import ConfigurationError, InvalidInput, NotFound
from timebell.kernel.alerts.alerting import AlertLine, AlertRule, BroughtRule, check_subject, shortened
from timebell.kernel.alerts.store import AlertStore
from timebell.kernel.bell import Timebell
from timebell.kernel.models import check_id, check_name
from timebell.kernel.paging import Listing, Page, check_limit, decode_cursor, page_of
from timebell.kernel.transaction import Transaction, check_transaction
from timebell.logs import Logger

log = Logger("timebell.alerts")

# Whose alerts are about the installation. No app may have the name.
ENGINE: Final = "engine"
AlertState = Literal["open", "closed"]
_LOOK_MAX: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    """An alert that somebody has seen to. `is_first`: nobody had before."""

    alert: AlertLine
    is_first: bool


class Alerts:
    """Opens, closes, lists and acknowledges alerts, in the transaction that it is given."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._store = AlertStore(bell.clock)
        self._ids = Ids(bell.chance)

    async def open(self, tx: Transaction, rule: str, *, subject: str = "", detail: str) -> bool:
        """Say that something needs a person, in the transaction in which it came to be so. Of a rule without a
        question: what has one is opened by that. Where it is open already nothing changes, and the answer is False."""
        check_transaction(tx)
        check_subject(subject)
        brought = self._by_hand(rule)
        opened = await self.note(tx, brought, [(subject, detail)], is_open=True)
        return bool(opened)

    async def close(self, tx: Transaction, rule: str, *, subject: str = "") -> bool:
        """It is as it should be again, without anybody. False where nothing was open."""
        check_transaction(tx)
        check_subject(subject)
        brought = self._by_hand(rule)
        id = await self._store.find_alert(tx.session, tenant=tx.tenant, rule=rule, subject=subject)
        return id is not None and bool(await self.close_all(tx, brought, [id]))

    def _by_hand(self, rule: str) -> BroughtRule:
        brought = self._bell.registry.alerts.get(rule)
        if brought is None or brought.rule.question is not None:
            raise ConfigurationError(
                f"alert {rule!r}: no app brings a rule of that name without a question; add it to App.alerts"
            )
        return brought

    async def note(
        self,
        tx: Transaction,
        brought: BroughtRule,
        findings: Sequence[tuple[str, str]],
        *,
        is_open: bool,
        is_of_engine: bool = False,
    ) -> Sequence[Row]:
        """Write down what was found, by subject and detail; answers with what did not stand already."""
        rule = brought.rule
        rows = await self._store.insert_alerts(
            tx.session,
            tenant=tx.tenant,
            app=brought.app,
            rule=rule.name,
            severity=rule.severity,
            is_of_engine=is_of_engine,
            is_by_hand=rule.question is None,
            is_open=is_open,
            ids=self._ids.many(len(findings)),
            subjects=[subject for subject, _ in findings],
            details=[shortened(detail) for _, detail in findings],
        )
        if is_open:
            await self._record(tx, "alert.opened", rule, rows)
        return rows

    async def open_all(
        self, tx: Transaction, brought: BroughtRule, found: Sequence[tuple[UUID, str]]
    ) -> Sequence[Row]:
        """Open what was only seen, by its id and with its detail."""
        ids, details = [id for id, _ in found], [shortened(detail) for _, detail in found]
        rows = await self._store.open_alerts(tx.session, tenant=tx.tenant, ids=ids, details=details)
        await self._record(tx, "alert.opened", brought.rule, rows)
        return rows

    async def close_all(self, tx: Transaction, brought: BroughtRule, ids: Sequence[UUID]) -> Sequence[Row]:
        rows = await self._store.close_alerts(tx.session, tenant=tx.tenant, ids=ids)
        await self._record(tx, "alert.closed", brought.rule, rows)
        return rows

    async def acknowledge(
        self,
        tx: Transaction,
        id: UUID,
        *,
        actor: str,
        sees_engine: bool = True,
        correlation_id: str | None = None,
    ) -> Acknowledged:
        """Somebody sees to it. Whoever was first stays; an alert that no question closes is closed by it."""
        check_transaction(tx)
        check_id("id", id)
        check_name("actor", actor, required=True)
        row = await self._store.acknowledge_alert(
            tx.session, tenant=tx.tenant, id=id, actor=actor, sees_engine=sees_engine
        )
        if row is None:
            raise NotFound(f"this tenant has no alert {id}")
        names = [name for name, is_so in self._said(row) if is_so]
        for name in names:
            await self._bell.record(
                tx,
                name,
                {"rule": row["rule"], "subject": row["subject"]},
                subject=subject_of(id),
                actor=actor,
                correlation_id=correlation_id,
            )
        return Acknowledged(alert=alert_of(row), is_first=row["is_first"])

    @staticmethod
    def _said(row: Row) -> tuple[tuple[str, bool], ...]:
        return (("alert.acknowledged", row["is_first"]), ("alert.closed", row["is_closing"]))

    async def list(
        self,
        tenant: str,
        *,
        state: AlertState | None = None,
        sees_engine: bool = True,
        oldest_first: bool = True,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[AlertLine]:
        """The alerts of a tenant in the order in which they opened; those about the installation are of `default`."""
        check_name("tenant", tenant, required=True)
        check_limit(limit)
        if state is not None and state not in get_args(AlertState):
            raise InvalidInput(f"{state!r} is not one of open, closed", field="state")
        read = "alerts.oldest" if oldest_first else "alerts"
        end = decode_cursor(read, cursor, dated=True)
        listing = Listing(
            tenant=tenant,
            state=state,
            limit=limit,
            look_max=_LOOK_MAX,
            after=end.id if oldest_first else None,
            after_at=end.at if oldest_first else None,
            before=None if oldest_first else end.id,
            before_at=None if oldest_first else end.at,
        )
        listed = self._store.list_alerts_oldest if oldest_first else self._store.list_alerts
        async with self._bell.database.connection() as session:
            rows = await listed(session, listing, sees_engine=sees_engine)
        return page_of(read, rows, limit, alert_of, at="opened_at")

    async def _record(self, tx: Transaction, event: str, rule: AlertRule, rows: Sequence[Row]) -> None:
        """The audit trail has it, and after the commit the log, whoever else hears of it."""
        for row in rows:
            said: Mapping[str, Any] = {
                "rule": rule.name,
                "severity": rule.severity,
                "subject": row["subject"],
                "detail": row["detail"],
            }
            await self._bell.record(tx, event, said, subject=subject_of(row["id"]))
            tx.after_commit.append(_line(event, rule, tx.tenant, said))


def _line(event: str, rule: AlertRule, tenant: str, said: Mapping[str, Any]) -> Any:
    def write() -> None:
        if event == "alert.closed":
            log.info("an alert has closed", tenant=tenant, **said)
        else:
            level = log.error if rule.severity == "critical" else log.warning
            level("an alert has opened", tenant=tenant, about=rule.about, remedy=rule.remedy, **said)

    return write


def subject_of(id: UUID) -> str:
    """What the events about an alert are about."""
    return f"alert:{id}"


def alert_of(row: Row) -> AlertLine:
    return AlertLine(
        id=row["id"],
        rule=row["rule"],
        severity=row["severity"],
        app=row["app"],
        subject=row["subject"] or None,
        detail=row["detail"],
        opened_at=row["opened_at"],
        closed_at=row["closed_at"],
        acknowledged_by=row["acknowledged_by"],
    )
