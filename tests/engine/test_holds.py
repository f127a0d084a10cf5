"""A queue that a process cannot serve for now: what is due there waits, in order, and nothing is tried in vain."""

from __future__ import annotations

from datetime import timedelta

from tests.engine.support import Cluster, Owner
from tests.engine.test_pause import Order, enqueue, pause, resume
from tests.log_lines import kept_lines
from timebell.kernel import App, Enqueue, Handler, Job, Outcome, Queue, Retry
from timebell.testing import harness
from timebell.testing.database import TestDatabase

SECOND = timedelta(seconds=1)
AWAY = "the broker is away"


async def test_what_is_held_waits_without_an_attempt_and_others_go_on(
    database_url: TestDatabase, owner: Owner
) -> None:
    order = Order()
    async with harness(database_url.url, [order.app("external")]) as h:
        h.bell.holds.hold("mail", AWAY)
        await enqueue(h.bell, 30)
        await enqueue(h.bell, 30, queue="sms")
        await h.advance(5 * SECOND)
        assert order.counts() == {("a", "sms"): 30}
        assert {(row["lane"], row["attempt"], row["started_by"]) for row in await owner.jobs()} == {
            (2, 0, None)
        }
        h.bell.holds.release("mail")
        await h.advance(SECOND)
    assert order.counts()["a", "mail"] == 30
    assert await owner.jobs() == []


async def test_what_was_held_is_begun_in_the_order_of_its_time(database_url: TestDatabase) -> None:
    order = Order()
    async with harness(database_url.url, [order.app()], concurrency=1, batch=1) as h:
        h.bell.holds.hold("mail", AWAY)
        start = h.clock.now
        async with h.bell.transaction(tenant="a") as tx:
            await h.bell.enqueue_many(
                tx,
                [
                    Enqueue(kind="t.run", queue="mail", due_at=start + number * SECOND)
                    for number in (5, 3, 9, 1, 7, 2, 8, 0, 6, 4)
                ],
            )
        await h.advance(20 * SECOND)
        assert order.jobs == []
        h.bell.holds.release("mail")
        await h.advance(SECOND)
    assert [(job.due_at - start).total_seconds() for job in order.jobs] == list(range(10))


async def test_the_oldest_of_all_slots_come_back_first(cluster: Cluster, owner: Owner) -> None:
    """Were one slot brought back after the other, what has waited longest would come among the last; and were as many
    of each brought back, what is in a slot with much would come after what is younger."""
    order = Order()
    node = await cluster.node([order.app()])
    start = cluster.clock.now
    node.bell.holds.hold("mail", AWAY)
    async with node.bell.transaction(tenant="a") as tx:
        await node.bell.enqueue_many(
            tx,
            [
                Enqueue(kind="t.run", queue="mail", due_at=start + SECOND * (number * 7 % 1_200) / 1_000)
                for number in range(1_200)
            ],
        )
    cluster.clock.move(2 * SECOND)
    await node.run_due()
    parked = await owner.jobs()
    assert {row["lane"] for row in parked} == {2}
    oldest = [row["id"] for row in sorted(parked, key=lambda row: row["run_at"])]
    instants = sorted(row["run_at"] for row in parked)
    came = 0
    while came < len(oldest):
        async with node.bell.database.connection() as session:
            back = await node.engine.store.unpark_jobs(session, slots=range(256), per_slot=3, limit=150)
        assert 3 <= len(back) <= 150
        assert [row["run_at"] for row in back] == instants[came : came + len(back)]
        came += len(back)
        waiting = {row["id"] for row in await owner.jobs() if row["lane"] == 2}
        assert waiting == set(oldest[came:])


async def test_what_is_read_at_once_is_begun_in_order_whatever_its_slot(database_url: TestDatabase) -> None:
    """A first read takes a few of each slot, and a slot with more may have older ones than another's second."""
    order = Order()
    async with harness(database_url.url, [order.app()], concurrency=300, batch=300) as h:
        h.bell.holds.hold("mail", AWAY)
        start = h.clock.now
        async with h.bell.transaction(tenant="a") as tx:
            await h.bell.enqueue_many(
                tx,
                [
                    Enqueue(kind="t.run", queue="mail", due_at=start + SECOND * (number * 7 % 600) / 600)
                    for number in range(600)
                ],
            )
        await h.advance(5 * SECOND)
        h.bell.holds.release("mail")
        await h.advance(SECOND)
    instants = [job.due_at for job in order.jobs]
    assert len(instants) == 600
    assert instants == sorted(instants)


