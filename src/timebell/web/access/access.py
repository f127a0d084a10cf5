"""Who calls: API keys, the tokens of recipients, what each may do, and how often."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from timebell.errors import NotFound
from timebell.notify import Notify
from timebell.web.access.keys import ApiKeys
from timebell.web.access.quotas import Quotas
from timebell.web.access.rates import Rates
from timebell.web.access.tokens import Tokens
from timebell.web.operation.problems import CHALLENGE, Problem
from timebell.web.operation.routes import Scope

# A key that was revoked is still taken for as long as it is remembered.
_REMEMBERED_SECONDS: Final = 2.0
_REMEMBERED_MAX: Final = 10_000
_RANK: Final = {"read": 0, "write": 1, "admin": 2}
_ACTOR = "timebell-actor"

Asked = TypeVar("Asked", bound=Hashable)
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who calls, and with which key, or with a token that was made with it. `recipient` is there where a person calls
    for themselves; whoever has a token acts for nobody else."""

    tenant: str
    name: str
    scope: Scope
    is_token: bool = False
    recipient: UUID | None = None
    key_id: UUID | None = None


class _Remembered(Generic[Asked, Found]):
    """What was learnt is good for two seconds from when it was asked, so that not every request asks."""

    def __init__(self, ask: Callable[[Asked], Awaitable[Found]], monotonic: Callable[[], float]) -> None:
        self._ask = ask
        self._monotonic = monotonic
        self._found: OrderedDict[Asked, tuple[float, Found]] = OrderedDict()

    async def __call__(self, asked: Asked) -> Found:
        now = self._monotonic()
        known = self._found.get(asked)
        if known is None or known[0] <= now:
            known = self._found[asked] = (now + _REMEMBERED_SECONDS, await self._ask(asked))
            self._found.move_to_end(asked)
            if len(self._found) > _REMEMBERED_MAX:
                self._found.popitem(last=False)
        return known[1]


class Access:
    """Finds out who calls."""

    def __init__(
        self,
        keys: ApiKeys,
        tokens: Tokens,
        notify: Notify,
        rates: Rates,
        quotas: Quotas,
        *,
        monotonic: Callable[[], float],
    ) -> None:
        self._tokens = tokens
        self._notify = notify
        self._rates = rates
        self._quotas = quotas
        self._tenant_rates = Rates(quotas.defaults["requests_per_minute"], "tenant", monotonic=monotonic)
        self._find_key = _Remembered(keys.find, monotonic)
        self._is_usable = _Remembered(keys.is_usable, monotonic)
        self._check_person = _Remembered(self._read_person, monotonic)

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
        who = (caller.tenant, caller.name)
        self._rates.take(who)
        await self._take_of_tenant(caller.tenant)
        if _RANK[caller.scope] < _RANK[scope]:
            detail = f"this needs a key of the scope {scope}; this one has {caller.scope}"
            raise Problem(403, "scope_missing", detail, headers=self._rates.headers(who))
        return caller

    async def _take_of_tenant(self, tenant: str) -> None:
        """All keys and all people of a tenant share what it may ask for."""
        per_minute = await self._quotas.requests_per_minute(tenant)
        if per_minute is not None:
            self._tenant_rates.take((tenant, ""), per_minute)

    def note(self, caller: Caller, response: Response) -> None:
        """Tell the caller how many requests are left."""
        for name, value in self._rates.headers((caller.tenant, caller.name)).items():
            response.headers[name] = value

    async def _by_key(self, secret: str) -> Caller | None:
        key = await self._find_key(hashlib.sha256(secret.encode()).digest())
        if key is None:
            return None
        return Caller(tenant=key.tenant, name=f"key:{key.prefix}", scope=key.scope, key_id=key.id)

    async def is_current(self, caller: Caller) -> bool:
        """Whether the key that somebody came in with is still good: for what goes on for long, and for tokens."""
        return caller.key_id is None or await self._is_usable((caller.tenant, caller.key_id))

    def names_person(self, request: Request, caller: Caller) -> bool:
        return caller.recipient is not None or _ACTOR in request.headers

    async def actor(self, request: Request, caller: Caller) -> UUID:
        """The recipient that the call is made for: whose token it is, or whom a service key names."""
        if caller.recipient is not None:
            await self._check_person((caller.tenant, caller.recipient))
            return caller.recipient
        given = None if caller.is_token else request.headers.get(_ACTOR)
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
        await self._check_person((caller.tenant, actor))
        return actor

    async def _read_person(self, person: tuple[str, UUID]) -> None:
        tenant, recipient = person
        try:
            found = await self._notify.recipients.get(recipient, tenant=tenant)
        except NotFound:
            raise _no_such_actor() from None
        if found.erased_at is not None:
            raise _no_such_actor()


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
    return Problem(401, "unauthenticated", detail, headers=CHALLENGE)


def _no_such_actor() -> Problem:
    return Problem(403, "actor_unknown", "timebell-actor: there is no such recipient of this tenant")
