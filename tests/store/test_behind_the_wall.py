"""The verbs as the API has them: as a role that sees one tenant at a time, in whatever order the tenants come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest
import pytest_asyncio

from tests.store.schedule_support import STEPS, local, step
from tests.store.support import APP, HOUR, NOW, StillClock, Tables
from timebell.config import Settings
from timebell.db.pool import Database
from timebell.db.walls import walled_to
from timebell.errors import NotFound, WrongTenant
from timebell.kernel import Registry, Timebell
from timebell.kernel.insights.insights import Insights
from timebell.notify import Address, Notify, TemplateDraft, Text, Variable, notify_app
from timebell.testing.database import TestDatabase

TENANTS = ("acme", "zeta")


@pytest_asyncio.fixture
async def walled(
    database_url: TestDatabase, clock: StillClock, database: Database
) -> AsyncIterator[Timebell]:
    """A bell behind the wall. What apps bring is declared by a node, which is not."""
    registry = Registry([APP, notify_app(())])
    await Timebell(database, registry=registry, clock=clock).declare()
    opened = await Database.open(database_url.api_url, size=4, is_walled=True)
    made = Timebell(opened, registry=registry, settings=Settings(cancel_wait_seconds=0.2), clock=clock)
    yield made
    await made.close()
    await opened.close()


async def enqueue(bell: Timebell, tenant: str, **options: Any) -> UUID:
    with walled_to(tenant):
        async with bell.transaction(tenant=tenant) as tx:
            return (await bell.enqueue(tx, "office.ring", {"of": tenant}, **options)).id


async def test_a_transaction_is_of_the_tenant_that_is_answered_for(walled: Timebell, tables: Tables) -> None:
    with pytest.raises(WrongTenant, match="'zeta' is asked for"), walled_to("acme"):
        async with walled.transaction(tenant="zeta"):
            pytest.fail("it was opened")
    with pytest.raises(WrongTenant):
        async with walled.transaction():
            pytest.fail("it was opened for nobody")
    assert await tables.jobs() == []


async def test_a_node_opens_transactions_of_every_tenant(bell: Timebell, tables: Tables) -> None:
    """It has no wall, also where it is called in the middle of somebody's request, as in a sandbox."""
    with walled_to("acme"):
        async with bell.transaction(tenant="zeta") as tx:
            await bell.enqueue(tx, "office.ring")
    assert [job["tenant"] for job in await tables.jobs()] == ["zeta"]


async def test_a_tenants_name_is_text_and_nothing_more(walled: Timebell, tables: Tables) -> None:
    for tenant in ("o'hara", "back\\slash", "'; SET LOCAL timebell.tenant = 'acme", "ünï"):
        id = await enqueue(walled, tenant)
        with walled_to(tenant):
            async with walled.database.connection() as session:
                rows = await session.connection.fetch("SELECT id, tenant FROM timebell.jobs")
        assert [(row["id"], row["tenant"]) for row in rows] == [(id, tenant)]
    assert len(await tables.jobs()) == 4


async def test_nothing_is_left_on_a_connection(database_url: TestDatabase, walled: Timebell) -> None:
    await enqueue(walled, "acme")
    opened = await Database.open(database_url.api_url, size=1, is_walled=True)
    seen = []
    for tenant in ("acme", "zeta", "", "acme"):
        with walled_to(tenant):
            async with opened.connection() as session:
                seen.append(await session.connection.fetchval("SELECT count(*) FROM timebell.jobs"))
    async with opened._borrowed() as session:
        left = await session.connection.fetchval("SELECT current_setting('timebell.tenant')")
    await opened.close()
    assert seen == [1, 0, 0, 1]
    assert left == ""


async def test_many_at_once_keep_apart(walled: Timebell) -> None:
    """Each request is a task of its own, and the tenant is its own too."""
    tenants = [f"tenant-{number}" for number in range(20)]

    async def work(tenant: str) -> set[str]:
        ids = {str(await enqueue(walled, tenant)) for _ in range(3)}
        with walled_to(tenant):
            async with walled.database.connection() as session:
                rows = await session.connection.fetch("SELECT id, tenant FROM timebell.jobs")
        assert {row["tenant"] for row in rows} == {tenant}
        assert {str(row["id"]) for row in rows} == ids
        return ids

    found = await asyncio.gather(*map(work, tenants))
    assert len(set().union(*found)) == 60


