"""Templates that want more than to be rendered: time, memory, what lies behind the values, or the reader's browser."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest
from babel import Locale
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.notify.templates_support import compiled, content_of, refusal_of, rendered, text_of
from timebell.errors import InvalidInput
from timebell.notify.templates.mail_html import HTML_CHARS_MAX, MailTooLarge, mail_parts
from timebell.notify.templates.models import Reader, Rendered, Text, Unrendered
from timebell.notify.templates.rendering import Missing, parse_text, render_text

SECONDS_MAX = 0.2
BYTES_MAX = 64_000_000

LIST = list(range(10_000))
LONG = "x" * 50_000

BOMBS: dict[str, tuple[str, dict[str, Any]]] = {
    "doubling": ("{% assign a = b %}" + "{% assign a = a | append: a %}" * 60 + "{{ a }}", {"b": LONG}),
    "doubling in a loop": (
        "{% assign a = b %}{% for i in c %}{% assign a = a | append: a %}{% endfor %}{{ a }}",
        {"b": "x", "c": LIST},
    ),
    "many long values": (
        "".join(f"{{% assign a{i} = b | append: '{i}' %}}" for i in range(400)) + "{{ a1 }}",
        {"b": LONG},
    ),
    "replace by itself": ("{{ a | replace: 'x', a }}", {"a": LONG}),
    "join by itself": ("{{ b | join: a }}", {"a": LONG, "b": LIST}),
    "many outputs": ("{% for i in b %}{{ a }}{% endfor %}", {"a": LONG, "b": LIST}),
    "nested loops": (
        "{% for i in a %}{% for j in a %}{% for k in a %}{% endfor %}{% endfor %}{% endfor %}",
        {"a": LIST},
    ),
    "loops that show nothing": (
        "{% for i in a %}" + "{% if true %}{% endif %}" * 1_000 + "{% endfor %}",
        {"a": LIST},
    ),
    "loops one after the other": ("{% for i in a %}{% endfor %}" * 500, {"a": LIST}),
    "dear filters": (
        "{% for i in a %}{{ b | datetime: 'full' }}{% endfor %}",
        {"a": LIST, "b": "2026-12-01"},
    ),
    "long filters": ("{% for i in a %}{% if b | upcase %}{% endif %}{% endfor %}", {"a": LIST, "b": LONG}),
    "long filters in assignments": (
        "{% for i in a %}{% assign c = b | replace: 'x', 'y' | upcase | downcase %}{% endfor %}",
        {"a": LIST, "b": LONG},
    ),
    "multiplying": ("{% assign a = b %}" + "{% assign a = a | times: a %}" * 200 + "{{ a }}", {"b": 99}),
    "a huge number": ("{{ a | plus: 1 }}", {"a": "1e999999999"}),
    "a tiny number": ("{{ a | plus: 0 }}", {"a": "1e-999999999"}),
    "many digits": ("{{ a | round: 1000000000 }}", {"a": 1}),
    "a long number": ("{{ a | plus: 1 }}", {"a": "9" * 50_000}),
    "a number of many digits in the text": ("{{ " + "9" * 490 + " | times: " + "9" * 5 + " }}", {}),
    "a range": ("{% for i in (1..1000000000) reversed %}{{ i }}{% endfor %}", {}),
    "a range of values": ("{% assign a = (1..b) %}{{ a | join }}", {"b": 10**12}),
    "padding": ("{{ a | center: 1500000000 }}", {"a": "x"}),
    "truncated to a lot": ("{{ a | truncate: 1000000000000, b }}", {"a": LONG, "b": LONG}),
    "deep nesting": ("{% if true %}" * 3_000 + "x" + "{% endif %}" * 3_000, {}),
    "many conditions": ("{% if a" + " and a" * 70 + " %}x{% endif %}" * 1, {"a": 1}),
    "many marks": ("{{a}}" * 20_000, {"a": 1}),
    "long paths": (("{{ a" + ".a" * 240 + " }}") * 100, {"a": {}}),
    "marks that never end": ("{{ a " * 20_000, {"a": 1}),
    "raw that never ends": ("{% raw %}" * 10_000, {}),
    "comments that never end": ("{% comment %}" * 2_000, {}),
    "blanks in marks": (("{{" + " " * 450 + "a }}") * 60, {"a": 1}),
    "quotes that never end": (("{{ '" + "a" * 450 + " }}") * 60, {}),
    "brackets": ("{{ a" + "[a" * 150 + "]" * 150 + " }}", {"a": {}}),
    "a long text": ("x" * 100_000, {}),
    "a longer text": ("x" * 10_000_000, {}),
}

DIV, BOLD, STYLES = "<div>", "<b>", "<style>"
HTML_BOMBS: dict[str, str] = {
    "deep nesting": DIV * 19_000,
    "deep nesting with styles": "<style>p{color:red}</style>" + DIV * 1_900,
    "deep nesting, closed out of order": "<style>p{color:red}</style>" + "<div></b>" * 1_900,
    "deep nesting behind comments": "<style>p{color:red}</style>" + "<div><!--</div>-->" * 1_900,
    "deep nesting behind attributes": "<style>p{color:red}</style>" + '<div title="</div>">' * 1_900,
    "formatting": BOLD * 19_000,
    "formatting in many ways": "<p>" + "".join(f"<b title={i}>" for i in range(990)) + "x<p>" * 990,
    "formatting hidden in quotes": "<p>" + "".join(f"<b a='>' b={i}>" for i in range(990)) + "x<p>" * 990,
    "formatting in as many ways as may be": "<p>"
    + "".join(f"<i id=x{i}>" for i in range(40))
    + "x<p>" * 1_900,
    "formatting with styles": "<style>p,b,i{color:red}</style><p>"
    + "".join(f"<b title={i}>" for i in range(40))
    + "x<p>" * 1_900,
    "misnested": "<a><b><p>" * 600,
    "many rules": STYLES + "p{color:red}" * 1_600 + "</style>" + "<p>x" * 1_900,
    "many declarations": STYLES
    + "p{"
    + "".join(f"a{i}:r;" for i in range(2_000))
    + "}</style>"
    + "<p>x" * 1_900,
    "many selectors": STYLES + ",".join(["p"] * 9_000) + "{color:red}</style>" + "<p>x" * 1_900,
    "a long rule": STYLES + "p{font-family:'" + "a" * 19_000 + "'}</style>" + "<p>x" * 1_900,
    "a long rule at the limit": STYLES + "p{font-family:'" + "a" * 2_600 + "'}</style>" + "<p>x" * 1_900,
    "rules at the limit": STYLES + "p{color:red}" * 170 + "</style>" + "<p>x" * 1_900,
    "styles that never end": STYLES * 1_900,
    "styles whose tag never ends": "<style " * 1_900 + "x" * 80_000,
    "a long document": "x" * 99_000,
}


def cost(run: Callable[[], object]) -> tuple[float, object]:
    """What it costs by itself: a collection of all that the other tests left behind is not its doing."""
    gc.disable()
    try:
        began = time.thread_time()
        made = run()
        return time.thread_time() - began, made
    finally:
        gc.enable()


def answer_to(body: str, context: dict[str, Any], *, html: bool = False) -> Rendered | Unrendered | str:
    try:
        return rendered(body, channel="email" if html else "whatsapp", html=html, **context)
    except InvalidInput as refused:
        return str(refused)


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_answered_in_time_and_within_memory(name: str) -> None:
    body, context = BOMBS[name]
    answer_to(
        "{{ a | datetime }}{{ a | number }}", {"a": 1}
    )  # Reading the data of the language is not the bomb's.
    seconds, answer = cost(lambda: answer_to(body, context))
    assert seconds < SECONDS_MAX
    assert not isinstance(answer, Rendered) or len(answer.content.text) < 5_000, "it was no bomb after all"
    tracemalloc.start()
    try:
        answer_to(body, context)
        assert tracemalloc.get_traced_memory()[1] < BYTES_MAX
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", HTML_BOMBS)
def test_html_that_is_a_bomb_is_answered_in_time(name: str) -> None:
    seconds, answer = cost(lambda: answer_to(HTML_BOMBS[name], {}, html=True))
    assert seconds < SECONDS_MAX, answer
    assert not isinstance(answer, Rendered) or len(answer.content.html or "") < HTML_CHARS_MAX + 1_000


def test_a_loop_is_ended_by_time_where_its_steps_are_dear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("timebell.notify.templates.rendering.CPU_SECONDS_MAX", 0.0)
    answer = refusal_of(rendered("{% for i in a %}{{ i }}{% endfor %}", a=LIST))
    assert (answer.reason, "longer than" in answer.detail) == ("template_failed", True)


ESCAPES = [
    "{{ a.__class__ }}",
    "{{ a.__class__.__mro__[1].__subclasses__ }}",
    "{{ a['__class__'] }}",
    "{{ a.keys }}",
    "{{ a.items }}",
    "{{ a.format }}",
    "{{ b.__init__.__globals__ }}",
    "{{ b.upper }}",
    "{{ forloop.__class__ }}",
    "{% for i in c %}{{ forloop.it }}{% endfor %}",
    "{% for i in c %}{{ forloop.__class__ }}{% endfor %}",
    "{{ self }}",
    "{{ now }}",
    "{{ today }}",
    "{{ env }}",
    "{{ template.env.filters }}",
    "{{ config }}",
    "{{ partial }}",
    "{{ b | attr: '__class__' }}",
    "{{ b | map: '__class__' }}",
    "{{ c | map: '__class__' }}",
    "{{ c | where: '__class__', 1 }}",
    "{{ b | safe }}",
    "{{ b | escapejs }}",
    "{{ b | base64_decode }}",
    "{{ b | strip_html }}",
    "{{ b | date: '%n' }}",
    "{{ b | split: '' }}",
    "{{ b | slice: 0, 99999999 }}",
    "{{ b | truncatewords: 1 }}",
    "{{ b | json }}",
    "{% include 'x' %}",
    "{% render 'x' %}",
    "{% extends 'x' %}",
    "{% block x %}{% endblock %}",
    "{% macro x %}{% endmacro %}",
    "{% import os %}",
    "{% liquid assign x = 1 %}",
    "{% echo b %}",
    "{% capture x %}{% endcapture %}",
    "{% tablerow i in c %}{% endtablerow %}",
    "{% cycle 1, 2 %}",
    "{% increment x %}",
    "{% raw %}{{ b }}{% endraw %}",
    "{% layout 'x' %}",
    "{{ b() }}",
    "{{ b.upper() }}",
    "{{ ''.__class__ }}",
    "{{ [].__class__ }}",
    "{{ 7*7 }}",
    "{{ b if true else c }}",
    "{{ lambda: 1 }}",
    "{{ a[b][c] }}",
    "{{ a[c] }}",
    "{{ c['0'] }}",
    "{{ b[0] }}",
    "{{ a }}",
    "{{ c }}",
    "{% if a.__class__ %}x{% endif %}{{ a.__class__ }}",
    "{% assign x = a.__class__ %}{{ x }}",
    "{% break %}",
    "${b} #{b} <%= b %> {{{b}}}",
]


@pytest.mark.parametrize("body", ESCAPES)
def test_nothing_behind_the_values_can_be_reached(body: str) -> None:
    answer = answer_to(body, {"a": {"k": 1}, "b": "word", "c": [1, 2]})
    if isinstance(answer, Rendered):
        raise AssertionError(f"it was rendered as {answer.content.text!r}")
    assert "object at" not in str(answer)


@pytest.mark.parametrize("name", ["now", "today"])
def test_no_clock_is_behind_a_name_that_was_not_given(name: str) -> None:
    with pytest.raises(Missing, match=name):
        render_text(parse_text(f"{{{{ {name} }}}}"), {}, locale=Locale("en"), timezone="UTC")


def test_what_looks_like_another_language_of_templates_is_text() -> None:
    assert text_of(rendered("${b} #{b} <%= b %>", b="x")) == "${b} #{b} <%= b %>"
    assert text_of(rendered("{{ b }}", b="{{ b }}{% for %}")) == "{{ b }}{% for %}"


PAYLOADS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg/onload=alert(1)>',
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    "java\tscript:alert(1)",
    "&#106;avascript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "vbscript:msgbox(1)",
    "' onmouseover='alert(1)",
    "x onclick=alert(1)",
    "</style><script>alert(1)</script>",
    "<style>@import 'http://evil';</style>",
    "<a href='javascript:alert(1)'>x</a>",
    "<iframe src=//evil></iframe>",
    "<form action=//evil><input name=q></form>",
    "<base href=//evil>",
    "<meta http-equiv=refresh content='0;url=//evil'>",
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>",
    "expression(alert(1))",
    "url(javascript:alert(1))",
    "red; border: 1px solid url(http://evil/x.png)",
    "u\\72l(http://evil/x.png)",
    "//evil.example/x",
    "<b>bold</b>",
]
PLACES = [
    "<p>{{ v }}</p>",
    '<a href="{{ v }}">x</a>',
    "<a href='{{ v }}'>x</a>",
    "<a href={{ v }}>x</a>",
    '<img src="{{ v }}" alt="{{ v }}">',
    '<p style="color:{{ v }}">x</p>',
    "<p {{ v }}>x</p>",
    "<{{ v }}>x",
    "<style>p{color:{{ v }}}</style><p>x</p>",
    "<script>var x = '{{ v }}';</script><p>x</p>",
    "<p>{{ v | newline_to_br }} {{ v | upcase | downcase }} {{ v | append: v }} {{ v | escape }}</p>",
    "<!-- {{ v }} --><p>x</p>",
    "<title>{{ v }}</title><p>x</p>",
    "<textarea>{{ v }}</textarea><p>x</p>",
]


class _Dangers(HTMLParser):
    """Every tag, handler and link in a document that a mail must not have."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in {"script", "style", "iframe", "form", "input", "base", "svg", "math", "object", "link"}:
            self.found.append(tag)
        for name, value in attrs:
            if name.startswith("on"):
                self.found.append(name)
            if name in ("href", "src") and not (value or "").startswith(("http:", "https:", "mailto:")):
                self.found.append(f"{name}={value}")
            if name == "style" and ("url(" in (value or "") or "expression" in (value or "")):
                self.found.append(f"{name}={value}")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("payload", PAYLOADS)
