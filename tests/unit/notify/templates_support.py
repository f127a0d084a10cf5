"""What the tests of templates share: a template in a line, rendered in a line."""

from __future__ import annotations

from typing import Any

from timebell.notify.provider import Channel, Content
from timebell.notify.templates.checking import checked_draft
from timebell.notify.templates.compiled import CompiledTemplate
from timebell.notify.templates.models import (
    Reader,
    Rendered,
    Template,
    TemplateDraft,
    Text,
    Unrendered,
    Variable,
)


def compiled(*texts: Text, variables: tuple[Variable, ...] = ()) -> CompiledTemplate:
    """As it is after it was saved, so every check has been passed."""
    draft = checked_draft(TemplateDraft(key="greeting", texts=texts, variables=variables))
    return CompiledTemplate(
        Template(
            key=draft.key,
            version=1,
            topic=draft.topic or draft.key,
            message_class=draft.message_class,
            variables=draft.variables,
            texts=draft.texts,
            is_shipped=False,
            is_locked=False,
        )
    )


def variables_of(context: dict[str, Any]) -> tuple[Variable, ...]:
    return tuple(Variable(name=name) for name in context)


def rendered(
    body: str, *, channel: Channel = "sms", subject: str | None = None, html: bool = False, **context: Any
) -> Rendered | Unrendered:
    """One text in English, with every value of the context declared."""
    needs_subject = channel in ("email", "inbox", "push")
    text = Text(
        channel=channel,
        language="en",
        subject=subject or ("About it" if needs_subject else None),
        body=body,
        format="html" if html else "text",
    )
    template = compiled(text, variables=variables_of(context))
    return template.render(channel, reader=Reader(name="Ann"), context=context)


def content_of(answer: Rendered | Unrendered) -> Content:
    assert isinstance(answer, Rendered), answer
    return answer.content


def text_of(answer: Rendered | Unrendered) -> str:
    return content_of(answer).text


def refusal_of(answer: Rendered | Unrendered) -> Unrendered:
    assert isinstance(answer, Unrendered), answer
    return answer