async def test_every_verb_about_jobs(walled: Timebell, tables: Tables) -> None:
    for tenant in TENANTS:
        with walled_to(tenant):
            async with walled.transaction(tenant=tenant) as tx:
                first = await walled.enqueue(tx, "office.ring", key="k", subject="s:1", key_lifetime=HOUR)
                assert (
                    await walled.enqueue(tx, "office.ring", key="k", subject="s:1", key_lifetime=HOUR)
                ).id == first.id
                diff = await walled.set_agenda(tx, subject="s:2", anchor=NOW + HOUR, steps=[step("start")])
                assert len(diff.added) == 1
                await walled.record(tx, "office.rang", {"by": tenant}, subject="s:1")
                await walled.pause(tx, "mail", reason="no")
            async with walled.transaction(tenant=tenant) as tx:
                moved = await walled.set_agenda(
                    tx, subject="s:2", anchor=NOW + 2 * HOUR, steps=[step("start")]
                )
                assert len(moved.moved) == 1
                await walled.clear_agenda(tx, subject="s:2")
                (cancelled,) = await walled.cancel(tx, kind="office.ring", key="k")
                assert cancelled.answer == "cancelled"
                assert await walled.resume(tx, "mail")
    assert await tables.jobs() == []
    assert {row["tenant"] for row in await tables.rows("SELECT tenant FROM timebell.events")} == set(TENANTS)


async def test_another_tenants_job_is_not_there(walled: Timebell, tables: Tables) -> None:
    theirs = await enqueue(walled, "zeta", subject="s:1", key="k")
    with walled_to("acme"):
        async with walled.transaction(tenant="acme") as tx:
            for id in (theirs, uuid4()):
                (answer,) = await walled.cancel(tx, id=id)
                assert answer.answer == "not_found"
            assert await walled.cancel(tx, subject="s:1") == []
        assert (await Insights(walled.database, walled.clock).jobs("acme")).lines == ()
    assert [job["id"] for job in await tables.jobs()] == [theirs]


async def test_a_statement_that_forgets_the_tenant_reaches_nobody_else(
    walled: Timebell, tables: Tables
) -> None:
    """What the wall is for: a query without its condition, sent by a caller of one tenant."""
    for tenant in TENANTS:
        await enqueue(walled, tenant)
    with walled_to("acme"):
        async with walled.transaction(tenant="acme") as tx:
            assert await tx.connection.execute("DELETE FROM timebell.jobs") == "DELETE 1"
            assert await tx.connection.fetchval("SELECT count(*) FROM timebell.jobs") == 0
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
            async with walled.transaction(tenant="acme") as tx:
                await tx.connection.execute("SELECT timebell.enqueue('office.ring', tenant => 'zeta')")
    assert [job["tenant"] for job in await tables.jobs()] == ["zeta"]


async def test_dead_jobs_are_revived_and_discarded(walled: Timebell, tables: Tables) -> None:
    for tenant in TENANTS:
        for _ in range(2):
            await tables.rows(
                "INSERT INTO timebell.dead_jobs (id, tenant, queue, kind, due_at, version, attempt, crash_count, "
                "priority, urgency, payload, created_at, died_at, fingerprint) VALUES (timebell.new_id(), $1, "
                "'default', 'office.ring', $2, 1, 1, 0, 0, 'normal', '{}', $2, $2, 'f')",
                tenant,
                NOW,
            )
    with walled_to("acme"):
        async with walled.transaction(tenant="acme") as tx:
            assert len(await walled.revive(tx, fingerprint="f", limit=1)) == 1
            assert len(await walled.discard(tx, fingerprint="f")) == 1
    assert [row["tenant"] for row in await tables.rows("SELECT tenant FROM timebell.dead_jobs")] == [
        "zeta"
    ] * 2


