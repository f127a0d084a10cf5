"""Bars: the thresholds that a bench has to reach. A bar is set on figures that say the same on a busy machine as on a
quiet one: processor time, and how many times as fast as something else under the same work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One figure of a result, by the names that lead to it, and what it may be at least or at most."""

    figure: tuple[str, ...]
    at_least: float | None = None
    at_most: float | None = None

    def beside(self, result: Mapping[str, Any]) -> dict[str, Any]:
        value: Any = result
        for name in self.figure:
            value = value[name]
        is_met = None
        if value is not None:
            is_met = (self.at_least is None or value >= self.at_least) and (
                self.at_most is None or value <= self.at_most
            )
        limit = {"at_least": self.at_least} if self.at_most is None else {"at_most": self.at_most}
        return {"figure": ".".join(self.figure), "value": value, **limit, "is_met": is_met}


_IN_TIME: Final = tuple(
    Bar(figure=(f"late_{who}", "max_ms"), at_most=2_000) for who in ("own", "others", "reminders")
)
# Set at about twice of what it takes today, or for a ratio at what was promised; for runs of the default size.
BARS: Final[Mapping[str, Sequence[Bar]]] = {
    # A thousand a second, of a machine that has nothing else to do: neither side may be what is missing for them. And
    # nothing else is late by two seconds.
    "digests": (
        Bar(figure=("timebell", "per_s"), at_least=1_000),
        Bar(figure=("timebell", "client_us"), at_most=270),
        Bar(figure=("timebell", "server_us"), at_most=470),
        *_IN_TIME,
    ),
    "digests_and_mails": _IN_TIME,
    # Three thousand a second: neither side may be what is missing for them, also where bookings come alone.
    "enrol": (
        Bar(figure=("timebell", "per_s"), at_least=3_000),
        Bar(figure=("timebell", "client_us"), at_most=120),
        Bar(figure=("timebell", "server_us"), at_most=70),
        Bar(figure=("one_by_one", "client_us"), at_most=333),
        Bar(figure=("one_by_one", "server_us"), at_most=333),
    ),
    "http": (
        Bar(figure=("processor_ratio",), at_least=2),
        Bar(figure=("bulk", "client_us"), at_most=45),
        Bar(figure=("bulk", "server_us"), at_most=35),
    ),
    "intake": (Bar(figure=("ratio",), at_least=0.5),),
    "publish": (
        Bar(figure=("ratio",), at_least=0.5),
        # Promised of a machine that has nothing else to do.
        Bar(figure=("late", "p50_ms"), at_most=5),
        Bar(figure=("late", "p99_ms"), at_most=25),
    ),
    # Five thousand a second: neither side may be what is missing for them.
    "plan": (
        Bar(figure=("a_day_each", "client_us"), at_most=200),
        Bar(figure=("a_day_each", "server_us"), at_most=200),
    ),
    "suggest": (
        Bar(figure=("timebell", "client_us"), at_most=6_000),
        Bar(figure=("timebell", "server_us"), at_most=3_500),
    ),
}


def beside_bars(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each bar of this bench, with the figure beside it. Where the system does not tell, nothing is met or missed."""
    return [bar.beside(result) for bar in BARS.get(result["bench"], ())]


def missed(result: Mapping[str, Any]) -> list[str]:
    """The bars that were missed, as somebody is told."""
    return [
        f"{bar['figure']} is {bar['value']}, the bar is at "
        + (f"least {bar['at_least']:g}" if "at_least" in bar else f"most {bar['at_most']:g}")
        for bar in result.get("bars", ())
        if bar["is_met"] is False
    ]
