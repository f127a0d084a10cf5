"""Demo mode lets nothing leave and keeps the inbox; with providers in the settings, messages really go."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email import message_from_bytes
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import pytest

import timebell
from tests.acceptance.processes import assert_refused, command
from tests.contract.providers.mail_server import MailServer, mail_server
from timebell import App
from timebell.config import Settings
from timebell.errors import ConfigurationError
from timebell.notify import Notify, Route, TemplateDraft, Text, notify_app
from timebell.notify.explain.notifications import Story
from timebell.notify.people.addresses import push_address
from timebell.providers.log import Log
from timebell.providers.push_encryption import VapidKey
from timebell.testing import RecordingProvider
from timebell.testing.database import TestDatabase

GREETING = TemplateDraft(
    key="greeting",
    topic="greetings",
    texts=(
        Text(channel="email", language="en", subject="Good morning", body="Dear {{ recipient.name }}."),
        Text(channel="push", language="en", subject="Good morning", body="Rise and shine."),
        Text(channel="inbox", language="en", subject="Good morning", body="Coffee is ready."),
    ),
)
EVERYWHERE = Route(first=["email"], also=["push", "inbox"])
# Reached, it would answer that nobody listens; it must not even be asked.
ENDPOINT = "https://push.example.invalid/abc"


class Calls:
    """Every address that this process connects to or asks the name of, while it listens."""

    def __init__(self) -> None:
        self.is_listening = False
        self.made: list[Any] = []
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.is_listening and event in ("socket.connect", "socket.getaddrinfo"):
            self.made.append(arguments[1] if event == "socket.connect" else arguments[:2])


# A hook cannot be taken away again, so there is one.
CALLS = Calls()


@pytest.fixture
def calls() -> Iterator[list[Any]]:
    CALLS.made = []
    CALLS.is_listening = True
    yield CALLS.made
    CALLS.is_listening = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Morning:
    """A recipient who was told on three channels, and what became of it."""

    notify: Notify
    recipient: UUID
    story: Story

    @property
    def states(self) -> dict[str, tuple[str, str | None]]:
        return {one.channel: (one.state, one.reason) for one in self.story.deliveries}


@asynccontextmanager
async def morning(*apps: App, settings: Settings, **options: Any) -> AsyncIterator[Morning]:
    async with timebell.running(*apps, settings=settings, **options) as bell:
        notify = Notify(bell)
        browser = VapidKey.new().public
        async with bell.transaction() as tx:
            await notify.templates.save(tx, GREETING)
            ada = await notify.recipients.add(tx, name="Ada", email="ada@example.org")
            subscription = {"endpoint": ENDPOINT, "keys": {"p256dh": browser, "auth": "A" * 22}}
            await notify.recipients.add_address(tx, ada.id, push_address(subscription))
            told = await notify.tell(tx, ada.id, "greeting", channels=EVERYWHERE)
        story = await settled(notify, told.id)
        yield Morning(notify=notify, recipient=ada.id, story=story)


async def settled(notify: Notify, id: UUID) -> Story:
    """Once everything is decided; the engine is a real one, and nothing of ours can hasten it."""
    async with asyncio.timeout(20):
        while True:
            story = await notify.notifications.get(id)
            if story.notification.settled_at is not None:
                return story
            await asyncio.sleep(0.02)


def settings_for(database: TestDatabase, server: MailServer | None = None, **others: Any) -> Settings:
    mail = (
        []
        if server is None
        else [{"kind": "smtp", "host": "127.0.0.1", "port": server.port, "security": "none"}]
    )
    tables = tuple({**table, "sender": "bell@example.org"} for table in mail)
    return Settings(
        database_url=database.url,
        owner_url=database.owner_url,
        providers=tables,  # type: ignore[arg-type]
        **others,
    )


@pytest.mark.req("M-5.8", "U-19")
@pytest.mark.parametrize("is_asked_for", [True, False], ids=["asked for", "for want of a provider"])
async def test_in_demo_mode_only_the_inbox_is_real(
    database_url: TestDatabase, calls: list[Any], is_asked_for: bool
) -> None:
    async with mail_server() as server:
        settings = (
            settings_for(database_url, server, demo=True) if is_asked_for else settings_for(database_url)
        )
        async with morning(settings=settings) as it:
            assert it.states == {
                "email": ("suppressed", "demo"),
                "push": ("suppressed", "demo"),
                "inbox": ("sent", "shown"),
            }
            kept = (await it.notify.outbox.list(recipient=it.recipient)).lines
            assert sorted((line.channel, line.to) for line in kept) == [
                ("email", "ada@example.org"),
                ("push", ENDPOINT),
            ]
            assert {line.body.strip() for line in kept} == {"Dear Ada.", "Rise and shine."}
            assert [line.title for line in (await it.notify.inbox.list(it.recipient)).lines] == [
                "Good morning"
            ]
        assert server.connection_count == 0
    database = urlsplit(database_url.url)
    assert set(calls) <= {(database.hostname, database.port)}
    assert calls, "the database at least was called"


@pytest.mark.req("M-5.8")
async def test_with_a_provider_in_the_settings_mail_really_leaves(database_url: TestDatabase) -> None:
    async with mail_server() as server:
        async with morning(settings=settings_for(database_url, server)) as it:
            assert it.states["email"] == ("sent", "accepted")
            assert it.states["inbox"] == ("sent", "shown")
            assert not (await it.notify.outbox.list()).lines
        [mail] = server.mails
        assert message_from_bytes(mail.original_content or b"")["Subject"] == "Good morning"
        # It said good-bye when the block ended, and did not just go away.
        assert server.quit_count == 1


async def test_a_program_may_bring_providers_of_its_own(database_url: TestDatabase) -> None:
    mine = RecordingProvider("mine", channels=("email", "push"))
    async with morning(settings=settings_for(database_url), providers=[mine]) as it:
        assert it.states["email"] == it.states["push"] == ("sent", "accepted")
    assert sorted(parcel.channel for parcel in mine.parcels) == ["email", "push"]


async def test_an_app_may_bring_them_too(database_url: TestDatabase) -> None:
    own = notify_app([Log()])
    async with morning(own, settings=settings_for(database_url)) as it:
        assert it.states["email"] == ("sent", "accepted")
    for settings, name in (
        (settings_for(database_url, demo=True), "demo"),
        (Settings(database_url=database_url.url, providers=({"kind": "log"},)), "providers"),  # type: ignore[arg-type]
    ):
        with pytest.raises(
            ConfigurationError, match=f"^{name}: the app 'notify' brings providers of its own"
        ):
            async with timebell.running(own, settings=settings):
                pass


async def test_nobody_falls_into_demo_mode_beside_others_that_send(database_url: TestDatabase) -> None:
    """Neither a program nor a node; one that only writes may, and so may one that says so."""
    async with mail_server() as server, morning(settings=settings_for(database_url, server)):
        pass
    with pytest.raises(ConfigurationError, match=r"^providers: there are none here, .* left through 'smtp'"):
        async with timebell.running(settings=settings_for(database_url)):
            pass
    assert_refused(command("work", DATABASE_URL=database_url.url), 2, "providers: ", "demo = true")
    async with timebell.running(settings=settings_for(database_url), engine=False):
        pass
    async with timebell.running(settings=settings_for(database_url, demo=True)):
        pass


async def test_whoever_only_writes_needs_no_secret(database_url: TestDatabase) -> None:
    table = {"kind": "resend", "sender": "bell@example.org"}
    settings = Settings(
        database_url=database_url.url,
        owner_url=database_url.owner_url,
        providers=(table,),  # type: ignore[arg-type]
    )
    async with timebell.running(settings=settings, engine=False) as bell:
        notify = Notify(bell)
        async with bell.transaction() as tx:
            await notify.templates.save(tx, GREETING)
            ada = await notify.recipients.add(tx, name="Ada", email="ada@example.org")
            told = await notify.tell(tx, ada.id, "greeting")
        assert (await notify.notifications.get(told.id)).notification.state == "pending"
    with pytest.raises(ConfigurationError, match="TIMEBELL_PROVIDER_RESEND_API_KEY"):
        async with timebell.running(settings=settings):
            pass
