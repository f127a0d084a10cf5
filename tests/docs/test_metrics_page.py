"""The page of metrics lists every figure that is exported, and none that is not."""

from __future__ import annotations

import re

import pytest

from tests.shape.tree import ROOT

PAGE = (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
SOURCE = (ROOT / "src" / "timebell" / "web" / "metrics.py").read_text(encoding="utf-8")


def exported() -> set[str]:
    """The names as they are written on the page that Prometheus reads."""
    made = re.findall(r'_(counter|gauge|histogram)\(\s*"(\w+)"', SOURCE)
    return {f"{name}_total" if kind == "counter" else name for kind, name in made}


@pytest.mark.req("U-16")
def test_every_figure_is_told() -> None:
    told = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))
    section = PAGE.partition("## Under the names of the specification")[2].partition("## Alerts")[0]
    told |= set(re.findall(r"`(\w+)`", section))
    assert told == exported()
