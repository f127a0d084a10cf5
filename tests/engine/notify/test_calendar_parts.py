"""A context may have something for calendar programs, which goes along with a mail and with nothing else."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.engine.notify.stage import TITLE, stage
from timebell.notify import Unavailable
from timebell.testing import RecordingProvider
from timebell.testing.database import TestDatabase

INVITATION = "BEGIN:VCALENDAR\r\nMETHOD:REQUEST\r\nEND:VCALENDAR\r\n"


async def test_every_attempt_at_a_mail_carries_it(database_url: TestDatabase) -> None:
    provider = RecordingProvider()
    provider.answer(Unavailable(reason="busy"))
    async with stage(database_url.url, [provider]) as s:
        told = await s.told(channels=["email"], context={**TITLE, "calendar": INVITATION})
        await s.harness.advance(timedelta(minutes=1))
        (delivery,) = (await s.story(told.id)).deliveries
    assert [parcel.content.calendar for parcel in provider.parcels] == [INVITATION, INVITATION]
    assert delivery.content is not None
    assert delivery.content["calendar"] == INVITATION


@pytest.mark.parametrize(
    ("channel", "calendar"), [("sms", INVITATION), ("push", INVITATION), ("email", "Work"), ("email", None)]
)
async def test_nothing_else_does(database_url: TestDatabase, channel: str, calendar: str | None) -> None:
    provider = RecordingProvider()
    async with stage(database_url.url, [provider]) as s:
        await s.told(channels=[channel], context={**TITLE, "calendar": calendar})
    assert all(parcel.content.calendar is None for parcel in provider.parcels)
    assert len(provider.parcels) == (channel != "push"), "she has no device"