def test_no_value_makes_a_mail_do_something(place: str, payload: str) -> None:
    answer = rendered(place, channel="email", html=True, v=payload)
    if isinstance(answer, Rendered):
        assert answer.content.html is not None
        assert _Dangers(answer.content.html).found == []


@pytest.mark.parametrize("payload", PAYLOADS)
def test_what_the_author_wrote_is_cleaned_too(payload: str) -> None:
    assert _Dangers(mail_parts(f"<p>x</p>{payload}", "en")[0]).found == []


@pytest.mark.req("A-4.3")
def test_a_name_with_tags_is_shown_as_it_is_written() -> None:
    answer = content_of(rendered("<p>Hi {{ name }}</p>", channel="email", html=True, name="<b>Bo</b> & Co"))
    assert "&lt;b&gt;Bo&lt;/b&gt; &amp; Co" in (answer.html or "")
    assert answer.text == "Hi <b>Bo</b> & Co"
    assert text_of(rendered("Hi {{ name }}", channel="email", name="<b>Bo</b> & Co")) == "Hi <b>Bo</b> & Co"


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200))
def test_whatever_a_value_is_the_mail_stays_harmless_and_says_it(value: str) -> None:
    answer = rendered(
        '<p title="{{ v }}">{{ v }}</p>', channel="email", subject="{{ v }}", html=True, v=value
    )
    if isinstance(answer, Unrendered):
        assert answer.reason in ("template_incomplete", "template_failed")
        return
    assert _Dangers(answer.content.html or "").found == []
    subject = answer.content.subject or ""
    assert "\r" not in subject
    assert "\n" not in subject
    (answer.content.text + subject + (answer.content.html or "")).encode()
    assert "\x00" not in answer.content.text


