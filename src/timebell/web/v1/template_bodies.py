"""Request and response bodies about templates."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field

from timebell.errors import InvalidInput, InvalidTemplate
from timebell.notify import Channel, Template, TemplateDraft, Text, Variable
from timebell.notify.templates.models import Preview, TemplateLine
from timebell.web.operation.fields import Input, Instant, Output
from timebell.web.v1.notification_bodies import Also, FirstOf, Key, Version

MessageClass = Literal["transactional", "marketing"]
MissingPolicy = Literal["required", "default", "block"]
TextFormat = Literal["text", "html"]
Language = Annotated[str, Field(min_length=2, max_length=20, examples=["de-AT"])]


class VariableInput(Input):
    """What the texts speak of, by its path in the context. `policy` says what a missing one does."""

    name: Annotated[str, Field(min_length=1, max_length=100, examples=["booking.location"])]
    policy: MissingPolicy = "required"
    default: Any = None


class TextInput(Input):
    """What is said on one channel in one language. Only mail may be HTML."""

    channel: Channel
    language: Language
    body: Annotated[str, Field(min_length=1, max_length=100_000)]
    subject: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    format: TextFormat = "text"


class TemplateInput(Input):
    """Every text of the template, in every language. The `topic` is what opt-outs speak of, the key if not given."""

    texts: Annotated[list[TextInput], Field(min_length=1, max_length=200)]
    variables: Annotated[list[VariableInput], Field(max_length=100)] = Field(default_factory=list)
    topic: Key | None = None
    message_class: MessageClass = "transactional"

    def draft(self, key: str) -> TemplateDraft:
        return TemplateDraft(
            key=key,
            texts=[Text(**each.model_dump()) for each in self.texts],
            variables=[Variable(**each.model_dump()) for each in self.variables],
            topic=self.topic,
            message_class=self.message_class,
        )

    @contextmanager
    def pointed_at(self, prefix: str = "") -> Iterator[None]:
        """What is refused is named inside by what it is, as `texts[sms/en].body`, and here by where it stands."""
        try:
            yield
        except InvalidInput as error:
            name = error.field or ""
            if name.partition("[")[0] not in type(self).model_fields:
                raise
            message = str(error).removeprefix(f"{name}: ")
            raise InvalidTemplate(message, field=f"{prefix}{self._place(name)}") from None

    def _place(self, name: str) -> str:
        texts = [f"texts[{each.channel}/{each.language}]" for each in self.texts]
        variables = [f"variables[{each.name[:60]}]" for each in self.variables]
        for kind, known in (("texts", texts), ("variables", variables)):
            for index, one in enumerate(known):
                if _folded(name).startswith(_folded(one)):
                    return f"{kind}[{index}]{name[len(one) :]}"
        return name


def _folded(name: str) -> str:
    """A language may be written in more than one way."""
    return name.lower().replace("_", "-")


class VersionQuery(Input):
    version: Annotated[int, Field(ge=1, le=2**31 - 1, strict=False)] | None = None


class VersionInput(Input):
    version: (
        Annotated[Version, Field(description="Null, or none: the current one, or what is shipped.")] | None
    ) = None


class ReaderInput(Input):
    language: Language = "en"
    timezone: Annotated[str, Field(min_length=1, max_length=100)] = "UTC"
    name: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    email: Annotated[str, Field(min_length=1, max_length=254)] | None = None
    phone: Annotated[str, Field(min_length=1, max_length=50)] | None = None


class PreviewInput(Input):
    """Which text, and for whom: a `recipient_id`, or a `reader` who need not exist. With a `draft` it is that which is
    shown, and nothing needs to be saved."""

    channel: Channel
    context: dict[str, Any] = Field(default_factory=dict)
    version: Version | None = None
    draft: TemplateInput | None = None
    recipient_id: UUID | None = None
    reader: ReaderInput | None = None


class TestSend(Input):
    recipient_id: UUID
    version: Version | None = None
    channels: FirstOf = "preferred"
    also: Also = Field(default_factory=list)
    context: dict[str, Any] = Field(default_factory=dict)


class VariableOutput(Output):
    name: str
    policy: MissingPolicy
    default: Any


class TextOutput(Output):
    channel: Channel
    language: str
    body: str
    subject: str | None
    format: TextFormat


class TemplateOutput(Output):
    """One version, which never changes."""

    key: str
    version: int
    topic: str
    message_class: MessageClass
    variables: list[VariableOutput]
    texts: list[TextOutput]
    is_shipped: bool
    is_locked: bool
    created_by: str | None
    created_at: Instant | None


class TemplateLineOutput(Output):
    """A version without its texts."""

    key: str
    version: int
    topic: str
    message_class: MessageClass
    is_shipped: bool
    is_locked: bool
    is_current: bool
    created_by: str | None
    created_at: Instant


class ChosenOutput(Output):
    key: str
    version: int


class MovedOutput(Output):
    """How many notifications that are still to be told took the version."""

    moved: int


class SmsOutput(Output):
    """What an SMS of it would take; `forcing` are the characters that forced the wider encoding."""

    encoding: Literal["gsm7", "ucs2"]
    units: int
    segments: int
    forcing: str


class UnrenderedOutput(Output):
    """Why there is nothing to show; `names` are the variables that are missing."""

    reason: Literal["template_missing", "template_incomplete", "template_failed"]
    detail: str
    names: list[str]


class PreviewOutput(Output):
    """A text as the reader would get it, or in `unrendered` why they would not."""

    channel: Channel
    language: str | None
    subject: str | None
    text: str | None
    html: str | None
    languages: list[str]
    variables: list[VariableOutput]
    sms: SmsOutput | None
    unrendered: UnrenderedOutput | None


def shown_template(template: Template) -> TemplateOutput:
    return TemplateOutput(
        **_values(
            template, "key", "version", "topic", "message_class", "is_shipped", "is_locked", "created_at"
        ),
        created_by=template.actor,
        variables=[VariableOutput.model_validate(each) for each in template.variables],
        texts=[
            TextOutput.model_validate(each)
            for each in sorted(template.texts, key=lambda text: (text.channel, text.language))
        ],
    )


def shown_line(line: TemplateLine) -> TemplateLineOutput:
    names = TemplateLineOutput.model_fields.keys() - {"created_by"}
    return TemplateLineOutput(**_values(line, *names), created_by=line.actor)


def _values(record: object, *names: str) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names}


def shown_preview(preview: Preview) -> PreviewOutput:
    rendered, missing = preview.rendered, preview.unrendered
    return PreviewOutput(
        channel=preview.channel,
        language=None if rendered is None else rendered.language,
        subject=None if rendered is None else rendered.content.subject,
        text=None if rendered is None else rendered.content.text,
        html=None if rendered is None else rendered.content.html,
        languages=list(preview.languages),
        variables=[VariableOutput.model_validate(each) for each in preview.variables],
        sms=None if preview.sms is None else SmsOutput.model_validate(preview.sms),
        unrendered=None
        if missing is None
        else UnrenderedOutput(reason=missing.reason, detail=missing.detail, names=list(missing.names)),
    )
