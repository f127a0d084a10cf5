"""Who was called to a provider with a rate, and who goes first of those who come."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

import pytest

from tests.engine.notify.stage import Stage, stage
from tests.engine.notify.test_turns import SECOND, Tenants, sent_to
from tests.engine.support import Owner
from timebell.notify.app import QUEUE
from timebell.notify.delivery.turns import KEPT, PATIENCE, Asker, Turn, Turns
from timebell.notify.models import Urgency
from timebell.testing import RecordingProvider
from timebell.testing.database import TestDatabase

SPACING = SECOND / 2
SHORT = SECOND / 10


class Door:
    """Asks for deliveries that no engine runs, so that the test says who comes and when."""

    def __init__(self, s: Stage, urgency: Urgency) -> None:
        self._s = s
        self._turns = Turns(s.harness.bell)
        self._urgency = urgency
        self.began = s.clock.now

    async def ask(self, tenant: str, id: UUID) -> Turn | None:
        asker = Asker(tenant=tenant, notification_id=id, urgency=self._urgency)
        return await self._turns.ask("mail", 2, asker)

    async def instant(self, tenant: str, id: UUID) -> datetime:
        """When it may start, where it is not to wait until it is called."""
        turn = await self.ask(tenant, id)
        assert turn is not None, "it has started"
        assert turn.ask_at == turn.at, "it has to wait until it is called"
        return turn.at


async def test_what_is_critical_does_not_wait_to_be_called(database_url: TestDatabase) -> None:
    """Another was called for the same instant, and has not come."""
    async with stage(database_url.url, []) as s:
        tenants, door = Tenants(s), Door(s, "critical")
        [first, second, third] = await tenants.tell("a", 3)
        [own] = await tenants.tell("b")
        assert await door.ask("a", first) is None
        assert await door.instant("a", second) == door.began + SPACING
        third_turn = await door.ask("a", third)
        assert third_turn is not None
        assert third_turn.ask_at > third_turn.at, "of one tenant one at a time"
        s.clock.move_to(door.began + SPACING + KEPT + SHORT)
        assert await door.ask("b", own) is None, "nobody is waited for any longer"


async def test_who_has_come_goes_before_whoever_is_called_later(database_url: TestDatabase) -> None:
    """Else one that comes back just after its instant would lose it each time to those who come just before."""
    async with stage(database_url.url, []) as s:
        tenants, door = Tenants(s), Door(s, "critical")
        [first, second, third] = await tenants.tell("a", 3)
        [own] = await tenants.tell("b")
        assert await door.ask("a", first) is None
        assert await door.instant("a", second) == door.began + SPACING
        assert await door.instant("b", own) == door.began + 2 * SPACING
        s.clock.move_to(door.began + SPACING)
        assert await door.ask("a", second) is None
        assert await door.instant("a", third) == door.began + 3 * SPACING
        s.clock.move_to(door.began + 2 * SPACING + SHORT)
        assert await door.instant("a", third) > s.clock.now
        assert await door.ask("b", own) is None


async def test_who_had_no_turn_for_longest_goes_first_of_those_who_come(database_url: TestDatabase) -> None:
    """However many of another tenant were called before, and come all at once."""
    async with stage(database_url.url, []) as s:
        tenants, door = Tenants(s), Door(s, "critical")
        many = await tenants.tell("a", 5)
        [own] = await tenants.tell("b")
        for number, id in enumerate(many[:4]):
            s.clock.move_to(door.began + number * SPACING)
            assert await door.ask("a", id) is None
            await door.ask("a", many[number + 1])
        came = [await door.instant("a", many[4]), await door.instant("b", own)]
        assert came[1] == s.clock.now + SPACING
        assert await door.instant("a", many[4]) == s.clock.now + 2 * SPACING


@pytest.mark.parametrize("urgency", ["normal", "critical"])
async def test_nobody_is_called_of_a_tenant_whose_called_ones_do_not_come(
    database_url: TestDatabase, owner: Owner, urgency: Urgency
) -> None:
    """All its running places are taken, for example. They would come all at once, before everybody else."""
    provider = RecordingProvider(rate_per_second=2)
    async with stage(database_url.url, [provider]) as s:
        tenants, bell = Tenants(s), s.harness.bell
        await tenants.tell("a", 30, urgency=urgency)
        await s.harness.run_due()
        async with bell.transaction(tenant="a") as tx:
            await bell.pause(tx, QUEUE)
        most = 0
        for _ in range(20):
            await s.harness.advance(PATIENCE / 25)
            called = "SELECT count(*) FROM timebell_notify.provider_waits WHERE called_at IS NOT NULL"
            most = max(most, await owner.value(called))
        assert 1 <= most <= 2
        async with bell.transaction(tenant="a") as tx:
            await bell.resume(tx, QUEUE)
        [own] = await tenants.tell("b")
        began = s.clock.now
        await s.harness.run_due()
        await s.harness.advance(2 * SECOND)
        assert await tenants.state("b", own) == ("sent", "accepted")
        assert sent_to(provider, "b")[0] - began <= timedelta(seconds=1.5)


async def test_who_has_less_than_a_second_to_wait_waits_on_the_spot(
    database_url: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To put the job down, read it again and mark its start again takes about as long, and longer on a busy machine."""
    provider = RecordingProvider(rate_per_second=2)
    async with stage(database_url.url, [provider]) as s:
        tenants, slept = Tenants(s), list[float]()

        async def sleep(seconds: float) -> None:
            slept.append(seconds)
            s.clock.move(timedelta(seconds=seconds))

        monkeypatch.setattr(s.clock, "sleep", sleep)
        began = s.clock.now
        await tenants.tell("a")
        await s.harness.run_due()
        [own] = await tenants.tell("b", urgency="critical")
        await s.harness.run_due()
        assert await tenants.state("b", own) == ("sent", "accepted")
        assert sent_to(provider, "b") == [began + SPACING]
        assert SPACING.total_seconds() in slept
