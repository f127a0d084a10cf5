"""Texts of the pages on which a proposal is answered, in every language that they speak."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

from babel import Locale, UnknownLocaleError
from babel.dates import format_date, format_time

from timebell.apps.meetings.models import Slot, Status
from timebell.rules.localtime import zone


@dataclass(frozen=True, slots=True, kw_only=True)
class PageTexts:
    """One language. `{who}`, `{zone}`, `{location}` and `{when}` are put in."""

    language: str
    proposal: str
    choose: str
    past: str
    accept: str
    reason: str
    deny: str
    accepted: str
    denied: str
    taken: str
    wrong: str
    expired_title: str
    expired: str
    broken_title: str
    broken: str
    own: str
    where: str
    available: str
    became: Mapping[Status, str]


_ENGLISH: Final = PageTexts(
    language="en",
    proposal="{who} proposes a meeting. Times are in {zone}.",
    choose="Which time suits you?",
    past="past",
    accept="Accept",
    reason="Why not? (You need not say.)",
    deny="Decline",
    accepted="You accepted. The meeting is on {when}.",
    denied="You declined.",
    taken="This time is not free any more for somebody who takes part. Choose another one, or decline.",
    wrong="Choose one of the times that are still to come, or decline.",
    expired_title="This link has expired",
    expired="All the times that were proposed have passed. Ask for new ones.",
    broken_title="This link does not work",
    broken="It may have been cut, or you do not take part any more. Follow it as the message has it.",
    own="You proposed this meeting. Somebody else who takes part answers.",
    where="Where: {location}",
    available="May be met",
    became={
        "accepted": "It was accepted already. The meeting is on {when}.",
        "denied": "It was declined already.",
        "rescheduled": "Other times were proposed instead. Answer the message about those.",
        "cancelled": "It was cancelled.",
        "completed": "It has taken place.",
    },
)
_GERMAN: Final = PageTexts(
    language="de",
    proposal="{who} schlägt einen Termin vor. Zeiten in {zone}.",
    choose="Welche Zeit passt Ihnen?",
    past="vorbei",
    accept="Annehmen",
    reason="Warum nicht? (Sie müssen es nicht sagen.)",
    deny="Ablehnen",
    accepted="Sie haben angenommen. Der Termin ist am {when}.",
    denied="Sie haben abgelehnt.",
    taken="Zu dieser Zeit ist jemand, der teilnimmt, nicht mehr frei. Wählen Sie eine andere, oder lehnen Sie ab.",
    wrong="Wählen Sie eine der Zeiten, die noch kommen, oder lehnen Sie ab.",
    expired_title="Dieser Link ist abgelaufen",
    expired="Alle vorgeschlagenen Zeiten sind vorbei. Bitten Sie um neue.",
    broken_title="Dieser Link geht nicht",
    broken="Vielleicht wurde er abgeschnitten, oder Sie nehmen nicht mehr teil. Öffnen Sie ihn so, wie er in der "
    "Nachricht steht.",
    own="Sie haben diesen Termin vorgeschlagen. Jemand anderes, der teilnimmt, antwortet.",
    where="Wo: {location}",
    available="Zeit für Termine",
    became={
        "accepted": "Er wurde schon angenommen. Der Termin ist am {when}.",
        "denied": "Er wurde schon abgelehnt.",
        "rescheduled": "Es wurden andere Zeiten vorgeschlagen. Antworten Sie auf die Nachricht dazu.",
        "cancelled": "Er wurde abgesagt.",
        "completed": "Er hat stattgefunden.",
    },
)
_ALL: Final = {texts.language: texts for texts in (_ENGLISH, _GERMAN)}


def texts_for(language: str) -> PageTexts:
    """Those in the language of a reader, else in English."""
    return _ALL.get(language.replace("_", "-").partition("-")[0].lower(), _ENGLISH)


def shown_slot(slot: Slot, *, timezone: str, language: str) -> str:
    """From when to when, on the clock of a reader and as that reader writes it."""
    there, locale = zone(timezone), _locale(language)
    start, end = slot.start.astimezone(there), slot.end.astimezone(there)
    until = _time(end, there, locale)
    if end.date() != start.date():
        until = f"{format_date(end, 'full', locale=locale)}, {until}"
    return f"{format_date(start, 'full', locale=locale)}, {_time(start, there, locale)} – {until}"


def _time(at: datetime, there: ZoneInfo, locale: Locale) -> str:
    return format_time(at, "short", tzinfo=there, locale=locale)


def _locale(language: str) -> Locale:
    """That of the reader where the page is in the same language, so that nobody reads two."""
    spoken = texts_for(language).language
    try:
        locale = Locale.parse(language.replace("_", "-"), sep="-")
    except (UnknownLocaleError, ValueError):
        return Locale(spoken)
    return locale if locale.language == spoken else Locale(spoken)