async def test_what_fails_as_the_hold_begins_is_parked_at_its_next_turn(
    database_url: TestDatabase, owner: Owner
) -> None:
    async def fail(job: Job) -> Outcome:
        job.bell.holds.hold("mail", AWAY)
        return Retry("gone", error_class="unavailable")

    app = App(name="t", handlers={"t.run": Handler(run=fail, queue="mail")}, queues=[Queue(name="mail")])
    async with harness(database_url.url, [app]) as h:
        await enqueue(h.bell, 1)
        await h.advance(600 * SECOND)
        assert [(row["lane"], row["attempt"]) for row in await owner.jobs()] == [(2, 0)]


async def test_a_hold_is_of_one_process_alone(cluster: Cluster) -> None:
    order = Order()
    one, other = await cluster.node([order.app()]), await cluster.node([order.app()])
    for node in (one, other, one, other):
        await node.engine.beat()
    one.bell.holds.hold("mail", AWAY)
    await enqueue(one.bell, 40)
    for node in (one, other):
        await node.run_due()
    begun = len(order.jobs)
    assert 0 < begun < 40
    one.bell.holds.release("mail")
    cluster.clock.move(SECOND)
    for node in (one, other):
        await node.run_due()
    assert len(order.jobs) == 40


async def test_what_a_visitor_holds_it_brings_back_itself(cluster: Cluster, owner: Owner) -> None:
    """The owner of the slot has no handler for it, and nothing that would tell it of the hold."""
    order = Order()
    owning = await cluster.node([App(name="other")])
    visitor = await cluster.node([order.app()])
    visitor.bell.holds.hold("mail", AWAY)
    await enqueue(owning.bell, 20)
    for node in (owning, visitor):
        await node.engine.beat()
        await node.run_due()
    assert {row["lane"] for row in await owner.jobs()} == {2}
    visitor.bell.holds.release("mail")
    cluster.clock.move(SECOND)
    await visitor.run_due()
    assert len(order.jobs) == 20


async def test_nodes_that_visit_each_other_leave_what_the_other_has_parked(
    cluster: Cluster, owner: Owner
) -> None:
    """Each brings back what it runs itself and nothing else: a job that waits is written once, however long it does."""
    order, others = Order(), Order()
    one, other = await cluster.node([order.app()]), await cluster.node([others.app(kind="u.run", name="u")])
    nodes = (one, other, one, other)
    for node in nodes:
        await node.engine.beat()
    assert one.engine.node.slots() == other.engine.node.slots() == list(range(256))
    one.bell.holds.hold("mail", AWAY)
    await enqueue(one.bell, 40)
    await enqueue(other.bell, 40, kind="u.run", queue="sms")
    other.bell.holds.hold("sms", AWAY)
    for node in nodes:
        await node.run_due()
    written = await owner.rows("SELECT id, xmin::text, lane FROM timebell.jobs ORDER BY id")
    assert [row["lane"] for row in written] == [2] * 80
    # A pause that ends has each of them look for what it may bring back.
    for change in (pause, resume):
        await change(one.bell, tenant="b")
        for node in nodes:
            cluster.clock.move(SECOND)
            await node.engine.beat()
            await node.run_due()
    assert await owner.rows("SELECT id, xmin::text, lane FROM timebell.jobs ORDER BY id") == written
    one.bell.holds.release("mail")
    other.bell.holds.release("sms")
    for node in nodes:
        cluster.clock.move(SECOND)
        await node.run_due()
    assert (order.counts(), others.counts()) == ({("a", "mail"): 40}, {("a", "sms"): 40})


async def test_a_pause_outlasts_a_hold_and_a_hold_a_pause(database_url: TestDatabase) -> None:
    order = Order()
    async with harness(database_url.url, [order.app()]) as h:
        await pause(h.bell)
        h.bell.holds.hold("mail", AWAY)
        await enqueue(h.bell, 5)
        await h.advance(SECOND)
        h.bell.holds.release("mail")
        await h.advance(SECOND)
        assert order.jobs == []
        h.bell.holds.hold("mail", AWAY)
        await resume(h.bell)
        await h.advance(SECOND)
        assert order.jobs == []
        h.bell.holds.release("mail")
        await h.advance(SECOND)
    assert len(order.jobs) == 5


async def test_a_hold_is_told_once(database_url: TestDatabase) -> None:
    async with harness(database_url.url, [Order().app()]) as h:
        with kept_lines() as lines:
            for _ in range(3):
                h.bell.holds.hold("mail", AWAY)
            for _ in range(3):
                h.bell.holds.release("mail")
    told = [(line["event"], line["queue"]) for line in lines if "queue" in line]
    assert told == [("the jobs of a queue wait", "mail"), ("the jobs of a queue go on", "mail")]
