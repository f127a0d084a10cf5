"""Approvals: given by the operator, for one tenant, and written down."""

from __future__ import annotations

import pytest

from tests.store.support import Tables
from timebell.errors import InvalidInput, KeyConflict
from timebell.kernel import Timebell
from timebell.notify import Notify


async def test_a_sender_that_nobody_approved_is_not_saved(bell: Timebell) -> None:
    notify = Notify(bell)
    for part, value in (
        ("email", "boss@bank.example"),
        ("reply_to", "boss@bank.example"),
        ("sms", "Bank"),
        ("whatsapp", "+4915112345678"),
    ):
        async with bell.transaction(tenant="a") as tx:
            with pytest.raises(
                InvalidInput, match="not approved for the tenant a; have the operator"
            ) as refused:
                await notify.policies.change(tx, sender={part: value})
            assert refused.value.field == f"sender.{part}"
    assert (await notify.policies.get(tenant="a")).sender == {}


async def test_the_approval_of_one_tenant_is_of_no_use_to_another(bell: Timebell, tables: Tables) -> None:
    notify = Notify(bell)
    async with bell.transaction(tenant="b") as tx:
        await notify.senders.approve(tx, "email", "Bank.example", actor="operator:1")
        again = await notify.senders.approve(tx, "email", "bank.example")
        assert (again.value, again.actor) == ("bank.example", "operator:1")
        await notify.policies.change(tx, sender={"email": "boss@bank.example", "email_name": "The Bank"})
    async with bell.transaction(tenant="a") as tx:
        with pytest.raises(InvalidInput, match="not approved"):
            await notify.policies.change(tx, sender={"email": "boss@bank.example"})
    assert await notify.senders.list(tenant="a") == []
    async with bell.transaction(tenant="b") as tx:
        assert await notify.senders.withdraw(tx, "email", "bank.example", actor="operator:1")
        assert not await notify.senders.withdraw(tx, "email", "bank.example")
    events = await tables.rows(
        "SELECT tenant, name, actor FROM timebell.events WHERE name LIKE 'sender.%' ORDER BY id"
    )
    assert [tuple(event.values()) for event in events] == [
        ("b", "sender.approved", "operator:1"),
        ("b", "sender.withdrawn", "operator:1"),
    ]


async def test_the_operators_own_tenant_needs_nobodys_leave(bell: Timebell) -> None:
    async with bell.transaction() as tx:
        changed = await Notify(bell).policies.change(tx, sender={"email": "bell@example.org"})
    assert changed.sender == {"email": "bell@example.org"}


async def test_a_tenant_has_only_so_many(bell: Timebell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("timebell.notify.people.senders.SENDERS_MAX", 2)
    notify = Notify(bell)
    async with bell.transaction(tenant="a") as tx:
        await notify.senders.approve(tx, "sms", "One")
        await notify.senders.approve(tx, "sms", "Two")
        with pytest.raises(KeyConflict, match="withdraw one first"):
            await notify.senders.approve(tx, "sms", "Three")
