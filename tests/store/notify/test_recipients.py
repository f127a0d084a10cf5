"""Recipients: added, changed by merging, read, listed; what waits for one is tried again when it changes."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace
from datetime import time
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from tests.store.notify.support import held, run_at
from tests.store.support import HOUR, NOW, StillClock, Tables
from timebell.errors import (
    InvalidInput,
    KeyConflict,
    NotFound,
    NoTransaction,
    RevisionConflict,
    UnknownTimezone,
)
from timebell.kernel import Timebell, Transaction
from timebell.notify.models import Address, OptOut, QuietHours, Recipient
from timebell.notify.people.policies import Policies
from timebell.notify.people.recipients import Recipients
from timebell.notify.people.suppressions import Suppressions
from timebell.testing.database import TestDatabase

HOOK = Address(
    kind="webhook",
    value="https://example.org/in",
    detail={"secret": "whsec_" + base64.b64encode(bytes(32)).decode()},
)


@pytest.fixture
def recipients(bell: Timebell) -> Recipients:
    return Recipients(bell)


async def add(bell: Timebell, recipients: Recipients, tenant: str = "default", **terms: Any) -> Recipient:
    async with bell.transaction(tenant=tenant) as tx:
        return await recipients.add(tx, **{"name": "Ana", **terms})


async def change(bell: Timebell, recipients: Recipients, id: UUID, **changes: Any) -> Recipient:
    async with bell.transaction() as tx:
        return await recipients.change(tx, id, **changes)


def values(recipient: Recipient) -> list[tuple[str, str]]:
    return [(one.kind, one.value) for one in recipient.addresses]


async def events(tables: Tables, id: UUID) -> list[tuple[str, str]]:
    rows = await tables.rows(
        "SELECT name, data::text AS data FROM timebell.events WHERE subject = $1 ORDER BY id",
        f"recipient:{id}",
    )
    return [(row["name"], row["data"]) for row in rows]


@pytest.mark.req("A-5.6", "D-2.1", "D-2.2")
async def test_a_recipient_is_kept_as_it_was_added(bell: Timebell, recipients: Recipients) -> None:
    added = await add(
        bell,
        recipients,
        external_id="crm-7",
        email="Ana@Example.org",
        phone="+49 170 1234567",
        addresses=[HOOK],
        language="de_at",
        timezone="Europe/Vienna",
        channel_preference="whatsapp",
        whatsapp_opt_in=True,
        quiet_hours={"start": "22:00", "end": "07:00"},
    )
    assert await recipients.get(added.id) == added
    assert await recipients.find("crm-7") == added
    assert (added.tenant, added.name, added.language, added.revision) == ("default", "Ana", "de-AT", 1)
    assert added.quiet_hours == QuietHours(start=time(22), end=time(7))
    assert (added.channel_preference, added.whatsapp_opt_in) == ("whatsapp", True)
    assert (added.created_at, added.updated_at, added.erased_at) == (NOW, NOW, None)
    assert sorted(values(added)) == [
        ("email", "ana@example.org"),
        ("phone", "+491701234567"),
        ("webhook", "https://example.org/in"),
    ]
    assert next(one for one in added.addresses if one.kind == "webhook").detail == HOOK.detail


async def test_what_a_recipient_does_not_say_is_what_the_tenant_decided(
    bell: Timebell, recipients: Recipients
) -> None:
    first = await add(bell, recipients)
    assert (first.language, first.timezone) == ("en", "UTC")
    async with bell.transaction() as tx:
        await Policies(bell).change(tx, default_language="fr", default_timezone="Europe/Paris")
    second = await add(bell, recipients)
    third = await add(bell, recipients, timezone="Asia/Tokyo")
    assert [(one.language, one.timezone) for one in (second, third)] == [
        ("fr", "Europe/Paris"),
        ("fr", "Asia/Tokyo"),
    ]


@pytest.mark.req("D-2.2")
@pytest.mark.parametrize("first", ["add", "change"])
@pytest.mark.parametrize("second", ["add", "change"])
async def test_of_two_who_give_an_external_id_at_once_the_second_is_refused(
    bell: Timebell, recipients: Recipients, tables: Tables, first: str, second: str
) -> None:
    people = [await add(bell, recipients) for _ in range(2)]

    async def give(tx: Transaction, how: str, person: Recipient) -> None:
        if how == "add":
            await recipients.add(tx, name="Ben", external_id="crm-7")
        else:
            await recipients.change(tx, person.id, external_id="crm-7")

    async def give_too() -> None:
        async with bell.transaction() as tx:
            await give(tx, second, people[1])

    async with bell.transaction() as tx:
        await give(tx, first, people[0])
        giving = asyncio.create_task(give_too())
        await tables.until_someone_waits()
    with pytest.raises(KeyConflict, match="external_id: 'crm-7'"):
        await giving


async def test_an_external_id_stands_for_one_recipient_of_a_tenant(
    bell: Timebell, recipients: Recipients, tables: Tables
) -> None:
    await add(bell, recipients, external_id="crm-7")
    other = await add(bell, recipients, external_id="crm-8")
    elsewhere = await add(bell, recipients, tenant="beta", external_id="crm-7")
    async with bell.transaction() as tx:
        with pytest.raises(KeyConflict, match="external_id: 'crm-7'"):
            await recipients.add(tx, name="Ben", external_id="crm-7", email="ben@example.org")
        with pytest.raises(KeyConflict, match="external_id: 'crm-7'"):
            await recipients.change(tx, other.id, external_id="crm-7", email="ben@example.org")
        await recipients.change(tx, other.id, name="Bea")
    assert (await recipients.find("crm-7", tenant="beta")).id == elsewhere.id
    assert await tables.value("SELECT count(*) FROM timebell_notify.addresses") == 0
    assert (await recipients.get(other.id)).name == "Bea"


async def test_nothing_is_written_of_what_is_refused(
    bell: Timebell, recipients: Recipients, tables: Tables
) -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"email": "nobody"}, "email"),
        ({"phone": "0170"}, "phone"),
        ({"addresses": [HOOK, Address(kind="email", value="x")]}, "addresses[1].value"),
        ({"addresses": [HOOK] * 21}, "addresses"),
        ({"addresses": HOOK}, "addresses"),
        ({"language": "x"}, "language"),
        ({"name": ""}, "name"),
    ]
    async with bell.transaction() as tx:
        for terms, field in refused:
            with pytest.raises(InvalidInput) as caught:
                await recipients.add(tx, **{"name": "Ana", **terms})
            assert caught.value.field == field
        with pytest.raises(UnknownTimezone):
            await recipients.add(tx, name="Ana", timezone="Europe/Berln")
    assert await tables.value("SELECT count(*) FROM timebell_notify.recipients") == 0
    with pytest.raises(NoTransaction):
        await recipients.add(tx, name="Ana")


async def test_a_change_merges(
    bell: Timebell, recipients: Recipients, clock: StillClock, tables: Tables
) -> None:
    added = await add(bell, recipients, email="ana@example.org", phone="+491701234567", external_id="crm-7")
    clock.now = NOW + HOUR
    changed = await change(bell, recipients, added.id, name="Ana B", phone=None, external_id=None)
    assert changed == replace(
        added,
        name="Ana B",
        external_id=None,
        addresses=tuple(one for one in added.addresses if one.kind == "email"),
        revision=2,
        updated_at=NOW + HOUR,
    )
    assert await change(bell, recipients, added.id, name="Ana B", email="ANA@example.org") == changed
    assert await events(tables, added.id) == [
        ("recipient.added", "{}"),
        ("recipient.changed", '{"changed": ["name", "external_id", "phone"]}'),
    ]


async def test_a_new_mailbox_takes_the_place_of_the_others(bell: Timebell, recipients: Recipients) -> None:
    added = await add(bell, recipients, email="a@example.org", phone="+491701234567")
    async with bell.transaction() as tx:
        await recipients.add_address(tx, added.id, Address(kind="email", value="b@example.org"))
    changed = await change(bell, recipients, added.id, email="c@example.org")
    assert sorted(values(changed)) == [("email", "c@example.org"), ("phone", "+491701234567")]


async def test_an_address_that_is_stated_again_is_no_longer_gone(
    bell: Timebell, recipients: Recipients, tables: Tables
) -> None:
    added = await add(bell, recipients, email="ana@example.org")
    await tables.rows("UPDATE timebell_notify.addresses SET gone_at = $1, verified_at = $1", NOW)
    assert (await recipients.get(added.id)).addresses[0].gone_at == NOW
    changed = await change(bell, recipients, added.id, email="ana@example.org")
    (address,) = changed.addresses
    assert (address.id, address.gone_at, address.verified_at) == (added.addresses[0].id, None, NOW)


async def test_a_change_by_somebody_else_is_not_overwritten(bell: Timebell, recipients: Recipients) -> None:
    added = await add(bell, recipients)
    await change(bell, recipients, added.id, name="Ben", if_revision=1)
    async with bell.transaction() as tx:
        with pytest.raises(RevisionConflict, match="revision 2, not 1"):
            await recipients.change(tx, added.id, name="Cid", if_revision=1)
    assert (await recipients.get(added.id)).name == "Ben"


async def test_two_changes_at_once_both_count(bell: Timebell, recipients: Recipients, tables: Tables) -> None:
    """The second waits for the first and merges into what that left."""
    added = await add(bell, recipients, email="a@example.org")
    async with bell.transaction() as tx:
        await recipients.change(tx, added.id, email="b@example.org", language="fr")
        second = asyncio.create_task(change(bell, recipients, added.id, name="Ben"))
        await tables.until_someone_waits()
    after = await second
    assert (after.name, after.language, after.revision) == ("Ben", "fr", 3)
    assert values(after) == [("email", "b@example.org")]


async def test_addresses_come_and_go(bell: Timebell, recipients: Recipients, tables: Tables) -> None:
    added = await add(bell, recipients)
    async with bell.transaction() as tx:
        hook = await recipients.add_address(tx, added.id, HOOK)
        again = await recipients.add_address(tx, added.id, HOOK)
    assert hook.id == again.id
    assert (await recipients.get(added.id)).addresses == (hook,)
    async with bell.transaction() as tx:
        assert hook.id is not None
        await recipients.remove_address(tx, added.id, hook.id)
        with pytest.raises(NotFound):
            await recipients.remove_address(tx, added.id, hook.id)
    after = await recipients.get(added.id)
    assert (after.addresses, after.revision) == ((), 4)


async def test_a_recipient_has_so_many_addresses_and_no_more(bell: Timebell, recipients: Recipients) -> None:
    many = [Address(kind="email", value=f"a{number}@example.org") for number in range(20)]
    added = await add(bell, recipients, addresses=many)
    async with bell.transaction() as tx:
        with pytest.raises(InvalidInput, match="remove_address"):
            await recipients.add_address(tx, added.id, HOOK)
        with pytest.raises(InvalidInput, match="addresses"):
            await recipients.change(tx, added.id, phone="+491701234567")
        with pytest.raises(InvalidInput, match="addresses"):
            await recipients.add(tx, name="Ben", phone="+491701234567", addresses=many)
        await recipients.add_address(tx, added.id, many[3])
    assert len((await recipients.get(added.id)).addresses) == 20
    assert (await recipients.list()).lines == (await recipients.get(added.id),)
    replaced = await change(bell, recipients, added.id, email="b@example.org", phone="+491701234567")
    assert len(replaced.addresses) == 2


async def test_nothing_is_written_in_the_name_of_nobody(
    bell: Timebell, recipients: Recipients, tables: Tables
) -> None:
    ana = await add(bell, recipients, addresses=[HOOK])
    hook_id = ana.addresses[0].id
    assert hook_id is not None
    nobody: dict[str, Any] = {"actor": ""}
    async with bell.transaction() as tx:
        await recipients.opt_outs.add(tx, ana.id, topic="news")
    before = await recipients.get(ana.id)
    async with bell.transaction() as tx:
        for write in (
            recipients.add(tx, name="Ben", **nobody),
            recipients.change(tx, ana.id, name="Ben", **nobody),
            recipients.add_address(tx, ana.id, Address(kind="email", value="a@example.org"), **nobody),
            recipients.remove_address(tx, ana.id, hook_id, **nobody),
            recipients.opt_outs.add(tx, ana.id, **nobody),
            recipients.opt_outs.remove(tx, ana.id, topic="news", **nobody),
            recipients.erase(tx, ana.id, **nobody),
            Policies(bell).change(tx, attempts_max=2, **nobody),
        ):
            with pytest.raises(InvalidInput, match="actor"):
                await write
    assert (await recipients.list()).lines == (before,)
    assert await tables.value("SELECT count(*) FROM timebell_notify.policies") == 0


@pytest.mark.req("X-C12")
async def test_opt_outs_are_of_a_topic_a_channel_or_both(
    bell: Timebell, recipients: Recipients, tables: Tables
) -> None:
    added = await add(bell, recipients)
    async with bell.transaction() as tx:
        opt_outs = recipients.opt_outs
        assert await opt_outs.add(tx, added.id, topic="news")
        assert not await opt_outs.add(tx, added.id, topic="news")
        assert await opt_outs.add(tx, added.id, channel="sms", source="stop")
        assert await opt_outs.add(tx, added.id, topic="news", channel="email")
        assert await opt_outs.add(tx, added.id)
        assert not await opt_outs.remove(tx, added.id, topic="other")
        assert await opt_outs.remove(tx, added.id, topic="news", channel="email")
    after = await recipients.get(added.id)
    assert set(after.opt_outs) == {OptOut(), OptOut(channel="sms"), OptOut(topic="news")}
    assert after.revision == 6
    assert await tables.value("SELECT source FROM timebell_notify.opt_outs WHERE channel = 'sms'") == "stop"
    assert [name for name, _ in await events(tables, added.id)] == [
        "recipient.added",
        *["recipient.opted_out"] * 4,
        "recipient.opted_in",
    ]
    async with bell.transaction() as tx:
        with pytest.raises(InvalidInput) as refused:
            await recipients.opt_outs.add(tx, added.id, channel="fax")  # type: ignore[arg-type]
    assert refused.value.field == "channel"


async def test_without_room_for_another_topic_a_channel_can_still_be_stopped(
    bell: Timebell, recipients: Recipients, tables: Tables
) -> None:
    added = await add(bell, recipients)
    await tables.rows(
        "INSERT INTO timebell_notify.opt_outs (tenant, recipient_id, topic, source, created_at) "
        "SELECT 'default', $1, 't' || n, 'recipient', $2 FROM generate_series(1, 500) n",
        added.id,
        NOW,
    )
    async with bell.transaction() as tx:
        with pytest.raises(InvalidInput, match="opt out of the channel instead"):
            await recipients.opt_outs.add(tx, added.id, topic="news")
        assert not await recipients.opt_outs.add(tx, added.id, topic="t7")
        assert await recipients.opt_outs.add(tx, added.id, channel="sms")
        assert await recipients.opt_outs.add(tx, added.id)
    assert {OptOut(), OptOut(channel="sms")} <= set((await recipients.get(added.id)).opt_outs)


@pytest.mark.req("U-12")
@pytest.mark.parametrize(
    ("changes", "hastened"),
    [
        ({"quiet_hours": None}, {"held_quiet_hours", "held_capped", "template_incomplete"}),
        ({"channel_preference": "sms"}, {"held_quiet_hours", "held_capped", "template_incomplete"}),
        (
            {"email": "b@example.org"},
            {
                "held_quiet_hours",
                "held_capped",
                "template_incomplete",
                "held_retry",
                "held_breaker",
                "held_rate",
            },
        ),
        ({"name": "Ana"}, set()),
    ],
)
async def test_what_waits_for_a_recipient_is_tried_again_when_it_changes(
    bell: Timebell, recipients: Recipients, tables: Tables, changes: dict[str, Any], hastened: set[str]
) -> None:
    added = await add(bell, recipients, email="a@example.org", quiet_hours={"start": "22:00", "end": "07:00"})
    other = await add(bell, recipients)
    reasons = [
        "held_quiet_hours",
        "held_capped",
        "template_incomplete",
        "held_retry",
        "held_breaker",
        "held_rate",
        "held_report",
        "held_digest",
    ]
    waiting = {reason: await held(bell, tables, added.id, reason) for reason in reasons}
    others = await held(bell, tables, other.id, "held_quiet_hours")
    settled = await held(bell, tables, added.id, "held_quiet_hours", settled_at=NOW)
    await change(bell, recipients, added.id, **changes)
    assert {reason for reason, id in waiting.items() if await run_at(tables, id) == NOW} == hastened
    assert await run_at(tables, others) == NOW + HOUR
    assert await run_at(tables, settled) == NOW + HOUR


async def test_an_opt_out_has_what_waits_decided_anew(
    bell: Timebell, recipients: Recipients, tables: Tables
) -> None:
    added = await add(bell, recipients)
    waiting = await held(bell, tables, added.id, "held_quiet_hours")
    async with bell.transaction() as tx:
        await recipients.opt_outs.add(tx, added.id, topic="news")
    assert await run_at(tables, waiting) == NOW


async def test_the_verbs_take_part_in_a_transaction_of_another_driver(
    bell: Timebell, recipients: Recipients, tables: Tables, database_url: TestDatabase
) -> None:
    async with (
        await psycopg.AsyncConnection.connect(database_url.url) as connection,
        connection.transaction(),
    ):
        tx = bell.join(connection)
        ana = await recipients.add(tx, name="Ana", email="a@example.org", addresses=[HOOK])
        await recipients.opt_outs.add(tx, ana.id, channel="sms")
        changed = await recipients.change(tx, ana.id, email="b@example.org", quiet_hours=None, name="Ben")
        await Suppressions(bell).add(tx, channel="email", address="b@example.org")
        await Policies(bell).change(tx, attempts_max=2)
        gone = await recipients.add(tx, name="Cid", email="b@example.org")
        await recipients.erase(tx, gone.id)
    assert await recipients.get(ana.id) == changed
    assert (await recipients.list()).lines == (changed,)


async def test_recipients_are_listed_page_by_page(bell: Timebell, recipients: Recipients) -> None:
    added = [await add(bell, recipients, name=f"n{number}", email="a@example.org") for number in range(5)]
    await add(bell, recipients, tenant="beta")
    seen: list[Recipient] = []
    cursor = None
    for _ in range(3):
        page = await recipients.list(limit=2, cursor=cursor)
        seen += page.lines
        cursor = page.next_cursor
    assert (seen, cursor) == (added, None)
    with pytest.raises(InvalidInput, match="cursor"):
        await recipients.list(cursor="x")
    with pytest.raises(InvalidInput, match="limit"):
        await recipients.list(limit=501)


async def test_what_another_tenant_has_is_not_found(bell: Timebell, recipients: Recipients) -> None:
    added = await add(bell, recipients, external_id="crm-7", addresses=[HOOK])
    hook_id = added.addresses[0].id
    assert hook_id is not None
    for read in (
        recipients.get(added.id, tenant="beta"),
        recipients.find("crm-7", tenant="beta"),
        recipients.export(added.id, tenant="beta"),
    ):
        with pytest.raises(NotFound):
            await read
    assert (await recipients.list(tenant="beta")).lines == ()
    async with bell.transaction(tenant="beta") as tx:
        for write in (
            recipients.change(tx, added.id, name="Mallory"),
            recipients.add_address(tx, added.id, HOOK),
            recipients.remove_address(tx, added.id, hook_id),
            recipients.opt_outs.add(tx, added.id),
            recipients.opt_outs.remove(tx, added.id),
            recipients.erase(tx, added.id),
        ):
            with pytest.raises(NotFound):
                await write
    assert await recipients.get(added.id) == added


@pytest.mark.parametrize("id", [None, "x", 7])
async def test_an_id_is_a_uuid(bell: Timebell, recipients: Recipients, id: Any) -> None:
    with pytest.raises(InvalidInput, match="id of a recipient"):
        await recipients.get(id)
    with pytest.raises(NotFound):
        await recipients.get(uuid4())


async def test_whoever_is_asked_for_is_there_until_the_end(
    bell: Timebell, recipients: Recipients, tables: Tables
) -> None:
    ana = await add(bell, recipients, timezone="Asia/Tokyo")
    ben = await add(bell, recipients, name="Ben", timezone="Europe/Berlin")
    gone = await add(bell, recipients)
    other = await add(bell, recipients, tenant="other")
    async with bell.transaction() as tx:
        await recipients.erase(tx, gone.id)
    ids = [ben.id, ana.id, ana.id, gone.id, other.id, uuid4()]
    free = "SELECT name FROM timebell_notify.recipients WHERE name IN ('Ana', 'Ben') FOR UPDATE SKIP LOCKED"
    asked: tuple[tuple[Any, Any], ...] = (
        (recipients.hold, {ana.id, ben.id}),
        (recipients.timezones, {ana.id: "Asia/Tokyo", ben.id: "Europe/Berlin"}),
        (recipients.names, {ana.id: "Ana", ben.id: "Ben"}),
    )
    for ask, known in asked:
        async with bell.transaction() as tx:
            assert await ask(tx, ids) == known
            # Only she of the other tenant is free to be erased.
            assert [row["name"] for row in await tables.rows(free)] == ["Ana"]
            with pytest.raises(InvalidInput, match="limit is 500"):
                await ask(tx, [ana.id] * 501)
        assert len(await tables.rows(free)) == 3
