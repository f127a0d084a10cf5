"""In whose name a tenant may send.

Tenants share the accounts at providers, and whoever sends through one could send as anybody. So the operator approves
the senders of each tenant. A sender that is not approved cannot be saved in a policy; and one whose approval was
withdrawn since is not used: the message then comes from the provider's own sender.

The tenant `default` is the operator's own, and needs nobody's leave.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, get_args

from timebell.db.pool import Session
from timebell.errors import InvalidInput, KeyConflict
from timebell.kernel import Timebell, Transaction
from timebell.kernel.bell import DEFAULT_TENANT
from timebell.kernel.models import check_name
from timebell.kernel.transaction import check_transaction
from timebell.notify.people.addresses import checked_email
from timebell.notify.people.sender_store import SenderStore

SenderKind = Literal["email", "sms", "whatsapp"]
SENDERS_MAX: Final = 100
VALUE_MAX: Final = 254
# Each part of a policy's sender by the kind of approval that it needs. A name stands beside an address only.
_KINDS: Final[Mapping[str, SenderKind]] = {
    "email": "email",
    "reply_to": "email",
    "sms": "sms",
    "whatsapp": "whatsapp",
}

Approved = Collection[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovedSender:
    """A mail address or a whole domain, a sender of text messages, or a number of WhatsApp."""

    kind: SenderKind
    value: str
    actor: str | None = None
    approved_at: datetime | None = None


class Senders:
    """The approvals of each tenant, given by the operator."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._store = SenderStore(bell.clock)

    async def approve(
        self, tx: Transaction, kind: SenderKind, value: str, *, actor: str | None = None
    ) -> ApprovedSender:
        """Let the transaction's tenant send as this. A domain stands for its addresses, and not for its subdomains."""
        check_transaction(tx)
        check_name("actor", actor)
        written = as_written(kind, value)
        row = await self._store.approve_sender(
            tx.session, tenant=tx.tenant, kind=kind, value=written, actor=actor, most=SENDERS_MAX
        )
        if row is None:
            known = [
                one
                for one in await self._read(tx.session, tx.tenant)
                if (one.kind, one.value) == (kind, written)
            ]
            if not known:
                raise KeyConflict(f"value: the tenant has {SENDERS_MAX} approved senders; withdraw one first")
            return known[0]
        await self._bell.record(tx, "sender.approved", {"kind": kind, "value": written}, actor=actor)
        return ApprovedSender(**row)

    async def withdraw(
        self, tx: Transaction, kind: SenderKind, value: str, *, actor: str | None = None
    ) -> bool:
        """From the next message on the tenant does not send as this any more; False where it never might."""
        check_transaction(tx)
        check_name("actor", actor)
        written = as_written(kind, value)
        is_gone = await self._store.withdraw_sender(tx.session, tenant=tx.tenant, kind=kind, value=written)
        if is_gone:
            await self._bell.record(tx, "sender.withdrawn", {"kind": kind, "value": written}, actor=actor)
        return is_gone

    async def list(self, *, tenant: str = DEFAULT_TENANT) -> Sequence[ApprovedSender]:
        """All of a tenant's, at most 100, by kind and value."""
        check_name("tenant", tenant, required=True)
        async with self._bell.database.connection() as session:
            return await self._read(session, tenant)

    async def _read(self, session: Session, tenant: str) -> Sequence[ApprovedSender]:
        rows = await self._store.list_senders(session, tenant=tenant, most=SENDERS_MAX)
        return [ApprovedSender(**row) for row in rows]

    async def check(self, tx: Transaction, sender: Mapping[str, str]) -> None:
        """Refuse a sender that is not approved for the transaction's tenant, with the field and the remedy."""
        if tx.tenant == DEFAULT_TENANT:
            return
        approved = {(one.kind, one.value) for one in await self._read(tx.session, tx.tenant)}
        for part in unapproved(sender, approved):
            raise InvalidInput(
                f"{sender[part]!r:.300} is not approved for the tenant {tx.tenant}; have the operator approve it with "
                f"POST /v1/tenants/{tx.tenant}/senders or `timebell tenants senders`, or leave it out",
                field=f"sender.{part}",
            )


def as_written(kind: object, value: object) -> str:
    """A sender in the one form in which it is stored and compared."""
    if kind not in get_args(SenderKind):
        raise InvalidInput(f"{kind!r:.100} must be one of {', '.join(get_args(SenderKind))}", field="kind")
    check_name("value", value, longest=VALUE_MAX, required=True)
    text = str(value)
    if not text.isprintable():
        raise InvalidInput("must be one line of characters that can be seen", field="value")
    if kind == "email":
        # A domain is looked at as that of an address.
        address = checked_email(text if "@" in text else f"postmaster@{text}", "value")
        return address if "@" in text else address.rpartition("@")[2]
    return text.removeprefix("+") if kind == "whatsapp" else text


def channel_of(part: str) -> SenderKind:
    """The channel whose messages a part of a policy's sender is on."""
    return _KINDS.get(part, "email")


def unapproved(sender: Mapping[str, str], approved: Approved) -> list[str]:
    """The parts of a policy's sender that nobody approved."""
    return [
        part
        for part, kind in _KINDS.items()
        if part in sender and not _is_approved(kind, sender[part], approved)
    ]


def as_approved(tenant: str, sender: Mapping[str, str], approved: Approved) -> Mapping[str, str]:
    """What of a policy's sender may be used now. The name goes with the address that it stands beside."""
    if tenant == DEFAULT_TENANT or not sender:
        return sender
    refused = set(unapproved(sender, approved))
    if "email" in refused or "email" not in sender:
        refused.add("email_name")
    return {part: value for part, value in sender.items() if part not in refused}


def _is_approved(kind: SenderKind, value: str, approved: Approved) -> bool:
    try:
        written = as_written(kind, value)
    except InvalidInput:
        return False
    forms = [written, written.rpartition("@")[2]] if kind == "email" else [written]
    return any((kind, form) in approved for form in forms)
