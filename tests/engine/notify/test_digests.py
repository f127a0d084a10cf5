"""Digests as the engine tells them: two workers and one digest, crashes in between, and nothing told twice."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.engine.support import Cluster, ClusterNode, Owner
from timebell.kernel import App, Job, Timebell
from timebell.notify.app import notify_app
from timebell.notify.inbox.inbox import Inbox
from timebell.notify.models import Digest, Tell
from timebell.notify.people.recipients import Recipients
from timebell.notify.planning.telling import Teller
from timebell.notify.templates.models import TemplateDraft, Text, Variable
from timebell.notify.templates.templates import Templates

MORNING = datetime(2027, 3, 2, 7, 0, tzinfo=UTC)
DAILY = Digest(key="news", closes="FREQ=DAILY;BYHOUR=8;BYMINUTE=0", template="news.daily")
BODY = "{% for line in entries %}{{ line.title }}. {% endfor %}{{ more_count }} more"


async def is_wanted(job: Job) -> bool:
    return bool(job.payload["context"]["title"] != "Old")


APPS = (notify_app(), App(name="news", guards={"news.wanted": is_wanted}))


async def set_up(bell: Timebell) -> UUID:
    """Somebody in Berlin, and the templates of what they are told."""
    async with bell.transaction() as tx:
        ana = await Recipients(bell).add(tx, name="Ana", timezone="Europe/Berlin")
        templates = Templates(bell)
        one = Text(channel="inbox", language="en", subject="News", body="{{ title }}")
        await templates.save(
            tx, TemplateDraft(key="news.one", texts=[one], variables=[Variable(name="title")])
        )
        daily = Text(channel="inbox", language="en", subject="Today", body=BODY)
        given = [Variable(name="entries"), Variable(name="more_count")]
        await templates.save(tx, TemplateDraft(key="news.daily", texts=[daily], variables=given))
    return ana.id


async def tell(bell: Timebell, recipient: UUID, *titles: str, digest: Digest = DAILY) -> Sequence[UUID]:
    tells = [
        Tell(
            recipient=recipient,
            template="news.one",
            context={"title": title},
            channels=["inbox"],
            guard="news.wanted",
            digest=digest,
        )
        for title in titles
    ]
    async with bell.transaction() as tx:
        return [told.id for told in await Teller(bell, Templates(bell)).tell_many(tx, tells)]


async def move(cluster: Cluster, to: datetime, *nodes: ClusterNode) -> None:
    if to > cluster.clock.now:
        cluster.clock.move_to(to)
    for node in nodes:
        await node.run_due()


async def shown(bell: Timebell, recipient: UUID) -> list[tuple[str, str, datetime]]:
    page = await Inbox(bell).list(recipient)
    return [(line.title, line.description, line.due_at) for line in page.lines]


async def states(owner: Owner) -> dict[Any, tuple[str, str | None]]:
    rows = await owner.rows("SELECT * FROM timebell_notify.notifications ORDER BY due_at, id")
    return {row["id"]: (row["state"], row["reason"]) for row in rows}


async def test_two_workers_tell_one_digest(cluster: Cluster, owner: Owner) -> None:
    one, other = await cluster.node(APPS), await cluster.node(APPS)
    ana = await set_up(one.bell)
    cluster.clock.move_to(MORNING - timedelta(hours=20))
    first = await tell(one.bell, ana, "Rain", "Old", "Wind")
    await move(cluster, MORNING - timedelta(hours=10), one, other)
    second = await tell(one.bell, ana, "Snow")
    await move(cluster, MORNING - timedelta(microseconds=1), one, other)
    assert await shown(one.bell, ana) == []
    assert {(await states(owner))[id] for id in (*first, *second)} >= {("held", "held_digest")}
    await move(cluster, MORNING, one, other)
    assert await shown(one.bell, ana) == [("Today", "Rain. Wind. Snow. 0 more", MORNING)]
    found = await states(owner)
    assert [found[id] for id in (*first, *second)] == [
        ("sent", "in_digest"),
        ("skipped", "guard_refused"),
        ("sent", "in_digest"),
        ("sent", "in_digest"),
    ]
    assert await owner.value("SELECT count(*) FROM timebell_notify.digests") == 1
    assert await owner.jobs() == []


async def test_whoever_is_told_of_something_later_is_told_the_next_day(cluster: Cluster) -> None:
    node = await cluster.node(APPS)
    ana = await set_up(node.bell)
    cluster.clock.move_to(MORNING - timedelta(hours=1))
    await tell(node.bell, ana, "Rain")
    await node.run_due()
    await move(cluster, MORNING, node)
    await tell(node.bell, ana, "Wind")
    await move(cluster, MORNING + timedelta(hours=1), node)
    assert [text for _, text, _ in await shown(node.bell, ana)] == ["Rain. 0 more"]
    await move(cluster, MORNING + timedelta(days=1), node)
    assert [text for _, text, _ in await shown(node.bell, ana)] == ["Rain. 0 more", "Wind. 0 more"]


async def test_one_that_is_told_empty_is_told_every_day(cluster: Cluster) -> None:
    node = await cluster.node(APPS)
    ana = await set_up(node.bell)
    cluster.clock.move_to(MORNING - timedelta(hours=1))
    always = Digest(key="news", closes=DAILY.closes, template=DAILY.template, is_sent_empty=True)
    await tell(node.bell, ana, "Rain", digest=always)
    await node.run_due()
    for day in range(3):
        await move(cluster, MORNING + timedelta(days=day), node)
    assert [text for _, text, _ in await shown(node.bell, ana)] == ["Rain. 0 more", "0 more", "0 more"]


async def test_nothing_is_told_when_nothing_is_left(cluster: Cluster, owner: Owner) -> None:
    node = await cluster.node(APPS)
    ana = await set_up(node.bell)
    cluster.clock.move_to(MORNING - timedelta(hours=1))

    async def is_wanted_for_now(job: Job) -> bool:
        return cluster.clock.now < MORNING

    fickle = App(name="fickle", guards={"fickle.wanted": is_wanted_for_now})
    other = await cluster.node((*APPS, fickle))
    await cluster.kill(node)
    tells = [
        Tell(
            recipient=ana,
            template="news.one",
            context={"title": "x"},
            channels=["inbox"],
            guard="fickle.wanted",
            digest=DAILY,
        )
    ]
    async with other.bell.transaction() as tx:
        (told,) = await Teller(other.bell, Templates(other.bell)).tell_many(tx, tells)
    await other.run_due()
    await move(cluster, MORNING, other)
    assert await shown(other.bell, ana) == []
    found = await states(owner)
    assert found.pop(told.id) == ("skipped", "guard_refused")
    assert list(found.values()) == [("skipped", "empty_digest")]


async def test_one_that_is_too_long_for_its_channel_tells_what_there_is_room_for(
    cluster: Cluster, owner: Owner
) -> None:
    node = await cluster.node(APPS)
    ana = await set_up(node.bell)
    cluster.clock.move_to(MORNING - timedelta(hours=1))
    await tell(node.bell, ana, *(f"{number} {'x' * 1_000}" for number in range(50)))
    await node.run_due()
    await move(cluster, MORNING, node)
    ((_, text, _),) = await shown(node.bell, ana)
    assert (text.count("x. "), text.endswith(". 38 more")) == (12, True)
    assert set((await states(owner)).values()) == {("sent", "in_digest"), ("sent", "shown")}


STATEMENTS = (
    "read_member",
    "open_digest",
    "assign_digest",
    "join_digest",
    "retry_jobs",
    "lock_digest",
    "close_digest",
    "list_members",
    "finish_waiting",
    "release_members",
    "read_digest_members",
    "show_entries",
    "note_progress",
    "settle_digest_members",
    "finish_jobs",
)


@pytest.mark.req("R-5.4")
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("statement", STATEMENTS)
async def test_a_crash_anywhere_loses_nothing_and_tells_nothing_twice(
    cluster: Cluster, owner: Owner, statement: str, moment: Any
) -> None:
    doomed = await cluster.node(APPS)
    ana = await set_up(doomed.bell)
    cluster.clock.move_to(MORNING - timedelta(hours=1))
    ids = await tell(doomed.bell, ana, "Rain", "Wind")
    hold = doomed.stage.hold(moment, statement)
    is_alive = await doomed.survives(hold)
    if is_alive:
        cluster.clock.move_to(MORNING)
        is_alive = await doomed.survives(hold)
    assert not is_alive, f"never came to {statement}"
    await cluster.kill(doomed)
    node = await cluster.node(APPS)
    for minutes in (0, 1, 5, 60, 61, 65, 120, 180):
        await move(cluster, MORNING - timedelta(hours=1) + timedelta(minutes=minutes), node)
    ((title, text, due_at),) = await shown(node.bell, ana)
    assert (title, text) == ("Today", "Rain. Wind. 0 more")
    assert due_at == MORNING
    found = await states(owner)
    assert [found[id] for id in ids] == [("sent", "in_digest")] * 2
    assert await owner.value("SELECT count(*) FROM timebell_notify.digests") == 1
    assert await owner.value("SELECT last_seq FROM timebell_notify.inbox_ends") == 1
    assert await owner.jobs() == []
