"""`/v1/inbox` and `/api/notifications`: what a person sees in the application. Two addresses, the same entries."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal
from uuid import UUID

from pydantic import Field

from timebell.notify.models import InboxLine, InboxStatus
from timebell.web.operation.calls import Call
from timebell.web.operation.fields import Input, Instant, Listed, Output, PageQuery, listed
from timebell.web.operation.routes import Route

Status = Literal["unseen", "seen", "archived"]
_INSIDE: Final[dict[Status, InboxStatus]] = {"unseen": "unseen", "seen": "seen", "archived": "dismissed"}
_OUTSIDE: Final[dict[InboxStatus, Status]] = {inside: outside for outside, inside in _INSIDE.items()}


class InboxQuery(PageQuery):
    """Which entries. The cursor is the `seq` at which a page ended, so one that a client remembers does as well.
    Entries are created in the order of their `seq`."""

    status: Status | None = None
    sort: Literal["seq", "-seq", "created_at", "-created_at"] = "seq"


class InboxEdit(Input):
    status: Status


class SeenAll(Input):
    up_to: (
        Annotated[
            int,
            Field(ge=0, le=2**63 - 1, description="The last `seq` that was shown; later ones stay unseen."),
        ]
        | None
    ) = None


class InboxEntry(Output):
    """What a person is shown. `seq` rises by one with each entry; `due_at` is the instant at which it was owed."""

    id: UUID
    seq: int
    type: str
    title: str
    description: str
    status: Status
    priority: Literal["normal", "time_bound", "critical"]
    payload: dict[str, Any]
    subject: str | None
    due_at: Instant
    created_at: Instant
    updated_at: Instant


class InboxCount(Output):
    unseen: int


class SeenCount(Output):
    """How many entries were unseen until now."""

    seen: int


async def list_inbox(call: Call, query: InboxQuery) -> dict[str, Any]:
    """The entries of the acting recipient, the oldest first."""
    page = await call.notify.inbox.list(
        call.person,
        tenant=call.tenant,
        status=None if query.status is None else _INSIDE[query.status],
        newest_first=query.sort.startswith("-"),
        limit=query.limit,
        cursor=query.cursor,
    )
    return listed(page, entry_shown)


async def count_inbox(call: Call) -> InboxCount:
    """How many entries were not seen yet."""
    return InboxCount(unseen=await call.notify.inbox.count_unseen(call.person, tenant=call.tenant))


async def mark_inbox_entry(call: Call, body: InboxEdit) -> InboxEntry:
    """An entry was seen, is put away, or is to be new again."""
    (line,) = await call.notify.inbox.mark(call.tx, call.person, [call.path["id"]], _INSIDE[body.status])
    return entry_shown(line)


async def mark_inbox_seen(call: Call, body: SeenAll) -> SeenCount:
    """Everything unseen is seen."""
    return SeenCount(seen=await call.notify.inbox.mark_all_seen(call.tx, call.person, up_to=body.up_to))


async def list_notifications_of_person(call: Call, query: InboxQuery) -> dict[str, Any]:
    """The entries of `/v1/inbox`."""
    return await list_inbox(call, query)


async def count_notifications_of_person(call: Call) -> InboxCount:
    """The count of `/v1/inbox/count`."""
    return await count_inbox(call)


async def mark_notification_of_person(call: Call, body: InboxEdit) -> InboxEntry:
    """As at `/v1/inbox/{id}`."""
    return await mark_inbox_entry(call, body)


async def mark_notifications_of_person_seen(call: Call, body: SeenAll) -> SeenCount:
    """As at `/v1/inbox/seen-all`."""
    return await mark_inbox_seen(call, body)


def entry_shown(line: InboxLine) -> InboxEntry:
    return InboxEntry(
        id=line.id,
        seq=line.seq,
        type=line.type,
        title=line.title,
        description=line.description,
        status=_OUTSIDE[line.status],
        priority=line.priority,
        payload=dict(line.payload),
        subject=line.subject,
        due_at=line.due_at,
        created_at=line.created_at,
        updated_at=line.updated_at,
    )


def _routes(path: str, listing: Any, counting: Any, marking: Any, marking_all: Any) -> tuple[Route, ...]:
    return (
        Route(
            method="GET",
            path=path,
            run=listing,
            summary="List a person's inbox",
            tag="inbox",
            acts_for="recipient",
            query=InboxQuery,
            answer=Listed[InboxEntry],
        ),
        Route(
            method="GET",
            path=f"{path}/count",
            run=counting,
            summary="Count what is unseen",
            tag="inbox",
            acts_for="recipient",
            answer=InboxCount,
        ),
        Route(
            method="POST",
            path=f"{path}/seen-all",
            run=marking_all,
            summary="Mark all as seen",
            tag="inbox",
            scope="write",
            acts_for="recipient",
            body=SeenAll,
            answer=SeenCount,
            idempotency="optional",
            example={"up_to": 12},
        ),
        Route(
            method="PATCH",
            path=f"{path}/{{id}}",
            run=marking,
            summary="Mark an entry",
            tag="inbox",
            scope="write",
            acts_for="recipient",
            body=InboxEdit,
            answer=InboxEntry,
            idempotency="optional",
            example={"status": "seen"},
        ),
    )


ROUTES: Final[tuple[Route, ...]] = (
    *_routes("/v1/inbox", list_inbox, count_inbox, mark_inbox_entry, mark_inbox_seen),
    *_routes(
        "/api/notifications",
        list_notifications_of_person,
        count_notifications_of_person,
        mark_notification_of_person,
        mark_notifications_of_person_seen,
    ),
)
