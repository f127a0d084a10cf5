"""`/v1/templates`: what is said, on which channel and in which language, in versions that never change."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Final

from timebell.errors import InvalidInput
from timebell.kernel.paging import Page
from timebell.notify import Route as Channels
from timebell.notify.templates.models import Reader
from timebell.notify.templates.rows import reader_of
from timebell.notify.templates.templates import CheckedDraft
from timebell.web.operation.calls import Call
from timebell.web.operation.fields import Listed, PageQuery, listed
from timebell.web.operation.routes import Answer, Route
from timebell.web.v1.notification_bodies import TELL_NAMES, ToldOutput, told_answer
from timebell.web.v1.template_bodies import (
    ChosenOutput,
    MovedOutput,
    PreviewInput,
    PreviewOutput,
    TemplateInput,
    TemplateLineOutput,
    TemplateOutput,
    TestSend,
    VersionInput,
    VersionQuery,
    shown_line,
    shown_preview,
    shown_template,
)


async def check_template(call: Call, body: TemplateInput) -> CheckedDraft:
    with body.pointed_at():
        return await call.notify.templates.check(body.draft(call.path["key"]), tenant=call.tenant)


async def save_template(call: Call, body: TemplateInput, prepared: CheckedDraft) -> TemplateOutput:
    """A new version, current from now on; the same texts again are the same version. What was planned keeps its own."""
    with body.pointed_at():
        saved = await call.notify.templates.save(call.tx, prepared, actor=call.by)
    return shown_template(saved)


async def list_templates(call: Call, query: PageQuery) -> dict[str, Any]:
    """The templates that this tenant can use, shipped ones among them, by key."""
    page = await call.notify.templates.list(tenant=call.tenant, cursor=query.cursor, limit=query.limit)
    return listed(page, shown_line)


async def get_template(call: Call, query: VersionQuery) -> TemplateOutput:
    """A template with its texts: the current version, or a certain one."""
    found = await call.notify.templates.read(call.path["key"], tenant=call.tenant, version=query.version)
    return shown_template(found)


async def list_template_versions(call: Call, query: PageQuery) -> dict[str, Any]:
    """The versions of a template, the newest first, shipped ones among them."""
    before = _version_of(query.cursor)
    versions = await call.notify.templates.versions(
        call.path["key"], tenant=call.tenant, before=before, limit=query.limit
    )
    # A full page may be the last: the one after it is empty then.
    following = str(versions[-1].version) if len(versions) == query.limit else None
    return listed(Page(lines=tuple(versions), next_cursor=following), shown_line)


async def use_template(call: Call, body: VersionInput) -> ChosenOutput:
    """Make an earlier version of the tenant's own the current one; null goes back to what is shipped."""
    pinned = await call.notify.templates.use(call.tx, call.path["key"], body.version)
    return ChosenOutput(key=pinned.key, version=pinned.version)


async def repin_template(call: Call, body: VersionInput) -> MovedOutput:
    """Tell what is still to be told with another version than it was planned with; null takes the current one."""
    return MovedOutput(moved=await call.notify.repin(call.tx, call.path["key"], body.version))


async def preview_template(call: Call, body: PreviewInput) -> PreviewOutput:
    """A text as somebody would get it. Nothing is written or sent."""
    key: str = call.path["key"]
    if body.reader is not None and body.recipient_id is not None:
        raise InvalidInput("give this or a recipient_id, not both", field="reader")
    if body.version is not None and body.draft is not None:
        raise InvalidInput("a draft has none yet; give one of the two", field="version")
    reader = Reader(**body.reader.model_dump()) if body.reader is not None else Reader()
    if body.recipient_id is not None:
        reader = reader_of(await call.notify.recipients.get(body.recipient_id, tenant=call.tenant))
    policy = await call.notify.policies.get(tenant=call.tenant)
    with nullcontext() if body.draft is None else body.draft.pointed_at("draft."):
        preview = await call.notify.templates.preview(
            key if body.draft is None else body.draft.draft(key),
            tenant=call.tenant,
            channel=body.channel,
            context=body.context,
            reader=reader,
            default_language=policy.default_language,
            version=body.version,
        )
    return shown_preview(preview)


async def send_test(call: Call, body: TestSend) -> Answer:
    """Tell somebody a template now, in any version that was saved. It is critical, of the topic `test`, and comes as
    often as it is asked for."""
    told = await call.notify.send_test(
        call.tx,
        call.path["key"],
        body.recipient_id,
        version=body.version,
        channels=Channels(first=body.channels, also=body.also),
        context=body.context,
    )
    return told_answer(told)


def _version_of(cursor: str | None) -> int | None:
    if cursor is None:
        return None
    if cursor.isascii() and cursor.isdecimal() and 0 < len(cursor) < 10 and int(cursor) > 0:
        return int(cursor)
    raise InvalidInput("cannot be read; give the next_cursor of the page before, unchanged", field="cursor")


_TAG: Final = "templates"
_TEMPLATE: Final = {
    "texts": [
        {
            "channel": "inbox",
            "language": "en",
            "subject": "Shipped",
            "body": "Order {{ order }} is on its way.",
        },
        {"channel": "sms", "language": "en", "body": "Order {{ order }} is on its way."},
    ],
    "variables": [{"name": "order"}],
    "topic": "orders",
}

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        method="GET",
        path="/v1/templates",
        run=list_templates,
        summary="List templates",
        tag=_TAG,
        query=PageQuery,
        answer=Listed[TemplateLineOutput],
    ),
    Route(
        method="PUT",
        path="/v1/templates/{key}",
        run=save_template,
        prepare=check_template,
        summary="Save a template",
        tag=_TAG,
        scope="write",
        body=TemplateInput,
        answer=TemplateOutput,
        idempotency="optional",
        example=_TEMPLATE,
    ),
    Route(
        method="GET",
        path="/v1/templates/{key}",
        run=get_template,
        summary="Get a template",
        tag=_TAG,
        query=VersionQuery,
        answer=TemplateOutput,
    ),
    Route(
        method="GET",
        path="/v1/templates/{key}/versions",
        run=list_template_versions,
        summary="List the versions of a template",
        tag=_TAG,
        query=PageQuery,
        answer=Listed[TemplateLineOutput],
    ),
    Route(
        method="POST",
        path="/v1/templates/{key}/use",
        run=use_template,
        summary="Choose the current version",
        tag=_TAG,
        scope="write",
        body=VersionInput,
        answer=ChosenOutput,
        idempotency="required",
        example={"version": 1},
    ),
    Route(
        method="POST",
        path="/v1/templates/{key}/repin",
        run=repin_template,
        summary="Move what is planned to a version",
        tag=_TAG,
        scope="write",
        body=VersionInput,
        answer=MovedOutput,
        idempotency="required",
        example={"version": 2},
    ),
    Route(
        method="POST",
        path="/v1/templates/{key}/preview",
        run=preview_template,
        # It only reads, and has no transaction to do so in.
        shared=preview_template,
        summary="Preview a template",
        tag=_TAG,
        body=PreviewInput,
        answer=PreviewOutput,
        example={"channel": "sms", "context": {"order": "A-1042"}, "draft": _TEMPLATE},
    ),
    Route(
        method="POST",
        path="/v1/templates/{key}/test",
        run=send_test,
        summary="Send a test",
        tag=_TAG,
        status=201,
        scope="write",
        body=TestSend,
        answer=ToldOutput,
        idempotency="optional",
        names=TELL_NAMES,
        example={"recipient_id": "0199c5f0-5a0e-7c2b-9d4e-1f2a3b4c5d6e", "context": {"order": "A-1042"}},
    ),
)
