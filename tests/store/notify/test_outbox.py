"""The outbox: what demo mode kept from leaving, written together with the answer that says so."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.store.notify.support import SCHEMA, acquaint, begin, insert
from tests.store.support import NOW, Tables
from timebell.errors import InvalidInput
from timebell.kernel import Timebell
from timebell.notify.delivery.desk import Answered, Desk, Start, Started
from timebell.notify.inbox.outbox import Outbox, OutboxLine
from timebell.notify.provider import Channel, Content

ANA = UUID(int=1)
BO = UUID(int=2)


async def noted(tables: Tables, recipient: UUID = ANA, *, tenant: str = "default") -> UUID:
    id = uuid4()
    values: dict[str, Any] = {
        "tenant": tenant,
        "id": id,
        "recipient_id": recipient,
        "template": "meeting.reminder",
        "topic": "meetings",
        "class": "transactional",
        "urgency": "normal",
        "route": "{}",
        "context": "{}",
        "due_at": NOW,
        "state": "pending",
        "created_at": NOW,
    }
    await insert(tables, "notifications", **values)
    return id


async def attempted(
    bell: Timebell,
    desk: Desk,
    tables: Tables,
    *,
    recipient: UUID = ANA,
    channel: Channel = "email",
    tenant: str = "default",
) -> Started:
    await acquaint(bell, recipient, tenant=tenant)
    notification_id = await noted(tables, recipient, tenant=tenant)
    await begin(bell, notification_id, tenant=tenant)
    started = await desk.start(
        Start(
            tenant=tenant,
            notification_id=notification_id,
            job_version=1,
            recipient_id=recipient,
            channel=channel,
            provider=f"captured-{channel}",
            address="ana@example.org",
            language="en",
            content=Content(subject="Hello", text="In ten minutes", html="<p>In ten minutes</p>"),
        )
    )
    assert started is not None
    return started


def answer(started: Started, state: str = "suppressed", *, tenant: str = "default") -> Answered:
    return Answered(
        tenant=tenant,
        delivery_id=started.delivery_id,
        number=started.number,
        answer="sent",
        state=state,
        reason="demo" if state == "suppressed" else "accepted",
        provider_id=None,
        detail={},
    )


@pytest.mark.req("M-5.8", "U-19")
async def test_what_would_have_left_is_shown_as_it_would_have_left(bell: Timebell, tables: Tables) -> None:
    desk = Desk(bell)
    started = await attempted(bell, desk, tables)
    outbox = Outbox(bell)
    assert (await outbox.list()).lines == (), "it has not been captured yet"
    await desk.record(answer(started))
    (line,) = (await outbox.list()).lines
    (delivery,) = await tables.rows(f"SELECT * FROM {SCHEMA}.deliveries")
    assert line == OutboxLine(
        id=line.id,
        channel="email",
        to="ana@example.org",
        subject="Hello",
        body="In ten minutes",
        content={"subject": "Hello", "text": "In ten minutes", "html": "<p>In ten minutes</p>", "data": {}},
        at=NOW,
        template="meeting.reminder",
        recipient_id=ANA,
        notification_id=delivery["notification_id"],
        delivery_id=delivery["id"],
        reason="demo",
    )
    assert (delivery["state"], delivery["reason"]) == ("suppressed", "demo")


async def test_what_left_is_not_in_it_and_what_was_captured_is_in_it_once(
    bell: Timebell, tables: Tables
) -> None:
    desk = Desk(bell)
    captured, sent = await attempted(bell, desk, tables), await attempted(bell, desk, tables)
    await asyncio.gather(
        desk.record(answer(captured)), desk.record(answer(sent, "sent")), desk.record(answer(captured))
    )
    await Desk(bell).record(answer(captured))
    assert [line.delivery_id for line in (await Outbox(bell).list()).lines] == [captured.delivery_id]
    states = await tables.rows(f"SELECT state FROM {SCHEMA}.deliveries ORDER BY id")
    assert [row["state"] for row in states] == ["suppressed", "sent"]


async def test_it_is_read_in_pages_by_recipient_and_by_channel(bell: Timebell, tables: Tables) -> None:
    desk, outbox = Desk(bell), Outbox(bell)
    channels: tuple[Channel, ...] = ("email", "sms")
    for recipient in (ANA, BO):
        for channel in channels:
            await desk.record(
                answer(await attempted(bell, desk, tables, recipient=recipient, channel=channel))
            )
    first = await outbox.list(limit=3)
    second = await outbox.list(limit=3, cursor=first.next_cursor)
    assert [(line.recipient_id, line.channel) for line in (*first.lines, *second.lines)] == [
        (ANA, "email"),
        (ANA, "sms"),
        (BO, "email"),
        (BO, "sms"),
    ]
    assert second.next_cursor is None
    newest = await outbox.list(limit=3, newest_first=True)
    oldest = await outbox.list(limit=3, newest_first=True, cursor=newest.next_cursor)
    assert (*newest.lines, *oldest.lines) == (*first.lines, *second.lines)[::-1]
    assert oldest.next_cursor is None
    with pytest.raises(InvalidInput, match="cursor: cannot be read"):
        await outbox.list(cursor=newest.next_cursor)
    assert [line.channel for line in (await outbox.list(recipient=BO)).lines] == ["email", "sms"]
    assert [line.recipient_id for line in (await outbox.list(channel="sms")).lines] == [ANA, BO]
    assert len((await outbox.list(recipient=ANA, channel="sms")).lines) == 1


async def test_another_tenant_sees_nothing_of_it(bell: Timebell, tables: Tables) -> None:
    desk = Desk(bell)
    await desk.record(answer(await attempted(bell, desk, tables, tenant="a"), tenant="a"))
    assert len((await Outbox(bell).list(tenant="a")).lines) == 1
    assert (await Outbox(bell).list(tenant="b", recipient=ANA)).lines == ()


async def test_what_is_refused(bell: Timebell) -> None:
    outbox: Any = Outbox(bell)
    with pytest.raises(InvalidInput, match="channel: 'fax' is no channel"):
        await outbox.list(channel="fax")
    with pytest.raises(InvalidInput, match="recipient: 'ana' is not a UUID"):
        await outbox.list(recipient="ana")
    with pytest.raises(InvalidInput, match="cursor: cannot be read"):
        await outbox.list(cursor="x")
    with pytest.raises(InvalidInput, match="limit: must be between 1 and 500"):
        await outbox.list(limit=0)
