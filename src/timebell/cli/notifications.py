"""The commands about notifications: look at them, and ask why somebody was told, or was not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, get_args
from uuid import UUID

import click

from timebell.cli.common import ID, Desk, ask, json_option, page_options, place_options, tenant_option
from timebell.cli.preview import INSTANT
from timebell.cli.printing import (
    page_json,
    plain,
    print_fields,
    print_json,
    print_line,
    print_page,
    print_table,
)
from timebell.kernel.paging import Page
from timebell.notify.explain.explaining import Explainer, Explanation, Reasoning, WhyNot
from timebell.notify.explain.notifications import Notifications, Story
from timebell.notify.models import Delivery, Notification, OnQuiet, Tell, Urgency
from timebell.notify.provider import CHANNELS, Channel
from timebell.notify.reasons import NotificationState
from timebell.notify.rules.sentences import summary

_COLUMNS = ["id", "state", "reason", "template", "recipient", "due at", "subject"]


@click.group(short_help="Look at notifications, and ask why.")
def notifications() -> None:
    """Look at notifications, and ask why somebody was told something, or was not."""


@notifications.command("list", short_help="List notifications, the last planned first.")
@tenant_option
@click.option("--recipient", type=ID, help="Only those to this recipient.")
@click.option("--subject", help="Only those about this subject.")
@click.option("--state", type=click.Choice(get_args(NotificationState)), help="Only those in this state.")
@click.option("--template", help="Only those with this template.")
@page_options
@json_option
@place_options
def list_notifications(as_json: bool, config: Path | None, data: Path | None, **options: Any) -> None:
    """List notifications, the last planned first."""

    async def look(at: Desk) -> Page[Notification]:
        return await Notifications(at.bell).list(**options)

    page = ask(config, data, look)
    if as_json:
        print_json(page_json(page))
    else:
        print_page(_COLUMNS, page, map(_row, page.lines), empty="No such notifications.")


@notifications.command("attention", short_help="List what waits for a person, the oldest first.")
@tenant_option
@page_options
@json_option
@place_options
def list_attention(as_json: bool, config: Path | None, data: Path | None, **options: Any) -> None:
    """List what failed, what may or may not have been told, and what lacks a value; the oldest first."""

    async def look(at: Desk) -> Page[Notification]:
        return await Notifications(at.bell).needs_attention(**options)

    page = ask(config, data, look)
    if as_json:
        print_json(page_json(page))
        return
    rows = [(line.id, line.template, line.recipient_id, line.due_at, summary(line)) for line in page.lines]
    print_page(
        ["id", "template", "recipient", "due at", "what is the matter"],
        page,
        rows,
        empty="Nothing needs attention.",
    )


@notifications.command("show", short_help="Show one notification and its deliveries.")
@click.argument("id", type=ID)
@tenant_option
@json_option
@place_options
def show_notification(id: UUID, tenant: str, as_json: bool, config: Path | None, data: Path | None) -> None:
    """Show the notification ID, its deliveries and each attempt at them."""

    async def look(at: Desk) -> Story:
        return await Notifications(at.bell).get(id, tenant=tenant)

    story = ask(config, data, look)
    if as_json:
        print_json({"notification": story.notification, "deliveries": story.deliveries})
        return
    print_line(summary(story.notification, story.deliveries, story.timezone))
    print_line("")
    print_fields(plain(story.notification).items())
    print_line("")
    columns = [
        "channel",
        "provider",
        "address",
        "state",
        "reason",
        "attempts",
        "sent at",
        "delivered at",
        "id",
    ]
    print_table(columns, map(_delivery_row, story.deliveries), empty="No channel was tried.")


@notifications.command("explain", short_help="Explain what became of one notification.")
@click.argument("id", type=ID)
@tenant_option
@json_option
@place_options
def explain_notification(
    id: UUID, tenant: str, as_json: bool, config: Path | None, data: Path | None
) -> None:
    """Explain what became of the notification ID: everything that was considered, in order, in words."""

    async def look(at: Desk) -> Explanation:
        return await Explainer(at.bell).explain(id, tenant=tenant)

    explanation = ask(config, data, look)
    if as_json:
        print_json(_explanation_json(explanation))
        return
    print_line(explanation.summary)
    print_line("")
    _print_story(explanation.story)


@notifications.command("why-not", short_help="Say what stands in the way of telling somebody.")
@click.argument("recipient", type=ID)
@click.argument("template")
@click.option("--at", "at_instant", type=INSTANT, help="When it would be due.  [default: now]")
@click.option(
    "--channel", "channels", type=click.Choice(CHANNELS), multiple=True, help="Only by this channel."
)
@click.option("--urgency", type=click.Choice(get_args(Urgency)), default="normal", show_default=True)
@click.option("--topic", help="Instead of the template's.")
@click.option("--expires-at", type=INSTANT, help="From when on it would be of no use.")
@click.option("--on-quiet", type=click.Choice(get_args(OnQuiet)), help="If quiet hours would make it late.")
@tenant_option
@json_option
@place_options
def why_not(
    recipient: UUID,
    template: str,
    at_instant: datetime | None,
    channels: tuple[Channel, ...],
    tenant: str,
    as_json: bool,
    config: Path | None,
    data: Path | None,
    **options: Any,
) -> None:
    """Say what stands in the way of telling RECIPIENT with TEMPLATE, and what became of those there were."""
    tell = Tell(recipient=recipient, template=template, channels=channels or "preferred", **options)

    async def look(at: Desk) -> WhyNot:
        return await Explainer(at.bell).why_not(recipient, template, at_instant, tenant=tenant, tell=tell)

    why = ask(config, data, look)
    if as_json:
        alike = [_explanation_json(each) for each in why.alike]
        print_json({**plain(why), "story": _story_json(why.story), "alike": alike})
        return
    print_line(why.summary)
    print_line("")
    _print_story(why.story)
    if why.alike:
        print_line("")
        print_line("What there was within a day of that:")
        rows = [
            (each.id, None if each.notification is None else each.notification.due_at, each.summary)
            for each in why.alike
        ]
        print_table(["id", "due at", "what became of it"], rows, empty="")


def _row(line: Notification) -> Sequence[Any]:
    return (line.id, line.state, line.reason, line.template, line.recipient_id, line.due_at, line.subject)


def _delivery_row(line: Delivery) -> Sequence[Any]:
    return (
        line.channel,
        line.provider,
        line.address,
        line.state,
        line.reason,
        line.attempt_count,
        line.sent_at,
        line.delivered_at,
        line.id,
    )


def _explanation_json(explanation: Explanation) -> dict[str, Any]:
    return {**plain(explanation), "story": _story_json(explanation.story)}


def _story_json(story: Iterable[Reasoning]) -> list[dict[str, Any]]:
    """The words, and what they were made from beside them and not within."""
    return [
        {"at": line.at, "text": line.text, **({} if line.check is None else plain(line.check))}
        for line in story
    ]


def _print_story(story: Sequence[Reasoning]) -> None:
    rows = [(line.at, line.text) for line in story]
    print_table(["at", "what was considered"], rows, empty="Nothing was considered yet.")
