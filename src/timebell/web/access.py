"""Who calls: API keys, the tokens of recipients, what each may do, and how often."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from timebell.errors import NotFound
from timebell.notify import Notify
from timebell.web.keys import ApiKeys, FoundKey
from timebell.web.problems import Problem
from timebell.web.rates import Rates
from timebell.web.routes import Scope
from timebell.web.tokens import Tokens

# A key that was revoked is still taken for as long as it is remembered.
_REMEMBERED_SECONDS: Final = 2.0
_REMEMBERED_MAX: Final = 10_000
_RANK: Final = {"read": 0, "write": 1, "admin": 2}
_ACTOR = "timebell-actor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who calls, and with which key, or with a token that was made with it. `recipient` is there where a person calls
    for themselves."""

    tenant: str
    name: str
    scope: Scope
    is_test: bool = False
    recipient: UUID | None = None
    key_id: UUID | None = None


class Access:
    """Finds out who calls. What is learnt of a key is remembered for two seconds, so that it is not asked each time."""

    def __init__(self, keys: ApiKeys, tokens: Tokens, notify: Notify, rates: Rates) -> None:
        self._keys = keys
        self._tokens = tokens
        self._notify = notify
        self._rates = rates
        self._known: OrderedDict[bytes, tuple[float, FoundKey | None]] = OrderedDict()
        self._people: OrderedDict[tuple[str, UUID], float] = OrderedDict()
        self._usable: OrderedDict[tuple[str, UUID], tuple[float, bool]] = OrderedDict()

    async def caller(self, request: Request, scope: Scope, *, is_stream: bool = False) -> Caller:
        secret = _stream_token(request) if is_stream else None
        secret = secret or _bearer(request)
        if Tokens.is_token(secret):
            caller = self._tokens.caller(secret, is_stream=is_stream)
            if caller is not None and not await self.is_current(caller):
                caller = None
        else:
            caller = await self._by_key(secret)
        if caller is None:
            raise _unauthenticated("the key or token is not known, was revoked or has expired")
        self._rates.take(caller)
        if _RANK[caller.scope] < _RANK[scope]:
            raise Problem(
                403, "scope_missing", f"this needs a key of the scope {scope}; this one has {caller.scope}"
            )
        return caller

    def note(self, caller: Caller, response: Response) -> None:
        """Tell the caller how many requests are left."""
        for name, value in self._rates.headers(caller).items():
            response.headers[name] = value

    async def _by_key(self, secret: str) -> Caller | None:
        digest = hashlib.sha256(secret.encode()).digest()
        found = self._known.get(digest)
        if found is None or found[0] <= time.monotonic():
            key = await self._keys.find(digest)
            found = self._known[digest] = (time.monotonic() + _REMEMBERED_SECONDS, key)
            self._known.move_to_end(digest)
            if len(self._known) > _REMEMBERED_MAX:
                self._known.popitem(last=False)
        key = found[1]
        if key is None:
            return None
        return Caller(
            tenant=key.tenant, name=f"key:{key.prefix}", scope=key.scope, is_test=key.is_test, key_id=key.id
        )

    async def is_current(self, caller: Caller) -> bool:
        """Whether the key that somebody came in with is still good: for what goes on for long, and for tokens."""
        if caller.key_id is None:
            return True
        known = self._usable.get((caller.tenant, caller.key_id))
        if known is None or known[0] <= time.monotonic():
            is_usable = await self._keys.is_usable(caller.tenant, caller.key_id)
            known = (time.monotonic() + _REMEMBERED_SECONDS, is_usable)
            self._usable[caller.tenant, caller.key_id] = known
            self._usable.move_to_end((caller.tenant, caller.key_id))
            if len(self._usable) > _REMEMBERED_MAX:
                self._usable.popitem(last=False)
        return known[1]

    def names_person(self, request: Request, caller: Caller) -> bool:
        return caller.recipient is not None or _ACTOR in request.headers

    async def actor(self, request: Request, caller: Caller) -> UUID:
        """The recipient that the call is made for: whose token it is, or whom a service key names."""
        if caller.recipient is not None:
            await self._check_person(caller.tenant, caller.recipient)
            return caller.recipient
        given = request.headers.get(_ACTOR)
        if given is None:
            raise Problem(
                400,
                "actor_required",
                "this acts for a person: name the recipient in the header Timebell-Actor, or use a recipient token",
            )
        try:
            actor = UUID(given.strip())
        except ValueError:
            raise _no_such_actor() from None
        await self._check_person(caller.tenant, actor)
        return actor

    async def _check_person(self, tenant: str, recipient: UUID) -> None:
        until = self._people.get((tenant, recipient), 0.0)
        if until > time.monotonic():
            return
        try:
            found = await self._notify.recipients.get(recipient, tenant=tenant)
        except NotFound:
            raise _no_such_actor() from None
        if found.erased_at is not None:
            raise _no_such_actor()
        self._people[tenant, recipient] = time.monotonic() + _REMEMBERED_SECONDS
        self._people.move_to_end((tenant, recipient))
        if len(self._people) > _REMEMBERED_MAX:
            self._people.popitem(last=False)


def _stream_token(request: Request) -> str | None:
    """A browser's EventSource sends no header of ours, so a stream's token may stand in the address. Addresses are
    written into logs, so nothing that lives longer may."""
    given = request.query_params.get("token")
    if given is not None and not Tokens.is_for_stream(given):
        raise _unauthenticated("?token= takes a token from POST /v1/stream-tokens, and no key")
    return given


def _bearer(request: Request) -> str:
    given = request.headers.get("authorization")
    if given is None:
        raise _unauthenticated("send the header Authorization: Bearer <key>")
    kind, _, secret = given.partition(" ")
    secret = secret.strip()
    if kind.lower() != "bearer" or not secret or len(secret) > 2_000 or not secret.isascii():
        raise _unauthenticated("the header Authorization must read: Bearer <key>")
    return secret


def _unauthenticated(detail: str) -> Problem:
    return Problem(401, "unauthenticated", detail, headers={"www-authenticate": 'Bearer realm="timebell"'})


def _no_such_actor() -> Problem:
    return Problem(403, "actor_unknown", "timebell-actor: there is no such recipient of this tenant")
