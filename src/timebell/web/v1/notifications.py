"""`/v1/notifications`: one thing to tell one recipient, what came of it, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from timebell.errors import TimebellError
from timebell.notify import Tell, Told
from timebell.web.operation.calls import Call
from timebell.web.operation.fields import Listed, PageQuery, listed
from timebell.web.operation.problems import FieldError, Problem
from timebell.web.operation.routes import Answer, Route
from timebell.web.v1.bulk import each_by_itself, refusal, refused
from timebell.web.v1.job_fields import Refusal
from timebell.web.v1.notification_bodies import (
    TELL_NAMES,
    DecisionOutput,
    ExplanationOutput,
    MendInput,
    NotificationInput,
    NotificationOutput,
    NotificationsInput,
    NotificationsQuery,
    ReleasedOutput,
    StoryOutput,
    ToldOutput,
    ToldResult,
    ToldResults,
    WhyNotOutput,
    WhyNotQuery,
    WithdrawInput,
    WithdrawManyInput,
    WithdrawnNotifications,
    WithdrawnOutput,
    shown_check,
    shown_delivery,
    shown_notification,
    told_answer,
    values_of,
)


async def create_notification(call: Call, body: NotificationInput) -> Answer:
    """Tell somebody something. It is planned with the answer, and told when it is due, on the channel that works."""
    (told,) = await call.notify.tell_many(call.tx, [_checked(call, body)])
    return told_answer(told)


async def create_notifications(call: Call, body: NotificationsInput) -> ToldResults:
    """Tell up to a thousand things at once, answered in the same order. Each is taken or refused by itself."""
    results: dict[int, Told | Problem] = {}
    asked: list[tuple[int, Tell]] = []
    given: Sequence[Any] = body.notifications
    for index, one in enumerate(given):
        try:
            if isinstance(one, Problem):
                raise one
            asked.append((index, _checked(call, one)))
        except TimebellError as error:
            results[index] = refused(error, TELL_NAMES)
    results |= await each_by_itself(
        call, asked, lambda tells: call.notify.tell_many(call.tx, tells), TELL_NAMES
    )
    return ToldResults(
        data=[_result(index, results[index]) for index in range(len(given))],
        refused_count=sum(isinstance(result, Problem) for result in results.values()),
    )


async def list_notifications(call: Call, query: NotificationsQuery) -> dict[str, Any]:
    """Notifications, the oldest first. A page may be short, or empty, and still have a next one."""
    page = await call.notify.notifications.list(
        tenant=call.tenant,
        recipient=query.recipient_id,
        subject=query.subject,
        state=query.state,
        template=query.template,
        oldest_first=query.sort == "created_at",
        limit=query.limit,
        cursor=query.cursor,
    )
    return listed(page, shown_notification)


async def list_attention(call: Call, query: PageQuery) -> dict[str, Any]:
    """What waits for a person: what failed, what may or may not have been told, and what lacks a value."""
    page = await call.notify.notifications.needs_attention(
        tenant=call.tenant, limit=query.limit, cursor=query.cursor
    )
    return listed(page, shown_notification)


async def get_notification(call: Call) -> StoryOutput:
    """One notification with its deliveries and everything that was considered. One that an agenda or a schedule planned
    is there once it is due."""
    story = await call.notify.notifications.get(call.path["id"], tenant=call.tenant)
    return StoryOutput(
        **values_of(story.notification),
        timezone=story.timezone,
        deliveries=[shown_delivery(one) for one in story.deliveries],
        decisions=[
            DecisionOutput(at=one.at, checks=[shown_check(check) for check in one.checks])
            for one in story.decisions
        ],
    )


async def explain_notification(call: Call) -> ExplanationOutput:
    """Why it was told, or was not, in words."""
    found = await call.notify.explain(call.path["id"], tenant=call.tenant)
    return ExplanationOutput.model_validate(found)


async def withdraw_notification(call: Call, body: WithdrawInput) -> WithdrawnOutput:
    """Take it back, if it was not told yet; the answer is truthful."""
    await _check_there(call)
    answers = await call.notify.withdraw(call.tx, id=call.path["id"], reason=body.reason, actor=call.by)
    return WithdrawnOutput.model_validate(next(one for one in answers if one.id == call.path["id"]))


async def withdraw_notifications(call: Call, body: WithdrawManyInput) -> WithdrawnNotifications:
    """Take back all that is still to be told about a subject; empty where there is none. Its other jobs stay."""
    answers = await call.notify.withdraw(call.tx, subject=body.subject, reason=body.reason, actor=call.by)
    return WithdrawnNotifications(data=[WithdrawnOutput.model_validate(one) for one in answers])


async def release_notification(call: Call) -> ReleasedOutput:
    """Try what is held again now. What still has to wait goes on waiting, and nothing is told before it is due."""
    await _check_there(call)
    released = await call.notify.release(call.tx, [call.path["id"]])
    return ReleasedOutput(id=call.path["id"], is_released=bool(released))


async def mend_notification(call: Call, body: MendInput) -> ReleasedOutput:
    """Give a notification what its context lacked, or say it better, and have it tried again at once."""
    is_released = await call.notify.mend(call.tx, call.path["id"], body.context)
    return ReleasedOutput(id=call.path["id"], is_released=is_released)


async def ask_why_not(call: Call, query: WhyNotQuery) -> WhyNotOutput:
    """Would somebody be told this now, or at that instant? If not, what stands in the way?"""
    tell = Tell(
        recipient=query.recipient_id, template=query.template, urgency=query.urgency, topic=query.topic
    )
    found = await call.notify.why_not(
        query.recipient_id, query.template, query.at, tenant=call.tenant, tell=tell
    )
    return WhyNotOutput.model_validate(found)


async def _check_there(call: Call) -> None:
    """A notification is its job, and other jobs have ids of the same kind, which are not for these verbs."""
    if not await call.notify.notifications.has(call.tx, call.path["id"]):
        raise Problem(404, "not_found", f"this tenant has no notification {call.path['id']}")


def _checked(call: Call, body: NotificationInput) -> Tell:
    if body.guard is not None and body.guard not in call.bell.registry.guards:
        message = "no app that is loaded here brings a guard of that name"
        error = FieldError(pointer="/guard", code="invalid_input", message=message)
        raise Problem(422, "invalid_input", f"guard: {message}", errors=[error])
    return body.tell(call.correlation_id)


def _result(index: int, result: Told | Problem) -> ToldResult:
    if isinstance(result, Told):
        return ToldResult(index=index, id=result.id, created=result.created, refusal=None)
    why = Refusal(**refusal(result, f"/notifications/{index}"))
    return ToldResult(index=index, id=None, created=False, refusal=why)


_TAG: Final = "notifications"
_EXAMPLE: Final = {
    "recipient_id": "0199c5f0-5a0e-7c2b-9d4e-1f2a3b4c5d6e",
    "template": "order.shipped",
    "context": {"order": "A-1042"},
    "due_at": "2027-03-29T10:00:00Z",
}
_REFERS: Final = {404: "There is no such recipient or template."}

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        method="POST",
        path="/v1/notifications",
        run=create_notification,
        summary="Tell somebody something",
        tag=_TAG,
        status=201,
        scope="write",
        body=NotificationInput,
        answer=ToldOutput,
        idempotency="optional",
        names=TELL_NAMES,
        example=_EXAMPLE,
        problems=_REFERS,
    ),
    Route(
        method="POST",
        path="/v1/notifications/bulk",
        run=create_notifications,
        summary="Tell many things at once",
        tag=_TAG,
        scope="write",
        body=NotificationsInput,
        answer=ToldResults,
        idempotency="optional",
        names=TELL_NAMES,
        example={"notifications": [_EXAMPLE]},
    ),
    Route(
        method="GET",
        path="/v1/notifications",
        run=list_notifications,
        summary="List notifications",
        tag=_TAG,
        query=NotificationsQuery,
        answer=Listed[NotificationOutput],
    ),
    Route(
        method="GET",
        path="/v1/notifications/attention",
        run=list_attention,
        summary="List what waits for a person",
        tag=_TAG,
        query=PageQuery,
        answer=Listed[NotificationOutput],
    ),
    Route(
        method="GET",
        path="/v1/notifications/{id}",
        run=get_notification,
        summary="Get a notification",
        tag=_TAG,
        answer=StoryOutput,
    ),
    Route(
        method="GET",
        path="/v1/notifications/{id}/explanation",
        run=explain_notification,
        summary="Explain a notification",
        tag=_TAG,
        answer=ExplanationOutput,
    ),
    Route(
        method="POST",
        path="/v1/notifications/{id}/withdraw",
        run=withdraw_notification,
        summary="Take a notification back",
        tag=_TAG,
        scope="write",
        body=WithdrawInput,
        answer=WithdrawnOutput,
        idempotency="required",
        example={"reason": "the booking was cancelled"},
    ),
    Route(
        method="POST",
        path="/v1/notifications/withdraw",
        run=withdraw_notifications,
        summary="Take back what is about a subject",
        tag=_TAG,
        scope="write",
        body=WithdrawManyInput,
        answer=WithdrawnNotifications,
        idempotency="required",
        example={"subject": "booking:42", "reason": "the booking was cancelled"},
    ),
    Route(
        method="POST",
        path="/v1/notifications/{id}/release",
        run=release_notification,
        summary="Try a held notification now",
        tag=_TAG,
        scope="write",
        answer=ReleasedOutput,
        idempotency="required",
    ),
    Route(
        method="POST",
        path="/v1/notifications/{id}/mend",
        run=mend_notification,
        summary="Give a notification what it lacked",
        tag=_TAG,
        scope="write",
        body=MendInput,
        answer=ReleasedOutput,
        idempotency="required",
        example={"context": {"order": "A-1042"}},
    ),
    Route(
        method="GET",
        path="/v1/why-not",
        run=ask_why_not,
        summary="Ask whether somebody would be told",
        tag=_TAG,
        query=WhyNotQuery,
        answer=WhyNotOutput,
        names=TELL_NAMES,
        problems=_REFERS,
    ),
)
