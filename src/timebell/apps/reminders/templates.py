"""The template of reminders: what each one says. It is shipped, and every tenant may replace it by its own."""

from __future__ import annotations

from typing import Final

from timebell.kernel import Timebell
from timebell.notify import Notify, TemplateDraft, Text, Variable

TEMPLATE: Final = "reminders.reminder"

_WHEN = "{% if is_now %}Now{% else %}In {{ lead.count }} {{ lead.unit }}{% endif %}"
_AT = "{{ occurs_at | datetime }}"

REMINDER: Final = TemplateDraft(
    key=TEMPLATE,
    topic="reminders",
    texts=(
        Text(channel="inbox", language="en", subject="{{ title }}", body=_WHEN),
        Text(
            channel="email",
            language="en",
            subject="{{ title }}",
            body=f"Dear {{{{ recipient.name }}}},\n\n{{{{ title }}}}\n{_WHEN}: {_AT}\n",
        ),
        Text(channel="push", language="en", subject="{{ title }}", body=f"{_WHEN}: {_AT}"),
        Text(channel="sms", language="en", body=f"{{{{ title }}}}: {_WHEN}, {_AT}"),
        Text(channel="whatsapp", language="en", body=f"{{{{ title }}}}: {_WHEN}, {_AT}"),
        Text(channel="webhook", language="en", body=f"{{{{ title }}}}: {_WHEN}"),
    ),
    variables=(
        Variable(name="title"),
        Variable(name="is_now", policy="default", default=False),
        Variable(name="lead"),
        Variable(name="occurs_at"),
    ),
)


async def ship(bell: Timebell) -> None:
    """Have this version's texts be the current ones of every tenant that has none of its own."""
    async with bell.transaction() as tx:
        await bell.shared.one(Notify).templates.ship_all(tx, [REMINDER])
