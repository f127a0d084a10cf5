"""The suppression list: by tenant, channel, address and class, listed in the order of its key."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.store.support import NOW, Tables
from timebell.errors import InvalidInput
from timebell.kernel import Timebell
from timebell.notify.delivery.delivery_store import Columns, DeliveryStore
from timebell.notify.people.recipients import Recipients
from timebell.notify.people.suppressions import Suppression, Suppressions


@pytest.fixture
def suppressions(bell: Timebell) -> Suppressions:
    return Suppressions(bell)


async def suppress(bell: Timebell, suppressions: Suppressions, tenant: str = "default", **terms: Any) -> bool:
    async with bell.transaction(tenant=tenant) as tx:
        return await suppressions.add(tx, **{"channel": "email", "address": "ana@example.org", **terms})


async def test_an_address_is_suppressed_however_it_is_written(
    bell: Timebell, suppressions: Suppressions
) -> None:
    assert await suppress(bell, suppressions, address="ANA@Example.org", reason="bounced", source="resend")
    assert not await suppress(bell, suppressions, reason="manual")
    assert await suppress(bell, suppressions, message_class="marketing")
    assert await suppress(bell, suppressions, channel="sms", address="+49 170 1234567")
    page = await suppressions.list()
    assert page.next_cursor is None
    assert page.lines[0] == Suppression(
        channel="email",
        address="ana@example.org",
        message_class="",
        reason="bounced",
        source="resend",
        created_at=NOW,
    )
    assert [(line.channel, line.address, line.message_class) for line in page.lines] == [
        ("email", "ana@example.org", ""),
        ("email", "ana@example.org", "marketing"),
        ("sms", "+491701234567", ""),
    ]


async def test_what_is_suppressed_is_known_where_it_is_decided_whom_to_tell(
    bell: Timebell, suppressions: Suppressions
) -> None:
    """A number has two channels, each of which may be suppressed."""
    async with bell.transaction() as tx:
        ana = await Recipients(bell).add(tx, name="Ana", email="ana@example.org", phone="+491701234567")
    await suppress(bell, suppressions)
    for channel in ("sms", "whatsapp"):
        await suppress(bell, suppressions, channel=channel, address="+491701234567")
    await suppress(bell, suppressions, address="other@example.org")
    await suppress(bell, suppressions, tenant="other", message_class="marketing")
    columns: Columns = {"tenants": ["default"], "ids": [ana.id], "recipient_ids": [ana.id]}
    async with bell.database.connection() as session:
        (facts,) = await DeliveryStore(bell.clock).read_facts(session, columns=columns)
    assert sorted(orjson.loads(facts["suppressed"])) == [
        ["email", "ana@example.org", ""],
        ["sms", "+491701234567", ""],
        ["whatsapp", "+491701234567", ""],
    ]


async def test_a_suppression_is_taken_off_for_its_class_alone_and_that_is_recorded(
    bell: Timebell, suppressions: Suppressions, tables: Tables
) -> None:
    await suppress(bell, suppressions)
    await suppress(bell, suppressions, message_class="marketing")
    async with bell.transaction() as tx:
        assert await suppressions.remove(tx, channel="email", address="Ana@example.org", actor="operator:1")
        assert not await suppressions.remove(tx, channel="email", address="ana@example.org")
    assert [line.message_class for line in (await suppressions.list()).lines] == ["marketing"]
    (event,) = await tables.rows("SELECT actor, data::text AS data FROM timebell.events")
    assert event == {"actor": "operator:1", "data": '{"class": "", "channel": "email"}'}


async def test_the_list_is_read_page_by_page(bell: Timebell, suppressions: Suppressions) -> None:
    for number in range(5):
        await suppress(bell, suppressions, address=f"a{number}@example.org")
    seen: list[str] = []
    cursor = None
    for _ in range(3):
        page = await suppressions.list(limit=2, cursor=cursor)
        seen += [line.address for line in page.lines]
        cursor = page.next_cursor
    assert (seen, cursor) == ([f"a{number}@example.org" for number in range(5)], None)


async def test_one_address_is_asked_about(bell: Timebell, suppressions: Suppressions) -> None:
    await suppress(bell, suppressions)
    await suppress(bell, suppressions, message_class="marketing")
    await suppress(bell, suppressions, address="ben@example.org")
    found = await suppressions.find(channel="email", address="ANA@example.org")
    assert [(line.address, line.message_class) for line in found] == [
        ("ana@example.org", ""),
        ("ana@example.org", "marketing"),
    ]
    assert await suppressions.find(channel="email", address="ana@example.org", tenant="beta") == ()


@pytest.mark.parametrize(
    "cursor",
    [
        "x",
        "é",
        "W10",
        "WyJyZWNpcGllbnRzIiwiYSIsImIiLCJjIl0",
        "WyJzdXBwcmVzc2lvbnMiLCAwLCAiIiwgIiJd",
        "WyJzdXBwcmVzc2lvbnMiLCBudWxsLCAiIiwgIiJd",
        "x" * 20_000,
    ],
)
async def test_a_cursor_that_is_not_ours_is_refused(suppressions: Suppressions, cursor: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        await suppressions.list(cursor=cursor)
    assert refused.value.field == "cursor"


@pytest.mark.parametrize(
    ("terms", "field"),
    [
        ({"channel": "fax"}, "channel"),
        ({"channel": "inbox"}, "channel"),
        ({"address": "nobody"}, "address"),
        ({"message_class": "spam"}, "message_class"),
        ({"reason": ""}, "reason"),
        ({"source": None}, "source"),
    ],
)
async def test_what_cannot_be_suppressed_is_refused(
    bell: Timebell, suppressions: Suppressions, terms: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        await suppress(bell, suppressions, **terms)
    assert refused.value.field == field


async def test_the_list_of_another_tenant_is_its_own(bell: Timebell, suppressions: Suppressions) -> None:
    await suppress(bell, suppressions)
    assert (await suppressions.list(tenant="beta")).lines == ()
    async with bell.transaction(tenant="beta") as tx:
        assert not await suppressions.remove(tx, channel="email", address="ana@example.org")
    assert len((await suppressions.list()).lines) == 1
    assert await suppress(bell, suppressions, tenant="beta")
