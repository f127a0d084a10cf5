"""Looking at notifications: one with its deliveries, many by page, and those that wait for a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, get_args
from uuid import UUID

import orjson

from timebell.db.pool import Row
from timebell.errors import InvalidInput, NotFound
from timebell.kernel import Timebell, Transaction
from timebell.kernel.bell import DEFAULT_TENANT
from timebell.kernel.insights import InsightsStore
from timebell.kernel.models import check_id, check_name
from timebell.kernel.paging import Page, check_limit, decode_cursor, page_of
from timebell.kernel.transaction import check_transaction
from timebell.notify.explain.notification_store import NotificationStore
from timebell.notify.models import Attempt, Check, Delivery, Notification
from timebell.notify.planning.telling import DELIVER
from timebell.notify.reasons import NotificationState
from timebell.notify.rules.intents import route_from

LOOK_MAX: Final = 20_000
_STATES: Final = get_args(NotificationState)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What was considered at one instant, in order."""

    at: datetime
    checks: Sequence[Check]


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A notification and everything that happened to it. `timezone` is that of its recipient."""

    notification: Notification
    deliveries: Sequence[Delivery]
    decisions: Sequence[Decision]
    timezone: str


class Notifications:
    """The notifications of a tenant, for those who look."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._store = NotificationStore(bell.clock)
        self._jobs = InsightsStore(bell.clock)

    async def get(self, id: UUID, *, tenant: str = DEFAULT_TENANT) -> Story:
        story = await self.find(id, tenant=tenant)
        if story is None:
            raise NotFound(
                f"this tenant has no notification {id}; one that an agenda planned is there once due"
            )
        return story

    async def find(self, id: UUID, *, tenant: str = DEFAULT_TENANT) -> Story | None:
        check_name("tenant", tenant, required=True)
        check_id("id", id)
        async with self._bell.database.connection() as session:
            row = await self._store.read_notification(session, tenant=tenant, id=id)
        return None if row is None else _story_of(row)

    async def list(
        self,
        *,
        tenant: str = DEFAULT_TENANT,
        recipient: UUID | None = None,
        subject: str | None = None,
        state: NotificationState | None = None,
        template: str | None = None,
        oldest_first: bool = False,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Notification]:
        """Notifications, the last planned first unless asked otherwise. A page may be short, or empty, and still have a
        next one."""
        check_name("tenant", tenant, required=True)
        check_id("recipient", recipient)
        check_name("subject", subject)
        check_name("template", template)
        if state is not None and state not in _STATES:
            raise InvalidInput(f"{state!r:.100} must be one of {', '.join(_STATES)}", field="state")
        check_limit(limit)
        read = "notifications.on" if oldest_first else "notifications"
        place = decode_cursor(read, cursor).id
        filters: dict[str, object] = {
            "tenant": tenant,
            "recipient_id": recipient,
            "subject": subject,
            "state": state,
            "template": template,
            "look_max": LOOK_MAX,
            "limit": limit,
        }
        async with self._bell.database.connection() as session:
            if oldest_first:
                rows = await self._store.list_notifications_on(session, after=place, **filters)
            else:
                rows = await self._store.list_notifications(session, before=place, **filters)
        return page_of(read, rows, limit, notification_of)

    async def has(self, tx: Transaction, id: UUID) -> bool:
        """Whether it is one of the tenant's notifications, whatever became of it, or a job that is to tell one."""
        check_transaction(tx)
        check_id("id", id)
        if await self._store.read_notification(tx.session, tenant=tx.tenant, id=id) is not None:
            return True
        job = await self._jobs.read_job(tx.session, tenant=tx.tenant, id=id)
        return job is not None and job["kind"] == DELIVER

    async def needs_attention(
        self, *, tenant: str = DEFAULT_TENANT, limit: int = 50, cursor: str | None = None
    ) -> Page[Notification]:
        """What failed, what may or may not have been told, what lacks a value, and what was given up with its job; the
        oldest first."""
        check_name("tenant", tenant, required=True)
        check_limit(limit)
        after = decode_cursor("attention", cursor)
        async with self._bell.database.connection() as session:
            rows = await self._store.list_attention(session, tenant=tenant, after=after.id, limit=limit)
        return page_of("attention", rows, limit, notification_of)


def notification_of(row: Row) -> Notification:
    return Notification(
        id=row["id"],
        tenant=row["tenant"],
        recipient_id=row["recipient_id"],
        template=row["template"],
        template_version=row["template_version"],
        topic=row["topic"],
        message_class=row["class"],
        urgency=row["urgency"],
        route=route_from(orjson.loads(row["route"])),
        context=orjson.loads(row["context"]),
        due_at=_utc(row["due_at"]),
        state=row["state"],
        reason=row["reason"],
        subject=row["subject"],
        key=row["key"],
        digest_id=row["digest_id"],
        expires_at=_instant(row["expires_at"]),
        held_until=_instant(row["held_until"]),
        correlation_id=row["correlation_id"],
        created_at=_instant(row["created_at"]),
        settled_at=_instant(row["settled_at"]),
    )


def check_of(stored: Mapping[str, Any]) -> Check:
    """A check as it was stored, which leaves out what it had nothing to say about."""
    return Check(
        name=stored["name"],
        verdict=stored.get("verdict", "passed"),
        reason=stored.get("reason"),
        detail=stored.get("detail", {}),
    )


def _story_of(row: Row) -> Story:
    return Story(
        notification=notification_of(row),
        deliveries=tuple(delivery_of(stored) for stored in orjson.loads(row["deliveries"])),
        decisions=tuple(
            Decision(at=_utc(stored["at"]), checks=tuple(map(check_of, stored.get("checks", ()))))
            for stored in orjson.loads(row["decisions"])
        ),
        timezone=row["timezone"] or "UTC",
    )


def delivery_of(stored: Mapping[str, Any]) -> Delivery:
    return Delivery(
        id=UUID(stored["id"]),
        tenant=stored["tenant"],
        notification_id=UUID(stored["notification_id"]),
        recipient_id=UUID(stored["recipient_id"]),
        channel=stored["channel"],
        provider=stored["provider"],
        address=stored["address"],
        state=stored["state"],
        reason=stored["reason"],
        language=stored["language"],
        content=stored["content"],
        provider_id=stored["provider_id"],
        attempt_count=stored["attempt_count"],
        sent_at=_instant(stored["sent_at"]),
        delivered_at=_instant(stored["delivered_at"]),
        created_at=_instant(stored["created_at"]),
        updated_at=_instant(stored["updated_at"]),
        attempts=tuple(_attempt_of(attempt) for attempt in stored.get("attempts", ())),
    )


def _attempt_of(stored: Mapping[str, Any]) -> Attempt:
    return Attempt(
        number=stored["number"],
        started_at=_utc(stored["started_at"]),
        answered_at=_instant(stored["answered_at"]),
        answer=stored["answer"],
        reason=stored["reason"],
        detail=stored["detail"] or {},
    )


def _instant(value: datetime | str | None) -> datetime | None:
    return None if value is None else _utc(value)


def _utc(value: datetime | str) -> datetime:
    """A driver answers with instants in its connection's zone, JSON with text; both become UTC."""
    return (datetime.fromisoformat(value) if isinstance(value, str) else value).astimezone(UTC)
