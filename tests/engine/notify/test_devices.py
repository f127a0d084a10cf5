"""A push goes to every device of its recipient, and a device that is gone is not tried again."""

from __future__ import annotations

from datetime import timedelta

from tests.engine.notify.stage import EMAIL, device, stage
from timebell.notify import Rejected, Route, Unavailable, Uncertain
from timebell.notify.provider import Answer, Parcel
from timebell.testing import RecordingProvider
from timebell.testing.database import TestDatabase

MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)
PHONE, TABLET, DESK = (device(name) for name in ("phone", "tablet", "desk"))
GONE = Rejected(reason="410", blame="address", is_gone=True)


def to(provider: RecordingProvider, **answers: Answer) -> None:
    """Answer each device by its name for once; the others' parcels are taken."""
    left = {f"https://push.example/{name}": answer for name, answer in answers.items()}

    async def answer(parcel: Parcel) -> Answer:
        found = left.pop(parcel.address, None)
        return provider.take(parcel) if found is None else found

    provider.answer(*[answer] * 50)


async def test_one_device_that_is_gone_does_not_matter(database_url: TestDatabase) -> None:
    provider = RecordingProvider()
    to(provider, tablet=GONE)
    async with stage(database_url.url, [provider], terms={"addresses": [PHONE, TABLET, DESK]}) as s:
        told = await s.told(channels=["push"])
        assert (told.state, told.reason) == ("sent", "accepted")
        assert sorted(await s.states(told.id)) == [
            ("push", "failed", "rejected"),
            ("push", "sent", "accepted"),
            ("push", "sent", "accepted"),
        ]
        recipient = await s.notify.recipients.get(s.recipient)
        gone = {one.value: one.gone_at for one in recipient.addresses if one.kind == "push"}
        assert gone == {PHONE.value: None, TABLET.value: s.clock.now, DESK.value: None}
        await s.told(channels=["push"])
    assert provider.taken == {PHONE.value: 2, DESK.value: 2}
    assert len(provider.parcels) == 5, "the tablet was not tried a second time"


async def test_when_all_are_gone_the_next_channel_is_tried(database_url: TestDatabase) -> None:
    provider = RecordingProvider()
    to(provider, phone=GONE, tablet=GONE)
    async with stage(database_url.url, [provider], terms={"addresses": [PHONE, TABLET]}) as s:
        told = await s.told(channels=["push", "email"])
        assert told.state == "sent"
        refused = [check for check in await s.checks(told.id) if check == ("provider", "refused", "rejected")]
        assert len(refused) == 2, "both are in the story"
        again = await s.told(channels=["push", "email"])
        assert ("address", "refused", "address_gone") in await s.checks(again.id)
    assert provider.taken == {EMAIL: 2}


async def test_a_device_that_is_away_is_tried_again_and_the_others_are_not(
    database_url: TestDatabase,
) -> None:
    provider = RecordingProvider()
    to(provider, tablet=Unavailable(reason="busy"))
    async with stage(database_url.url, [provider], terms={"addresses": [PHONE, TABLET]}) as s:
        told = await s.told(channels=["push", "email"])
        assert (told.state, told.reason) == ("held", "held_retry")
        await s.harness.advance(DAY)
        assert (await s.now(told.id)).state == "sent"
    assert provider.taken == {PHONE.value: 1, TABLET.value: 1}
    assert len(provider.parcels) == 3


async def test_a_device_of_which_nobody_knows_leaves_the_others_told(database_url: TestDatabase) -> None:
    provider = RecordingProvider()
    to(provider, phone=Uncertain(reason="hung up"))
    async with stage(database_url.url, [provider], terms={"addresses": [PHONE, TABLET]}) as s:
        told = await s.told(channels=Route(first=["push", "email"]))
        await s.harness.advance(DAY)
        told = await s.now(told.id)
        assert sorted(await s.states(told.id)) == [
            ("push", "sent", "accepted"),
            ("push", "uncertain", "no_answer"),
        ]
        assert told.settled_at is not None
        assert told.state == "sent"
    assert provider.taken == {TABLET.value: 1}


async def test_nothing_goes_to_a_device_that_is_suppressed(database_url: TestDatabase) -> None:
    provider = RecordingProvider()
    async with stage(database_url.url, [provider], terms={"addresses": [PHONE, TABLET]}) as s:
        async with s.harness.bell.transaction() as tx:
            await s.notify.suppressions.add(
                tx, channel="push", address=TABLET.value, reason="abuse", source="operator"
            )
        assert (await s.told(channels=["push"])).state == "sent"
    assert provider.taken == {PHONE.value: 1}
