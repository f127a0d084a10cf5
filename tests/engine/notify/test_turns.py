"""Turns at a provider with a rate: no tenant waits behind what another has piled up, or has withdrawn since."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.engine.notify.stage import EMAIL, REMINDER, TITLE, Stage, stage
from tests.engine.support import Owner
from timebell.notify.delivery.turns import TAKE_TURNS
from timebell.testing import RecordingProvider
from timebell.testing.database import TestDatabase

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
MANY = [pytest.param(60, id="few"), pytest.param(2_000, marks=pytest.mark.slow, id="many")]


class Tenants:
    """Somebody to tell for each tenant."""

    def __init__(self, s: Stage) -> None:
        self._s = s
        self._people: dict[str, UUID] = {}

    async def tell(self, tenant: str, times: int = 1, **asked: Any) -> list[UUID]:
        async with self._s.harness.bell.transaction(tenant=tenant) as tx:
            if tenant not in self._people:
                await self._s.notify.templates.save(tx, REMINDER)
                someone = await self._s.notify.recipients.add(tx, name="Ada", email=f"{tenant}@example.org")
                self._people[tenant] = someone.id
            ids = []
            for _ in range(times):
                terms = {"context": TITLE, "channels": ["email"], **asked}
                told = await self._s.notify.tell(tx, self._people[tenant], REMINDER.key, **terms)
                ids.append(told.id)
        return ids

    async def state(self, tenant: str, id: UUID) -> tuple[str, str | None]:
        found = (await self._s.notify.notifications.get(id, tenant=tenant)).notification
        return found.state, found.reason


def sent_to(provider: RecordingProvider, tenant: str) -> list[Any]:
    return [parcel.attempted_at for parcel in provider.parcels if parcel.tenant == tenant]


def most_in_a_second(provider: RecordingProvider) -> int:
    at = sorted(parcel.attempted_at for parcel in provider.parcels if parcel.attempted_at is not None)
    return max(sum(1 for other in at if one <= other < one + SECOND) for one in at)


@pytest.mark.req("A-6.4")
@pytest.mark.parametrize("many", MANY)
@pytest.mark.parametrize("urgency", ["normal", "critical"])
@pytest.mark.parametrize("flood", ["normal", "critical"])
async def test_nobody_waits_behind_the_flood_of_another_tenant(
    database_url: TestDatabase, many: int, urgency: str, flood: str
) -> None:
    provider = RecordingProvider(rate_per_second=2)
    async with stage(database_url.url, [provider]) as s:
        tenants = Tenants(s)
        await tenants.tell("a", many, urgency=flood)
        await s.harness.run_due()
        await s.harness.advance(3 * SECOND)
        began = s.clock.now
        [id] = await tenants.tell("b", urgency=urgency)
        await s.harness.run_due()
        await s.harness.advance(2 * SECOND)
        assert await tenants.state("b", id) == ("sent", "accepted")
        [at] = sent_to(provider, "b")
        assert at - began <= 2 * SECOND
        assert len(sent_to(provider, "a")) >= 8, "and the other goes on meanwhile"
        assert most_in_a_second(provider) <= 2


@pytest.mark.parametrize("many", MANY)
@pytest.mark.parametrize("how", ["withdrawn", "cancelled"])
async def test_what_was_taken_back_holds_up_nobody(
    database_url: TestDatabase, owner: Owner, many: int, how: str
) -> None:
    """Neither another tenant, nor what the same one tells since."""
    provider = RecordingProvider(rate_per_second=2)
    async with stage(database_url.url, [provider]) as s:
        tenants = Tenants(s)
        ids = await tenants.tell("a", many)
        await s.harness.run_due()
        async with s.harness.bell.transaction(tenant="a") as tx:
            for id in ids:
                await (
                    s.notify.withdraw(tx, id=id) if how == "withdrawn" else s.harness.bell.cancel(tx, id=id)
                )
        [other], [same] = await tenants.tell("b"), await tenants.tell("a")
        await s.harness.run_due()
        await s.harness.advance(2 * SECOND)
        assert await tenants.state("b", other) == ("sent", "accepted")
        assert await tenants.state("a", same) == ("sent", "accepted")
        await s.harness.advance(MINUTE)
        assert await owner.value("SELECT count(*) FROM timebell_notify.provider_waits") == 0
        assert await owner.value("SELECT count(*) FROM timebell_notify.provider_turns") == 0
        assert [job for job in await owner.jobs() if job["kind"] == TAKE_TURNS] == []
        assert len(provider.parcels) == 3


async def test_tenants_take_turns(database_url: TestDatabase) -> None:
    provider = RecordingProvider(rate_per_second=2)
    async with stage(database_url.url, [provider]) as s:
        tenants = Tenants(s)
        for tenant in ("a", "b", "c"):
            await tenants.tell(tenant, 10)
            await s.harness.run_due()
        await s.harness.advance(MINUTE)
    order = [parcel.tenant for parcel in provider.parcels]
    assert len(order) == 30
    assert sorted(order[1:4]) == ["a", "b", "c"]
    assert all(set(order[at : at + 3]) == {"a", "b", "c"} for at in range(1, 25, 3))


async def test_a_wait_costs_no_attempt_and_one_run_at_a_time(database_url: TestDatabase) -> None:
    """It is called when its turn has come, and does not ask over and over."""
    provider = RecordingProvider(rate_per_second=2)
    async with stage(database_url.url, [provider]) as s:
        ids = [await s.tell(channels=["email"]) for _ in range(20)]
        await s.harness.run_due()
        held = await s.now(ids[-1])
        assert (held.state, held.reason) == ("held", "held_rate")
        await s.harness.advance(MINUTE)
        last = await s.story(ids[-1])
        assert last.notification.state == "sent"
        assert [attempt.number for attempt in last.deliveries[0].attempts] == [1]
        assert len(last.decisions) <= 4
    assert provider.taken == {EMAIL: 20}


async def test_what_is_too_late_for_its_turn_says_so(database_url: TestDatabase) -> None:
    provider = RecordingProvider(rate_per_second=2)
    async with stage(database_url.url, [provider]) as s:
        tenants = Tenants(s)
        await tenants.tell("a", 60)
        await s.harness.run_due()
        [late] = await tenants.tell("a", expires_at=s.clock.now + 10 * SECOND)
        [in_time] = await tenants.tell("b", expires_at=s.clock.now + 10 * SECOND)
        await s.harness.run_due()
        await s.harness.advance(MINUTE)
        assert await tenants.state("a", late) == ("skipped", "expired")
        assert await tenants.state("b", in_time) == ("sent", "accepted")


async def test_what_would_be_too_late_goes_another_way(database_url: TestDatabase) -> None:
    mails = RecordingProvider("mails", channels=["email"], rate_per_second=2)
    texts = RecordingProvider("texts", channels=["sms"])
    async with stage(database_url.url, [mails, texts]) as s:
        for _ in range(60):
            await s.tell(channels=["email"])
        await s.harness.run_due()
        told = await s.told(channels=["email", "sms"], expires_at=s.clock.now + 10 * SECOND)
        assert told.state == "sent"
        assert await s.states(told.id) == [("sms", "sent", "accepted")]


async def test_whoever_is_not_called_comes_by_itself(database_url: TestDatabase, owner: Owner) -> None:
    """An operator discarded the job that calls."""
    provider = RecordingProvider(rate_per_second=2)
    async with stage(database_url.url, [provider]) as s:
        ids = [await s.tell(channels=["email"]) for _ in range(3)]
        await s.harness.run_due()
        await owner.rows("DELETE FROM timebell.jobs WHERE kind = $1", TAKE_TURNS)
        await s.harness.advance(MINUTE)
        assert [(await s.now(id)).state for id in ids] == ["sent"] * 3
        assert most_in_a_second(provider) <= 2


@pytest.mark.parametrize("per_second", [25.0])
async def test_a_higher_rate_is_kept_and_used(database_url: TestDatabase, per_second: float) -> None:
    provider = RecordingProvider(rate_per_second=per_second)
    async with stage(database_url.url, [provider]) as s:
        tenants = Tenants(s)
        for tenant in ("a", "b"):
            await tenants.tell(tenant, 50)
        began = s.clock.now
        await s.harness.run_due()
        await s.harness.advance(MINUTE)
        sent: Sequence[Any] = sorted(sent_to(provider, "a") + sent_to(provider, "b"))
        assert len(sent) == 100
        assert sent[-1] - began <= 7 * SECOND
        assert most_in_a_second(provider) <= per_second