FRAGMENTS = st.sampled_from(
    [
        *(
            "{{ a }}",
            "{{ b.c }}",
            "{{ c[0] }}",
            "{{ c[a] }}",
            "{{ c.first.x }}",
            "{{ 'q' }}",
            "{{ 1.5 }}",
            "{{ nil }}",
        ),
        *(
            "{% if a %}",
            "{% elsif b %}",
            "{% else %}",
            "{% endif %}",
            "{% for i in c %}",
            "{% endfor %}",
            "{{ i }}",
        ),
        *("{% for i in b reversed %}", "{% for i in c limit: a offset: -1 %}", "{% break %}", "{% case a %}"),
        *(
            "{% when 1, 'x' or nil %}",
            "{% endcase %}",
            "{% assign a = c %}",
            "{% assign x = a | size %}",
            "{{ x }}",
        ),
        *(
            "{% unless a contains 'x' %}",
            "{% endunless %}",
            "{% comment %}",
            "{% endcomment %}",
            "{% # note %}",
        ),
        *(
            "{{ empty }}",
            "{{ blank }}",
            "{% if a == empty %}",
            "{{- a -}}",
            "{{ a | default: b | upcase }}",
            "{{ }}",
        ),
        *(
            "{{ a | date }}",
            "{{ c | join: b }}",
            "{{ b | currency: a }}",
            "{{ a | plus: c }}",
            "{{ a | time: 1, 2 }}",
        ),
        *(
            "{{ a | round: a, x: 1 }}",
            "{{ a[ }}",
            "{{ a. }}",
            "{{ a | }}",
            "{%",
            "}}",
            "{{",
            "%}",
            "\n",
            "x",
            "<b>",
        ),
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("cfx"), inner, max_size=2),
    max_leaves=6,
)


