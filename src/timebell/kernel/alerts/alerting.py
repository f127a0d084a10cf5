"""Alert rules as values, each with its question: what an app brings so that somebody hears of what needs a person."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal
from uuid import UUID

from timebell.db.pool import Session
from timebell.errors import ConfigurationError
from timebell.kernel.models import NAME_MAX, check_name
from timebell.rules.alerting import Bounds

if TYPE_CHECKING:
    from timebell.kernel.bell import Timebell

Severity = Literal["critical", "warning"]
DETAIL_MAX: Final = 1_000
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,99}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a question found: a figure, how many samples it comes of, and in words what it is.

    One with a tenant is that tenant's. One without is about the installation, and for those who run it.
    """

    value: float
    detail: str
    samples: int = 1
    tenant: str | None = None
    subject: str = ""

    def __post_init__(self) -> None:
        check_name("tenant", self.tenant)
        check_subject(self.subject)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a question is asked with. The session only reads, and gives up after a few seconds.

    `window` is that of the rule. A question that may find much answers in the order of tenant and subject (`COLLATE
    "C"`), with at most `limit` findings, those behind `after`.
    """

    bell: Timebell
    session: Session
    window: timedelta
    limit: int
    after: tuple[str, str] | None = None


# None where it cannot be said here: what stands is left as it is.
Question = Callable[[Asked], Awaitable[Sequence[Finding] | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRule:
    """Of what operators hear, when, and what they do then.

    `about` says in a sentence what is wrong, and `remedy` what to do. The `question` is asked again and again; its
    findings open and close alerts, one for each tenant and subject, as `bounds` says. A rule without a question is for
    what an app knows by itself: it opens the alert in its own transaction (`Alerts.open`), and whoever acknowledges it
    closes it.
    """

    name: str
    severity: Severity
    about: str
    remedy: str
    question: Question | None = None
    bounds: Bounds = field(default_factory=Bounds)
    window: timedelta = timedelta(minutes=15)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigurationError(
                f"alert {self.name!r}: use lower case letters, digits and underscores, a letter first"
            )
        if self.severity not in ("critical", "warning"):
            raise ConfigurationError(f"alert {self.name!r}: severity must be 'critical' or 'warning'")
        if not self.about or not self.remedy:
            raise ConfigurationError(f"alert {self.name!r}: say what is wrong, and what to do about it")


@dataclass(frozen=True, slots=True, kw_only=True)
class BroughtRule:
    """A rule, and the name of the app that brings it."""

    app: str
    rule: AlertRule


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertLine:
    """One alert, open or closed."""

    id: UUID
    rule: str
    severity: Severity
    app: str
    subject: str | None
    detail: str
    opened_at: datetime
    closed_at: datetime | None
    acknowledged_by: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertNews:
    """What operators have yet to hear of: that an alert opened or, where it is not `is_opening`, that it has closed.
    `about` and `remedy` are those of its rule, and empty where nobody here brings it."""

    id: UUID
    tenant: str
    rule: str
    severity: Severity
    subject: str
    detail: str
    is_of_engine: bool
    is_opening: bool
    about: str = ""
    remedy: str = ""

    @property
    def is_critical(self) -> bool:
        return self.severity == "critical"


def check_subject(subject: object) -> None:
    """An alert need not be about anything in particular."""
    if subject != "":
        check_name("subject", subject, longest=NAME_MAX, required=True)


def shortened(detail: str) -> str:
    """What is too long to be told is cut, and what cannot be stored is left out: an alert must not fail over its own
    words, many of which are those of others."""
    detail = detail.replace("\0", "").encode("utf-8", "replace").decode()
    return detail if len(detail) <= DETAIL_MAX else f"{detail[: DETAIL_MAX - 1]}…"
