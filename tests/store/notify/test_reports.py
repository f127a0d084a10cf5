"""What providers report afterwards: kept once, applied in any order, and minded by all that is to come."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import orjson
import pytest

from tests.store.notify.support import held, insert, run_at
from tests.store.support import HOUR, NOW, Tables
from timebell.errors import InvalidInput
from timebell.kernel import Timebell
from timebell.notify.models import Recipient
from timebell.notify.people.recipients import Recipients
from timebell.notify.provider import Report, ReportKind
from timebell.notify.reports.reporting import Received, Reports

ADDRESS = "ana@example.org"


@pytest.fixture
def reports(bell: Timebell) -> Reports:
    return Reports(bell)


async def ana(bell: Timebell, tenant: str = "default") -> Recipient:
    async with bell.transaction(tenant=tenant) as tx:
        return await Recipients(bell).add(tx, name="Ana", email=ADDRESS, phone="+4915112345678")


class Told:
    """A notification with deliveries that a provider took; settled unless it waits for something."""

    def __init__(self, bell: Timebell, tables: Tables, recipient: Recipient) -> None:
        self._bell, self._tables, self._recipient = bell, tables, recipient

    @property
    def recipient(self) -> UUID:
        return self._recipient.id

    async def note(self, reason: str | None = None, **values: Any) -> UUID:
        settled = {} if reason else {"state": "sent", "reason": "accepted", "settled_at": NOW}
        return await held(
            self._bell,
            self._tables,
            self._recipient.id,
            reason,
            tenant=self._recipient.tenant,
            **{**settled, **values},
        )

    async def deliver(self, notification: UUID, **values: Any) -> UUID:
        id = uuid4()
        given = {
            "tenant": self._recipient.tenant,
            "id": id,
            "notification_id": notification,
            "recipient_id": self._recipient.id,
            "channel": "email",
            "provider": "resend",
            "address": ADDRESS,
            "state": "sent",
            "reason": "accepted",
            "provider_id": f"re_{id}",
            "attempt_count": 1,
            "created_at": NOW,
            "updated_at": NOW,
            "sent_at": NOW,
        }
        await insert(self._tables, "deliveries", **{**given, **values})
        return id


async def make_told(bell: Timebell, tables: Tables, tenant: str = "default") -> Told:
    return Told(bell, tables, await ana(bell, tenant))


def report(delivery: UUID | None, kind: ReportKind = "delivered", **values: Any) -> Report:
    return Report(**{"report_id": uuid4().hex, "kind": kind, "delivery_id": delivery, **values})


def outcomes(received: Sequence[Received]) -> list[str]:
    return [one.outcome for one in received]


async def delivery(tables: Tables, id: UUID) -> dict[str, Any]:
    (row,) = await tables.rows("SELECT * FROM timebell_notify.deliveries WHERE id = $1", id)
    return row


async def notification(tables: Tables, id: UUID) -> dict[str, Any]:
    (row,) = await tables.rows(
        "SELECT *, decisions::text AS story FROM timebell_notify.notifications WHERE id = $1", id
    )
    return row


async def suppressions(tables: Tables, tenant: str = "default") -> list[tuple[str, ...]]:
    rows = await tables.rows(
        "SELECT channel, address, class, reason, source FROM timebell_notify.suppressions WHERE tenant = $1",
        tenant,
    )
    return [tuple(row.values()) for row in rows]


@pytest.mark.req("X-C6")
async def test_a_report_moves_the_delivery_and_its_notification(
    bell: Timebell, tables: Tables, reports: Reports
) -> None:
    told = await make_told(bell, tables)
    note = await told.note()
    id = await told.deliver(note)
    arrived_at = NOW - timedelta(minutes=1)
    (received,) = await reports.receive("resend", [report(id, occurred_at=arrived_at)])
    assert received == Received(report_id=received.report_id, outcome="applied", delivery_id=id)
    row = await delivery(tables, id)
    assert (row["state"], row["reason"], row["delivered_at"]) == ("delivered", None, arrived_at)
    whole = await notification(tables, note)
    assert (whole["state"], whole["reason"]) == ("delivered", None)
    check = orjson.loads(whole["story"])[-1]["checks"][0]
    assert check["detail"] == {"channel": "email", "provider": "resend", "kind": "delivered", "is_news": True}


async def test_the_providers_own_id_will_do(bell: Timebell, tables: Tables, reports: Reports) -> None:
    told = await make_told(bell, tables)
    id = await told.deliver(await told.note(), provider_id="re_7")
    assert outcomes(await reports.receive("resend", [report(None, provider_id="re_7")])) == ["applied"]
    assert (await delivery(tables, id))["state"] == "delivered"


async def test_a_report_of_the_future_is_dated_now(bell: Timebell, tables: Tables, reports: Reports) -> None:
    told = await make_told(bell, tables)
    id = await told.deliver(await told.note())
    await reports.receive("resend", [report(id, occurred_at=NOW + HOUR)])
    assert (await delivery(tables, id))["delivered_at"] == NOW


@pytest.mark.req("X-C6")
async def test_a_report_is_applied_once(bell: Timebell, tables: Tables, reports: Reports) -> None:
    told = await make_told(bell, tables)
    note = await told.note()
    one = report(await told.deliver(note))
    assert outcomes(await reports.receive("resend", [one, one])) == ["applied", "applied"]
    assert outcomes(await reports.receive("resend", [one])) == ["known"]
    assert len(orjson.loads((await notification(tables, note))["story"])) == 2
    assert await tables.value("SELECT count(*) FROM timebell_notify.provider_reports") == 1


async def test_two_at_once_apply_it_once(bell: Timebell, tables: Tables, reports: Reports) -> None:
    told = await make_told(bell, tables)
    one = report(await told.deliver(await told.note()))
    both = await asyncio.gather(reports.receive("resend", [one]), reports.receive("resend", [one]))
    assert sorted(outcomes(both[0]) + outcomes(both[1])) == ["applied", "known"]


async def test_what_was_decided_meanwhile_is_not_undone(
    bell: Timebell, tables: Tables, reports: Reports
) -> None:
    """A report that waits for its turn is applied to what it then finds."""
    told = await make_told(bell, tables)
    id = await told.deliver(await told.note())
    async with bell.transaction() as tx:
        await tx.connection.execute(
            "UPDATE timebell_notify.deliveries SET state = 'failed', reason = 'complained' WHERE id = $1", id
        )
        receiving = asyncio.create_task(reports.receive("resend", [report(id)]))
        await tables.until_someone_waits()
    assert outcomes(await receiving) == ["kept"]
    assert (await delivery(tables, id))["reason"] == "complained"


@pytest.mark.req("X-C6")
async def test_the_order_of_reports_does_not_matter(bell: Timebell, tables: Tables, reports: Reports) -> None:
    """Each replayed up to five times and shuffled, over several calls."""
    told = await make_told(bell, tables)
    chance = random.Random(28)
    kinds: list[ReportKind] = ["sent", "delivered", "bounced"]
    for order in itertools.permutations(kinds):
        note = await told.note()
        id = await told.deliver(note)
        first = [report(id, kind) for kind in order]
        replayed = first + chance.choices(first, k=chance.randint(0, 12))
        for one in replayed:
            await reports.receive("resend", [one])
        row = await delivery(tables, id)
        assert (row["state"], row["reason"]) == ("failed", "bounced"), order
        assert (await notification(tables, note))["state"] == "failed"
        kept = await tables.value(
            "SELECT count(*) FROM timebell_notify.provider_reports WHERE delivery_id = $1", id
        )
        assert kept == 3


async def test_failed_after_delivered_is_kept_and_changes_nothing(
    bell: Timebell, tables: Tables, reports: Reports
) -> None:
    told = await make_told(bell, tables)
    note = await told.note()
    id = await told.deliver(note)
    received = await reports.receive("resend", [report(id), report(id, "failed")])
    assert outcomes(received) == ["applied", "kept"]
    assert (await delivery(tables, id))["state"] == "delivered"
    assert (await notification(tables, note))["state"] == "delivered"


async def test_what_waits_for_a_report_is_tried_now(bell: Timebell, tables: Tables, reports: Reports) -> None:
    """The attempt that nobody had answered is answered by the report."""
    told = await make_told(bell, tables)
    note = await told.note("held_report", state="uncertain")
    id = await told.deliver(note, state="pending", reason=None, provider_id=None, sent_at=None)
    attempt = {"tenant": "default", "delivery_id": id, "number": 1, "started_at": NOW}
    await insert(tables, "attempts", **attempt)
    assert await run_at(tables, note) == NOW + HOUR
    await reports.receive("resend", [report(id)])
    assert await run_at(tables, note) == NOW
    row = await delivery(tables, id)
    assert (row["state"], row["sent_at"], row["delivered_at"]) == ("delivered", NOW, NOW)
    assert await tables.value("SELECT answer FROM timebell_notify.attempts") == "sent"
    whole = await notification(tables, note)
    assert (whole["state"], whole["reason"], whole["settled_at"]) == ("uncertain", "held_report", None)


async def test_a_report_that_changes_nothing_hastens_nothing(
    bell: Timebell, tables: Tables, reports: Reports
) -> None:
    told = await make_told(bell, tables)
    note = await told.note("held_quiet_hours")
    id = await told.deliver(note)
    assert outcomes(await reports.receive("resend", [report(id, "sent")])) == ["kept"]
    assert await run_at(tables, note) == NOW + HOUR


async def test_one_channel_that_arrived_outweighs_one_that_bounced(
    bell: Timebell, tables: Tables, reports: Reports
) -> None:
    told = await make_told(bell, tables)
    note = await told.note()
    mail = await told.deliver(note)
    await told.deliver(note, channel="inbox", provider="inbox", address="", reason="shown", provider_id=None)
    await told.deliver(note, channel="sms", provider="infobip", state="pending", reason="held_retry")
    await reports.receive("resend", [report(mail, "bounced")])
    whole = await notification(tables, note)
    assert (whole["state"], whole["reason"]) == ("sent", "shown")


@pytest.mark.parametrize(
    ("kind", "is_permanent", "channel", "expected"),
    [
        ("bounced", True, "email", ("email", ADDRESS, "", "bounced", "provider:resend")),
        ("bounced", False, "email", None),
        ("complained", True, "email", ("email", ADDRESS, "", "complained", "provider:resend")),
        ("unsubscribed", True, "email", ("email", ADDRESS, "marketing", "unsubscribed", "provider:resend")),
        ("unsubscribed", True, "sms", ("sms", "+4915112345678", "", "unsubscribed", "provider:resend")),
        ("failed", True, "email", None),
        ("delivered", True, "email", None),
    ],
)
async def test_what_is_suppressed(
    bell: Timebell,
    tables: Tables,
    reports: Reports,
    kind: ReportKind,
    is_permanent: bool,
    channel: str,
    expected: tuple[str, ...] | None,
) -> None:
    told = await make_told(bell, tables)
    address = ADDRESS if channel == "email" else "+4915112345678"
    id = await told.deliver(await told.note(), channel=channel, address=address)
    await reports.receive(
        "resend", [report(id, kind, is_permanent=is_permanent, address="other@example.org")]
    )
    assert await suppressions(tables) == ([] if expected is None else [expected])


@pytest.mark.req("X-C12")
@pytest.mark.parametrize(("channel", "topic"), [("email", "news"), ("sms", "")])
async def test_whoever_unsubscribes_is_asked_no_further(
    bell: Timebell, tables: Tables, reports: Reports, channel: str, topic: str
) -> None:
    """By mail of the topic, by STOP of the channel."""
    told = await make_told(bell, tables)
    address = ADDRESS if channel == "email" else "+4915112345678"
    id = await told.deliver(await told.note(), channel=channel, address=address)
    await reports.receive("resend", [report(id, "unsubscribed")])
    assert (await delivery(tables, id))["state"] == "sent"
    (row,) = await tables.rows("SELECT topic, channel, source FROM timebell_notify.opt_outs")
    assert row == {"topic": topic, "channel": channel, "source": "provider:resend"}


async def test_whoever_was_erased_is_not_written_down_again(
    bell: Timebell, tables: Tables, reports: Reports
) -> None:
    recipient = await ana(bell)
    told = Told(bell, tables, recipient)
    id = await told.deliver(await told.note())
    async with bell.transaction() as tx:
        await Recipients(bell).erase(tx, recipient.id)
    said = f"550 no such mailbox {ADDRESS}"
    received = await reports.receive(
        "resend", [report(id, "bounced", address=ADDRESS, reason=said), report(id, "unsubscribed")]
    )
    assert outcomes(received) == ["applied", "kept"]
    await reports.receive("resend", [report(uuid4(), "bounced", address=ADDRESS, reason=said)])
    stored = await tables.rows("SELECT * FROM timebell_notify.suppressions")
    stored += await tables.rows("SELECT body::text, provider_id FROM timebell_notify.provider_reports")
    stored += await tables.rows("SELECT decisions::text FROM timebell_notify.notifications")
    assert ADDRESS not in repr(stored)


@pytest.mark.req("X-C6")
async def test_another_providers_delivery_is_not_its_to_report(
    bell: Timebell, tables: Tables, reports: Reports
) -> None:
    told = await make_told(bell, tables)
    id = await told.deliver(await told.note(), provider_id="re_7")
    for named in ({"delivery_id": id}, {"delivery_id": None, "provider_id": "re_7"}):
        received = await reports.receive("sendgrid", [report(delivery=None, kind="bounced", **named)])
        assert outcomes(received) == ["unknown"]
    assert (await delivery(tables, id))["state"] == "sent"
    assert await suppressions(tables) == []


async def test_a_report_that_came_too_early_is_taken_when_it_comes_again(
    bell: Timebell, tables: Tables, reports: Reports
) -> None:
    told = await make_told(bell, tables)
    early = report(None, provider_id="re_7")
    assert outcomes(await reports.receive("resend", [early])) == ["unknown"]
    assert outcomes(await reports.receive("resend", [early])) == ["unknown"]
    id = await told.deliver(await told.note(), provider_id="re_7")
    assert outcomes(await reports.receive("resend", [early])) == ["applied"]
    assert outcomes(await reports.receive("resend", [early])) == ["known"]
    assert (await delivery(tables, id))["state"] == "delivered"


async def test_each_tenant_is_told_of_its_own(bell: Timebell, tables: Tables, reports: Reports) -> None:
    """One call of a provider may bring reports of several tenants; neither learns of the other."""
    a, b = await make_told(bell, tables, "a"), await make_told(bell, tables, "b")
    of_a, of_b = await a.deliver(await a.note()), await b.deliver(await b.note())
    received = await reports.receive("resend", [report(of_a, "bounced"), report(of_b)])
    assert outcomes(received) == ["applied", "applied"]
    assert [len(await suppressions(tables, tenant)) for tenant in ("a", "b")] == [1, 0]
    rows = await tables.rows("SELECT tenant, kind FROM timebell_notify.provider_reports ORDER BY tenant")
    assert [tuple(row.values()) for row in rows] == [("a", "bounced"), ("b", "delivered")]


async def test_refused_reports_change_nothing(bell: Timebell, tables: Tables, reports: Reports) -> None:
    told = await make_told(bell, tables)
    good = report(await told.deliver(await told.note()))
    for bad, field in [
        (report(None, report_id=""), "report_id"),
        (report(None, report_id="x" * 301), "report_id"),
        (report(None, kind="opened"), "kind"),  # type: ignore[arg-type]
    ]:
        with pytest.raises(InvalidInput, match=field):
            await reports.receive("resend", [good, bad])
    with pytest.raises(InvalidInput, match="2000"):
        await reports.receive("resend", [good] * 2_001)
    assert await tables.value("SELECT count(*) FROM timebell_notify.provider_reports") == 0


async def test_a_full_batch_is_taken(bell: Timebell, tables: Tables, reports: Reports) -> None:
    told = await make_told(bell, tables)
    ids = [await told.deliver(await told.note()) for _ in range(20)]
    many = [report(ids[number % 20], "sent" if number % 2 else "delivered") for number in range(2_000)]
    received = await reports.receive("resend", many)
    assert outcomes(received).count("applied") == 10
    assert len(received) == 2_000


async def test_what_cannot_be_stored_spoils_no_report(
    bell: Timebell, tables: Tables, reports: Reports
) -> None:
    """The words are those of a stranger's mail server, and the other reports of the call are somebody else's."""
    told = await make_told(bell, tables)
    one, other = await told.deliver(await told.note()), await told.deliver(await told.note())
    said = report(one, "bounced", reason="550 \x00\ud800 no")
    assert outcomes(await reports.receive("resend", [said, report(other)])) == ["applied", "applied"]
    body = await tables.value(
        "SELECT body::text FROM timebell_notify.provider_reports WHERE delivery_id = $1", one
    )
    assert orjson.loads(body)["said"] == "550 ?? no"


@pytest.mark.req("X-C6")
async def test_a_report_does_not_bring_back_whom_somebody_erases_meanwhile(
    bell: Timebell, tables: Tables, reports: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = await make_told(bell, tables)
    id = await told.deliver(await told.note())
    find = reports._find

    async def find_and_erase(provider: str, some: Sequence[Report]) -> Any:
        found = await find(provider, some)
        async with bell.transaction() as tx:
            await Recipients(bell).erase(tx, told.recipient)
        return found

    monkeypatch.setattr(reports, "_find", find_and_erase)
    complaint = report(id, "complained", reason=f"{ADDRESS} was not amused")
    assert outcomes(await reports.receive("resend", [complaint])) == ["applied"]
    kept = await tables.rows("SELECT body FROM timebell_notify.provider_reports")
    assert ADDRESS not in str([await suppressions(tables), kept])
