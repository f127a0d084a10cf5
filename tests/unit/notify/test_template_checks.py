"""What may not be saved as a template, and what the refusal says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from timebell.errors import InvalidInput, InvalidTemplate
from timebell.notify.provider import Channel
from timebell.notify.templates.checking import checked_draft
from timebell.notify.templates.models import TemplateDraft, Text, Variable

NAME = Variable(name="name")


def sms(body: str, language: str = "en") -> Text:
    return Text(channel="sms", language=language, body=body)


def mail(body: str, subject: str | None = "About {{ name }}", **options: Any) -> Text:
    return Text(
        channel="email", language=options.pop("language", "en"), subject=subject, body=body, **options
    )


def draft(texts: Sequence[Text], variables: Sequence[Variable] = (NAME,), **options: Any) -> TemplateDraft:
    return TemplateDraft(key=options.pop("key", "greeting"), texts=texts, variables=variables, **options)


def test_a_draft_is_given_its_usual_spelling() -> None:
    checked = checked_draft(draft([sms("Hi {{ name }}", "DE_at"), mail("{{ name }}")]))
    assert [text.language for text in checked.texts] == ["de-AT", "en"]
    assert checked.topic == "greeting"


@pytest.mark.req("A-4.3")
@pytest.mark.parametrize(
    ("refused", "field", "said"),
    [
        (draft([sms("{{ nome }}")]), "texts[sms/en]", "uses nome, which is not declared"),
        (draft([mail("x", "{{ nome }}")]), "texts[email/en]", "uses nome"),
        (draft([sms("{{ name | safe }}")]), "texts[sms/en].body", "there is no filter safe"),
        (draft([mail("x", "{{ name")]), "texts[email/en]", "is not closed by }}"),
        (draft([sms("{% include 'x' %}")]), "texts[sms/en].body", "there is no tag 'include'"),
        (draft([sms("a\n{% if name %}b")]), "texts[sms/en].body", "endif"),
        (
            draft([sms("{{ recipient.password }}")]),
            "texts[sms/en]",
            "uses recipient.password; of what is given",
        ),
        (draft([sms("{{ recipient }}")]), "texts[sms/en]", "of what is given there are"),
        (
            draft([sms("Hi {{ name }}"), sms("Hallo", "de")]),
            "texts[sms/de]",
            "does not use name, which texts[sms/en]",
        ),
        (
            draft([sms("Hi"), sms("Hallo {{ name }}", "de")]),
            "texts[sms/en]",
            "does not use name, which texts[sms/de]",
        ),
        (draft([sms("Hi"), sms("Hi")]), "texts[sms/en]", "given twice"),
        (draft([]), "texts", "1 to 200"),
        (draft([sms("Hi", "klingon")]), "texts[sms/klingon].language", "not a language tag"),
        (draft([mail("x", None)]), "texts[email/en]", "has no subject"),
        (draft([Text(channel="sms", language="en", subject="s", body="x")]), "texts[sms/en]", "shows none"),
        (
            draft([Text(channel="sms", language="en", body="x", format="html")]),
            "texts[sms/en]",
            "'html' for email",
        ),
        (draft([sms("x" * 100_001)]), "texts[sms/en].body", "1 to 100000"),
        (draft([sms("x" * 90_000, each) for each in ("en", "de", "fr", "it", "es")]), "texts", "450000"),
        (draft([sms("{{ name }}" * 4_000)]), "texts", "between braces"),
        (draft([sms("x")], [NAME, NAME]), "variables[name]", "declared twice"),
        (draft([sms("x")], [Variable(name="recipient.name")]), "variables[recipient.name]", "always given"),
        (draft([sms("x")], [Variable(name="a b")]), "variables[a b]", "is not a name"),
        (draft([sms("x")], [Variable(name="a", default="b")]), "variables[a]", "never be used"),
        (
            draft([sms("x")], [Variable(name="a", policy="default", default=object())]),
            "variables[a]",
            "no JSON",
        ),
        (draft([sms("x")], [Variable(name="a", policy="no")]), "variables[a]", "policy"),  # type: ignore[arg-type]
        (draft([sms("x")], key="Hello World"), "key", "is not a key"),
        (draft([sms("x")], key="x" * 101), "key", "1 to 100"),
        (draft([sms("x")], topic="x" * 101), "topic", "1 to 100"),
        (draft([sms("x")], message_class="spam"), "message_class", "transactional"),
        (draft([sms("x\x00")]), "texts[sms/en].body", "NUL"),
    ],
)
def test_a_refusal_names_the_text_and_the_remedy(refused: TemplateDraft, field: str, said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        checked_draft(refused)
    assert caught.value.field == field
    assert said in str(caught.value)


def test_the_line_of_a_fault_is_told() -> None:
    with pytest.raises(InvalidTemplate, match="line 3"):
        checked_draft(draft([sms("a\nb\n{{ name ! }}")]))


def test_a_declared_path_covers_what_lies_under_it() -> None:
    variables = [Variable(name="booking"), Variable(name="lines")]
    body = "{{ booking.place.city }}{% for line in lines %}{{ line.title }}{{ forloop.index }}{% endfor %}"
    body += "{{ lines[0].title }}{{ lines.size }}"
    checked_draft(draft([sms(body)], variables))
    with pytest.raises(InvalidTemplate, match=r"uses booking\.title"):
        checked_draft(draft([sms("{{ booking.title }}")], [Variable(name="booking.place")]))


def test_channels_may_say_different_things() -> None:
    texts = [
        sms("Hi {{ name }}"),
        mail("Hi {{ name }} at {{ place }}"),
        mail("{{ name }}{{ place }}", language="de"),
    ]
    assert checked_draft(draft(texts, [NAME, Variable(name="place")])).texts == tuple(texts)


@pytest.mark.parametrize("channel", ["email", "sms", "whatsapp", "push", "inbox", "webhook"])
def test_every_channel_can_have_a_text(channel: Channel) -> None:
    subject = None if channel in ("sms", "whatsapp") else "S"
    text = Text(channel=channel, language="en", subject=subject, body="x")
    assert checked_draft(draft([text])).texts == (text,)
