"""`Client`: where Timebell is, who calls, and how patient the caller is."""

from __future__ import annotations

from types import TracebackType
from typing import Any
from uuid import UUID

import httpx2

from timebell.client.calling import Caller
from timebell.client.people import Person
from timebell.client.resources import Alerts, Jobs, Recipients, SandboxClock, Schedules
from timebell.client.scheduler import Scheduler
from timebell.client.sequences import Bookings, Messages, Sequences
from timebell.clock import Chance, Clock, SystemClock
from timebell.errors import InvalidInput
from timebell.version import __version__


class Client:
    """Timebell over HTTP. Use it in an `async with` block, and one for the whole program.

    A request that gets no answer within `seconds`, or the answer "not now", is made up to `attempts` times, each later
    than the one before, with the same idempotency key: however often it is said, it is done once.
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        seconds: float = 10.0,
        attempts: int = 5,
        transport: httpx2.AsyncBaseTransport | None = None,
        clock: Clock | None = None,
        chance: Chance | None = None,
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise InvalidInput(
                f"{url!r:.100} is no address; give one such as http://127.0.0.1:8080", field="url"
            )
        if not 1 <= attempts <= 100:
            raise InvalidInput(f"{attempts} is out of range; give a value from 1 to 100", field="attempts")
        headers = {"authorization": f"Bearer {key}", "user-agent": f"timebell-client/{__version__}"}
        self._http = httpx2.AsyncClient(
            base_url=url, headers=headers, timeout=seconds, transport=transport, follow_redirects=False
        )
        self._caller = Caller(
            self._http,
            seconds=seconds,
            attempts=attempts,
            clock=clock or SystemClock(),
            chance=chance or Chance(),
        )
        self.jobs = Jobs(self._caller)
        self.schedules = Schedules(self._caller)
        self.alerts = Alerts(self._caller)
        self.recipients = Recipients(self._caller)
        self.scheduler = Scheduler(self._caller)
        self.sequences = Sequences(self._caller)
        self.bookings = Bookings(self._caller)
        self.messages = Messages(self._caller)
        self.clock = SandboxClock(self._caller)

    def person(self, id: UUID | None = None) -> Person:
        """What is done for a recipient; None where the key is that recipient's own token."""
        return Person(self._caller, id)

    async def call(self, method: str, path: str, **options: Any) -> Any:
        """Any other operation of `/docs`, with the same patience: `body`, `query`, `actor`, `if_revision`,
        `idempotency_key`. The answer is the content as it came."""
        return await self._caller.call(method, path, **options)

    async def aclose(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()
