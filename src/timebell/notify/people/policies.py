"""Policies of tenants for their notifications. Only what a tenant said is stored; the rest follows the defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final, Unpack, get_args

import orjson

from timebell.errors import InvalidInput, RevisionConflict
from timebell.kernel.bell import DEFAULT_TENANT, Timebell
from timebell.kernel.models import check_between, check_name, check_whole
from timebell.kernel.transaction import Transaction, check_transaction
from timebell.notify.models import Cap, OnQuiet, Policy, Urgency
from timebell.notify.options import PolicyOptions
from timebell.notify.people.addresses import checked_email
from timebell.notify.people.policy_store import PolicyStore
from timebell.notify.people.recipient_changes import REVISION_MAX
from timebell.notify.people.senders import Senders
from timebell.notify.rules.languages import checked_language
from timebell.notify.rules.recipient_checks import check_known, checked_channel, checked_timezone

CAP_COUNT_MAX = 1_000
CAP_DAYS_MAX = 366
_LISTED_MAX = 20
_DELAY_SECONDS_MAX = 30 * 86_400
_DEFAULT: Final = Policy()


class Policies:
    """The policy of each tenant."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._store = PolicyStore(bell.clock)
        self._senders = Senders(bell)

    async def get(self, *, tenant: str = DEFAULT_TENANT) -> Policy:
        """The policy of the tenant; its revision is 0 while it has decided nothing."""
        check_name("tenant", tenant, required=True)
        async with self._bell.database.connection() as session:
            row = await self._store.read_policy(session, tenant=tenant)
        return Policy() if row is None else policy_of(orjson.loads(row["policy"]), row["revision"])

    async def change(
        self,
        tx: Transaction,
        *,
        if_revision: int | None = None,
        actor: str | None = None,
        **changes: Unpack[PolicyOptions],
    ) -> Policy:
        """Decide what is named, by the names of `Policy`; None goes back to the default, and the rest stays.

        What is held already is judged by the new policy when it is tried again. A `sender` must be approved by the
        operator, unless the tenant is the operator's own.
        """
        check_transaction(tx)
        check_whole("if_revision", if_revision, 0, REVISION_MAX)
        check_name("actor", actor)
        checked = checked_policy(changes)
        if checked.get("sender"):
            await self._senders.check(tx, checked["sender"])
        row = await self._store.read_policy(tx.session, tenant=tx.tenant)
        revision: int = 0 if row is None else row["revision"]
        if if_revision not in (None, revision):
            raise _conflict(if_revision)
        said = {} if row is None else orjson.loads(row["policy"])
        merged = {name: value for name, value in {**said, **checked}.items() if value is not None}
        if merged == said:
            return policy_of(said, revision)
        raised = await self._store.save_policy(
            tx.session, tenant=tx.tenant, policy=orjson.dumps(merged).decode(), revision=revision
        )
        if raised is None:
            raise _conflict(revision)
        about = {"changed": sorted(changes), "revision": raised}
        await self._bell.record(tx, "policy.changed", about, actor=actor)
        return policy_of(merged, raised)


def _conflict(revision: int | None) -> RevisionConflict:
    return RevisionConflict(f"the policy has another revision than {revision}; read it again and decide anew")


def policy_of(stored: Mapping[str, Any] | None, revision: int = 0) -> Policy:
    """A policy from JSON that was checked before it was stored; without any, the defaults."""
    if not stored:
        return replace(_DEFAULT, revision=revision)
    said = dict(stored)
    if "caps" in said:
        said["caps"] = tuple(
            Cap(count=cap["count"], per=timedelta(seconds=cap["per_seconds"]), channel=cap["channel"])
            for cap in said["caps"]
        )
    if "on_quiet" in said:
        said["on_quiet"] = {**_DEFAULT.on_quiet, **said["on_quiet"]}
    if "retry_delays_seconds" in said:
        said["retry_delays_seconds"] = tuple(said["retry_delays_seconds"])
    return Policy(**said, revision=revision)


def checked_policy(changes: Mapping[str, Any]) -> dict[str, Any]:
    """What a tenant says, as JSON. Durations of caps are given as timedelta or, as JSON has them, in seconds."""
    check_known("", changes.keys() - _CHECKS.keys())
    return {name: None if value is None else _CHECKS[name](name, value) for name, value in changes.items()}


