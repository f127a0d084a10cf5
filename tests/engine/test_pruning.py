"""What has outlived its use is removed, and nothing before."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest

from tests.engine.support import Cluster, ClusterNode, Owner
from timebell.engine import pruner
from timebell.kernel import App, Job, Step

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)


class Reminders:
    """Agendas of one step each, which may run up to an hour late."""

    def __init__(self) -> None:
        self.ran: list[UUID] = []
        self.app = App(name="t", handlers={"t.remind": self._remind})

    async def _remind(self, job: Job) -> None:
        self.ran.append(job.id)

    async def state(self, node: ClusterNode, subject: str, due_in: timedelta) -> None:
        clock = node.bell.clock
        step = Step(key="a", kind="t.remind", offset=timedelta(0), late="grace", grace=HOUR)
        now = clock.sql_now()
        assert now is not None
        async with node.bell.transaction() as tx:
            await node.bell.set_agenda(tx, subject=subject, anchor=now + due_in, steps=[step])


async def test_what_a_long_planned_agenda_paid_lately_is_remembered(cluster: Cluster, owner: Owner) -> None:
    """It was stated long ago, but stated again within the grace its step would be done twice."""
    reminders = Reminders()
    node = await cluster.node([reminders.app], dead_days=30)
    await reminders.state(node, "s:1", 60 * DAY)
    cluster.clock.move(60 * DAY)
    await node.run_due()
    await node.engine.pruner.tick()
    cluster.clock.move(HOUR / 2)
    await reminders.state(node, "s:1", -HOUR / 2)
    await node.run_due()
    assert len(reminders.ran) == 1

    cluster.clock.move(31 * DAY)
    await node.engine.pruner.tick()
    assert await owner.value("SELECT count(*) FROM timebell.agendas") == 0
    assert await owner.value("SELECT count(*) FROM timebell.agenda_done") == 0


@pytest.mark.parametrize("apart", [HOUR, timedelta(0)], ids=["one after the other", "at one instant"])
async def test_old_agendas_that_still_owe_are_passed_a_few_at_a_time(
    cluster: Cluster, owner: Owner, monkeypatch: pytest.MonkeyPatch, apart: timedelta
) -> None:
    """There may be millions of them, and what lies behind them is found all the same."""
    monkeypatch.setattr(pruner, "_ROWS_MAX", 2)
    reminders = Reminders()
    node = await cluster.node([reminders.app], dead_days=30)
    for number in range(5):
        await reminders.state(node, f"owes:{number}", 100 * DAY)
        cluster.clock.move(apart)
    await reminders.state(node, "paid", timedelta(0))
    await node.run_due()
    cluster.clock.move(40 * DAY)
    for left in (6, 6, 5):
        assert await node.engine.pruner.tick() == 1.0
        assert await owner.value("SELECT count(*) FROM timebell.agendas") == left
    assert await node.engine.pruner.tick() == pruner.EVERY_SECONDS
