"""Reports: what providers tell afterwards, kept once and applied so that their order does not matter.

A report names a delivery and no tenant, so it is not for a caller to open the transaction: the deliveries are found
first, and those of each tenant are changed in a transaction of their own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Literal, get_args
from uuid import UUID

import orjson

from timebell.db.pool import Row
from timebell.errors import InvalidInput, NotFound
from timebell.kernel import Timebell, Transaction
from timebell.kernel.models import check_name
from timebell.notify.delivery.answers import storable
from timebell.notify.people.opt_outs import OptOuts
from timebell.notify.people.recipient_store import RecipientStore
from timebell.notify.people.suppressions import SuppressedClass, Suppressions
from timebell.notify.provider import Channel, Report, ReportKind
from timebell.notify.reports.report_store import ReportStore
from timebell.notify.rules.standing import Standing, after_report, together

REPORTS_MAX: Final = 2_000
_ID_MAX: Final = 300
_REASON_MAX: Final = 300
_KINDS: Final = get_args(ReportKind)
_ERASED: Final = "erased:"

Outcome = Literal["applied", "kept", "known", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """What became of a report.

    `applied`: the delivery went on to where it says. `kept`: it was there already, or farther. `known`: the report had
    come before. `unknown`: that provider carried no such delivery for us.
    """

    report_id: str
    outcome: Outcome
    delivery_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _About:
    """A report, and the delivery that it is about."""

    report: Report
    tenant: str
    delivery_id: UUID
    notification_id: UUID
    recipient_id: UUID
    channel: Channel
    address: str
    topic: str

    @property
    def is_erased(self) -> bool:
        return self.address.startswith(_ERASED)


class Reports:
    """The reports of the providers, once they were verified and read."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._store = ReportStore(bell.clock)
        self._recipients = RecipientStore(bell.clock)
        self._suppressions = Suppressions(bell)
        self._opt_outs = OptOuts(bell)

    async def receive(self, provider: str, reports: Sequence[Report]) -> list[Received]:
        """Keep and apply what a provider reported, and answer in the same order.

        All is kept when it returns. If it raises, the provider must be told to send the same again, which is harmless.
        """
        check_reports(provider, reports)
        once = list({report.report_id: report for report in reversed(reports)}.values())[::-1]
        abouts = await self._find(provider, once)
        found = {about.report.report_id: about for about in abouts}
        outcomes: dict[str, Outcome] = {}
        by_tenant: defaultdict[str, list[_About]] = defaultdict(list)
        for about in abouts:
            by_tenant[about.tenant].append(about)
        for tenant, theirs in sorted(by_tenant.items()):
            async with self._bell.transaction(tenant=tenant) as tx:
                outcomes |= await self._take(tx, provider, theirs)
        strange = [report for report in once if report.report_id not in found]
        if strange:
            outcomes |= await self._keep_strange(provider, strange)
        return [_received(report, outcomes, found) for report in reports]

    async def _find(self, provider: str, reports: Sequence[Report]) -> list[_About]:
        async with self._bell.database.connection() as session:
            rows = await self._store.find_reported_deliveries(
                session,
                provider=provider,
                delivery_ids=[report.delivery_id for report in reports],
                provider_ids=[report.provider_id for report in reports],
            )
        return [_about(reports[row["position"]], row) for row in rows]

    async def _keep_strange(self, provider: str, reports: Sequence[Report]) -> dict[str, Outcome]:
        """Without a word of what they say: it may be of somebody whom nobody could ever erase from here."""
        columns = _columns(reports, [None] * len(reports), [{} for _ in reports])
        async with self._bell.database.transaction() as session:
            await self._store.insert_reports(session, provider=provider, tenant=None, columns=columns)
        return {report.report_id: "unknown" for report in reports}

    async def _take(self, tx: Transaction, provider: str, abouts: Sequence[_About]) -> dict[str, Outcome]:
        """Those of one tenant. Locks are taken in the order in which a delivery's run and an erasure take them."""
        outcomes: dict[str, Outcome] = {about.report.report_id: "known" for about in abouts}
        abouts = await self._without_the_erased(tx, abouts)
        columns = _columns(
            [about.report for about in abouts],
            [about.delivery_id for about in abouts],
            [_body(about) for about in abouts],
        )
        new = await self._store.insert_reports(
            tx.session, provider=provider, tenant=tx.tenant, columns=columns
        )
        abouts = [about for about in abouts if about.report.report_id in new]
        if not abouts:
            return outcomes
        for about in abouts:
            await self._stop(tx, provider, about)
        locked = await self._store.lock_reported_deliveries(
            tx.session, tenant=tx.tenant, ids=sorted({about.delivery_id for about in abouts})
        )
        before = {row["id"]: Standing(row["state"], row["reason"]) for row in locked}
        after = dict(before)
        last: dict[UUID, Report] = {}
        # What was pruned since it was found is not worth a word any more.
        abouts = [about for about in abouts if about.delivery_id in before]
        for about in abouts:
            standing = after_report(after[about.delivery_id], about.report.kind)
            is_moved = standing != after[about.delivery_id]
            outcomes[about.report.report_id] = "applied" if is_moved else "kept"
            if is_moved:
                after[about.delivery_id], last[about.delivery_id] = standing, about.report
        await self._store.apply_reports(
            tx.session,
            provider=provider,
            tenant=tx.tenant,
            columns=_moves(after, last) | _marks(abouts, outcomes),
        )
        await self._tell_notifications(tx, provider, abouts, outcomes)
        return outcomes

    async def _without_the_erased(self, tx: Transaction, abouts: Sequence[_About]) -> Sequence[_About]:
        """Who was erased since the delivery was found has no address any more, and must not get it back."""
        living = await self._recipients.hold_living(
            tx.session, tenant=tx.tenant, ids=sorted({about.recipient_id for about in abouts})
        )
        return [
            about if about.recipient_id in living else replace(about, address=_ERASED) for about in abouts
        ]

    async def _stop(self, tx: Transaction, provider: str, about: _About) -> None:
        """What a report says of the address, or of what its owner wants, holds for all that is to come."""
        suppressed = _suppressed_class(about)
        if suppressed is not None and not about.is_erased:
            await self._suppressions.add(
                tx,
                channel=about.channel,
                address=about.address,
                message_class=suppressed,
                reason=about.report.kind,
                source=f"provider:{provider}",
            )
        if about.report.kind == "unsubscribed":
            try:
                await self._opt_outs.add(
                    tx,
                    about.recipient_id,
                    topic=about.topic if about.channel == "email" else None,
                    channel=about.channel,
                    source=f"provider:{provider}",
                )
            except (NotFound, InvalidInput):
                # Nobody is left who could be told, or there are so many that the suppression must do.
                return

    async def _tell_notifications(
        self, tx: Transaction, provider: str, abouts: Sequence[_About], outcomes: Mapping[str, Outcome]
    ) -> None:
        """One that is settled is summed up anew; one that waits, for the report perhaps, is tried now."""
        checks: defaultdict[UUID, list[dict[str, Any]]] = defaultdict(list)
        touched: set[UUID] = set()
        for about in abouts:
            is_news = outcomes[about.report.report_id] == "applied"
            checks[about.notification_id].append(_check_json(provider, about, is_news))
            if is_news:
                touched.add(about.notification_id)
        rows = await self._store.read_reported_notifications(tx.session, tenant=tx.tenant, ids=sorted(checks))
        standings = [_summed_up(row) for row in rows]
        columns = {
            "ids": [row["id"] for row in rows],
            "states": [standing.state for standing in standings],
            "reasons": [standing.reason for standing in standings],
            "decisions": [_decision(row["now"], checks[row["id"]]) for row in rows],
        }
        await self._store.note_reports(tx.session, tenant=tx.tenant, columns=columns)
        moved = [place for place, row in enumerate(rows) if row["is_settled"] and row["id"] in touched]
        if moved:
            told = {name: [columns[name][place] for place in moved] for name in ("ids", "states", "reasons")}
            await self._store.follow_digests(tx.session, tenant=tx.tenant, columns=told)
        waiting = [row["id"] for row in rows if not row["is_settled"] and row["id"] in touched]
        if waiting:
            await self._bell.hasten(tx, waiting)