@settings(max_examples=600, deadline=None)
@given(
    st.lists(FRAGMENTS, max_size=12),
    st.fixed_dictionaries({"a": VALUES, "b": VALUES, "c": VALUES}),
    st.booleans(),
)
def test_whatever_a_template_says_it_is_rendered_or_refused(
    fragments: list[str], context: dict[str, Any], html: bool
) -> None:
    seconds, answer = cost(lambda: answer_to("".join(fragments), context | {"x": 1}, html=html))
    assert seconds < SECONDS_MAX
    if isinstance(answer, Rendered):
        assert "object at 0x" not in answer.content.text
        assert answer.content.text.strip()


@pytest.mark.parametrize(
    "body",
    [
        *(
            "{{ v | plus: 1 }}",
            "{{ v | date }}",
            "{{ v | time: v }}",
            "{{ 1 | currency: v }}",
            "{{ 1 | round: v }}",
        ),
        *("{{ '2026-01-01T00:00:00Z' | time: 'short', timezone: v }}", "{{ '2026-01-01' | date: v }}"),
        *("{{ w[v] }}", "{% for i in w %}{{ v.name }}{% endfor %}", "{{ v | truncate: v }}", "{{ w }}"),
    ],
)
def test_a_refusal_does_not_repeat_a_value(body: str) -> None:
    answer = refusal_of(rendered(body, v="+49 170 1234567", w={"k": "+49 170 1234567"}))
    assert "1234567" not in f"{answer.detail} {answer.names}"


