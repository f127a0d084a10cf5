"""The way out that a message carries: a link that says who does not want what any more, and cannot be forged.

The token in the link is stateless, so it works for as long as the message is kept, and as often as it is used: a mail
program may ask twice. Reading it changes nothing; robots follow every link in a mail. Only a POST opts out (RFC 8058).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from uuid import UUID

import orjson

from timebell.config import Settings
from timebell.errors import ConfigurationError, InvalidInput
from timebell.kernel.models import check_name
from timebell.kernel.transaction import Transaction
from timebell.notify.people.opt_outs import OptOuts
from timebell.notify.provider import Channel
from timebell.notify.rules.recipient_checks import check_recipient_id, checked_channel, checked_topic
from timebell.rules.signing import Signer, signer_of

PATH = "/u/"
_TOKEN_MAX = 3_000
_PURPOSE = "timebell unsubscribe v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class WayOut:
    """What a token stands for: a recipient wants no more about a topic on a channel; None is every topic."""

    tenant: str
    recipient: UUID
    topic: str | None
    channel: Channel


class Unsubscribing:
    """Makes the links, reads them, and does what they say."""

    def __init__(self, settings: Settings, opt_outs: OptOuts, uses: Counter[str] | None = None) -> None:
        self._public_url = settings.public_url
        self._known_signer = signer_of(settings, _PURPOSE, uses)
        self._opt_outs = opt_outs

    def url(self, way: WayOut) -> str | None:
        """The link for a message, or None where the settings do not say how to sign it or where it leads."""
        if self._known_signer is None or self._public_url is None:
            return None
        return f"{self._public_url.rstrip('/')}{PATH}{self.token(way)}"

    def token(self, way: WayOut) -> str:
        check_name("tenant", way.tenant, required=True)
        check_recipient_id(way.recipient, "recipient")
        body = orjson.dumps(
            [way.tenant, str(way.recipient), checked_topic(way.topic), checked_channel(way.channel)]
        )
        return self._signer.sign(body)

    def read(self, token: str) -> WayOut:
        """What a token stands for. It says which tenant's transaction to open, and what to ask the reader."""
        if len(token) > _TOKEN_MAX:
            raise _refused()
        body = self._signer.read(token)
        if body is None:
            raise _refused()
        tenant, recipient, topic, channel = orjson.loads(body)
        return WayOut(tenant=tenant, recipient=UUID(recipient), topic=topic, channel=channel)

    async def unsubscribe(self, tx: Transaction, token: str) -> bool:
        """Opt out as the token says, in a transaction of its tenant. False where that had been done before."""
        way = self.read(token)
        if way.tenant != tx.tenant:
            raise InvalidInput("is of another tenant; open a transaction of the one it names", field="token")
        return await self._opt_outs.add(
            tx, way.recipient, topic=way.topic, channel=way.channel, source="unsubscribe"
        )

    @property
    def _signer(self) -> Signer:
        if self._known_signer is None:
            raise ConfigurationError("secret_key: is needed to sign and to read links; set it on every node")
        return self._known_signer


def _refused() -> InvalidInput:
    return InvalidInput(
        "is not one of ours, or was cut; follow the link as the message has it", field="token"
    )
