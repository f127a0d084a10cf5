"""One version of a template, read and ready to be rendered for any reader on any channel."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from timebell.errors import TimebellError
from timebell.notify.provider import Channel, Content
from timebell.notify.rules.languages import chosen_language, locale_of
from timebell.notify.rules.sms_length import plain_spaces, sms_length
from timebell.notify.templates.checking import covering
from timebell.notify.templates.mail_html import MailTooLarge, mail_parts
from timebell.notify.templates.models import (
    Context,
    Reader,
    Rendered,
    Template,
    Text,
    Unrendered,
    Variable,
)
from timebell.notify.templates.rendering import (
    Failed,
    Missing,
    NotBrief,
    ParsedText,
    UnreadableText,
    parse_text,
    render_text,
)

SUBJECT_CHARS_MAX = 255
SMS_SEGMENTS_MAX = 10
MARK_WEIGHT = 200
# HTML up to here is made harmless and into text within three milliseconds, whatever it says.
BRIEF_HTML_CHARS = 2_000
# In bytes. A push message must fit one record of RFC 8291 with its keys around it; the rest is what providers take.
TEXT_BYTES_MAX: Final[Mapping[Channel, int]] = {
    "email": 200_000,
    "inbox": 20_000,
    "push": 3_000,
    "sms": 4_000,
    "webhook": 15_000,
    "whatsapp": 4_096,
}
# PostgreSQL stores no NUL and mail takes no other control character; lines and tabs are text.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parsed:
    """A text that has been read: the paths that it needs to be given, and the variables that may go by default.

    Shorter paths come first, so that what lies under a default is put into it.
    """

    body: ParsedText
    subject: ParsedText | None
    needed: tuple[str, ...]
    defaults: tuple[Variable, ...]


class CompiledTemplate:
    """Texts are read when they are first needed: a process meets few of a template's languages."""

    def __init__(self, template: Template) -> None:
        self.template = template
        self.chars = sum(map(_weight, template.texts))
        self._texts: dict[Channel, dict[str, Text]] = {}
        for text in template.texts:
            self._texts.setdefault(text.channel, {})[text.language] = text
        self._variables = {variable.name: variable for variable in template.variables}
        self._parsed: dict[tuple[Channel, str], _Parsed] = {}
        self._long: set[tuple[Channel, str]] = set()

    def languages(self, channel: Channel) -> tuple[str, ...]:
        return tuple(sorted(self._texts.get(channel, ())))

    def render(
        self,
        channel: Channel,
        *,
        reader: Reader,
        context: Context,
        default_language: str = "en",
        given: Mapping[str, Any] | None = None,
        is_brief: bool = False,
    ) -> Rendered | Unrendered:
        """What the reader gets on a channel, in the language that is nearest to theirs.

        `given` is what the delivery adds: `due_at`, `expires_at`, `unsubscribe_url`. What the context says under the
        names that are given is not seen. `is_brief`: it raises NotBrief where it may take longer than a turn of the
        loop, and at once where it did so before or was never read.
        """
        texts = self._texts.get(channel, {})
        language = chosen_language(reader.language, default_language, texts)
        if language is None:
            return Unrendered(
                reason="template_missing", detail=f"{self.template.key} has no text for {channel}"
            )
        text = texts[language]
        if is_brief and ((channel, language) not in self._parsed or (channel, language) in self._long):
            raise NotBrief
        try:
            parsed = self._read(text)
            # A blank is as good as none.
            missing = tuple(path for path in parsed.needed if _is_blank(_value_at(context, path)))
            if missing:
                return self._incomplete(missing)
            values = _values(parsed.defaults, reader, context, given or {})
            return self._rendered(text, parsed, reader, values, is_brief=is_brief)
        except NotBrief:
            self._long.add((channel, language))
            raise
        except Missing as absent:
            return self._incomplete((absent.name,))
        except (Failed, MailTooLarge, UnreadableText, TimebellError) as error:
            return Unrendered(reason="template_failed", detail=f"{channel}/{language}: {error}"[:500])

    def _read(self, text: Text) -> _Parsed:
        parsed = self._parsed.get((text.channel, text.language))
        if parsed is None:
            body = parse_text(text.body, is_html=text.format == "html")
            subject = None if text.subject is None else parse_text(text.subject)
            paths = sorted(body.paths | (subject.paths if subject else frozenset()))
            used = {path: variable for path in paths if (variable := self._policy_of(path)) is not None}
            defaults = {each.name: each for each in used.values() if each.policy == "default"}
            parsed = self._parsed[text.channel, text.language] = _Parsed(
                body=body,
                subject=subject,
                needed=tuple(path for path, each in used.items() if each.policy != "default"),
                defaults=tuple(defaults[name] for name in sorted(defaults)),
            )
        return parsed

    def _policy_of(self, path: str) -> Variable | None:
        name = covering(path, self._variables.keys())
        return None if name is None else self._variables[name]

    def _incomplete(self, names: tuple[str, ...]) -> Unrendered:
        variables = [self._policy_of(name) for name in names]
        return Unrendered(
            reason="template_incomplete",
            detail=f"{', '.join(names)} of {self.template.key} was not given",
            names=names,
            is_final=any(variable is not None and variable.policy == "block" for variable in variables),
        )

    def _rendered(
        self,
        text: Text,
        parsed: _Parsed,
        reader: Reader,
        values: Mapping[str, object],
        *,
        is_brief: bool,
    ) -> Rendered:
        render = partial(
            render_text,
            values=values,
            locale=locale_of(reader.language, text.language),
            timezone=reader.timezone,
            is_brief=is_brief,
        )
        body = _CONTROL.sub("", render(parsed.body))
        subject = html = None
        if parsed.subject is not None:
            subject = " ".join(_CONTROL.sub(" ", render(parsed.subject)).split())
        if text.format == "html":
            if is_brief and len(body) > BRIEF_HTML_CHARS:
                raise NotBrief
            html, body = mail_parts(body, text.language)
        if text.channel == "sms":
            body = plain_spaces(body)
        content = Content(text=body.strip(), subject=subject, html=html)
        _check_limits(text.channel, content)
        return Rendered(content=content, language=text.language)


