"""Reports on their way in: stored by whoever took them, applied by a node.

Whoever takes a report does not see whose delivery it is about: behind the wall between tenants there is one tenant at a
time, and a report names none. So it is kept without one, and a job has a node, which sees them all, apply it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import orjson

from timebell.db.pool import Row
from timebell.kernel import Done, Job, Outcome, Snooze, Timebell, Transaction
from timebell.kernel.transaction import check_transaction
from timebell.notify.provider import Report
from timebell.notify.reports.incoming_store import IncomingStore
from timebell.notify.reports.reporting import Reports, check_reports

APPLY_REPORTS: Final = "notify.apply_reports"
# A provider may report before the answer with its id for the delivery is written down.
FRESH: Final = timedelta(seconds=30)
_BATCH: Final = 1_000
_SAID_MAX: Final = 300


class Incoming:
    """Takes reports in. It needs no more than the right to insert."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._store = IncomingStore(bell.clock)

    async def take(self, tx: Transaction, provider: str, reports: Sequence[Report]) -> None:
        """Keep what a provider reported, and have it applied. All is kept when the transaction commits."""
        check_transaction(tx)
        check_reports(provider, reports)
        if not reports:
            return
        once = list({report.report_id: report for report in reversed(reports)}.values())
        columns: dict[str, list[Any]] = {
            "report_ids": [report.report_id for report in once],
            "provider_ids": [report.provider_id for report in once],
            "kinds": [report.kind for report in once],
            "occurred_ats": [report.occurred_at for report in once],
            "bodies": [_body(report) for report in once],
        }
        await self._store.store_incoming(tx.session, provider=provider, columns=columns)
        await self._bell.enqueue(tx, APPLY_REPORTS, {"provider": provider})


async def apply_reports(job: Job) -> Outcome:
    """`notify.apply_reports`: apply all that has come in. It may run twice, or beside another; a report counts once."""
    store, reports = IncomingStore(job.bell.clock), Reports(job.bell)
    async with job.bell.database.connection() as session:
        rows = await store.list_incoming(session, fresh=FRESH, limit=_BATCH)
    by_provider: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_provider[row["provider"]].append(row)
    has_fresh = False
    for provider, theirs in by_provider.items():
        received = await reports.receive(provider, [_report_of(row) for row in theirs])
        strange = [
            row for row, one in zip(theirs, received, strict=True) if one.outcome not in ("applied", "kept")
        ]
        has_fresh = has_fresh or any(row["is_fresh"] for row in strange)
        closed = [row["report_id"] for row in strange if not row["is_fresh"]]
        if closed:
            async with job.bell.database.transaction() as session:
                await store.close_incoming(session, provider=provider, report_ids=closed)
    if has_fresh:
        return Snooze(delay=FRESH, reason="the delivery may still be written down")
    return Done() if len(rows) < _BATCH else Snooze(reason="there are more")


def _body(report: Report) -> str:
    """What no column has. The address is left out: the delivery has it, and an erasure would not find it here."""
    body: dict[str, object] = {"is_permanent": report.is_permanent}
    if report.delivery_id is not None:
        body["delivery_id"] = str(report.delivery_id)
    if report.reason is not None:
        body["said"] = report.reason[:_SAID_MAX]
    return orjson.dumps(body).decode()


def _report_of(row: Row) -> Report:
    body = orjson.loads(row["body"])
    named = body.get("delivery_id")
    return Report(
        report_id=row["report_id"],
        kind=row["kind"],
        provider_id=row["provider_id"],
        delivery_id=None if named is None else UUID(named),
        is_permanent=body.get("is_permanent", True),
        reason=body.get("said"),
        occurred_at=row["occurred_at"],
    )