def _choice(*allowed: str) -> Callable[[str, Any], str]:
    def check(field: str, value: Any) -> str:
        if not isinstance(value, str) or value not in allowed:
            raise InvalidInput(f"{value!r:.100} must be one of {', '.join(allowed)}", field=field)
        return value

    return check


def _number(low: float, high: float) -> Callable[[str, Any], float]:
    def check(field: str, value: Any) -> float:
        check_between(field, value, low, high)
        return float(value)

    return check


def _whole(low: int, high: int) -> Callable[[str, Any], int]:
    def check(field: str, value: Any) -> int:
        check_whole(field, value, low, high)
        return int(value)

    return check


def _listed(each: Callable[[str, Any], Any], *, at_least: int = 0) -> Callable[[str, Any], list[Any]]:
    def check(field: str, value: Any) -> list[Any]:
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise InvalidInput("must be a list", field=field)
        if not at_least <= len(value) <= _LISTED_MAX:
            raise InvalidInput(f"must hold {at_least} to {_LISTED_MAX}, holds {len(value)}", field=field)
        return [each(f"{field}[{place}]", one) for place, one in enumerate(value)]

    return check


def _mapped(
    key: Callable[[str, Any], str], each: Callable[[str, Any], Any]
) -> Callable[[str, Any], dict[str, Any]]:
    def check(field: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping) or len(value) > _LISTED_MAX:
            raise InvalidInput(f"must be a mapping of at most {_LISTED_MAX}", field=field)
        return {key(field, name): each(f"{field}.{name}", one) for name, one in value.items()}

    return check


def _cap(field: str, value: Any) -> dict[str, Any]:
    if isinstance(value, Cap):
        value = {"count": value.count, "per": value.per, "channel": value.channel}
    if not isinstance(value, Mapping):
        raise InvalidInput("must be a Cap, or {count, per_seconds, channel}", field=field)
    check_known(f"{field}.", value.keys() - {"count", "per", "per_seconds", "channel"})
    per = value.get("per", value.get("per_seconds"))
    seconds = per.total_seconds() if isinstance(per, timedelta) else per
    for name, said in (("count", value.get("count")), ("per", seconds)):
        if said is None:
            raise InvalidInput("is missing; a cap is a count per duration", field=f"{field}.{name}")
    check_whole(f"{field}.count", value["count"], 1, CAP_COUNT_MAX)
    check_between(f"{field}.per", seconds, 1, CAP_DAYS_MAX * 86_400)
    channel = value.get("channel")
    return {
        "count": value["count"],
        "per_seconds": seconds,
        "channel": None if channel is None else checked_channel(channel, f"{field}.channel"),
    }


def _provider(field: str, value: Any) -> str:
    check_name(field, value, longest=100, required=True)
    return str(value)


def _sender(field: str, value: Any) -> str:
    """Who a message is from stands in its header, and a second line there would be a header of its own."""
    check_name(field, value, required=True)
    if not str(value).isprintable():
        raise InvalidInput("must be one line of characters that can be seen", field=field)
    return checked_email(value, field) if field.endswith((".email", ".reply_to")) else str(value)


_CHECKS: Final[Mapping[str, Callable[[str, Any], Any]]] = {
    "default_language": lambda field, value: checked_language(value, field),
    "default_timezone": lambda field, value: checked_timezone(value, field),
    "on_missing": _choice("hold", "skip"),
    "on_quiet": _mapped(_choice(*get_args(Urgency)), _choice(*get_args(OnQuiet))),
    "caps": _listed(_cap),
    "providers": _mapped(lambda field, value: checked_channel(value, field), _listed(_provider, at_least=1)),
    "sender": _mapped(_choice("email", "email_name", "reply_to", "sms", "whatsapp"), _sender),
    "attempts_max": _whole(1, 20),
    "retry_delays_seconds": _listed(_number(0, _DELAY_SECONDS_MAX), at_least=1),
    "report_wait_seconds": _number(0, _DELAY_SECONDS_MAX),
}
POLICY_FIELDS: Final = tuple(_CHECKS)
