"""Erasing and exporting: everything about a recipient can be read, and afterwards none of it is left."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID, uuid4

import orjson
import pytest

from tests.store.notify.support import SCHEMA, held, insert
from tests.store.support import HOUR, NOW, StillClock, Tables
from timebell.errors import InvalidInput, NotFound
from timebell.kernel import Timebell
from timebell.notify.models import Address
from timebell.notify.people.recipients import Recipients
from timebell.notify.people.suppressions import Suppressions

# Each of these is in some column below, and is what an erasure has to forget.
MARKS = ("Ana", "ana@example.org", "+491701234567", "crm-7", "Vienna", "whsec_")
HOOK = Address(
    kind="webhook",
    value="https://example.org/in",
    detail={"secret": "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="},
)


@pytest.fixture
def recipients(bell: Timebell) -> Recipients:
    return Recipients(bell)


async def add_ana(bell: Timebell, recipients: Recipients, **terms: Any) -> UUID:
    async with bell.transaction() as tx:
        added = await recipients.add(
            tx,
            **{
                "name": "Ana",
                "external_id": "crm-7",
                "email": "ana@example.org",
                "phone": "+491701234567",
                "addresses": [HOOK],
                "timezone": "Europe/Vienna",
                "quiet_hours": {"start": "22:00", "end": "07:00"},
                **terms,
            },
        )
        await recipients.opt_outs.add(tx, added.id, topic="news", source="stop")
    return added.id


async def erase(bell: Timebell, recipients: Recipients, id: UUID) -> None:
    async with bell.transaction() as tx:
        await recipients.erase(tx, id)


async def told(bell: Timebell, tables: Tables, recipient: UUID, *, seq: int = 1) -> UUID:
    """A notification that was told by mail, twice, and in the inbox, with all the rows that this leaves."""
    id = await held(bell, tables, recipient, None, state="delivered", reason="accepted", settled_at=NOW)
    about = {"tenant": "default", "recipient_id": recipient}
    for address in ("ana@example.org", "ana.b@example.org"):
        await mailed(tables, recipient, id, address)
    await insert(
        tables,
        "inbox",
        **about,
        seq=seq,
        id=id,
        type="hello",
        title="Dear Ana",
        description="",
        due_at=NOW,
        created_at=NOW,
        updated_at=NOW,
    )
    return id


async def mailed(tables: Tables, recipient: UUID, id: UUID, address: str) -> None:
    """One delivery, with its attempt, what was reported of it and what demo mode would show."""
    delivery = uuid4()
    about = {"tenant": "default", "recipient_id": recipient}
    await insert(
        tables,
        "deliveries",
        **about,
        id=delivery,
        notification_id=id,
        channel="email",
        provider="smtp",
        address=address,
        content='{"text": "Dear Ana"}',
        state="delivered",
        provider_id=str(delivery),
        created_at=NOW,
        updated_at=NOW,
    )
    await insert(
        tables,
        "attempts",
        tenant="default",
        delivery_id=delivery,
        number=1,
        started_at=NOW,
        answer="sent",
        reason="250 ana@example.org",
        detail='{"to": "ana@example.org"}',
    )
    await insert(
        tables,
        "provider_reports",
        provider="smtp",
        report_id=str(delivery),
        tenant="default",
        delivery_id=delivery,
        kind="delivered",
        received_at=NOW,
        body='{"to": "ana@example.org"}',
    )
    await insert(
        tables,
        "outbox",
        **about,
        id=uuid4(),
        delivery_id=delivery,
        notification_id=id,
        channel="email",
        address=address,
        template="hello",
        body="Dear Ana",
        content='{"text": "Dear Ana"}',
        reason="demo",
        captured_at=NOW,
    )


async def everything(tables: Tables) -> dict[str, str]:
    """All rows of notify and the audit trail, as text."""
    rows = await tables.rows("SELECT tablename FROM pg_tables WHERE schemaname = $1", SCHEMA)
    names = [f"{SCHEMA}.{row['tablename']}" for row in rows] + ["timebell.events"]
    return {
        name: await tables.value(f"SELECT coalesce(jsonb_agg(to_jsonb(t)), '[]')::text FROM {name} t")
        for name in names
    }


async def test_nothing_personal_is_left_of_an_erased_recipient(
    bell: Timebell, recipients: Recipients, tables: Tables, clock: StillClock
) -> None:
    ana = await add_ana(bell, recipients)
    id = await told(bell, tables, ana)
    async with bell.transaction() as tx:
        await Suppressions(bell).add(tx, channel="email", address="ana@example.org", reason="complained")
    await insert(tables, "recent_sends", tenant="default", recipient_id=ana, channel="email", sent_ats=[NOW])
    before = "".join((await everything(tables)).values())
    assert all(mark in before for mark in MARKS)
    clock.now = NOW + HOUR
    async with bell.transaction() as tx:
        await recipients.erase(tx, ana, actor="operator:1")
    left = await everything(tables)
    assert {(name, mark) for name, text in left.items() for mark in MARKS if mark in text} == set()
    (row,) = await tables.rows(f"SELECT * FROM {SCHEMA}.recipients")
    assert (row["id"], row["name"], row["erased_at"]) == (ana, "", NOW + HOUR)
    (row,) = await tables.rows(f"SELECT * FROM {SCHEMA}.notifications")
    assert (row["id"], row["state"], row["reason"], row["settled_at"]) == (id, "delivered", "accepted", NOW)
    states = await tables.rows(f"SELECT state, answer FROM {SCHEMA}.deliveries d "
        f"JOIN {SCHEMA}.attempts t ON t.delivery_id = d.id")  # fmt: skip
    assert states == [{"state": "delivered", "answer": "sent"}] * 2
    assert await tables.value(f"SELECT count(*) FROM {SCHEMA}.provider_reports") == 2


async def test_an_erased_recipient_is_not_found_and_its_external_id_is_free(
    bell: Timebell, recipients: Recipients
) -> None:
    ana = await add_ana(bell, recipients)
    async with bell.transaction() as tx:
        await recipients.erase(tx, ana)
        for write in (
            recipients.change(tx, ana, name="Ana"),
            recipients.opt_outs.add(tx, ana),
        ):
            with pytest.raises(NotFound, match="erased"):
                await write
    for read in (recipients.get(ana), recipients.find("crm-7"), recipients.export(ana)):
        with pytest.raises(NotFound):
            await read
    assert (await recipients.list()).lines == ()
    assert await add_ana(bell, recipients) != ana


async def test_what_is_still_to_be_told_is_withdrawn_and_what_is_being_told_is_named(
    bell: Timebell, recipients: Recipients, tables: Tables
) -> None:
    ana = await add_ana(bell, recipients)
    waiting = await held(bell, tables, ana, "held_quiet_hours")
    pending = await held(bell, tables, ana, None)
    running = await held(bell, tables, ana, None)
    await tables.start(running)
    async with bell.transaction() as tx:
        erasure = await recipients.erase(tx, ana)
    assert set(erasure.withdrawn) == {waiting, pending}
    assert erasure.too_late == (running,)
    assert {row["id"] for row in await tables.jobs()} == {running}
    rows = await tables.rows(f"SELECT id, state, reason, settled_at, held_until FROM {SCHEMA}.notifications")
    by_id = {row.pop("id"): tuple(row.values()) for row in rows}
    withdrawn = ("withdrawn", "withdrawn", NOW, None)
    # What is being told has the last word when it ends; should its node die first, this is the word.
    assert by_id == dict.fromkeys((waiting, pending, running), withdrawn)
    async with bell.transaction() as tx:
        again = await recipients.erase(tx, ana)
    assert (again.withdrawn, again.too_late) == ((), ())


async def test_an_erased_address_stays_suppressed_and_cannot_be_read(
    bell: Timebell, recipients: Recipients, tables: Tables
) -> None:
    suppressions = Suppressions(bell)
    ana = await add_ana(bell, recipients)
    async with bell.transaction() as tx:
        await suppressions.add(tx, channel="email", address="ana@example.org", reason="complained")
        await suppressions.add(tx, channel="whatsapp", address="+491701234567", message_class="marketing")
        await recipients.erase(tx, ana)
    hidden = (await suppressions.list()).lines
    assert [line.is_hidden for line in hidden] == [True, True]
    assert len({line.address for line in hidden}) == 2
    assert await suppressions.find(channel="email", address="ana@example.org") == hidden[:1]
    await add_ana(bell, recipients)
    shown = (await suppressions.list()).lines
    assert [(line.channel, line.address, line.message_class, line.reason) for line in shown] == [
        ("email", "ana@example.org", "", "complained"),
        ("whatsapp", "+491701234567", "marketing", "manual"),
    ]


async def test_an_address_that_was_given_up_before_is_hidden_too(
    bell: Timebell, recipients: Recipients, tables: Tables
) -> None:
    """Whoever changes an address because it bounced leaves the old one on the list."""
    suppressions = Suppressions(bell)
    ana = await add_ana(bell, recipients)
    await told(bell, tables, ana)
    async with bell.transaction() as tx:
        await suppressions.add(tx, channel="email", address="ana@example.org", reason="bounced")
        await suppressions.add(tx, channel="email", address="ben@example.org", reason="bounced")
        await recipients.change(tx, ana, email="new@example.org")
        await recipients.erase(tx, ana)
    assert [line.is_hidden for line in (await suppressions.list()).lines] == [False, True]
    assert len(await suppressions.find(channel="email", address="ana@example.org")) == 1


async def test_a_hidden_address_can_be_taken_off_the_list(bell: Timebell, recipients: Recipients) -> None:
    suppressions = Suppressions(bell)
    ana = await add_ana(bell, recipients)
    async with bell.transaction() as tx:
        await suppressions.add(tx, channel="email", address="ana@example.org")
        await recipients.erase(tx, ana)
        assert await suppressions.remove(tx, channel="email", address="ana@example.org")
    assert (await suppressions.list()).lines == ()


async def test_an_address_that_another_recipient_has_too_is_not_hidden(
    bell: Timebell, recipients: Recipients
) -> None:
    suppressions = Suppressions(bell)
    ana = await add_ana(bell, recipients)
    await add_ana(bell, recipients, external_id="crm-8")
    async with bell.transaction() as tx:
        await suppressions.add(tx, channel="email", address="ana@example.org")
        await recipients.erase(tx, ana)
    (line,) = (await suppressions.list()).lines
    assert line.address == "ana@example.org"


@pytest.mark.parametrize("is_first", [True, False])
async def test_an_address_that_comes_while_its_last_owner_is_erased_stays_suppressed(
    bell: Timebell, recipients: Recipients, tables: Tables, is_first: bool
) -> None:
    ana = await add_ana(bell, recipients)
    async with bell.transaction() as tx:
        await Suppressions(bell).add(tx, channel="email", address="ana@example.org", reason="complained")
    async with bell.transaction() as tx:
        if is_first:
            await recipients.erase(tx, ana)
            other: asyncio.Task[Any] = asyncio.create_task(add_ana(bell, recipients, external_id="crm-8"))
        else:
            await recipients.add(tx, name="Ben", email="ana@example.org")
            other = asyncio.create_task(erase(bell, recipients, ana))
        await tables.until_someone_waits()
    await other
    assert [line.address for line in (await Suppressions(bell).list()).lines] == ["ana@example.org"]


async def test_an_address_of_two_who_are_erased_at_once_is_hidden(
    bell: Timebell, recipients: Recipients, tables: Tables
) -> None:
    ana = await add_ana(bell, recipients)
    ben = await add_ana(bell, recipients, external_id="crm-8")
    async with bell.transaction() as tx:
        await Suppressions(bell).add(tx, channel="email", address="ana@example.org", reason="complained")
    async with bell.transaction() as tx:
        await recipients.erase(tx, ana)
        second = asyncio.create_task(erase(bell, recipients, ben))
        await tables.until_someone_waits()
    await second
    assert [line.is_hidden for line in (await Suppressions(bell).list()).lines] == [True]


async def test_two_who_give_the_same_address_do_not_wait_for_each_other(
    bell: Timebell, recipients: Recipients
) -> None:
    async with bell.transaction() as tx:
        await recipients.add(tx, name="Ben", email="ana@example.org")
        async with asyncio.timeout(10):
            await add_ana(bell, recipients)
    assert len((await recipients.list()).lines) == 2


async def test_an_erasure_leaves_everybody_else_alone(
    bell: Timebell, recipients: Recipients, tables: Tables
) -> None:
    ben = await add_ana(bell, recipients, external_id="crm-8", email="ben@example.org", phone=None)
    await told(bell, tables, ben)
    before = await everything(tables)
    ana = await add_ana(bell, recipients)
    async with bell.transaction() as tx:
        await recipients.erase(tx, ana)
    await tables.rows(f"DELETE FROM {SCHEMA}.recipients WHERE id = $1", ana)
    after = await everything(tables)
    del before["timebell.events"], after["timebell.events"]
    assert after == before


async def test_everything_that_is_kept_is_exported_page_by_page(
    bell: Timebell, recipients: Recipients, tables: Tables
) -> None:
    ana = await add_ana(bell, recipients)
    ben = await add_ana(bell, recipients, external_id="crm-8")
    ids = [str(await told(bell, tables, ana, seq=seq)) for seq in (1, 2, 3)]
    others = str(await told(bell, tables, ben))
    async with bell.transaction() as tx:
        await Suppressions(bell).add(tx, channel="email", address="ana@example.org")
    documents: list[dict[str, Any]] = []
    cursor = None
    for _ in range(4):
        page = await recipients.export(ana, limit=2, cursor=cursor)
        documents.append(dict(page.document))
        cursor = page.next_cursor
    assert cursor is None
    assert [sorted(document) for document in documents] == [
        ["notifications", "recipient"],
        ["notifications"],
        ["inbox"],
        ["inbox"],
    ]
    notifications = [line for document in documents for line in document.get("notifications", [])]
    inbox = [line for document in documents for line in document.get("inbox", [])]
    assert [line["id"] for line in notifications] == [line["id"] for line in inbox] == ids
    delivery = notifications[0]["deliveries"][0]
    assert delivery["content"] == {"text": "Dear Ana"}
    assert delivery["attempts"][0]["detail"] == delivery["reports"][0]["body"] == {"to": "ana@example.org"}
    assert notifications[0]["outbox"][0]["body"] == "Dear Ana"
    person = documents[0]["recipient"]
    assert (person["name"], person["external_id"], person["timezone"]) == ("Ana", "crm-7", "Europe/Vienna")
    assert [one["value"] for one in person["addresses"]] == ["ana@example.org", "+491701234567", HOOK.value]
    assert person["opt_outs"][0]["topic"] == "news"
    assert person["suppressions"][0]["address"] == "ana@example.org"
    text = orjson.dumps(documents).decode()
    assert others not in text
    assert str(ben) not in text


async def test_an_export_shows_no_secret_and_reads_only_its_own_cursors(
    bell: Timebell, recipients: Recipients
) -> None:
    ana = await add_ana(bell, recipients)
    page = await recipients.export(ana)
    assert "whsec_" not in orjson.dumps(page.document).decode()
    await add_ana(bell, recipients, external_id=None)
    listed = await recipients.list(limit=1)
    assert listed.next_cursor is not None
    with pytest.raises(InvalidInput, match="cursor"):
        await recipients.export(ana, cursor=listed.next_cursor)
