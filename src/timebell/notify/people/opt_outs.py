"""Opt-outs: what recipients do not want to be told, or not on some channel."""

from __future__ import annotations

from uuid import UUID

from timebell.errors import InvalidInput
from timebell.kernel.bell import Timebell
from timebell.kernel.models import check_name
from timebell.kernel.transaction import Transaction
from timebell.notify.models import OptOut, Recipient
from timebell.notify.people.recipient_changes import RecipientChanges
from timebell.notify.provider import Channel
from timebell.notify.rules.recipient_checks import checked_channel, checked_topic

OPT_OUTS_MAX = 500


class OptOuts:
    """A topic on every channel, a channel for every topic (which is what STOP means), both, or all there is.

    What is critical ignores an opt-out of a topic, and never one of a channel.
    """

    def __init__(self, bell: Timebell) -> None:
        self._changes = RecipientChanges(bell)

    async def add(
        self,
        tx: Transaction,
        recipient: UUID,
        *,
        topic: str | None = None,
        channel: Channel | None = None,
        source: str = "recipient",
        actor: str | None = None,
    ) -> bool:
        """Whether it is new. What waits for the recipient is decided anew.

        `source` says which way it came, such as `stop`. It is recorded with the topic and outlives an erasure, so
        neither should name a person.
        """
        known = await self._changes.lock(tx, recipient, actor=actor)
        about = _about(topic, channel)
        check_name("source", source, required=True)
        _check_room(known, OptOut(topic=topic, channel=channel))
        is_new = await self._changes.store.insert_opt_out(
            tx.session, tenant=tx.tenant, recipient_id=recipient, source=source, **about
        )
        if is_new:
            await self._note(tx, recipient, "recipient.opted_out", {**about, "source": source}, actor)
        return is_new

    async def remove(
        self,
        tx: Transaction,
        recipient: UUID,
        *,
        topic: str | None = None,
        channel: Channel | None = None,
        actor: str | None = None,
    ) -> bool:
        """Whether there was one, of just this topic and channel; a wider one still stands."""
        await self._changes.lock(tx, recipient, actor=actor)
        about = _about(topic, channel)
        is_gone = await self._changes.store.delete_opt_out(
            tx.session, tenant=tx.tenant, recipient_id=recipient, **about
        )
        if is_gone:
            await self._note(tx, recipient, "recipient.opted_in", about, actor)
        return is_gone

    async def _note(
        self, tx: Transaction, recipient: UUID, event: str, about: dict[str, str], actor: str | None
    ) -> None:
        await self._changes.store.touch_recipient(tx.session, tenant=tx.tenant, id=recipient)
        await self._changes.record(tx, recipient, event, about, actor)
        await self._changes.hasten(tx, recipient)


def _check_room(recipient: Recipient, wanted: OptOut) -> None:
    """Whoever has no room for another topic can still opt out of a channel; of those there are few."""
    is_more = wanted.topic is not None and wanted not in recipient.opt_outs
    if is_more and len(recipient.opt_outs) >= OPT_OUTS_MAX:
        raise InvalidInput(
            f"the recipient has {OPT_OUTS_MAX} opt-outs already; opt out of the channel instead",
            field="topic",
        )


def _about(topic: str | None, channel: Channel | None) -> dict[str, str]:
    return {
        "topic": checked_topic(topic) or "",
        "channel": "" if channel is None else checked_channel(channel),
    }