def test_a_subject_stays_one_line() -> None:
    answer = rendered(
        "x", channel="email", subject="About {{ v }}", v="a\r\nBcc: b@example.com\x00\x85\u2028c"
    )
    assert content_of(answer).subject == "About a Bcc: b@example.com c"


def test_limits_of_a_channel_are_kept() -> None:
    for channel, body, said in (
        ("sms", "{{ v }}" + "a" * 1_600, "messages"),
        ("push", "{{ v }}" + "ä" * 1_600, "bytes"),
        ("whatsapp", "{{ v }}" + "a" * 4_200, "bytes"),
    ):
        answer = refusal_of(rendered(body, channel=channel, v="x"))  # type: ignore[arg-type]
        assert (answer.reason, said in answer.detail) == ("template_failed", True)
    long_subject = refusal_of(rendered("x", channel="email", subject="{{ v }}", v="a" * 300))
    assert "subject" in long_subject.detail


def test_a_text_that_comes_out_empty_is_not_sent() -> None:
    answer = refusal_of(rendered("{% if v == 'x' %}Hi{% endif %}", v="y"))
    assert (answer.reason, "empty" in answer.detail) == ("template_failed", True)


def test_nesting_is_bounded_by_what_the_cleaner_wrote() -> None:
    fine = "<style>p{color:red}</style>" + "<div>" * 90 + "<p>x</p>" + "</div>" * 90
    assert 'style="color:red"' in mail_parts(fine, "en")[0]
    with pytest.raises(MailTooLarge, match="nested deeper"):
        mail_parts("<style>p{color:red}</style>" + "<div>" * 101 + "x", "en")


