"""Who can be told things: added, changed, read, exported and erased."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Unpack
from uuid import UUID

from timebell.db.pool import Row
from timebell.errors import InvalidInput, KeyConflict, NotFound
from timebell.kernel.bell import DEFAULT_TENANT, Timebell
from timebell.kernel.models import check_name
from timebell.kernel.paging import PAGE_MAX, Page, check_limit, decode_cursor, page_of
from timebell.kernel.transaction import Transaction, check_transaction
from timebell.notify.models import Address, QuietHours, Recipient
from timebell.notify.options import RecipientOptions
from timebell.notify.people.addresses import checked_address, checked_email, checked_phone
from timebell.notify.people.erasing import Eraser, Erasure
from timebell.notify.people.exporting import Export, Exporter
from timebell.notify.people.opt_outs import OptOuts
from timebell.notify.people.recipient_changes import (
    ADDRESSES_MAX,
    WAITS,
    WAITS_FOR_ADDRESS,
    RecipientChanges,
    no_recipient,
)
from timebell.notify.people.recipient_rows import encode_quiet_hours, recipient_of
from timebell.notify.planning.telling_store import TellingStore
from timebell.notify.provider import Channel
from timebell.notify.rules.recipient_checks import TERMS, check_recipient_id, checked_terms

_DIRECT = {"email": checked_email, "phone": checked_phone}


class Recipients:
    """The recipients of a tenant. Verbs write in the transaction that they are given; reads take the tenant."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._changes = RecipientChanges(bell)
        self._store = self._changes.store
        self._told = TellingStore(bell.clock)
        self._eraser = Eraser(self._changes)
        self._exporter = Exporter(bell)
        self.opt_outs = OptOuts(bell)

    async def add(
        self,
        tx: Transaction,
        *,
        name: str,
        external_id: str | None = None,
        email: str | None = None,
        phone: str | None = None,
        addresses: Sequence[Address] = (),
        language: str | None = None,
        timezone: str | None = None,
        channel_preference: Channel | None = None,
        whatsapp_opt_in: bool = False,
        quiet_hours: QuietHours | Mapping[str, Any] | None = None,
        actor: str | None = None,
    ) -> Recipient:
        """A new recipient. Without a language or timezone it has those of the tenant's policy."""
        check_transaction(tx)
        check_name("actor", actor)
        terms = checked_terms(
            {
                "name": name,
                "external_id": external_id,
                "channel_preference": channel_preference,
                "whatsapp_opt_in": whatsapp_opt_in,
                "quiet_hours": quiet_hours,
                **({} if language is None else {"language": language}),
                **({} if timezone is None else {"timezone": timezone}),
            }
        )
        ways = [*_direct_addresses({"email": email, "phone": phone}), *_checked_addresses(addresses)]
        _check_room(ways)
        id = self._changes.ids.new()
        await self._lock_external_id(tx, external_id)
        columns = _columns({"language": None, "timezone": None, **terms})
        if not await self._store.insert_recipient(tx.session, tenant=tx.tenant, id=id, **columns):
            raise _taken(external_id)
        tx.count("recipients", 1)
        await self._changes.write_addresses(tx, id, ways)
        await self._changes.record(tx, id, "recipient.added", {}, actor)
        return await self._changes.read(tx, id)

    async def change(
        self,
        tx: Transaction,
        id: UUID,
        *,
        if_revision: int | None = None,
        actor: str | None = None,
        **changes: Unpack[RecipientOptions],
    ) -> Recipient:
        """Change the terms that are named, and leave the others; None takes back what may be absent.

        The terms are those of `add`, but for its `addresses`: those come and go one by one. An `email` or `phone` takes
        the place of every address of its kind. With `if_revision`, somebody else's change in between is refused and not
        overwritten.
        """
        current = await self._changes.lock(tx, id, actor=actor, if_revision=if_revision)
        said: Mapping[str, Any] = changes
        wanted = {name: value for name, value in said.items() if name not in _DIRECT}
        terms = {name: getattr(current, name) for name in TERMS} | checked_terms(wanted)
        direct = {name: value for name, value in said.items() if name in _DIRECT}
        ways = _direct_addresses(direct)
        stale = _stale(current, direct, ways)
        fresh = [one for one in ways if not _is_known(current, one)]
        _check_room([*(one for one in current.addresses if one not in stale), *fresh])
        changed = [name for name in TERMS if terms[name] != getattr(current, name)]
        moved = sorted({one.kind for one in (*stale, *fresh)})
        if not changed and not moved:
            return current
        if "external_id" in changed:
            await self._lock_external_id(tx, terms["external_id"])
        columns = _columns(terms)
        if not await self._store.update_recipient(tx.session, tenant=tx.tenant, id=id, **columns):
            raise _taken(terms["external_id"])
        await self._remove_addresses(tx, id, stale)
        await self._changes.write_addresses(tx, id, fresh)
        await self._changes.record(tx, id, "recipient.changed", {"changed": [*changed, *moved]}, actor)
        await self._changes.hasten(tx, id, WAITS_FOR_ADDRESS if moved else WAITS)
        return await self._changes.read(tx, id)

    async def add_address(
        self, tx: Transaction, id: UUID, address: Address, *, actor: str | None = None
    ) -> Address:
        """One more way to reach a recipient. One that it had already is taken for good again."""
        current = await self._changes.lock(tx, id, actor=actor)
        checked = checked_address(address)
        _check_room([*current.addresses, checked])
        (address_id,) = await self._changes.write_addresses(tx, id, [checked])
        await self._note_addresses(tx, id, checked.kind, actor)
        after = await self._changes.read(tx, id)
        return next(one for one in after.addresses if one.id == address_id)

    async def remove_address(
        self, tx: Transaction, id: UUID, address_id: UUID, *, actor: str | None = None
    ) -> None:
        current = await self._changes.lock(tx, id, actor=actor)
        removed = [one for one in current.addresses if one.id == address_id]
        if not removed:
            raise NotFound(f"the recipient {id} has no address {address_id}")
        await self._remove_addresses(tx, id, removed)
        await self._note_addresses(tx, id, removed[0].kind, actor)

    async def erase(self, tx: Transaction, id: UUID, *, actor: str | None = None) -> Erasure:
        """Forget who a recipient is and what it was told. What was owed to it is withdrawn, or skipped when due."""
        return await self._eraser.erase(tx, id, actor=actor)

    async def get(self, id: UUID, *, tenant: str = DEFAULT_TENANT) -> Recipient:
        check_recipient_id(id)
        return await self._read(id, tenant=tenant, id=id)

    async def names(self, tx: Transaction, ids: Sequence[UUID]) -> dict[UUID, str]:
        """How those of these recipients are called who are there; none is erased before the transaction ends."""
        return {row["id"]: row["name"] for row in await self._kept(tx, ids)}

    async def timezones(self, tx: Transaction, ids: Sequence[UUID]) -> dict[UUID, str]:
        """Where those of these recipients are who are there; none is erased before the transaction ends."""
        return {row["id"]: row["timezone"] for row in await self._kept(tx, ids)}

    async def hold(self, tx: Transaction, ids: Sequence[UUID]) -> set[UUID]:
        """Which of these recipients are there; none is erased before the transaction ends."""
        asked = _checked_ids(tx, ids)
        return await self._store.hold_living(tx.session, tenant=tx.tenant, ids=asked)

    async def get_many(self, tx: Transaction, ids: Sequence[UUID]) -> dict[UUID, Recipient]:
        """Those of these recipients who are there, with their addresses, by their ids."""
        asked = _checked_ids(tx, ids)
        rows = await self._store.read_recipients(tx.session, tenant=tx.tenant, ids=asked)
        return {row["id"]: recipient_of(row) for row in rows}

    async def find(self, external_id: str, *, tenant: str = DEFAULT_TENANT) -> Recipient:
        """The recipient that the tenant itself calls by this id."""
        check_name("external_id", external_id, required=True)
        return await self._read(repr(external_id), tenant=tenant, external_id=external_id)

    async def list(
        self,
        *,
        tenant: str = DEFAULT_TENANT,
        newest_first: bool = False,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Recipient]:
        """The recipients of the tenant, the oldest first unless asked otherwise."""
        check_name("tenant", tenant, required=True)
        check_limit(limit)
        read = "recipients.back" if newest_first else "recipients"
        place = decode_cursor(read, cursor).id
        async with self._bell.database.connection() as session:
            if newest_first:
                rows = await self._store.list_recipients_back(
                    session, tenant=tenant, before=place, limit=limit
                )
            else:
                rows = await self._store.list_recipients(session, tenant=tenant, after=place, limit=limit)
        return page_of(read, rows, limit, recipient_of)

    async def export(
        self, id: UUID, *, tenant: str = DEFAULT_TENANT, limit: int = 100, cursor: str | None = None
    ) -> Export:
        """Everything that is kept about a recipient, as JSON, a page at a time."""
        return await self._exporter.export(id, tenant=tenant, limit=limit, cursor=cursor)

    async def _kept(self, tx: Transaction, ids: Sequence[UUID]) -> Sequence[Row]:
        return await self._told.read_told(tx.session, tenant=tx.tenant, ids=_checked_ids(tx, ids))

    async def _read(self, name: object, *, tenant: str, **which: Any) -> Recipient:
        check_name("tenant", tenant, required=True)
        async with self._bell.database.connection() as session:
            row = await self._store.read_recipient(session, tenant=tenant, **which)
        if row is None or row["erased_at"] is not None:
            raise no_recipient(name)
        return recipient_of(row)

    async def _lock_external_id(self, tx: Transaction, external_id: str | None) -> None:
        """Two who give the same at the same time: the second is refused, and not by the database."""
        if external_id is not None:
            await self._store.lock_external_id(tx.session, tenant=tx.tenant, external_id=external_id)

    async def _remove_addresses(self, tx: Transaction, id: UUID, addresses: Sequence[Address]) -> None:
        ids = [one.id for one in addresses if one.id is not None]
        if ids:
            await self._store.delete_addresses(tx.session, tenant=tx.tenant, recipient_id=id, ids=ids)

    async def _note_addresses(self, tx: Transaction, id: UUID, kind: str, actor: str | None) -> None:
        await self._store.touch_recipient(tx.session, tenant=tx.tenant, id=id)
        await self._changes.record(tx, id, "recipient.changed", {"changed": [kind]}, actor)
        await self._changes.hasten(tx, id, WAITS_FOR_ADDRESS)


