"""Templates between their records and their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import orjson

from timebell.db.pool import Row
from timebell.notify.models import Recipient
from timebell.notify.templates.models import Reader, Template, TemplateDraft, TemplateLine, Text, Variable

SHIPPED = ""


def line_of(row: Row) -> TemplateLine:
    return TemplateLine(
        key=row["key"],
        version=row["version"],
        topic=row["topic"],
        message_class=row["class"],
        is_shipped=row["tenant"] == SHIPPED,
        is_locked=row["is_locked"],
        is_current=row["is_current"],
        actor=row["actor"],
        created_at=row["created_at"],
    )


def template_of(row: Row) -> Template:
    return Template(
        key=row["key"],
        version=row["version"],
        topic=row["topic"],
        message_class=row["class"],
        variables=tuple(Variable(**each) for each in orjson.loads(row["variables"])),
        texts=tuple(Text(**each) for each in orjson.loads(row["texts"])),
        is_shipped=row["tenant"] == SHIPPED,
        is_locked=row["is_locked"],
        actor=row["actor"],
        created_at=row["created_at"],
    )


def as_template(draft: TemplateDraft) -> Template:
    """A draft in the place of a version, for a preview of what is not saved."""
    return Template(
        key=draft.key,
        version=0,
        topic=draft.topic or draft.key,
        message_class=draft.message_class,
        variables=draft.variables,
        texts=draft.texts,
        is_shipped=False,
        is_locked=False,
    )


def columns_of(draft: TemplateDraft) -> dict[str, object]:
    return {
        "key": draft.key,
        "topic": draft.topic,
        "class": draft.message_class,
        "variables": orjson.dumps([asdict(variable) for variable in draft.variables]).decode(),
        "channels": [text.channel for text in draft.texts],
        "languages": [text.language for text in draft.texts],
        "formats": [text.format for text in draft.texts],
        "subjects": [text.subject for text in draft.texts],
        "bodies": [text.body for text in draft.texts],
    }


def is_same(template: Template, draft: TemplateDraft, is_locked: bool) -> bool:
    def by_name(texts: Sequence[Text]) -> dict[tuple[str, str], Text]:
        return {(text.channel, text.language): text for text in texts}

    return (
        (template.topic, template.message_class, template.is_locked)
        == (draft.topic or draft.key, draft.message_class, is_locked)
        and list(template.variables) == list(draft.variables)
        and by_name(template.texts) == by_name(draft.texts)
    )


def reader_of(recipient: Recipient) -> Reader:
    values = {one.kind: one.value for one in reversed(recipient.addresses) if one.gone_at is None}
    return Reader(
        language=recipient.language,
        timezone=recipient.timezone,
        name=recipient.name,
        email=values.get("email"),
        phone=values.get("phone"),
    )
