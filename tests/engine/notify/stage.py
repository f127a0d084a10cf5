"""A tenant with one recipient and one template, and what became of what they were told."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tests.engine.support import Owner
from timebell.kernel import App
from timebell.notify import (
    Address,
    Notification,
    Notify,
    Provider,
    TemplateDraft,
    Text,
    Variable,
    notify_app,
)
from timebell.notify.explain.notifications import Story
from timebell.testing import Harness, ManualClock, harness

EMAIL = "ada@example.org"
PHONE = "+4915112345678"

REMINDER = TemplateDraft(
    key="meeting.reminder",
    topic="meetings",
    texts=(
        Text(
            channel="email",
            language="en",
            subject="Soon: {{ title }}",
            body="Dear {{ recipient.name }}, {{ title }}.",
        ),
        Text(
            channel="email",
            language="de",
            subject="Bald: {{ title }}",
            body="Hallo {{ recipient.name }}: {{ title }}.",
        ),
        Text(channel="sms", language="en", body="Soon: {{ title }}"),
        Text(channel="whatsapp", language="en", body="Soon: {{ title }}"),
        Text(channel="push", language="en", subject="Soon", body="{{ title }}"),
        Text(channel="webhook", language="en", body="{{ title }}"),
        Text(channel="inbox", language="en", subject="Soon: {{ title }}", body="Your meeting."),
    ),
    variables=(Variable(name="title"),),
)
TITLE = {"title": "Board"}


# Those of the example in appendix A of RFC 8291.
_KEYS = {
    "p256dh": "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
    "auth": "BTBZMqHH6r4Tts7J_aSIgg",
}


def device(name: str) -> Address:
    """A browser that takes messages."""
    return Address(kind="push", value=f"https://push.example/{name}", detail={"keys": _KEYS})


def webhook(host: str) -> Address:
    return Address(kind="webhook", value=f"https://{host}/hook", detail={"secret": "whsec_" + "a" * 32})


@dataclass(slots=True, kw_only=True)
class Stage:
    """Timebell with notify, driven by a clock that the test moves."""

    harness: Harness
    notify: Notify
    recipient: UUID

    @property
    def clock(self) -> ManualClock:
        return self.harness.clock

    async def tell(self, **options: Any) -> UUID:
        """Told about the board meeting, unless the options say otherwise; nothing has run yet."""
        asked = {"recipient": self.recipient, "template": REMINDER.key, "context": TITLE, **options}
        async with self.harness.bell.transaction() as tx:
            return (await self.notify.tell(tx, **asked)).id

    async def told(self, **options: Any) -> Notification:
        """The same, and what had become of it when everything that was due had run."""
        id = await self.tell(**options)
        await self.harness.run_due()
        return await self.now(id)

    async def now(self, id: UUID) -> Notification:
        return (await self.story(id)).notification

    async def story(self, id: UUID) -> Story:
        return await self.notify.notifications.get(id)

    async def states(self, id: UUID) -> list[tuple[str, str, str | None]]:
        """Each delivery by channel, state and reason, in the order of their making."""
        deliveries = (await self.story(id)).deliveries
        return [(one.channel, one.state, one.reason) for one in deliveries]

    async def checks(self, id: UUID) -> list[tuple[str, str, str | None]]:
        decisions = (await self.story(id)).decisions
        return [(check.name, check.verdict, check.reason) for one in decisions for check in one.checks]

    async def change(self, **terms: Any) -> None:
        async with self.harness.bell.transaction() as tx:
            await self.notify.recipients.change(tx, self.recipient, **terms)

    async def decide(self, **policy: Any) -> None:
        async with self.harness.bell.transaction() as tx:
            await self.notify.policies.change(tx, **policy)


@asynccontextmanager
async def stage(
    url: str,
    providers: Sequence[Provider] = (),
    *,
    apps: Sequence[App] = (),
    email: str | None = EMAIL,
    phone: str | None = PHONE,
    terms: dict[str, Any] | None = None,
    **settings: Any,
) -> AsyncIterator[Stage]:
    async with harness(url, [notify_app(providers), *apps], **settings) as h:
        notify = Notify(h.bell)
        async with h.bell.transaction() as tx:
            recipient = await notify.recipients.add(tx, name="Ada", email=email, phone=phone, **(terms or {}))
            await notify.templates.save(tx, REMINDER)
        yield Stage(harness=h, notify=notify, recipient=recipient.id)


__all__ = ["EMAIL", "PHONE", "REMINDER", "TITLE", "Owner", "Stage", "device", "stage", "webhook"]