def test_formatting_that_is_closed_is_no_bomb() -> None:
    line = '<li><b>Title</b> <i style="color:red">new</i> <font color=#aa0000>soon</font></li>'
    _, text = mail_parts(f"<ul>{line * 490}</ul>", "en")
    assert text.count("Title new soon") == 490


def test_styles_are_put_where_mail_programs_look_for_them() -> None:
    html, _ = mail_parts(
        "<html><head><title>T</title><style>.big{font-size:20px;position:fixed}@import url(http://e/x.css);</style>"
        '<link rel="stylesheet" href="http://e/y.css"></head><body><p class="big" id="x">Hi</p></body></html>',
        "de",
    )
    assert '<html lang="de">' in html
    assert html.count("<p ") == 1
    assert '<p style="font-size:20px">Hi</p>' in html
    for gone in ("class", "id=", "http://e", "<style", "position", "<title", "T<"):
        assert gone not in html


def test_the_text_part_says_what_the_html_says() -> None:
    _, text = mail_parts(
        "<h1>Your  booking</h1><p>Dear Ann,<br>see <a href='https://e.org/x'>the page</a> or "
        "<a href='mailto:a@e.org'>a@e.org</a>.</p><ul><li>one</li><li>two</li></ul><ol><li>first<li>second</ol>"
        "<table><tr><td>Total</td><td>5 €</td></tr></table><hr><p>Bye <img src='https://e.org/i.png' alt='logo'></p>",
        "en",
    )
    assert text == (
        "Your booking\n\nDear Ann,\nsee the page (https://e.org/x) or a@e.org.\n\n- one\n\n- two\n\n"
        "1. first\n\n2. second\n\nTotal 5 €\n\n---\n\nBye logo"
    )


def test_a_text_read_for_one_reader_serves_the_next() -> None:
    template = compiled(Text(channel="sms", language="en", body="Hi {{ recipient.name }}"))
    names = [text_of(template.render("sms", reader=Reader(name=name), context={})) for name in ("A", "B")]
    assert names == ["Hi A", "Hi B"]
