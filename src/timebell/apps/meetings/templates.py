"""Templates: what people are told about meetings. They are shipped, and every tenant may replace them by its own.

An instant is shown as the reader's clock has it, and each text says which clock that is.
"""

from __future__ import annotations

from typing import Final

from timebell.kernel import Timebell
from timebell.notify import Notify, TemplateDraft, Text, Variable

PROPOSED: Final = "meetings.proposed"
ACCEPTED: Final = "meetings.accepted"
DENIED: Final = "meetings.denied"
RESCHEDULED: Final = "meetings.rescheduled"
CANCELLED: Final = "meetings.cancelled"
REMINDER: Final = "meetings.reminder"
ADDED: Final = "meetings.added"
REMOVED: Final = "meetings.removed"

_TOPIC: Final = "meetings"
_ZONE = "({{ recipient.timezone }})"
_AT = f"{{{{ starts_at | datetime }}}} {_ZONE}"
_SPAN = f"{{{{ starts_at | datetime }}}} – {{{{ ends_at | time }}}} {_ZONE}"
_SLOTS = "{% for slot in slots %}- {{ slot.start | datetime }} – {{ slot.end | time }}\n{% endfor %}" + _ZONE
_PLACE = {
    "en": "{% if location %}\nWhere: {{ location }}{% endif %}",
    "de": "{% if location %}\nWo: {{ location }}{% endif %}",
}
_REASON = {
    "en": "{% if reason %}\nReason: {{ reason }}{% endif %}",
    "de": "{% if reason %}\nGrund: {{ reason }}{% endif %}",
}
_ANSWER = {
    "en": "{% if answer_url %}\n\nAnswer here: {{ answer_url }}{% endif %}",
    "de": "{% if answer_url %}\n\nHier antworten: {{ answer_url }}{% endif %}",
}
_LEAD = {
    "en": "{{ lead.count }} {{ lead.unit }}{% if lead.count != 1 %}s{% endif %}",
    "de": '{{ lead.count }} {% if lead.unit == "hour" %}Stunde{% else %}Minute{% endif %}'
    "{% if lead.count != 1 %}n{% endif %}",
}
_DEAR = {"en": "Dear {{ recipient.name }},", "de": "Guten Tag {{ recipient.name }},"}

_VARIABLES: Final = (
    Variable(name="title"),
    Variable(name="who", policy="default", default=None),
    Variable(name="starts_at", policy="default", default=None),
    Variable(name="ends_at", policy="default", default=None),
    Variable(name="slots", policy="default", default=[]),
    Variable(name="location", policy="default", default=None),
    Variable(name="reason", policy="default", default=None),
    Variable(name="answer_url", policy="default", default=None),
    Variable(name="lead", policy="default", default=None),
)


def _texts(language: str, *, subject: str, line: str, letter: str) -> tuple[Text, ...]:
    """The same on every channel: a line where there is little room, a letter in a mail."""
    body = f"{_DEAR[language]}\n\n{letter}\n"
    return (
        Text(channel="inbox", language=language, subject=subject, body=line),
        Text(channel="email", language=language, subject=subject, body=body),
        Text(channel="push", language=language, subject=subject, body=line),
        Text(channel="sms", language=language, body=f"{subject}. {line}"),
        Text(channel="whatsapp", language=language, body=f"{subject}. {line}"),
        Text(channel="webhook", language=language, body=f"{subject}. {line}"),
    )


def _draft(key: str, *texts: tuple[Text, ...]) -> TemplateDraft:
    return TemplateDraft(
        key=key, topic=_TOPIC, texts=tuple(text for each in texts for text in each), variables=_VARIABLES
    )


_ON = "{% if starts_at %}" + _SPAN + "{% else %}" + _SLOTS + "{% endif %}"
_FIRST = f"{{{{ slots[0].start | datetime }}}} {_ZONE}"

