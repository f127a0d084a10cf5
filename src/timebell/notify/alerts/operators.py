"""Operators are told of alerts on their channels: once that one opened, and once that a critical one has closed.

They are recipients of the tenant `default`, named by the setting `operations_recipients`. What they are told is a
notification like any other, written in the transaction in which it is noted that they were told.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final
from uuid import UUID

from timebell.db.failures import REFUSED_ERRORS
from timebell.errors import TimebellError
from timebell.kernel import Timebell, Transaction
from timebell.kernel.alerts import AlertNews
from timebell.logs import Logger
from timebell.notify.models import Route, Tell
from timebell.notify.service import Notify
from timebell.notify.templates.models import TemplateDraft, Text, Variable

log = Logger("timebell.notify")

ALERT: Final = "timebell.alert"
# What stands in the inbox is there whatever becomes of the rest.
_ROUTE: Final = Route(first="preferred", also=("inbox",))
# So many at once are told one by one; more than that are told of in one.
_SINGLE_MAX: Final = 5
_LISTED_MAX: Final = 20
_DETAIL_CHARS_MAX: Final = 300

_SHORT: Final = "{{ heading }}"
_LONG: Final = "{{ heading }}\n\n{{ text }}"
DRAFT: Final = TemplateDraft(
    key=ALERT,
    topic="alerts",
    texts=(
        Text(channel="inbox", language="en", subject=_SHORT, body="{{ text }}"),
        Text(channel="email", language="en", subject=_SHORT, body=_LONG),
        Text(channel="sms", language="en", body=_SHORT),
        Text(channel="push", language="en", subject=_SHORT, body="{{ text }}"),
    ),
    variables=(Variable(name="heading"), Variable(name="text")),
)


async def tell_operators(bell: Timebell, tx: Transaction, news: Sequence[AlertNews]) -> None:
    """Tell each of them. One who cannot be told, since there is no such recipient any more, keeps nobody else from
    being told; where that is all of them it fails, and is tried again."""
    notify = bell.shared.one(Notify)
    # An operator may replace it by a text of their own.
    await notify.templates.ship(tx, DRAFT)
    recipients = [UUID(id) for id in bell.settings.operations_recipients]
    failures: dict[UUID, Exception] = {}
    for recipient in recipients:
        try:
            async with tx.all_or_nothing():
                await notify.tell_many(tx, list(_tells(recipient, news)))
        except (TimebellError, *REFUSED_ERRORS) as error:
            failures[recipient] = error
    if failures and len(failures) == len(recipients):
        raise failures[recipients[0]]
    for recipient, failure in failures.items():
        log.error("an operator cannot be told of alerts", recipient=str(recipient), exc_info=failure)


def _tells(recipient: UUID, news: Sequence[AlertNews]) -> Iterator[Tell]:
    if len(news) <= _SINGLE_MAX:
        for each in news:
            yield _tell(recipient, [each], _heading(each), _text(each))
        return
    count = sum(each.is_critical for each in news)
    heading = f"{len(news)} alerts, {count} of them critical"
    lines = [_heading(each) for each in news[:_LISTED_MAX]]
    if len(news) > _LISTED_MAX:
        lines.append(f"and {len(news) - _LISTED_MAX} more")
    yield _tell(recipient, news, heading, "\n".join([*lines, "", "timebell alerts lists them."]))


def _tell(recipient: UUID, news: Sequence[AlertNews], heading: str, text: str) -> Tell:
    first = news[0]
    what = "opened" if first.is_opening else "closed"
    return Tell(
        recipient=recipient,
        template=ALERT,
        context={"heading": heading, "text": text},
        channels=_ROUTE,
        urgency="critical" if any(each.is_critical for each in news) else "normal",
        subject=f"alert:{first.id}",
        key=f"alert:{first.id}:{what}:{recipient}",
    )


def _heading(news: AlertNews) -> str:
    if not news.is_opening:
        return f"Closed: {news.rule}"
    about = f" ({news.subject})" if news.subject else ""
    return f"{'Critical' if news.is_critical else 'Warning'}: {news.rule}{about}"


def _text(news: AlertNews) -> str:
    tenant = [] if news.is_of_engine else [f"Tenant: {news.tenant}"]
    said = news.detail[:_DETAIL_CHARS_MAX]
    if not news.is_opening:
        return "\n".join([f"It is as it should be again. {news.about}".strip(), *tenant, said])
    remedy = [f"What to do: {news.remedy}"] if news.remedy else []
    see = f"timebell alerts acknowledge {news.id}"
    if news.tenant != "default":
        see += f" --tenant {news.tenant}"
    return "\n".join([news.about or news.rule, said, *tenant, *remedy, f"To say that you see to it: {see}"])
