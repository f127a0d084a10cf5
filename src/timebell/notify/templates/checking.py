"""Validation of templates before they are saved. Whatever would fail for one reader in one language is refused here, by
its name."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final, get_args

import orjson

from timebell.errors import InvalidTemplate
from timebell.kernel.models import check_name
from timebell.notify.models import MessageClass
from timebell.notify.provider import CHANNELS, Channel
from timebell.notify.rules.intents import KEY_MAX
from timebell.notify.rules.languages import checked_language
from timebell.notify.rules.recipient_checks import checked_topic
from timebell.notify.templates.models import (
    GIVEN,
    GIVEN_ROOTS,
    MissingPolicy,
    TemplateDraft,
    Text,
    Variable,
)
from timebell.notify.templates.rendering import UnreadableText, marks_of, parse_text

BODY_CHARS_MAX = 100_000
SUBJECT_CHARS_MAX = 500
TEMPLATE_CHARS_MAX = 400_000
# Reading a text takes time in proportion to what stands between its braces, not to what stands around them.
MARKED_CHARS_MAX = 30_000
TEXTS_MAX = 200
VARIABLES_MAX = 100
DEFAULT_BYTES_MAX = 4_000

# Which channels have a subject (the title of a push message or of a line in the inbox), and which have none.
SUBJECT_REQUIRED: Final[frozenset[Channel]] = frozenset({"email", "inbox", "push"})
SUBJECT_REFUSED: Final[frozenset[Channel]] = frozenset({"sms", "whatsapp"})

_KEY = re.compile(r"[a-z0-9][a-z0-9_.-]*")
_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


def checked_key(key: object) -> str:
    check_name("key", key, longest=KEY_MAX, required=True)
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise InvalidTemplate(
            f"{key!r:.60} is not a key; use small letters, digits, dots, dashes and underscores", field="key"
        )
    return key


def key_of(draft: TemplateDraft) -> str:
    if not isinstance(draft, TemplateDraft):
        raise InvalidTemplate(
            "must be a TemplateDraft; give TemplateDraft(key=..., texts=[...])", field="draft"
        )
    return checked_key(draft.key)


def checked_draft(draft: TemplateDraft) -> TemplateDraft:
    """The draft in its usual spelling, or a refusal that names the text and what to do about it."""
    key = key_of(draft)
    checked_topic(draft.topic)
    if draft.message_class not in get_args(MessageClass):
        raise InvalidTemplate("must be 'transactional' or 'marketing'", field="message_class")
    variables = _checked_variables(draft.variables)
    texts = _checked_texts(draft.texts)
    _check_variables_of(texts, variables)
    return replace(draft, texts=texts, variables=variables, topic=draft.topic or key)


def _checked_variables(variables: Sequence[Variable]) -> tuple[Variable, ...]:
    if len(variables) > VARIABLES_MAX:
        raise InvalidTemplate(
            f"{len(variables)} are declared; the limit is {VARIABLES_MAX}", field="variables"
        )
    seen: set[str] = set()
    for variable in variables:
        if not isinstance(variable, Variable):
            raise InvalidTemplate("must be a list of Variable; give [Variable(name=...)]", field="variables")
        field = f"variables[{str(variable.name)[:60]}]"
        check_name(field, variable.name, longest=100, required=True)
        if not _PATH.fullmatch(variable.name):
            raise InvalidTemplate("is not a name; write it like name or booking.location", field=field)
        if variable.name in seen:
            raise InvalidTemplate("is declared twice; declare it once", field=field)
        if variable.name.partition(".")[0] in GIVEN_ROOTS:
            raise InvalidTemplate(
                f"is always given; declare none of {', '.join(sorted(GIVEN_ROOTS))}", field=field
            )
        if variable.policy not in get_args(MissingPolicy):
            raise InvalidTemplate("policy must be 'required', 'default' or 'block'", field=field)
        _check_default(variable, field)
        seen.add(variable.name)
    return tuple(variables)


def _check_default(variable: Variable, field: str) -> None:
    if variable.policy != "default" and variable.default is not None:
        raise InvalidTemplate("has a default that would never be used; give policy='default'", field=field)
    try:
        encoded = orjson.dumps(variable.default)
    except (TypeError, orjson.JSONEncodeError):
        raise InvalidTemplate(
            "has a default that is no JSON; give a text, a number or null", field=field
        ) from None
    if len(encoded) > DEFAULT_BYTES_MAX:
        raise InvalidTemplate(
            f"has a default of more than {DEFAULT_BYTES_MAX} bytes; shorten it", field=field
        )


def name_of(text: Text) -> str:
    return f"texts[{text.channel}/{text.language}]"


def _checked_texts(texts: Sequence[Text]) -> tuple[Text, ...]:
    if not 0 < len(texts) <= TEXTS_MAX:
        raise InvalidTemplate(f"must have 1 to {TEXTS_MAX} texts, has {len(texts)}", field="texts")
    checked = tuple(map(_checked_text, texts))
    chars = sum(len(text.body) + len(text.subject or "") for text in checked)
    if chars > TEMPLATE_CHARS_MAX:
        raise InvalidTemplate(f"have {chars} characters; the limit is {TEMPLATE_CHARS_MAX}", field="texts")
    seen: set[str] = set()
    for text in checked:
        if name_of(text) in seen:
            raise InvalidTemplate(
                "is given twice; give one text for a channel and language", field=name_of(text)
            )
        seen.add(name_of(text))
    return checked


def _checked_text(text: object) -> Text:
    if not isinstance(text, Text) or text.channel not in CHANNELS:
        raise InvalidTemplate(f"must each be a Text on one of {', '.join(CHANNELS)}", field="texts")
    language = checked_language(text.language, f"texts[{text.channel}/{text.language!s:.40}].language")
    checked = replace(text, language=language)
    field = name_of(checked)
    check_name(f"{field}.body", text.body, longest=BODY_CHARS_MAX, required=True)
    check_name(f"{field}.subject", text.subject, longest=SUBJECT_CHARS_MAX)
    if text.format != "text" and (text.format, text.channel) != ("html", "email"):
        raise InvalidTemplate("format must be 'text', or 'html' for email", field=field)
    if text.subject is None and text.channel in SUBJECT_REQUIRED:
        raise InvalidTemplate(f"has no subject; {text.channel} needs one", field=field)
    if text.subject is not None and text.channel in SUBJECT_REFUSED:
        raise InvalidTemplate(f"has a subject; {text.channel} shows none, so say it in the body", field=field)
    return checked


def _check_variables_of(texts: Sequence[Text], variables: Sequence[Variable]) -> None:
    declared = {variable.name for variable in variables}
    _check_marked(texts)
    first_of: dict[Channel, tuple[Text, frozenset[str]]] = {}
    for text in texts:
        paths = paths_of(text)
        for path in sorted(paths):
            _check_path(path, declared, name_of(text))
        first, others = first_of.setdefault(text.channel, (text, paths))
        if paths != others:
            path = min(paths ^ others)
            user, other = (text, first) if path in paths else (first, text)
            raise InvalidTemplate(
                f"does not use {path}, which {name_of(user)} does; let every language say the same",
                field=name_of(other),
            )


def _check_marked(texts: Sequence[Text]) -> None:
    marked = 0
    for text in texts:
        try:
            marked += sum(map(len, marks_of(text.body))) + sum(map(len, marks_of(text.subject or "")))
        except UnreadableText as error:
            raise InvalidTemplate(str(error), field=name_of(text)) from None
    if marked > MARKED_CHARS_MAX:
        raise InvalidTemplate(
            f"have {marked} characters between braces; the limit is {MARKED_CHARS_MAX}, so divide the template",
            field="texts",
        )


def paths_of(text: Text) -> frozenset[str]:
    """The variables that a text speaks of."""
    try:
        body = parse_text(text.body, is_html=text.format == "html").paths
    except UnreadableText as error:
        raise InvalidTemplate(str(error), field=f"{name_of(text)}.body") from None
    try:
        return body | parse_text(text.subject or "").paths
    except UnreadableText as error:
        raise InvalidTemplate(str(error), field=f"{name_of(text)}.subject") from None


def _check_path(path: str, declared: set[str], field: str) -> None:
    if path in GIVEN or covering(path, declared) is not None:
        return
    if path.partition(".")[0] in GIVEN_ROOTS:
        raise InvalidTemplate(
            f"uses {path}; of what is given there are {', '.join(sorted(GIVEN))}", field=field
        )
    raise InvalidTemplate(f"uses {path}, which is not declared; add Variable(name={path!r})", field=field)


def covering(path: str, declared: Collection[str]) -> str | None:
    """The longest declared path that is this one or one that it lies under."""
    while path:
        if path in declared:
            return path
        path = path.rpartition(".")[0]
    return None