def check_reports(provider: str, reports: Sequence[Report]) -> None:
    check_name("provider", provider, longest=100, required=True)
    if len(reports) > REPORTS_MAX:
        raise InvalidInput(
            f"{len(reports)} at once, the limit is {REPORTS_MAX}; send several", field="reports"
        )
    for report in reports:
        check_name("report_id", report.report_id, longest=_ID_MAX, required=True)
        check_name("provider_id", report.provider_id, longest=_ID_MAX)
        if report.kind not in _KINDS:
            raise InvalidInput(f"{report.kind!r:.100} must be one of {', '.join(_KINDS)}", field="kind")


def _about(report: Report, row: Row) -> _About:
    return _About(
        report=report,
        tenant=row["tenant"],
        delivery_id=row["id"],
        notification_id=row["notification_id"],
        recipient_id=row["recipient_id"],
        channel=row["channel"],
        address=row["address"],
        topic=row["topic"],
    )


def _suppressed_class(about: _About) -> SuppressedClass | None:
    """Which messages an address must not get any more.

    A mailbox that is full for now is no reason. Whoever unsubscribes from mail still wants to know of what they
    ordered; a STOP to a number means everything.
    """
    match about.report.kind:
        case "bounced":
            return "" if about.report.is_permanent else None
        case "complained":
            return ""
        case "unsubscribed":
            return "marketing" if about.channel == "email" else ""
        case _:
            return None


