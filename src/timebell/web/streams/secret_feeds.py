"""Calendars that any program may subscribe to, each at an address that is secret and can be exchanged for another.

The address says whose calendar it is, and which of those that the person has had so far; it is signed. Who has it can
read the calendar and change nothing. An app brings the calendar, and keeps how often the address was made anew.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol
from uuid import UUID

import orjson
from starlette.requests import Request

from timebell.db.walls import walled_to
from timebell.errors import NotFound
from timebell.kernel import Timebell, Transaction
from timebell.notify import Recipient
from timebell.rules.signing import Signer, signer_of
from timebell.web.operation.calls import Call
from timebell.web.operation.problems import Problem
from timebell.web.operation.surface import Surface

_SUFFIX: Final = ".ics"
_FILE_MAX: Final = 1_000
_FIRST: Final = 1


class Generations(Protocol):
    """How often each person had the address of a calendar made anew; the first is 1."""

    async def read_feed(self, tx: Transaction, *, recipient_id: UUID) -> int: ...

    async def renew_feed(self, tx: Transaction, *, recipient_id: UUID) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFeed:
    """An address that is good: whose calendar is asked for, in a transaction of their tenant. `more` is what the
    address says besides."""

    tx: Transaction
    person: Recipient
    more: Sequence[Any]


class SecretFeed:
    """The addresses of one sort of calendar. `path` has `{file}` for what is signed, and `purpose` is its own."""

    def __init__(self, *, path: str, purpose: str) -> None:
        self._path = path
        self._purpose = purpose

    async def generation(self, call: Call, kept: Generations) -> int:
        """Which address is good now."""
        if call.transaction is not None:
            return await kept.read_feed(call.tx, recipient_id=call.person)
        async with call.bell.transaction(tenant=call.tenant) as tx:
            return await kept.read_feed(tx, recipient_id=call.person)

    def address(self, call: Call, generation: int, *more: Any) -> str:
        signer = self._signer(call.bell)
        body = orjson.dumps([call.tenant, str(call.person), generation, *more])
        return call.base_url + self._path.format(file=signer.sign(body) + _SUFFIX)

    @asynccontextmanager
    async def opened(self, surface: Surface, request: Request, kept: Generations) -> AsyncIterator[OpenFeed]:
        """What an address stands for; one that was exchanged since, or whose person is gone, stands for nothing."""
        tenant, person, generation, more = self._read(surface, request.path_params["file"])
        with walled_to(tenant):
            async with surface.bell.transaction(tenant=tenant) as tx:
                people = await surface.notify.recipients.get_many(tx, [person])
                current = await kept.read_feed(tx, recipient_id=person)
                if person not in people or current != generation:
                    raise _no_feed()
                yield OpenFeed(tx=tx, person=people[person], more=more)

    def _read(self, surface: Surface, file: str) -> tuple[str, UUID, int, Sequence[Any]]:
        if len(file) > _FILE_MAX or not file.endswith(_SUFFIX):
            raise _no_feed()
        body = self._signer(surface.bell).read(file.removesuffix(_SUFFIX))
        if body is None:
            raise _no_feed()
        # The addresses of before there were generations are of the first.
        tenant, person, *rest = orjson.loads(body)
        generation, *more = rest or [_FIRST]
        return tenant, UUID(person), generation, more

    def _signer(self, bell: Timebell) -> Signer:
        signer = signer_of(bell.settings, self._purpose, bell.tallies.previous_keys)
        if signer is None:
            raise Problem(
                503, "secret_key_missing", "secret_key is not set on this server; there are no feeds"
            )
        return signer


def _no_feed() -> NotFound:
    return NotFound("there is no such calendar; ask for the address again")
