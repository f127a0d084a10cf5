"""Behind a pooler in transaction mode: nothing may be left on a connection that the next client would inherit."""

from __future__ import annotations

from datetime import timedelta
from typing import get_args

from tests.engine.support import Cluster, Owner
from timebell.kernel import App, Enqueue, Handler, Job, Retry, Step
from timebell.kernel.models import Mode

MODES: tuple[Mode, ...] = get_args(Mode)
LEFTOVERS = {
    # The driver itself turns jit off while it looks at types, which is what the role has anyway.
    "settings of the session": "SELECT name FROM pg_settings WHERE source = 'session' AND setting <> reset_val",
    "start-up parameters": "SELECT name FROM pg_settings WHERE source = 'client' AND name IN "
    "('lock_timeout', 'statement_timeout', 'idle_in_transaction_session_timeout', 'jit')",
    "prepared statements": "SELECT name FROM pg_prepared_statements",
    "listening": "SELECT pg_listening_channels()",
    "advisory locks": "SELECT objid FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()",
    "temporary tables": "SELECT relname FROM pg_class WHERE relpersistence = 't'",
}


async def test_a_pooled_node_leaves_nothing_on_its_connections(cluster: Cluster, owner: Owner) -> None:
    """Failure 20: whatever is not local to a transaction belongs to whoever gets the connection next."""

    async def act(job: Job) -> Retry | None:
        return Retry("again") if job.attempt == 1 else None

    app = App(name="t", handlers={f"t.{mode}": Handler(run=act, mode=mode) for mode in MODES})
    node = await cluster.node([app], pooled=True)
    async with node.bell.transaction() as tx:
        many = [Enqueue(kind=f"t.{mode}", key=f"k{n}") for mode in MODES for n in range(20)]
        await node.bell.enqueue_many(tx, many)
        steps = [Step(key="a", kind="t.plain", offset=timedelta(0), late="run")]
        await node.bell.set_agenda(tx, subject="s:1", anchor=cluster.clock.now, steps=steps)
        (cancelled,) = await node.bell.cancel(tx, kind="t.plain", key="k1")
        assert cancelled.answer == "cancelled"
    for _ in range(3):
        await node.run_due()
        cluster.clock.move(timedelta(minutes=6))
    await node.engine.pruner.tick()
    await node.engine._tick_wakeups()
    assert await owner.jobs() == []
    assert len(await owner.log("done")) == 60

    opened = node.connections()
    assert len(opened) >= 2
    for connection in opened:
        left = {what: await connection.fetch(question) for what, question in LEFTOVERS.items()}
        assert {what: rows for what, rows in left.items() if rows} == {}
