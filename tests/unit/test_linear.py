"""What strangers send is read in time that grows with its length and not faster, whatever it is made of.

Every parser of such input has a line here. Each is given its worst letters, so many of them and ten times as many; ten
times the length may take twenty-five times as long, which leaves room for a busy machine and none for a square.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import parse_qsl
from uuid import UUID

import pytest
from pydantic import ValidationError
from starlette.requests import Request

from timebell.apps.meetings.downloading import check_feed_url
from timebell.apps.meetings.page_texts import texts_for
from timebell.errors import TimebellError
from timebell.kernel.events.following import EventPlace
from timebell.kernel.jobs.enqueueing import encode_payload
from timebell.kernel.models import check_kind, check_name
from timebell.kernel.paging import decode_cursor
from timebell.logs import without_passwords
from timebell.notify.people.addresses import checked_email, checked_phone, checked_value, push_address
from timebell.notify.provider import Content, Parcel
from timebell.notify.rules.languages import checked_language, locale_of
from timebell.notify.rules.recipient_checks import checked_quiet_hours, checked_timezone
from timebell.notify.rules.sms_length import plain_spaces, sms_length
from timebell.notify.templates.checking import checked_draft
from timebell.notify.templates.mail_html import MailTooLarge, mail_parts
from timebell.notify.templates.models import TemplateDraft, Text, Variable
from timebell.notify.templates.rendering import Failed, Missing, UnreadableText, parse_text, render_text
from timebell.providers.http import Reply, retry_after
from timebell.providers.lines import one_line
from timebell.providers.mail import build_mail, read_address
from timebell.providers.reports import instant, parse, uuid
from timebell.providers.safe_http import check_url
from timebell.providers.smtp_replies import answer_to_reply
from timebell.providers.standard_webhooks import read_secret, verify
from timebell.rules.cron import parse_cron
from timebell.rules.every import parse_every, read_duration
from timebell.rules.ics_reading import read_calendar
from timebell.rules.localtime import zone
from timebell.rules.rrule import parse_rule
from timebell.rules.signing import Signer
from timebell.web.operation.bodies import check_json
from timebell.web.operation.calls import Call
from timebell.web.operation.fields import read_duration_text, read_instant, read_local, read_offset
from timebell.web.operation.replies import check_key
from timebell.web.server.correlation import correlation_of

LENGTH: Final = 10_000
LONGER: Final = 10
RATIO_MAX: Final = 25
# What is quicker than this is quick enough, and too short to be compared.
SECONDS_FLOOR: Final = 0.05
REFUSALS: Final = (TimebellError, ValueError, ValidationError, UnreadableText, Failed, Missing, MailTooLarge)
NOW: Final = datetime(2026, 11, 15, 9, 30, tzinfo=UTC)

# What each is given besides its own: letters that regular expressions and splitting stumble over.
EVERYWHERE: Final = ("a", "1", " ", "a.", "/", "a@", "=", ";", ",", '"', "\\", "\n", "é")

Parser = Callable[[str], object]


def calendar(text: str) -> object:
    return read_calendar(f"BEGIN:VCALENDAR\n{text}\nEND:VCALENDAR")


def calendar_line(name: str) -> Parser:
    return lambda text: calendar(
        f"BEGIN:VEVENT\nUID:1\nDTSTART;TZID=Europe/Berlin:20270302T090000\nDURATION:PT1H\n{name}{text}\nEND:VEVENT"
    )


def calendar_zone(text: str) -> object:
    return calendar(f"BEGIN:VEVENT\nDTSTART;TZID={text}:20270302T090000\nDURATION:PT1H\nEND:VEVENT")


def request(text: bytes = b"", **headers: str) -> Request:
    named = {"content-type": "application/json", **headers}
    raw = [(name.encode(), value.encode("utf-8")) for name, value in named.items()]
    return Request({"type": "http", "method": "POST", "path": "/", "query_string": text, "headers": raw})


def json_body(text: str) -> None:
    check_json(request(), text.encode())


def revision(text: str) -> object:
    call = Call.__new__(Call)
    call.headers = {"if-match": text}
    return call.if_revision


def rendered(source: str, values: Mapping[str, object] | None = None) -> object:
    return render_text(parse_text(source), values or {"a": "b"}, locale=locale_of("en", "en"), timezone="UTC")


def filtered(text: str) -> object:
    marks = "{{ a | upcase | strip | replace: 'a', 'bb' | truncate: 50 | url_encode }}{{ a | escape | size }}"
    return rendered(marks, {"a": text})


def draft(text: str) -> object:
    texts = [Text(channel="sms", language="en", body=text)]
    return checked_draft(TemplateDraft(key="k", texts=texts, variables=[Variable(name="a")]))


def reply(text: str) -> object:
    return retry_after(Reply(status=429, headers={"retry-after": text, "date": text}, body=b""))


def signed(text: str) -> object:
    headers = {"webhook-id": "1", "webhook-timestamp": str(int(NOW.timestamp())), "webhook-signature": text}
    return verify(headers, text.encode(), secrets=[b"a" * 24], now=NOW)


def mailed(text: str) -> object:
    content = Content(text=text, subject=text, html=text)
    parcel = Parcel(
        delivery_id=UUID(int=1),
        tenant="a",
        key="k",
        channel="email",
        address="ann@example.org",
        content=content,
        recipient_name=text,
    )
    return build_mail(parcel, sender="bell@example.org")


def pushed(text: str) -> object:
    return push_address({"endpoint": f"https://{text}", "keys": {"p256dh": text, "auth": text}})


PARSERS: Final[Mapping[str, tuple[Parser, tuple[str, ...]]]] = {
    "calendar": (calendar, ("BEGIN:VEVENT\nEND:VEVENT\n", "BEGIN:X\n", "\n x", ";", ":", "DTSTART;A=B")),
    "calendar: timezone": (calendar_zone, ("/", "a/", "Europe/")),
    "calendar: parameters": (calendar_line("EXDATE"), (";A=B", ';A="b', ";A", ";A=b;TZID=c")),
    "calendar: dates": (calendar_line("RDATE:"), ("20270302T090000,", "20270302,", "/,")),
    "calendar: recurrence": (calendar_line("RRULE:"), ("FREQ=DAILY;", "BYDAY=MO,")),
    "calendar: name": (calendar_line(""), ("RRULE:FREQ=DAILY\n", "RECURRENCE-ID:20270302T090000Z\n")),
    "calendar: busy": (
        lambda text: calendar(f"BEGIN:VFREEBUSY\nFREEBUSY:{text}\nEND:VFREEBUSY"),
        ("20270302T090000Z/PT1H,", "/", ","),
    ),
    "RRULE": (parse_rule, ("FREQ=DAILY;", "BYMONTH=1,", "A=B;")),
    "cron": (parse_cron, ("* ", "*/", "1,", "1-")),
    "every": (parse_every, ("PT1S", "P1Y", "P1")),
    "duration": (read_duration, ("PT1S", "P1")),
    "duration over HTTP": (read_duration_text, ("PT1S",)),
    "offset": (read_offset, ("-", "-PT1S")),
    "instant": (read_instant, ("2026-03-29T10:00:00Z", "2026-03-29T10:00:00.1")),
    "local time": (read_local, ("2026-03-29T10:00",)),
    "timezone": (zone, ("Europe/",)),
    "timezone of a person": (checked_timezone, ("Europe/",)),
    "quiet hours": (
        lambda text: checked_quiet_hours({"start": text, "end": text, "days": [text]}),
        ("22:00",),
    ),
    "cursor": (lambda text: decode_cursor("jobs", text), ("e30",)),
    "place in a stream": (EventPlace.read, ("1.", "0")),
    "kind": (check_kind, ("a.a", "a_")),
    "name": (lambda text: check_name("name", text), ()),
    "payload": (lambda text: encode_payload({"a": text}, 10_000_000), ("\\u0000"[:-1], "\\\\u0000")),
    "phone": (checked_phone, ("+49", "+", "+1 ", "tel:+", ";ext=", "x1", "\uff11")),
    "email": (checked_email, ("a@b.", '"a', "a.", "xn--", "a@[")),
    "email of an envelope": (lambda text: read_address(text, field="address"), ('"', "a@[")),
    "address to call": (lambda text: checked_value("webhook", f"https://{text}"), ("[", "a:", "#")),
    "push subscription": (pushed, ("_",)),
    "URL": (check_url, ("https://", "https://a:", "https://[", "https://é.", "https://a%")),
    "URL of a calendar": (check_feed_url, ("webcal://", "https://xn--")),
    "webhook secret": (read_secret, ("whsec_",)),
    "webhook signature": (signed, ("v1,a ", "v1,")),
    "token": (Signer("s" * 32, "test").read, ("a.", "_")),
    "idempotency key": (check_key, ('""',)),
    "language": (checked_language, ("de-", "de-AT")),
    "Accept-Language": (texts_for, ("de,", "de;q=0.1,")),
    "If-Match": (revision, ("W/", '"rev-', "9")),
    "correlation id": (
        lambda text: correlation_of({"type": "http", "headers": [(b"x-request-id", text.encode())]}),
        (),
    ),
    "query": (lambda text: request(text.encode()).query_params.multi_items(), ("&", "a=", "a&", "%41")),
    "form": (parse_qsl, ("&", "a=", ";", "%41")),
    "JSON: bare": (json_body, ("[", "{", "{}", "[],", '"a":', "1.", "1e", "9", '{"a":')),
    "JSON: list": (
        lambda text: json_body(f"[{text}0]"),
        ("1,", '"",', "[],", "{},", "1.5,", '"\\u0041",', "null,"),
    ),
    "JSON: number": (lambda text: json_body(f'{{"a": 1{text}}}'), ("0.", "e1", ".1", "0")),
    "JSON: fraction": (lambda text: json_body(f'{{"a": 0.{text}1}}'), ("0", "9")),
    "JSON: text": (lambda text: json_body(f'{{"a": "{text}"}}'), ('\\"', "\\\\", "\\u0041", "[", "\\ud800")),
    "JSON: names": (lambda text: json_body("{" + text + '"z":0}'), ('"a":0,',)),
    "SMS": (lambda text: sms_length(plain_spaces(text)), ("€", "😀", "\u00a0")),
    # Marks are read and rendered in some milliseconds for a hundred of them, so there are few of these here.
    "Liquid": (parse_text, ("{{a}}", "{{", "{%", "{{ 'a", "{%-", "{%if a%}")),
    "Liquid: rendered": (rendered, ("{%if a%}b{%endif%}",)),
    "Liquid: filtered": (filtered, ("<", "&", "€", "a b")),
    "template": (draft, ("{{a}}", "{{b}}", "{% comment %}", "{{ a | default: 'b' }}")),
    "HTML": (
        lambda text: mail_parts(text, "en"),
        (
            *(
                "<p>",
                "<b>",
                "<b><p>",
                "<a href='https://a.example'>",
                "</p>",
                "<table>",
                "<style>",
                "<style>p{}</style>",
            ),
            *(
                "<!--",
                "&amp;",
                "&",
                "<p style='",
                "<p style='color:rgb(1,1,1)'>",
                "<b a=b ",
                "<b\n",
                " \n",
                "\u00a0\n",
            ),
            *("<li>", "<ol>", "<img alt='a'>", '<p title="', "<br>"),
        ),
    ),
    "HTML: styles": (
        lambda text: mail_parts(f"<style>{text}</style><p class='a'>b</p>", "en"),
        ("p{color:red}", "p,", "p>", "p{", "p{a:b;", "/*", "@media{", "p:not(", "a[b='"),
    ),
    "HTML: style of an element": (
        lambda text: mail_parts(f'<p style="{text}">b</p>', "en"),
        ("rgb(", "color:red;", "rgb(1", "a:b;"),
    ),
    "line": (one_line, ("\u2028", "\x00")),
    "mail": (mailed, ("=?utf-8?q?", ".\n", "From ", "\r\n")),
    "reply of a mail server": (
        lambda text: answer_to_reply("recipient", 550, text),
        ("5.1.1 ", "a@b ", "a@"),
    ),
    "report: JSON": (lambda text: parse(text.encode()), ("[", "{", "1", '"')),
    "report: instant": (instant, ("2026-03-29T10:00:00Z", "0")),
    "report: id": (uuid, ("{", "urn:uuid:", "-")),
    "Retry-After": (reply, ("1 ", "Mon, ", "(", "Mon, 1 Jan 2026 ", ":", "+0")),
    "password in a log": (without_passwords, ("a://", "a://b:", "a.a", "a+", "a://b:c")),
}


def seconds(parser: Parser, text: str) -> float:
    began = time.thread_time()
    with suppress(*REFUSALS):
        parser(text)
    return time.thread_time() - began


def superlinear(parser: Parser, unit: str) -> Iterator[str]:
    """What it takes, where that is out of proportion. What is near the limit is measured again."""
    short, long = (unit * (length // len(unit)) for length in (LENGTH, LENGTH * LONGER))
    taken = ratio = 0.0
    for _ in range(3):
        taken = seconds(parser, long)
        if taken < SECONDS_FLOOR:
            return
        ratio = taken / max(seconds(parser, short), SECONDS_FLOOR / RATIO_MAX)
        if ratio <= RATIO_MAX:
            return
    yield f"{unit!r}: {taken:.3f} s, {ratio:.0f} times as long"


@pytest.mark.parametrize("name", PARSERS)
def test_time_grows_with_the_length_and_not_faster(name: str) -> None:
    parser, own = PARSERS[name]
    assert [each for unit in (*own, *EVERYWHERE) for each in superlinear(parser, unit)] == []


def test_a_square_is_seen() -> None:
    """What this file looks for, it finds. It is walked by hand: copying alone is below the floor on a fast machine."""

    def tails(text: str) -> Any:
        return sum(1 for begin in range(0, len(text), 200) for _ in text[begin:])

    assert list(superlinear(tails, "a"))