def _body(about: _About) -> dict[str, Any]:
    """What the provider said may name the address, which is nobody's business once its owner was erased."""
    report = about.report
    if report.reason is None or about.is_erased:
        return {"is_permanent": report.is_permanent}
    return {"is_permanent": report.is_permanent, "said": storable(report.reason[:_REASON_MAX])}


def _columns(
    reports: Sequence[Report], delivery_ids: Sequence[UUID | None], bodies: Sequence[Mapping[str, Any]]
) -> dict[str, list[Any]]:
    return {
        "report_ids": [report.report_id for report in reports],
        "delivery_ids": list(delivery_ids),
        "provider_ids": [report.provider_id for report in reports],
        "kinds": [report.kind for report in reports],
        "occurred_ats": [report.occurred_at for report in reports],
        "bodies": [orjson.dumps(body).decode() for body in bodies],
    }


def _moves(after: Mapping[UUID, Standing], last: Mapping[UUID, Report]) -> dict[str, list[Any]]:
    """The deliveries that moved. Whatever came of one that was not refused, the provider had taken it."""
    return {
        "ids": list(last),
        "states": [after[id].state for id in last],
        "reasons": [after[id].reason for id in last],
        "answers": ["rejected" if after[id].reason == "rejected" else "sent" for id in last],
        "occurred_ats": [report.occurred_at for report in last.values()],
    }


def _marks(abouts: Sequence[_About], outcomes: Mapping[str, Outcome]) -> dict[str, list[Any]]:
    ids = [about.report.report_id for about in abouts]
    return {"report_ids": ids, "applied": [outcomes[id] for id in ids]}


def _summed_up(row: Row) -> Standing:
    """What became of a notification. Of one that is settled, what is still pending was given up."""
    if not row["is_settled"]:
        return Standing(row["state"], row["reason"])
    return together(
        Standing("failed", "exhausted") if state == "pending" else Standing(state, reason)
        for state, reason in orjson.loads(row["standings"])
    )


def _check_json(provider: str, about: _About, is_news: bool) -> dict[str, Any]:
    """Part of the story, so without what the provider said, which may name the address."""
    is_bad = about.report.kind in ("failed", "bounced", "complained")
    detail = {"channel": about.channel, "provider": provider, "kind": about.report.kind, "is_news": is_news}
    return {"name": "report", "verdict": "refused" if is_bad else "passed", "detail": detail}


def _decision(now: datetime, checks: Sequence[Mapping[str, Any]]) -> str:
    return orjson.dumps({"at": now.isoformat(), "checks": checks}).decode()


def _received(report: Report, outcomes: Mapping[str, Outcome], found: Mapping[str, _About]) -> Received:
    about = found.get(report.report_id)
    return Received(
        report_id=report.report_id,
        outcome=outcomes[report.report_id],
        delivery_id=None if about is None else about.delivery_id,
    )