def _weight(text: Text) -> int:
    """What a text takes in memory once it was read, in characters: a mark makes several objects."""
    whole = text.body + (text.subject or "")
    return len(whole) + MARK_WEIGHT * (whole.count("{{") + whole.count("{%"))


def _values(
    defaults: Sequence[Variable], reader: Reader, context: Context, given: Mapping[str, Any]
) -> Mapping[str, object]:
    values: dict[str, Any] = dict(context)
    for variable in defaults:
        if _is_blank(_value_at(context, variable.name)):
            _put(values, variable.name, variable.default)
    values |= {name: given.get(name) for name in ("due_at", "expires_at", "unsubscribe_url")}
    values["recipient"] = {
        "email": reader.email,
        "language": reader.language,
        "name": reader.name,
        "phone": reader.phone,
        "timezone": reader.timezone,
    }
    return values


def _check_limits(channel: Channel, content: Content) -> None:
    if not content.text or content.subject == "":
        raise Failed("the text or its subject came out empty")
    if content.subject is not None and len(content.subject) > SUBJECT_CHARS_MAX:
        raise Failed(f"the subject has {len(content.subject)} characters; the limit is {SUBJECT_CHARS_MAX}")
    size = len(content.text.encode()) + len((content.subject or "").encode())
    if size > TEXT_BYTES_MAX[channel]:
        raise Failed(f"the text has {size} bytes; {channel} takes {TEXT_BYTES_MAX[channel]}")
    if channel == "sms" and (segments := sms_length(content.text).segments) > SMS_SEGMENTS_MAX:
        raise Failed(f"the text takes {segments} messages; the limit is {SMS_SEGMENTS_MAX}")


def _value_at(values: Context, path: str) -> object:
    found: object = values
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _is_blank(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _put(values: dict[str, Any], path: str, value: object) -> None:
    """Put a default where it belongs. The mappings on the way are copied: the caller's context is the caller's."""
    *way, last = path.split(".")
    for name in way:
        under = values.get(name)
        values[name] = dict(under) if isinstance(under, Mapping) else {}
        values = values[name]
    values[last] = value
