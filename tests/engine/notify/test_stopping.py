"""A node stops while a provider is being called: what had not been handed over is known not to have been sent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.contract.providers.mail_server import mail_server, raw_server
from tests.engine.notify.stage import EMAIL, REMINDER, TITLE
from tests.engine.support import Cluster, ClusterNode
from timebell.notify import Notify, Provider, notify_app
from timebell.notify.explain.notifications import Story
from timebell.providers.resend import Resend
from timebell.providers.smtp import Smtp, SmtpServer
from timebell.testing import RecordingProvider

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def smtp(port: int) -> Smtp:
    server = SmtpServer(host="127.0.0.1", port=port, security="none", hello_name="bell.example")
    return Smtp(server, sender="no-reply@example.com", name="mail")


async def told(node: ClusterNode, **asked: Any) -> UUID:
    notify = Notify(node.bell)
    async with node.bell.transaction() as tx:
        ada = await notify.recipients.add(tx, name="Ada", email=EMAIL)
        await notify.templates.save(tx, REMINDER)
        return (await notify.tell(tx, ada.id, REMINDER.key, context=TITLE, channels=["email"], **asked)).id


async def stops_at(node: ClusterNode, moment: asyncio.Event) -> None:
    """The node comes as far as that, and is stopped there."""
    running = asyncio.create_task(node.run_due())
    async with asyncio.timeout(20):
        await moment.wait()
        await node.engine.stop()
        await running
    await leave(node)


async def leave(node: ClusterNode) -> None:
    node.is_gone = True
    await node.bell.close()
    await node.bell.database.close()


async def story(node: ClusterNode, id: UUID) -> Story:
    return await Notify(node.bell).notifications.get(id)


def silent(met: asyncio.Event) -> Talk:
    """A server that takes a connection and does not greet."""

    async def talk(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        met.set()
        await reader.read()

    return talk


async def told_by_the_next(cluster: Cluster, id: UUID, next_one: Provider) -> Story:
    node = await cluster.node([notify_app([next_one])])
    await node.run_due()
    await next_one.close()
    return await story(node, id)


async def test_a_mail_that_waited_for_the_greeting_is_sent_by_the_next_node(cluster: Cluster) -> None:
    met = asyncio.Event()
    async with raw_server(silent(met)) as slow, mail_server() as server:
        node = await cluster.node([notify_app([smtp(slow)])], stop_seconds=0)
        id = await told(node)
        await stops_at(node, met)
        after = await told_by_the_next(cluster, id, smtp(server.port))
        assert after.notification.state == "sent"
        [delivery] = after.deliveries
        first, second = delivery.attempts
        assert (first.answer, first.detail["said"], second.answer) == ("unavailable", "not_sent", "sent")
        assert len(server.mails) == 1
        node = await cluster.node([])
        told_of = [line.text for line in (await Notify(node.bell).explain(id)).story]
        assert (
            told_of[1] == "mail was being called when its process was stopped; nothing had been handed over."
        )
        assert told_of[-1].startswith("mail took it")


async def test_a_mail_that_was_withdrawn_meanwhile_is_known_not_to_be_sent(cluster: Cluster) -> None:
    """It was too late to say so for certain as it was withdrawn, and no longer when the node had stopped."""
    met = asyncio.Event()
    async with raw_server(silent(met)) as slow, mail_server() as server:
        node = await cluster.node([notify_app([smtp(slow)])], stop_seconds=0)
        id = await told(node)
        running = asyncio.create_task(node.run_due())
        async with asyncio.timeout(20):
            await met.wait()
            async with node.bell.transaction() as tx:
                [taken_back] = await Notify(node.bell).withdraw(tx, id=id)
            assert taken_back.answer == "too_late"
            assert (await story(node, id)).notification.state == "uncertain"
            await node.engine.stop()
            await running
        await leave(node)
        after = await told_by_the_next(cluster, id, smtp(server.port))
        assert (after.notification.state, after.notification.reason) == ("withdrawn", "withdrawn")
        assert [(each.state, each.reason) for each in after.deliveries] == [("skipped", "withdrawn")]
        assert server.mails == []


async def test_a_mail_whose_content_was_written_stays_in_doubt(cluster: Cluster) -> None:
    async with mail_server() as server:
        server.script["content"] = "hang"
        node = await cluster.node([notify_app([smtp(server.port)])], stop_seconds=0)
        id = await told(node)
        await stops_at(node, server.is_hanging)
        server.script.clear()
        after = await told_by_the_next(cluster, id, smtp(server.port))
        assert (after.notification.state, after.notification.reason) == ("uncertain", "crashed")
        assert len(server.mails) == 1


async def test_a_request_that_was_not_written_is_made_by_the_next_node(cluster: Cluster) -> None:
    """The server takes the connection and never answers the handshake of TLS."""
    met = asyncio.Event()
    async with raw_server(silent(met)) as port:
        url = f"https://127.0.0.1:{port}"
        account = Resend(api_key="key", sender="no-reply@example.com", name="mail", base_url=url)
        node = await cluster.node([notify_app([account])], stop_seconds=0)
        id = await told(node)
        await stops_at(node, met)
        after = await told_by_the_next(cluster, id, RecordingProvider("mail"))
        await account.close()
        assert after.notification.state == "sent"
        assert [attempt.detail.get("said") for attempt in after.deliveries[0].attempts] == ["not_sent", None]


async def test_a_node_waits_for_what_is_being_told(cluster: Cluster) -> None:
    """The greeting comes late, and yet within the time that a stop allows."""
    met, go_on = asyncio.Event(), asyncio.Event()
    async with mail_server() as server:

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            met.set()
            await go_on.wait()
            behind, before = await asyncio.open_connection("127.0.0.1", server.port)

            async def pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
                while said := await source.read(65_536):
                    target.write(said)
                target.close()

            try:
                await asyncio.gather(pass_on(reader, before), pass_on(behind, writer))
            finally:
                before.transport.abort()

        async with raw_server(talk) as slow:
            provider = smtp(slow)
            node = await cluster.node([notify_app([provider])], stop_seconds=15)
            id = await told(node)
            running = asyncio.create_task(node.run_due())
            async with asyncio.timeout(20):
                await met.wait()
                stopping = asyncio.create_task(node.engine.stop())
                await asyncio.sleep(0)
                go_on.set()
                await stopping
                await running
            await leave(node)
            await provider.close()
        other = await cluster.node([])
        assert (await story(other, id)).notification.state == "sent"
        assert len(server.mails) == 1


@pytest.mark.parametrize("when", ["before", "after"])
async def test_what_is_being_written_down_is_written_to_the_end(cluster: Cluster, when: str) -> None:
    """The stop comes while the start of the call, or its answer, is on its way to the database."""
    provider = RecordingProvider("mail", marks_handover=True)
    node = await cluster.node([notify_app([provider])], stop_seconds=0)
    id = await told(node)
    name = "start_attempts" if when == "before" else "record_answers"
    hold = node.stage.hold("before", name)
    await node.run_until(hold)
    node.engine.worker.attempts.interrupt()
    await asyncio.sleep(0)
    await node.go_on(hold)
    cluster.clock.move(timedelta(seconds=1))
    await node.run_due()
    after = await story(node, id)
    assert after.notification.state == "sent"
    assert provider.taken == {EMAIL: 1}
