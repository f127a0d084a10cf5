"""The page of metrics lists every figure that is exported, and none that is not."""

from __future__ import annotations

import re

import pytest

from tests.shape.tree import ROOT
from timebell.apps.marketplace import APP as MARKETPLACE
from timebell.apps.scheduler import with_broker
from timebell.kernel import App

PAGE = (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
SOURCE = (ROOT / "src" / "timebell" / "web" / "server" / "metrics.py").read_text(encoding="utf-8")


def exported() -> set[str]:
    """The names as they are written on the page that Prometheus reads."""
    made = re.findall(r'_(counter|gauge|histogram)\(\s*"(\w+)"', SOURCE)
    return {f"{name}_total" if kind == "counter" else name for kind, name in made}


def of_the_scheduler() -> set[str]:
    return of_app(with_broker(None))


def of_app(app: App) -> set[str]:
    made = {f"{one.name}_total" if one.sort == "counter" else one.name for one in app.measures}
    return made | {gauge.name for gauge in app.gauges}


@pytest.mark.req("U-16")
def test_every_figure_is_told() -> None:
    told = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))
    section = PAGE.partition("## Under the names of the specification")[2].partition("## The scheduler")[0]
    told |= set(re.findall(r"`(\w+)`", section))
    assert told == exported() | of_the_scheduler() | of_app(MARKETPLACE)


def test_the_scheduler_s_own_figures_stand_in_its_section() -> None:
    section = PAGE.partition("## The scheduler")[2].partition("## The marketplace")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == of_the_scheduler()


def test_the_marketplace_s_own_figures_stand_in_its_section() -> None:
    section = PAGE.partition("## The marketplace")[2].partition("## Alerts")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == of_app(MARKETPLACE)
