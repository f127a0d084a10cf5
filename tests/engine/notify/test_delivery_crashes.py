"""A node may die before or after each statement of a delivery, and before or after the provider took it.

With keys nothing is lost and nothing arrives twice. Without them nothing is lost either: what may have arrived is known
to be uncertain before it could arrive a second time.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.engine.notify.stage import EMAIL, REMINDER, TITLE
from tests.engine.support import Cluster, ClusterNode, Moment, Owner
from timebell.kernel import Timebell
from timebell.notify import Notify, Route, notify_app
from timebell.notify.explain.notifications import Story
from timebell.notify.models import Tell
from timebell.notify.provider import Answer, Parcel
from timebell.testing import RecordingProvider

CALL = "the call"
PLACES: list[tuple[Moment, str]] = [
    (moment, name)
    for name in (
        "start_jobs",
        "read_facts",
        "start_attempts",
        CALL,
        "record_answers",
        "note_progress",
        "COMMIT",
        "finish_jobs",
    )
    for moment in ("before", "after")
]
# From here the provider may have been called, and until there nobody knows that it answered.
DOUBTFUL = {("after", "COMMIT"), ("before", CALL), ("after", CALL), ("before", "record_answers")}
everywhere = pytest.mark.parametrize(("moment", "place"), PLACES, ids=lambda part: part.replace(" ", "_"))


async def set_up(bell: Timebell) -> UUID:
    async with bell.transaction() as tx:
        ada = await Notify(bell).recipients.add(tx, name="Ada", email=EMAIL)
        await Notify(bell).templates.save(tx, REMINDER)
    return ada.id


def calls_through(provider: RecordingProvider, node: ClusterNode) -> None:
    """The next call can be held before and after the parcel arrives."""

    async def send(parcel: Parcel) -> Answer:
        if node.is_gone:
            return provider.take(parcel)
        await node.stage.before(CALL)
        sent = provider.take(parcel)
        await node.stage.after(CALL)
        return sent

    provider.answer(send)


async def crash(
    cluster: Cluster, provider: RecordingProvider, moment: Moment, place: str, **asked: Any
) -> Story:
    """Tell Ada, kill the node that does so at that place, and let another one go on for a day."""
    app = notify_app([provider])
    doomed = await cluster.node([app])
    ada = await set_up(doomed.bell)
    calls_through(provider, doomed)
    tell = Tell(recipient=ada, template=REMINDER.key, context=TITLE, **{"channels": ["email"], **asked})
    async with doomed.bell.transaction() as tx:
        (told,) = await Notify(doomed.bell).tell_many(tx, [tell])
    hold = doomed.stage.hold(moment, place)
    await doomed.run_until(hold)
    await cluster.kill(doomed)
    node = await cluster.node([app])
    for minutes in (0, 1, 2, 7, 30, 90, 24 * 60):
        cluster.clock.move(timedelta(minutes=minutes))
        await node.run_due()
    return await Notify(node.bell).notifications.get(told.id)


def answers(story: Story) -> list[tuple[str | None, str | None]]:
    return [(one.answer, one.reason) for delivery in story.deliveries for one in delivery.attempts]


@everywhere
async def test_with_keys_it_arrives_once(cluster: Cluster, owner: Owner, moment: Moment, place: str) -> None:
    provider = RecordingProvider(key_lifetime=timedelta(hours=24))
    story = await crash(cluster, provider, moment, place)
    assert provider.taken == {EMAIL: 1}
    assert len({parcel.key for parcel in provider.parcels}) == 1
    assert (story.notification.state, story.notification.reason) == ("sent", "accepted")
    assert story.notification.settled_at is not None
    assert len(provider.parcels) <= 2
    assert await owner.jobs() == []


@everywhere
async def test_without_keys_it_is_known_to_be_uncertain(
    cluster: Cluster, owner: Owner, moment: Moment, place: str
) -> None:
    provider = RecordingProvider()
    story = await crash(cluster, provider, moment, place)
    assert provider.taken[EMAIL] <= 1
    if (moment, place) in DOUBTFUL:
        assert (story.notification.state, story.notification.reason) == ("uncertain", "crashed")
        assert answers(story) == [("uncertain", "crashed")]
    else:
        assert provider.taken == {EMAIL: 1}
        assert (story.notification.state, story.notification.reason) == ("sent", "accepted")
    assert await owner.jobs() == []


@everywhere
async def test_whoever_risks_a_second_copy_has_it_counted(
    cluster: Cluster, moment: Moment, place: str
) -> None:
    provider = RecordingProvider(when_uncertain="retry")
    story = await crash(cluster, provider, moment, place)
    doubts = [answer for answer in answers(story) if answer == ("uncertain", "crashed")]
    assert provider.taken[EMAIL] - 1 <= len(doubts) <= 1
    assert story.notification.state == "sent"
    assert bool(doubts) == ((moment, place) in DOUBTFUL)


@everywhere
async def test_a_provider_that_can_be_asked_is_asked(cluster: Cluster, moment: Moment, place: str) -> None:
    provider = RecordingProvider(can_look_up=True)
    story = await crash(cluster, provider, moment, place)
    assert provider.taken == {EMAIL: 1}
    assert (story.notification.state, story.notification.reason) == ("sent", "accepted")


INBOX: list[tuple[Moment, str]] = [
    (moment, name)
    for name in ("start_jobs", "read_facts", "show_entries", "note_progress", "COMMIT", "finish_jobs")
    for moment in ("before", "after")
]


@pytest.mark.req("R-5.4")
@pytest.mark.parametrize(("moment", "place"), INBOX)
async def test_in_the_inbox_it_is_once(cluster: Cluster, owner: Owner, moment: Moment, place: str) -> None:
    story = await crash(cluster, RecordingProvider(), moment, place, channels=["inbox"])
    assert (story.notification.state, story.notification.reason) == ("sent", "shown")
    assert await owner.value("SELECT count(*) FROM timebell_notify.inbox") == 1
    assert await owner.value("SELECT last_seq FROM timebell_notify.inbox_ends") == 1


@pytest.mark.parametrize("place", ["show_entries", "record_answers", "note_progress"])
async def test_on_two_channels_neither_is_repeated(cluster: Cluster, owner: Owner, place: str) -> None:
    provider = RecordingProvider()
    story = await crash(cluster, provider, "after", place, channels=Route(first=["email"], also=["inbox"]))
    assert story.notification.state == "sent"
    assert sorted((one.channel, one.state) for one in story.deliveries) == [
        ("email", "sent"),
        ("inbox", "sent"),
    ]
    assert provider.taken == {EMAIL: 1}
    assert await owner.value("SELECT count(*) FROM timebell_notify.inbox") == 1