async def test_every_verb_about_schedules(walled: Timebell, tables: Tables) -> None:
    made: dict[str, UUID] = {}
    for tenant in TENANTS:
        with walled_to(tenant):
            async with walled.transaction(tenant=tenant) as tx:
                change = await walled.schedules.create(
                    tx,
                    recurrence="FREQ=DAILY;COUNT=9",
                    start_local=local("2027-03-02T12:00"),
                    timezone="Europe/Berlin",
                    steps=STEPS,
                )
                id = made[tenant] = change.schedule.id
                await walled.schedules.override(tx, id, local("2027-03-03T12:00"), skip=True)
                await walled.schedules.override(
                    tx, id, local("2027-03-04T12:00"), start_local=local("2027-03-04T15:00")
                )
                await walled.schedules.restore(tx, id, local("2027-03-03T12:00"))
                await walled.schedules.edit(tx, id, payload={"title": "Bins"})
                await walled.schedules.pause(tx, id)
                await walled.schedules.resume(tx, id)
                parts = await walled.schedules.split(tx, id, local("2027-03-06T12:00"))
                assert parts.schedule.id != id
                assert len((await walled.schedules.list(tx)).lines) == 2
    with walled_to("acme"):
        async with walled.transaction(tenant="acme") as tx:
            with pytest.raises(NotFound):
                await walled.schedules.get(tx, made["zeta"])
            await walled.schedules.end(tx, made["acme"])
    states = await tables.rows("SELECT tenant, state FROM timebell.schedules WHERE state = 'ended'")
    assert [row["tenant"] for row in states] == ["acme"]


HELLO = TemplateDraft(
    key="hello",
    variables=[Variable(name="title")],
    texts=[
        Text(channel="inbox", language="en", subject="Hello", body="{{ title }}"),
        Text(channel="email", language="en", subject="Hello", body="{{ title }}"),
    ],
)


async def test_every_verb_about_notifications(walled: Timebell, tables: Tables) -> None:
    notify = Notify(walled)
    people: dict[str, UUID] = {}
    for tenant in TENANTS:
        with walled_to(tenant):
            async with walled.transaction(tenant=tenant) as tx:
                ana = await notify.recipients.add(tx, name="Ana", email="ana@example.org", external_id="ana")
                people[tenant] = id = ana.id
                await notify.recipients.change(tx, id, timezone="Europe/Berlin", phone="+4930901820")
                address = await notify.recipients.add_address(
                    tx, id, Address(kind="email", value="two@example.org")
                )
                assert address.id is not None
                await notify.recipients.remove_address(tx, id, address.id)
                await notify.recipients.opt_outs.add(tx, id, topic="news")
                await notify.recipients.opt_outs.remove(tx, id, topic="news")
                await notify.policies.change(tx, default_language="de")
                await notify.templates.save(tx, HELLO)
                await notify.suppressions.add(tx, channel="email", address="gone@example.org")
                told = await notify.tell(tx, id, "hello", context={"title": tenant}, subject="s:1")
                await notify.mend(tx, told.id, {"title": "better"})
                await notify.repin(tx, "hello")
                await notify.release(tx, [told.id])
                (taken_back,) = await notify.withdraw(tx, subject="s:1")
                assert taken_back.answer == "cancelled"
                await notify.inbox.mark_all_seen(tx, id)
                await notify.tell(tx, id, "hello", context={"title": tenant})
            assert (await notify.notifications.get(told.id, tenant=tenant)).notification.state == "withdrawn"
            assert await notify.inbox.count_unseen(id, tenant=tenant) == 0
            await notify.explain(told.id, tenant=tenant)
            await notify.why_not(id, "hello", tenant=tenant)
            assert (await notify.recipients.get(id, tenant=tenant)).name == "Ana"
    with walled_to("acme"):
        with pytest.raises(NotFound):
            await notify.recipients.get(people["zeta"], tenant="acme")
        # Also where the code asks for the other tenant outright.
        with pytest.raises(NotFound):
            await notify.recipients.get(people["zeta"], tenant="zeta")
        async with walled.transaction(tenant="acme") as tx:
            await notify.recipients.erase(tx, people["acme"])
    names = await tables.rows("SELECT tenant, name FROM timebell_notify.recipients ORDER BY tenant")
    assert [(row["tenant"], row["name"]) for row in names] == [("acme", ""), ("zeta", "Ana")]


async def test_templates_that_are_asked_for_together_are_each_tenants_own(walled: Timebell) -> None:
    """Those of a node share a statement. Behind the wall that statement would see one tenant of the two."""
    notify = Notify(walled)
    for tenant in TENANTS:
        with walled_to(tenant):
            async with walled.transaction(tenant=tenant) as tx:
                await notify.templates.save(tx, HELLO)

    fresh = Notify(walled)

    async def find(tenant: str) -> bool:
        with walled_to(tenant):
            return await fresh.templates.find(tenant, "hello") is not None

    assert await asyncio.gather(*map(find, TENANTS * 5)) == [True] * 10
