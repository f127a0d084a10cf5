"""Policies: what a tenant said is kept, the rest follows the defaults."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from tests.store.support import Tables
from timebell.errors import InvalidInput, RevisionConflict
from timebell.kernel import Timebell
from timebell.notify.models import Cap, Policy
from timebell.notify.people.policies import Policies


@pytest.fixture
def policies(bell: Timebell) -> Policies:
    return Policies(bell)


async def test_a_decision_merges_and_none_goes_back_to_the_default(
    bell: Timebell, policies: Policies, tables: Tables
) -> None:
    assert await policies.get() == Policy()
    caps = (Cap(count=3, per=timedelta(hours=1)),)
    async with bell.transaction() as tx:
        first = await policies.change(tx, caps=caps, on_missing="skip")
        second = await policies.change(tx, on_missing=None, attempts_max=7, actor="operator:1")
        same = await policies.change(tx, attempts_max=7)
    assert first == Policy(caps=caps, on_missing="skip", revision=1)
    assert second == same == Policy(caps=caps, attempts_max=7, revision=2)
    assert await policies.get() == second
    stored = await tables.value("SELECT array_agg(key ORDER BY key) FROM timebell_notify.policies, "
        "jsonb_object_keys(policy) key")  # fmt: skip
    assert stored == ["attempts_max", "caps"]
    rows = await tables.rows("SELECT data::text AS data, actor FROM timebell.events ORDER BY id")
    assert rows[1] == {
        "data": '{"changed": ["attempts_max", "on_missing"], "revision": 2}',
        "actor": "operator:1",
    }


async def test_nothing_is_written_of_what_is_refused(bell: Timebell, policies: Policies) -> None:
    async with bell.transaction() as tx:
        await policies.change(tx, attempts_max=2)
        with pytest.raises(InvalidInput, match="attempts_max"):
            await policies.change(tx, on_missing="skip", attempts_max=0)
        with pytest.raises(RevisionConflict):
            await policies.change(tx, on_missing="skip", if_revision=0)
        await policies.change(tx, attempts_max=3, if_revision=1)
    assert await policies.get() == Policy(attempts_max=3, revision=2)


async def test_of_two_decisions_at_once_the_second_is_refused(
    bell: Timebell, policies: Policies, tables: Tables
) -> None:
    async def decide() -> None:
        async with bell.transaction() as tx:
            await policies.change(tx, attempts_max=2)

    async with bell.transaction() as tx:
        await policies.change(tx, attempts_max=5)
        second = asyncio.create_task(decide())
        await tables.until_someone_waits()
    with pytest.raises(RevisionConflict, match="read it again"):
        await second
    assert (await policies.get()).attempts_max == 5


async def test_the_policy_of_another_tenant_is_its_own(bell: Timebell, policies: Policies) -> None:
    async with bell.transaction() as tx:
        await policies.change(tx, attempts_max=2)
    assert await policies.get(tenant="beta") == Policy()
    async with bell.transaction(tenant="beta") as tx:
        await policies.change(tx, attempts_max=9)
    assert (await policies.get()).attempts_max == 2
