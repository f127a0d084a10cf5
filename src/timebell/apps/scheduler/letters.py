"""Messages that nobody can do anything with: a copy goes where an operator finds it, with the reason, and then the
message is acknowledged. None of them is in the way of others."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from timebell.apps.scheduler.messages import bytes_of
from timebell.apps.scheduler.models import Poison
from timebell.apps.scheduler.topology import DEAD
from timebell.brokers import Away, Broker, Confirmed, Header, Intake, Message, Received
from timebell.kernel import Timebell
from timebell.logs import Logger

log = Logger("timebell.scheduler")

LETTERS: Final = "dead_letters"
DROPPED: Final = "dead_letters_dropped"
DETAIL_CHARS_MAX: Final = 500
KEPT_HEADERS_MAX: Final = 32
KEPT_BYTES_MAX: Final = 8_192
SHORT_BYTES_MAX: Final = 255

# By these the broker would send copies elsewhere, or refuse what is not in their form.
_ROUTING: Final = ("CC", "BCC")
_WAITING_MAX: Final = 500
_PAUSES: Final = (0.1, 0.5, 1.0, 2.0, 5.0)
# A queue that was deleted is declared anew, and one that is full may be emptied; nobody waits for that for ever.
_TRIES_MAX: Final = 15


def copy_of(received: Received, poison: Poison) -> Message:
    """The message as it came, with why it is here and where it was. Of headers that are large some are left out, and of
    a body over the limit there is only the beginning."""
    said: dict[str, Header] = {
        "timebell-reason": poison.reason,
        "timebell-detail": poison.detail[:DETAIL_CHARS_MAX],
        "timebell-exchange": received.exchange,
        "timebell-routing-key": received.routing_key,
        "timebell-queue": received.queue,
        "timebell-body-bytes": received.body_bytes,
    }
    return Message(
        exchange=DEAD,
        routing_key=poison.reason,
        body=received.body,
        content_type=_short(received.content_type),
        type=_short(received.type),
        message_id=_short(received.message_id),
        correlation_id=_short(received.correlation_id),
        timestamp=received.timestamp,
        headers={**kept_headers(received.headers), **said},
    )


def _short(text: str | None) -> str | None:
    """What was no UTF-8 is longer as it is shown here, and may be too long for a broker."""
    return text if text is not None and len(text.encode()) <= SHORT_BYTES_MAX else None


def kept_headers(headers: Mapping[str, object]) -> dict[str, Header]:
    """Those that can be told on and are small, as many as there is room for."""
    kept: dict[str, Header] = {}
    left = KEPT_BYTES_MAX
    for name, value in headers.items():
        if (
            name in _ROUTING
            or not _short(name)
            or not (value is None or isinstance(value, str | int | bool | bytes | datetime))
        ):
            continue
        size = bytes_of({name: value}, KEPT_BYTES_MAX)
        if size > left or len(kept) == KEPT_HEADERS_MAX:
            continue
        left -= size
        kept[name] = value
    return kept


class Letters:
    """Publishes the copies of one intake, beside it. Whoever brings more than may wait, waits."""

    def __init__(self, bell: Timebell, broker: Broker, intake: Intake) -> None:
        self._bell = bell
        self._broker = broker
        self._intake = intake
        self._waiting: asyncio.Queue[tuple[Received, Poison]] = asyncio.Queue(_WAITING_MAX)

    async def add(self, poisoned: Sequence[tuple[Received, Poison]]) -> None:
        for one in poisoned:
            await self._waiting.put(one)

    @property
    def is_empty(self) -> bool:
        return self._waiting.empty()

    async def run(self) -> None:
        """Until it is cancelled. What waits then comes again, since it was not acknowledged."""
        while True:
            await self.tick()

    async def tick(self) -> None:
        """All that wait, as soon as there is one. As long as the broker is away they are tried again."""
        batch = [await self._waiting.get()]
        while not self._waiting.empty():
            batch.append(self._waiting.get_nowait())
        refusals: Counter[int] = Counter()
        at = 0
        while batch:
            answers = await self._broker.publish([copy_of(*one) for one in batch])
            ended, dropped, left = [], [], []
            for one, answer in zip(batch, answers, strict=True):
                tag = one[0].tag
                refusals[tag] += not isinstance(answer, Away | Confirmed)
                if isinstance(answer, Confirmed):
                    ended.append(one)
                elif refusals[tag] >= _TRIES_MAX and not isinstance(answer, Away):
                    dropped.append(one)
                else:
                    left.append(one)
            batch = left
            for _, poison in ended:
                self._bell.tallies.add(LETTERS, poison.reason)
            self._drop(dropped)
            if ended or dropped:
                await self._intake.acknowledge([received for received, _ in (*ended, *dropped)])
            if batch:
                await self._bell.clock.sleep(_PAUSES[min(at, len(_PAUSES) - 1)])
                at += 1

    def _drop(self, batch: Sequence[tuple[Received, Poison]]) -> None:
        """There is nowhere to put them, and to keep them would be in the way of others. It is told which they were."""
        self._bell.tallies.add(DROPPED, by=len(batch))
        for received, poison in batch:
            log.error(
                "a message that cannot be read was dropped, since the broker takes no copy of it",
                queue=received.queue,
                message_id=received.message_id,
                correlation_id=received.correlation_id,
                reason=poison.reason,
                detail=poison.detail[:DETAIL_CHARS_MAX],
                remedy=f"see that the queue {DEAD} is there and has room",
            )