DRAFTS: Final = (
    _draft(
        PROPOSED,
        _texts(
            "en",
            subject="Meeting proposed: {{ title }}",
            line=f"{{{{ who }}}} proposes {_FIRST}{{% if slots.size > 1 %}} and other times{{% endif %}}.",
            letter=f"{{{{ who }}}} proposes a meeting: {{{{ title }}}}\n{_SLOTS}{_PLACE['en']}{_ANSWER['en']}",
        ),
        _texts(
            "de",
            subject="Terminvorschlag: {{ title }}",
            line=f"{{{{ who }}}} schlägt {_FIRST}{{% if slots.size > 1 %}} und andere Zeiten{{% endif %}} vor.",
            letter=f"{{{{ who }}}} schlägt einen Termin vor: {{{{ title }}}}\n"
            f"{_SLOTS}{_PLACE['de']}{_ANSWER['de']}",
        ),
    ),
    _draft(
        ACCEPTED,
        _texts(
            "en",
            subject="Meeting accepted: {{ title }}",
            line=f"{{{{ who }}}} accepted {_SPAN}.",
            letter=f"{{{{ who }}}} accepted the meeting: {{{{ title }}}}\n{_SPAN}{_PLACE['en']}",
        ),
        _texts(
            "de",
            subject="Termin angenommen: {{ title }}",
            line=f"{{{{ who }}}} hat {_SPAN} angenommen.",
            letter=f"{{{{ who }}}} hat den Termin angenommen: {{{{ title }}}}\n{_SPAN}{_PLACE['de']}",
        ),
    ),
    _draft(
        DENIED,
        _texts(
            "en",
            subject="Meeting denied: {{ title }}",
            line="{{ who }} denied the meeting.{% if reason %} {{ reason }}{% endif %}",
            letter=f"{{{{ who }}}} denied the meeting: {{{{ title }}}}{_REASON['en']}",
        ),
        _texts(
            "de",
            subject="Termin abgelehnt: {{ title }}",
            line="{{ who }} hat den Termin abgelehnt.{% if reason %} {{ reason }}{% endif %}",
            letter=f"{{{{ who }}}} hat den Termin abgelehnt: {{{{ title }}}}{_REASON['de']}",
        ),
    ),
    _draft(
        RESCHEDULED,
        _texts(
            "en",
            subject="Meeting to be moved: {{ title }}",
            line=f"{{{{ who }}}} proposes {_FIRST}{{% if slots.size > 1 %}} and other times{{% endif %}} instead.",
            letter=f"{{{{ who }}}} wants to move the meeting: {{{{ title }}}}\nNew times:\n"
            f"{_SLOTS}{_PLACE['en']}{_REASON['en']}{_ANSWER['en']}",
        ),
        _texts(
            "de",
            subject="Termin wird verlegt: {{ title }}",
            line=f"{{{{ who }}}} schlägt stattdessen {_FIRST}"
            "{% if slots.size > 1 %} und andere Zeiten{% endif %} vor.",
            letter=f"{{{{ who }}}} möchte den Termin verlegen: {{{{ title }}}}\nNeue Zeiten:\n"
            f"{_SLOTS}{_PLACE['de']}{_REASON['de']}{_ANSWER['de']}",
        ),
    ),
    _draft(
        CANCELLED,
        _texts(
            "en",
            subject="Meeting cancelled: {{ title }}",
            line=f"{{% if starts_at %}}{_SPAN}: it{{% else %}}It{{% endif %}} does not take place."
            "{% if reason %} {{ reason }}{% endif %}",
            letter=f"The meeting does not take place: {{{{ title }}}}\n{_ON}{_REASON['en']}",
        ),
        _texts(
            "de",
            subject="Termin abgesagt: {{ title }}",
            line=f"{{% if starts_at %}}{_SPAN}: er{{% else %}}Er{{% endif %}} findet nicht statt."
            "{% if reason %} {{ reason }}{% endif %}",
            letter=f"Der Termin findet nicht statt: {{{{ title }}}}\n{_ON}{_REASON['de']}",
        ),
    ),
    _draft(
        REMINDER,
        _texts(
            "en",
            subject="{{ title }}",
            line=f"In {_LEAD['en']}: {_AT}",
            letter=f"{{{{ title }}}}\nIn {_LEAD['en']}: {_SPAN}{_PLACE['en']}",
        ),
        _texts(
            "de",
            subject="{{ title }}",
            line=f"In {_LEAD['de']}: {_AT}",
            letter=f"{{{{ title }}}}\nIn {_LEAD['de']}: {_SPAN}{_PLACE['de']}",
        ),
    ),
    _draft(
        ADDED,
        _texts(
            "en",
            subject="You take part in a meeting: {{ title }}",
            line="{{ who }} added you." + f"{{% if starts_at %}} {_SPAN}{{% endif %}}",
            letter=f"{{{{ who }}}} added you to the meeting: {{{{ title }}}}\n"
            f"{_ON}{_PLACE['en']}{_ANSWER['en']}",
        ),
        _texts(
            "de",
            subject="Sie nehmen an einem Termin teil: {{ title }}",
            line="{{ who }} hat Sie hinzugefügt." + f"{{% if starts_at %}} {_SPAN}{{% endif %}}",
            letter=f"{{{{ who }}}} hat Sie zu dem Termin hinzugefügt: {{{{ title }}}}\n"
            f"{_ON}{_PLACE['de']}{_ANSWER['de']}",
        ),
    ),
    _draft(
        REMOVED,
        _texts(
            "en",
            subject="You no longer take part: {{ title }}",
            line=f"{{% if starts_at %}}{_SPAN}: it{{% else %}}It{{% endif %}} takes place without you.",
            letter=f"The meeting takes place without you: {{{{ title }}}}\n{_ON}",
        ),
        _texts(
            "de",
            subject="Sie nehmen nicht mehr teil: {{ title }}",
            line=f"{{% if starts_at %}}{_SPAN}: er{{% else %}}Er{{% endif %}} findet ohne Sie statt.",
            letter=f"Der Termin findet ohne Sie statt: {{{{ title }}}}\n{_ON}",
        ),
    ),
)


async def ship(bell: Timebell) -> None:
    """Have this version's texts be the current ones of every tenant that has none of its own."""
    notify = bell.shared.one(Notify)
    async with bell.transaction() as tx:
        await notify.templates.ship_all(tx, DRAFTS)
