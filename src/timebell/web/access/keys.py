"""API keys: made, shown once, found by their digest, revoked."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final
from uuid import UUID

from timebell.clock import Ids
from timebell.db.walls import showing_key, walled_to
from timebell.errors import ConfigurationError, InvalidInput, NotFound
from timebell.kernel import Timebell, Transaction
from timebell.kernel.bell import DEFAULT_TENANT
from timebell.kernel.models import check_instant, check_name
from timebell.kernel.paging import Page, check_limit, decode_cursor, page_of
from timebell.web.operation.routes import Scope
from timebell.web.store import WebStore

SCOPES: Final[tuple[Scope, ...]] = ("read", "write", "admin")
# What the key that the settings name is called, in the place of a prefix too.
CHOSEN_KEY: Final = "TIMEBELL_API_KEY"
_NAME_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """What is known of a key. The key itself is not."""

    tenant: str
    id: UUID
    name: str
    prefix: str
    scope: Scope
    is_test: bool
    actor: str | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_on: date | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """A key and its secret, which nobody can read again."""

    key: ApiKey
    secret: str

    def __repr__(self) -> str:
        return f"NewKey(key={self.key!r}, secret='***')"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundKey:
    """A key that may be used."""

    tenant: str
    id: UUID
    prefix: str
    scope: Scope


class ApiKeys:
    """The keys of the tenants. They live in real time, also in a sandbox."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._store = WebStore(bell.clock)
        self._ids = Ids(bell.chance)

    async def create(
        self,
        tx: Transaction,
        *,
        name: str,
        scope: Scope,
        is_test: bool = False,
        expires_at: datetime | None = None,
        actor: str | None = None,
        correlation_id: str | None = None,
    ) -> NewKey:
        """A new key of the transaction's tenant. Its secret has 256 bits of chance, so a plain digest hides it."""
        check_name("name", name, longest=_NAME_MAX, required=True)
        check_instant("expires_at", expires_at)
        if scope not in SCOPES:
            raise InvalidInput(f"{scope!r:.50} is no scope; give one of {', '.join(SCOPES)}", field="scope")
        public = secrets.token_hex(4)
        prefix = f"tb_{'test' if is_test else 'live'}_{public}"
        secret = f"{prefix}_{secrets.token_urlsafe(32)}"
        made = await self._insert(
            tx,
            name=name,
            scope=scope,
            is_test=is_test,
            expires_at=expires_at,
            actor=actor,
            secret=secret,
            prefix=prefix,
        )
        assert made is not None
        about = {"key_id": str(made.id), "prefix": prefix, "scope": scope}
        await self._bell.record(tx, "api_key.created", about, actor=actor, correlation_id=correlation_id)
        return NewKey(key=made, secret=secret)

    async def ensure(self, secret: str, *, name: str) -> None:
        """An admin key of the default tenant that an operator has chosen; the same again changes nothing.

        One that was revoked stays so, and whoever goes on choosing it hears of it.
        """
        with walled_to(DEFAULT_TENANT):
            async with self._bell.transaction() as tx:
                await self._insert(
                    tx,
                    name=name,
                    scope="admin",
                    is_test=False,
                    expires_at=None,
                    actor=None,
                    secret=secret,
                    prefix=name,
                )
        if await self.find(hashlib.sha256(secret.encode()).digest()) is None:
            raise ConfigurationError("api_key: this key was revoked; choose another, or leave it out")

    async def ensure_first(self) -> NewKey | None:
        """An admin key for whoever starts with nothing; None where the default tenant has, or had, a key."""
        with walled_to(DEFAULT_TENANT):
            if (await self.list(tenant=DEFAULT_TENANT, limit=1)).lines:
                return None
            async with self._bell.transaction() as tx:
                return await self.create(tx, name="first key", scope="admin")

    async def _insert(
        self,
        tx: Transaction,
        *,
        name: str,
        scope: Scope,
        is_test: bool,
        expires_at: datetime | None,
        actor: str | None,
        secret: str,
        prefix: str,
    ) -> ApiKey | None:
        row = await self._store.insert_api_key(
            tx.session,
            tenant=tx.tenant,
            id=self._ids.new(),
            name=name,
            prefix=prefix,
            digest=hashlib.sha256(secret.encode()).digest(),
            scope=scope,
            is_test=is_test,
            actor=actor,
            expires_at=expires_at,
        )
        return None if row is None else ApiKey(**row)

    async def find(self, digest: bytes) -> FoundKey | None:
        """The key with this digest, whosever it is, if it may be used now."""
        with showing_key(digest):
            async with self._bell.database.connection() as session:
                row = await self._store.find_api_key(session, digest=digest)
        if row is None:
            return None
        if row["last_used_on"] != row["today"]:
            with walled_to(row["tenant"]):
                async with self._bell.database.connection() as session:
                    await self._store.note_api_key_use(session, tenant=row["tenant"], id=row["id"])
        return FoundKey(
            tenant=row["tenant"],
            id=row["id"],
            prefix=row["prefix"],
            scope=row["scope"],
        )

    async def is_usable(self, key: tuple[str, UUID]) -> bool:
        """Whether a key that was found before, by its tenant and id, may still be used."""
        tenant, id = key
        with walled_to(tenant):
            async with self._bell.database.connection() as session:
                return await self._store.read_key_is_usable(session, tenant=tenant, id=id)

    async def list(self, *, tenant: str, limit: int = 50, cursor: str | None = None) -> Page[ApiKey]:
        """The keys of a tenant, revoked ones too, the oldest first."""
        check_limit(limit)
        after = decode_cursor("api_keys", cursor)
        async with self._bell.database.connection() as session:
            rows = await self._store.list_api_keys(session, tenant=tenant, after=after.id, limit=limit)
        return page_of("api_keys", rows, limit, lambda row: ApiKey(**row))

    async def revoke(
        self, tx: Transaction, id: UUID, *, actor: str | None = None, correlation_id: str | None = None
    ) -> ApiKey:
        """No request with it is answered any more, at the latest within the time that keys are remembered."""
        row = await self._store.revoke_api_key(tx.session, tenant=tx.tenant, id=id)
        if row is None:
            raise NotFound(f"there is no API key {id}")
        await self._bell.record(
            tx, "api_key.revoked", {"key_id": str(id)}, actor=actor, correlation_id=correlation_id
        )
        return ApiKey(**row)
