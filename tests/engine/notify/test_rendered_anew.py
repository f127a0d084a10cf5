"""What an attempt says: what is true now where nothing was taken before, and the same again where it may have been."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.engine.notify.stage import EMAIL, REMINDER, Stage, stage
from tests.engine.notify.test_contexts import NAME, Facts, subjects
from tests.engine.notify.test_delivery_crashes import CALL, calls_through, set_up
from tests.engine.notify.test_digests import BODY, DAILY
from tests.engine.notify.test_uncertain import lost, silent
from tests.engine.support import Cluster, Moment
from timebell.kernel import App, Job
from timebell.notify import (
    Notify,
    Rejected,
    Route,
    Tell,
    TemplateDraft,
    Text,
    Unavailable,
    Uncertain,
    Variable,
    notify_app,
)
from timebell.notify.provider import Answer, Parcel
from timebell.testing import RecordingProvider
from timebell.testing.database import TestDatabase

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
AWAY = Unavailable(reason="away", about="parcel")


async def plan(s: Stage, anchor: datetime) -> None:
    """State the agenda of the meeting, which tells of it an hour before it begins."""
    tell = Tell(recipient=s.recipient, template=REMINDER.key, channels=["email"], context_from=NAME)
    async with s.harness.bell.transaction() as tx:
        step = await s.notify.step(tx, tell, key="soon", anchor=anchor, offset=-HOUR)
        await s.harness.bell.set_agenda(tx, subject="meeting:1", anchor=anchor, steps=[step])


def keys(provider: RecordingProvider) -> set[str]:
    return {parcel.key for parcel in provider.parcels}


@pytest.mark.req("A-4.1", "A-4.3")
async def test_what_was_not_taken_and_then_moved_says_what_is_true_at_its_new_time(
    database_url: TestDatabase,
) -> None:
    facts, provider = Facts({"title": "Board"}), RecordingProvider()
    provider.answer(AWAY)
    async with stage(database_url.url, [provider], apps=[facts.app]) as s:
        start = s.clock.now + DAY
        await plan(s, start)
        await s.harness.advance(to=start - HOUR)
        assert subjects(provider) == ["Soon: Board"]
        facts.answer = {"title": "Council"}
        await plan(s, start + 9 * DAY)
        await s.change(language="de", name="Ada L.")
        await s.harness.advance(to=start + 9 * DAY)
        assert [parcel.content.text for parcel in provider.parcels] == [
            "Dear Ada, Board.",
            "Hallo Ada L.: Council.",
        ]
        assert len(keys(provider)) == 1
        [line] = (await s.notify.deliveries.list()).lines
        delivery = await s.notify.deliveries.get(line.id)
        assert delivery.content is not None
        assert (delivery.state, delivery.language, delivery.content["subject"]) == (
            "sent",
            "de",
            "Bald: Council",
        )


@pytest.mark.req("A-4.3")
@pytest.mark.parametrize(
    "answer",
    [
        AWAY,
        Unavailable(reason="429", error_class="rate_limited", retry_after=MINUTE),
        Unavailable(reason="not_sent", about="nobody"),
    ],
    ids=["away", "limited", "not called"],
)
async def test_each_attempt_after_one_that_was_not_taken_is_read_anew(
    database_url: TestDatabase, answer: Answer
) -> None:
    facts, provider = Facts({"title": "First"}), RecordingProvider()
    provider.answer(answer)
    async with stage(database_url.url, [provider], apps=[facts.app]) as s:
        told = await s.told(channels=["email"], context_from=NAME)
        facts.answer = {"title": "Second"}
        await s.harness.advance(DAY)
        assert (await s.now(told.id)).state == "sent"
    assert subjects(provider) == ["Soon: First", "Soon: Second"]
    assert len(facts.jobs) == 2


async def test_the_providers_of_one_run_are_offered_the_same(database_url: TestDatabase) -> None:
    """What another provider refused before is nothing that this one has to repeat."""
    facts = Facts({"title": "First"})
    first, second = RecordingProvider("first"), RecordingProvider("second")
    first.answer(Rejected(reason="unpaid", blame="account"))
    second.answer(AWAY)
    async with stage(database_url.url, [first, second], apps=[facts.app]) as s:
        await s.told(channels=["email"], context_from=NAME)
        facts.answer = {"title": "Second"}
        await s.harness.advance(DAY)
    assert subjects(first) == ["Soon: First"]
    assert subjects(second) == ["Soon: First", "Soon: Second"]


async def test_what_can_no_longer_be_said_is_not_said_as_it_was(database_url: TestDatabase) -> None:
    facts, provider = Facts({"title": "First"}), RecordingProvider()
    provider.answer(AWAY)
    async with stage(database_url.url, [provider], apps=[facts.app]) as s:
        told = await s.told(channels=["email"], context={}, context_from=NAME)
        facts.answer = {"other": "x"}
        await s.harness.advance(DAY)
        assert (await s.now(told.id)).reason == "template_incomplete"
        facts.answer = {"title": "Second"}
        async with s.harness.bell.transaction() as tx:
            assert await s.notify.mend(tx, told.id, {"title": "Mended"})
        await s.harness.run_due()
    assert subjects(provider) == ["Soon: First", "Soon: Second"]


@pytest.mark.req("A-4.3", "R-5.4")
@pytest.mark.parametrize("then", [(), (AWAY,), (Uncertain(reason="hung up"), AWAY)])
async def test_what_may_have_been_taken_is_repeated_word_for_word(
    database_url: TestDatabase, then: tuple[Answer, ...]
) -> None:
    """Whoever keeps the key would refuse other words under it, and whoever does not would tell two things."""
    facts, provider = Facts({"title": "Board"}), silent(RecordingProvider(key_lifetime=DAY))
    provider.answer(*then)
    async with stage(database_url.url, [provider], apps=[facts.app]) as s:
        start = s.clock.now + DAY
        await plan(s, start)
        await s.harness.advance(to=start - HOUR)
        facts.answer = {"title": "Council"}
        await plan(s, start + HOUR / 2)
        await s.change(language="de")
        await s.harness.advance(to=start + HOUR)
        assert (await s.notify.deliveries.list(state="sent")).lines
    assert subjects(provider) == ["Soon: Board"] * (2 + len(then))
    assert (len(keys(provider)), provider.taken) == (1, {EMAIL: 1})
    assert len(facts.jobs) == 1


async def test_what_the_provider_says_it_never_had_is_read_anew(database_url: TestDatabase) -> None:
    facts, provider = Facts({"title": "First"}), lost(RecordingProvider(can_look_up=True))
    async with stage(database_url.url, [provider], apps=[facts.app]) as s:
        told = await s.told(channels=["email"], context_from=NAME)
        facts.answer = {"title": "Second"}
        await s.harness.advance(DAY)
        assert (await s.now(told.id)).state == "sent"
    assert subjects(provider) == ["Soon: First", "Soon: Second"]


@pytest.mark.req("A-4.3")
@pytest.mark.parametrize("moment", ["before", "after"])
async def test_what_a_crash_cut_off_is_repeated_word_for_word(cluster: Cluster, moment: Moment) -> None:
    facts, provider = Facts({"title": "First"}), RecordingProvider(key_lifetime=DAY)
    apps = [notify_app([provider]), facts.app]
    doomed = await cluster.node(apps)
    ada = await set_up(doomed.bell)
    calls_through(provider, doomed)
    async with doomed.bell.transaction() as tx:
        tell = Tell(recipient=ada, template=REMINDER.key, channels=["email"], context_from=NAME)
        await Notify(doomed.bell).tell_many(tx, [tell])
    await doomed.run_until(doomed.stage.hold(moment, CALL))
    await cluster.kill(doomed)
    facts.answer = {"title": "Second"}
    node = await cluster.node(apps)
    for _ in range(5):
        cluster.clock.move(2 * MINUTE)
        await node.run_due()
    assert subjects(provider) == ["Soon: First"] * 2
    assert (len(keys(provider)), provider.taken) == (1, {EMAIL: 1})


async def test_one_leg_in_doubt_does_not_speak_for_another(database_url: TestDatabase) -> None:
    facts = Facts({"title": "First"})
    mails = silent(RecordingProvider("mails", channels=["email"], key_lifetime=DAY))
    texts = RecordingProvider("texts", channels=["sms"])
    texts.answer(AWAY)
    async with stage(database_url.url, [mails, texts], apps=[facts.app]) as s:
        await s.told(channels=Route(first=["email"], also=["sms"]), context_from=NAME)
        facts.answer = {"title": "Second"}
        await s.harness.advance(DAY)
    assert subjects(mails) == ["Soon: First"] * 2
    assert [parcel.content.text for parcel in texts.parcels] == ["Soon: First", "Soon: Second"]


async def test_a_digest_says_at_every_attempt_what_was_true_as_it_closed(database_url: TestDatabase) -> None:
    """Its entries have ended by then: one that cannot be read any more would say what was planned."""
    titles = ["Rain"]

    async def read(job: Job) -> Mapping[str, Any]:
        return {"title": titles[-1]}

    async def be_away(parcel: Parcel) -> Answer:
        titles.append("Snow")
        return AWAY

    provider = RecordingProvider()
    provider.answer(be_away)
    app = App(name="news", contexts={"news.facts": read})
    async with stage(database_url.url, [provider], apps=[app]) as s:
        async with s.harness.bell.transaction() as tx:
            daily = Text(channel="email", language="en", subject="Today", body=BODY)
            given = [Variable(name="entries"), Variable(name="more_count")]
            draft = TemplateDraft(key=DAILY.template, texts=[daily], variables=given)
            await s.notify.templates.save(tx, draft)
        await s.tell(channels=["email"], context_from="news.facts", digest=DAILY)
        await s.harness.advance(2 * DAY)
    assert [parcel.content.text for parcel in provider.parcels] == ["Rain. 0 more"] * 2
