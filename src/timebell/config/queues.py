"""Settings of queues: limits that go before those that the apps bring."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from timebell.config.rules import Shown, insist, number, refusals, ruled, rules_of, text
from timebell.errors import ConfigurationError

QUEUES_MAX: Final = 1_000
_PROBLEMS_MAX: Final = 20
_UNLIMITED: Final = "none"
_REMEDIES: Final = {
    "rate": "did you mean rate_per_second?",
    "paused": "a pause is no setting; use `timebell queues pause`",
}


def _limit(low: float, high: float, unit: str, about: str, *, whole: bool = False) -> Any:
    """A number, or the word for no limit at all: a file cannot say nothing of what an app has limited."""
    rule = number(None, low, high, unit, about, whole=whole).metadata["rule"]

    def check(value: Any) -> object:
        return value if value == _UNLIMITED else rule.check(value)

    return ruled(None, about=about, allowed=f'{rule.allowed}, or "{_UNLIMITED}"', check=check, unit=unit)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """The limits of one queue over all nodes together. What is None stays as the app that brings the queue has it."""

    name: str = text(
        r"[a-z][a-z0-9_.-]{0,199}",
        "1 to 200 small letters, digits, dots, hyphens and underscores, beginning with a letter",
        "The queue.",
        is_required=True,
    )
    rate_per_second: float | Literal["none"] | None = _limit(
        0.001, 100_000, "starts a second", "Starts in a second at most."
    )
    burst: int | None = number(
        None, 1, 100_000, "starts", "Starts at once at most, after a while without any.", whole=True
    )
    concurrency: int | Literal["none"] | None = _limit(
        1, 100_000, "jobs", "Jobs at once at most.", whole=True
    )

    def __post_init__(self) -> None:
        problems = list(refusals(self, prefix=f"queues.{self.name!s:.40}."))
        if problems:
            raise ConfigurationError("\n".join(problems))

    def shown(self) -> dict[str, Shown]:
        """Everything that is set."""
        values = {name: getattr(self, name) for name in rules_of(QueueSettings)}
        return {name: value for name, value in values.items() if value is not None}


_FIELDS: Final = tuple(name for name in rules_of(QueueSettings) if name != "name")


def queue_tables(about: str) -> Any:
    """The setting that has them: records, or tables by the names of their queues."""

    def check(value: Any) -> tuple[QueueSettings, ...]:
        insist(isinstance(value, Mapping | list | tuple) and len(value) <= QUEUES_MAX)
        if not isinstance(value, Mapping):
            insist(all(isinstance(each, QueueSettings) for each in value))
            insist(len({each.name for each in value}) == len(value))
            return tuple(value)
        read, problems = [], []
        for name, table in value.items():
            unfit = list(_unfit(name, table))
            problems += unfit
            try:
                read += [] if unfit else [QueueSettings(name=name, **table)]
            except ConfigurationError as error:
                problems += str(error).splitlines()
        if problems:
            raise ConfigurationError("\n".join(problems[:_PROBLEMS_MAX]))
        return tuple(read)

    return ruled(
        (),
        about=about,
        allowed=f"0 to {QUEUES_MAX} tables, each the limits of one queue by its name",
        check=check,
        from_text=json.loads,
        mask=lambda queues: tuple(each.shown() for each in queues),
    )


def _unfit(name: str, table: Any) -> Iterator[str]:
    where = f"queues.{name:.40}"
    if not isinstance(table, Mapping):
        yield f"{where}: is not a table; write [queues.{name:.40}] above its limits"
        return
    for field in table:
        if field in _FIELDS:
            continue
        if isinstance(table[field], Mapping):
            yield f'{where}.{field:.40}: is a table; put a name with a dot in quotes: [queues."{name:.40}.{field:.40}"]'
            continue
        nearest = difflib.get_close_matches(field, _FIELDS, n=1, cutoff=0.0)[0]
        yield f"{where}.{field:.40}: is no limit of a queue; " + _REMEDIES.get(
            field, f"did you mean {nearest}?"
        )