def _checked_ids(tx: Transaction, ids: Sequence[UUID]) -> list[UUID]:
    check_transaction(tx)
    if len(ids) > PAGE_MAX:
        raise InvalidInput(f"{len(ids)} at once, the limit is {PAGE_MAX}; ask several times", field="ids")
    for id in ids:
        check_recipient_id(id, "ids")
    return sorted(set(ids))


def _taken(external_id: str | None) -> KeyConflict:
    return KeyConflict(
        f"external_id: {external_id!r} stands for another recipient of this tenant; change that one instead"
    )


def _columns(terms: Mapping[str, Any]) -> dict[str, Any]:
    return {**terms, "quiet_hours": encode_quiet_hours(terms["quiet_hours"])}


def _direct_addresses(given: Mapping[str, str | None]) -> list[Address]:
    return [
        Address(kind="email" if kind == "email" else "phone", value=_DIRECT[kind](value))
        for kind, value in given.items()
        if value is not None
    ]


def _checked_addresses(addresses: object) -> list[Address]:
    if isinstance(addresses, str) or not isinstance(addresses, Sequence):
        raise InvalidInput(
            "must be a list of Address; give [Address(kind=..., value=...)]", field="addresses"
        )
    if len(addresses) > ADDRESSES_MAX:
        raise InvalidInput(f"are too many; give at most {ADDRESSES_MAX}", field="addresses")
    return [checked_address(one, f"addresses[{place}]") for place, one in enumerate(addresses)]


def _check_room(addresses: Iterable[Address]) -> None:
    """One that is stated again is not one more."""
    count = len({(one.kind, one.value) for one in addresses})
    if count > ADDRESSES_MAX:
        raise InvalidInput(
            f"would be {count}, and a recipient has at most {ADDRESSES_MAX}; leave some out, or remove_address first",
            field="addresses",
        )


def _stale(current: Recipient, direct: Mapping[str, str | None], ways: Sequence[Address]) -> list[Address]:
    """The addresses that others take the place of."""
    kept = {(one.kind, one.value) for one in ways}
    return [one for one in current.addresses if one.kind in direct and (one.kind, one.value) not in kept]


def _is_known(current: Recipient, address: Address) -> bool:
    """One that was found to be gone has to be written again, for it is taken for good again."""
    return any(
        (one.kind, one.value) == (address.kind, address.value) and one.gone_at is None
        for one in current.addresses
    )
