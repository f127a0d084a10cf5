"""In whose name a message leaves."""

from __future__ import annotations

from tests.engine.notify.stage import REMINDER, TITLE, stage
from timebell.testing import RecordingProvider
from timebell.testing.database import TestDatabase

SENDER = {"email": "desk@acme.example", "email_name": "Acme", "reply_to": "help@acme.example", "sms": "Acme"}


async def test_an_approval_that_was_withdrawn_counts_from_the_next_message(
    database_url: TestDatabase,
) -> None:
    """It is told all the same, in the provider's own name, and whoever asks is told why."""
    provider = RecordingProvider()
    async with stage(database_url.url, [provider]) as s:
        bell = s.harness.bell
        async with bell.transaction(tenant="acme") as tx:
            await s.notify.templates.save(tx, REMINDER)
            ada = await s.notify.recipients.add(tx, name="Ada", email="ada@example.org")
            await s.notify.senders.approve(tx, "email", "acme.example")
            await s.notify.senders.approve(tx, "sms", "Acme")
            await s.notify.policies.change(tx, sender=SENDER)
        ids = []
        for _ in range(2):
            async with bell.transaction(tenant="acme") as tx:
                told = await s.notify.tell(tx, ada.id, REMINDER.key, context=TITLE, channels=["email"])
                ids.append(told.id)
            await s.harness.run_due()
            async with bell.transaction(tenant="acme") as tx:
                await s.notify.senders.withdraw(tx, "email", "acme.example")
        assert [dict(parcel.sender) for parcel in provider.parcels] == [SENDER, {"sms": "Acme"}]
        story = await s.notify.notifications.get(ids[1], tenant="acme")
        assert story.notification.state == "sent"
        [check] = [one for each in story.decisions for one in each.checks if one.name == "sender"]
        assert check.detail == {"parts": ["email", "email_name", "reply_to"]}


async def test_a_story_speaks_of_the_sender_only_where_there_is_one(database_url: TestDatabase) -> None:
    """Nobody is the sender of what is in the inbox alone."""
    async with stage(database_url.url, [RecordingProvider()]) as s:
        bell = s.harness.bell
        async with bell.transaction(tenant="acme") as tx:
            await s.notify.templates.save(tx, REMINDER)
            ada = await s.notify.recipients.add(tx, name="Ada", email="ada@example.org")
            await s.notify.senders.approve(tx, "email", "acme.example")
            await s.notify.policies.change(tx, sender={"email": "desk@acme.example"})
            await s.notify.senders.withdraw(tx, "email", "acme.example")
            told = [
                (await s.notify.tell(tx, ada.id, REMINDER.key, context=TITLE, channels=[channel])).id
                for channel in ("inbox", "email")
            ]
        await s.harness.run_due()
        stories = [await s.notify.notifications.get(id, tenant="acme") for id in told]
        found = [
            [one.name for each in story.decisions for one in each.checks].count("sender") for story in stories
        ]
        assert found == [0, 1]
