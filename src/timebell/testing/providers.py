"""A provider for tests: it keeps what it was given, and answers as it was told to."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta
from typing import Any

from timebell.notify.provider import Answer, Channel, Parcel, Sent, Traits, Unavailable

Behaviour = Answer | Callable[[Parcel], Awaitable[Answer]]


class RecordingProvider:
    """Takes everything, unless `answer` was called before: then those answers come first, in order.

    `taken` counts what arrived by the address it went to. With a `key_lifetime` a parcel with a key that was seen
    before does not arrive again, as it would not at a provider that takes keys.
    """

    def __init__(
        self,
        name: str = "recorder",
        *,
        channels: Iterable[Channel] = ("email", "sms", "whatsapp", "push", "webhook"),
        key_lifetime: timedelta | None = None,
        **traits: Any,
    ) -> None:
        self._name = name
        self._traits = Traits(channels=frozenset(channels), key_lifetime=key_lifetime, **traits)
        self._answers: deque[Behaviour] = deque()
        self._keys: set[str] = set()
        self.parcels: list[Parcel] = []
        self.taken: Counter[str] = Counter()

    @property
    def name(self) -> str:
        return self._name

    @property
    def traits(self) -> Traits:
        return self._traits

    def answer(self, *answers: Behaviour) -> None:
        """How the next parcels are answered; a function is given the parcel, and may take it with `take`."""
        self._answers.extend(answers)

    def take(self, parcel: Parcel) -> Sent:
        """The parcel arrives, unless its key shows that it has."""
        parcel.handover.begin()
        if self._traits.key_lifetime is None or parcel.key not in self._keys:
            self.taken[parcel.address] += 1
        self._keys.add(parcel.key)
        return Sent(provider_id=f"{self._name}-{parcel.delivery_id}")

    async def send(self, parcel: Parcel) -> Answer:
        self.parcels.append(parcel)
        if not self._answers:
            return self.take(parcel)
        behaviour = self._answers.popleft()
        return await behaviour(parcel) if callable(behaviour) else behaviour

    async def look_up(self, parcel: Parcel) -> Answer:
        if parcel.key in self._keys:
            return Sent(provider_id=f"{self._name}-{parcel.delivery_id}")
        return Unavailable(reason="never arrived")

    async def close(self) -> None:
        return None
