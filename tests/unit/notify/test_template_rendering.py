"""What a reader gets: values, languages, the local form of dates and numbers, and never a blank."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.notify.templates_support import compiled, content_of, refusal_of, rendered, text_of
from timebell.notify.rules.languages import checked_language, chosen_language
from timebell.notify.rules.sms_length import sms_length
from timebell.notify.templates.models import Reader, Rendered, Text, Variable

NOON = "2026-12-01T12:00:00Z"


def sms(body: str, language: str = "en") -> Text:
    return Text(channel="sms", language=language, body=body)


@pytest.mark.req("A-4.1")
def test_values_are_put_into_the_subject_and_the_body() -> None:
    answer = rendered(
        "Dear {{ recipient.name }}, {{ booking.event }} is at {{ booking.location }}.",
        channel="email",
        subject="{{ booking.event }} for {{ recipient.name }}",
        booking={"event": "the concert", "location": "the hall"},
    )
    assert content_of(answer).subject == "the concert for Ann"
    assert text_of(answer) == "Dear Ann, the concert is at the hall."


@pytest.mark.req("A-4.2")
@pytest.mark.parametrize(
    ("wanted", "default", "shipped", "chosen"),
    [
        ("de-AT", "en", {"de-AT", "de", "en"}, "de-AT"),
        ("de-AT", "en", {"de", "en"}, "de"),
        ("zh-Hant-TW", "en", {"zh-Hant", "zh", "en"}, "zh-Hant"),
        ("fr", "de-CH", {"de", "en"}, "de"),
        ("fr", "it", {"de", "en"}, "en"),
        ("fr", "it", {"nl", "de"}, "de"),
        ("fr", "it", set(), None),
    ],
)
def test_the_nearest_language_is_chosen(
    wanted: str, default: str, shipped: set[str], chosen: str | None
) -> None:
    assert chosen_language(wanted, default, shipped) == chosen


@pytest.mark.req("A-4.2")
def test_a_german_reader_gets_the_german_text_and_a_french_one_that_of_the_tenant() -> None:
    template = compiled(sms("Hello", "en"), sms("Hallo", "de"))
    german = template.render("sms", reader=Reader(language="de-AT"), context={})
    french = template.render("sms", reader=Reader(language="fr"), context={}, default_language="de")
    assert isinstance(german, Rendered)
    assert (german.language, text_of(german), text_of(french)) == ("de", "Hallo", "Hallo")


@pytest.mark.parametrize(
    ("given", "expected"), [("DE_at", "de-AT"), ("zh-hant-tw", "zh-Hant-TW"), ("es-419", "es-419")]
)
def test_languages_have_one_spelling(given: str, expected: str) -> None:
    assert checked_language(given) == expected


@pytest.mark.parametrize(
    ("body", "language", "timezone", "expected"),
    [
        ("{{ at | datetime: 'long' }}", "de-AT", "Europe/Vienna", "1. Dezember 2026, 13:00"),
        ("{{ at | date: 'long' }}", "de-AT", "Europe/Vienna", "1. Dezember 2026"),
        ("{{ at | weekday }} {{ at | time }}", "de", "Asia/Kolkata", "Dienstag 17:30"),
        ("{{ at | time }} {{ at | timezone_name }}", "de", "Europe/Berlin", "13:00 MEZ"),
        ("{{ at | time: 'short', timezone: 'Europe/Paris' }}", "de", "Asia/Kolkata", "13:00"),
        ("{{ at | time }}", "en", "America/Vancouver", "5:00 AM"),
        ("{{ wall | time }} {{ wall | date: 'short' }}", "de", "Asia/Kolkata", "09:30 02.01.26"),
        ("{{ day | date: 'full' }}", "en", "Asia/Kolkata", "Friday, January 2, 2026"),
        ("{{ sum | currency: 'EUR' }}", "de", "UTC", "1.234,50 €"),
        ("{{ sum | number }} {{ sum | number: 2 }}", "de-CH", "UTC", "1’234.5 1’234.50"),
        ("{{ share | percent }}", "en", "UTC", "25%"),
    ],
)
@pytest.mark.req("M-6.3")
def test_dates_and_numbers_are_set_as_the_reader_is_used_to(
    body: str, language: str, timezone: str, expected: str
) -> None:
    context = {
        "at": NOON,
        "wall": "2026-01-02T09:30:00",
        "day": "2026-01-02",
        "sum": "1234.5",
        "share": 0.25,
    }
    text = sms(body, language.partition("-")[0])
    template = compiled(text, variables=tuple(Variable(name=name) for name in context))
    answer = template.render("sms", reader=Reader(language=language, timezone=timezone), context=context)
    assert text_of(answer) == expected


def test_dates_speak_the_language_of_the_text_where_the_reader_has_another() -> None:
    template = compiled(sms("On {{ at | date: 'long' }}"), variables=(Variable(name="at"),))
    answer = template.render("sms", reader=Reader(language="fr"), context={"at": NOON})
    assert text_of(answer) == "On December 1, 2026"


def test_one_instant_is_shown_in_the_time_of_each_reader() -> None:
    template = compiled(sms("{{ at | time: 'medium' }}", "de"), variables=(Variable(name="at"),))
    shown = [
        text_of(template.render("sms", reader=Reader(language="de", timezone=each), context={"at": NOON}))
        for each in ("Europe/Berlin", "Asia/Kolkata")
    ]
    assert shown == ["13:00:00", "17:30:00"]


@pytest.mark.req("A-4.3")
@pytest.mark.parametrize("context", [{}, {"name": None}, {"name": ""}, {"name": " \n"}])
def test_a_required_variable_that_is_missing_or_blank_is_named_and_nothing_is_rendered(
    context: dict[str, Any],
) -> None:
    template = compiled(sms("Hi {{ name }}"), variables=(Variable(name="name"),))
    answer = refusal_of(template.render("sms", reader=Reader(), context=context))
    assert (answer.reason, answer.names, answer.is_final) == ("template_incomplete", ("name",), False)


@pytest.mark.req("A-4.3")
def test_a_blocking_variable_that_is_missing_ends_it_for_good() -> None:
    template = compiled(
        sms("Your code is {{ code }}, {{ name }}"),
        variables=(Variable(name="code", policy="block"), Variable(name="name")),
    )
    both = refusal_of(template.render("sms", reader=Reader(), context={}))
    assert (both.names, both.is_final) == (("code", "name"), True)
    name = refusal_of(template.render("sms", reader=Reader(), context={"code": "1234"}))
    assert (name.names, name.is_final) == (("name",), False)


def test_a_default_stands_in_for_what_is_missing_or_blank() -> None:
    variables = (
        Variable(name="name", policy="default", default="friend"),
        Variable(name="booking.place", policy="default"),
        Variable(name="booking.title"),
    )
    body = "Hi {{ name }}: {{ booking.title }}{% if booking.place %} at {{ booking.place }}{% endif %}."
    template = compiled(sms(body), variables=variables)

    def shown(context: dict[str, Any]) -> str:
        return text_of(template.render("sms", reader=Reader(), context=context))

    given = {"name": " ", "booking": {"title": "Tea"}}
    assert shown(given) == "Hi friend: Tea."
    assert given == {"name": " ", "booking": {"title": "Tea"}}
    assert shown({"name": "Bo", "booking": {"title": "Tea", "place": "home"}}) == "Hi Bo: Tea at home."


def test_a_null_default_is_never_shown_as_a_blank() -> None:
    template = compiled(sms("At {{ place }}."), variables=(Variable(name="place", policy="default"),))
    assert refusal_of(template.render("sms", reader=Reader(), context={})).names == ("place",)


def test_a_part_that_a_member_of_a_list_lacks_is_named() -> None:
    body = "{% for one in lines %}{{ one.title }}{% endfor %}"
    answer = refusal_of(rendered(body, lines=[{"title": "a"}, {}]))
    assert (answer.reason, answer.names) == ("template_incomplete", ("one.title",))
    kept = rendered("{% for one in lines %}{{ one.title | default: '?' }}{% endfor %}", lines=[{}])
    assert text_of(kept) == "?"


@pytest.mark.req("A-6.3")
def test_a_channel_without_a_text_is_said_to_have_none() -> None:
    answer = refusal_of(compiled(sms("Hi")).render("email", reader=Reader(), context={}))
    assert answer.reason == "template_missing"


def test_what_is_given_cannot_be_put_on_by_the_context() -> None:
    template = compiled(sms("{{ recipient.name }}"))
    context = {"recipient": {"name": "Mallory"}}
    assert text_of(template.render("sms", reader=Reader(name="Ann"), context=context)) == "Ann"
    nobody = refusal_of(template.render("sms", reader=Reader(), context=context))
    assert nobody.names == ("recipient.name",)


@pytest.mark.parametrize(
    ("body", "context", "expected"),
    [
        ("{{ a | plus: b }} {{ a | times: b }} {{ a | minus: b }}", {"a": 0.1, "b": "0.2"}, "0.3 0.02 -0.1"),
        ("{{ a | divided_by: b }} {{ b | divided_by: b }}", {"a": 1, "b": 3}, "0.3333333333 1"),
        ("{{ a | round }} {{ a | round: 1 }}", {"a": 2.45}, "2 2.5"),
        ("{{ a | join: ', ' }} {{ a | size }} {{ a.size }} {{ a.last }}", {"a": ["x", "y"]}, "x, y 2 2 y"),
        (
            "{{ a | truncate: 5 }}|{{ a | upcase | replace: 'L', 'r' }}",
            {"a": "hello world"},
            "hell…|HErrO WORrD",
        ),
        ("{{ a | capitalize | append: '!' | prepend: '<' }}", {"a": "yes"}, "<Yes!"),
        ("{% case a %}{% when 'x' %}1{% else %}2{% endcase %}", {"a": "x"}, "1"),
        ("{% unless a == 'x' %}1{% endunless %}2{% assign b = a %}{{ b }}", {"a": "x"}, "2x"),
        (
            "{% for i in a reversed %}{{ i }}{% if forloop.last %}.{% endif %}{% endfor %}",
            {"a": [1, 2]},
            "21.",
        ),
        ("{{ a | url_encode }}", {"a": "a b/ü"}, "a%20b%2F%C3%BC"),
    ],
)
def test_what_a_template_can_do_with_a_value(body: str, context: dict[str, Any], expected: str) -> None:
    assert text_of(rendered(body, **context)) == expected


@pytest.mark.parametrize(
    ("text", "encoding", "units", "segments"),
    [
        ("a" * 160, "gsm7", 160, 1),
        ("a" * 161, "gsm7", 161, 2),
        ("a" * 306, "gsm7", 306, 2),
        ("a" * 307, "gsm7", 307, 3),
        ("€" * 80, "gsm7", 160, 1),
        # A character of two septets is not cut, so 76 of them fit a segment of 153.
        ("€" * 153, "gsm7", 306, 3),
        ("ü" * 160, "gsm7", 160, 1),
        ("ş" * 70, "ucs2", 70, 1),
        ("ş" * 71, "ucs2", 71, 2),
        ("😀" * 35, "ucs2", 70, 1),
        ("😀" * 67, "ucs2", 134, 3),
    ],
)
def test_the_length_of_an_sms(text: str, encoding: str, units: int, segments: int) -> None:
    length = sms_length(text)
    assert (length.encoding, length.units, length.segments) == (encoding, units, segments)


def test_the_spaces_of_a_language_do_not_halve_the_room_of_an_sms() -> None:
    text = text_of(rendered("{{ at | time }}", at=NOON))
    assert text == "12:00 PM"
    assert sms_length(text).encoding == "gsm7"
    assert sms_length("x…").forcing == "…"
