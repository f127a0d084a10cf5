"""The alert rules: readable for Prometheus, right on their thresholds, and about figures that there are."""

from __future__ import annotations

import asyncio
import re
import subprocess
from pathlib import Path

import pytest

from tests.packages import need_program
from timebell.kernel.tallies import Tallies
from timebell.web.metrics import Metrics

ROOT = Path(__file__).parents[2]
RULES = ROOT / "ops" / "alerts.yml"


def promtool(*arguments: str) -> None:
    done = subprocess.run([need_program("promtool"), *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def _checked(page: bytes) -> str:
    done = subprocess.run(
        [need_program("promtool"), "check", "metrics"], input=page, capture_output=True, timeout=60
    )
    return done.stdout.decode() + done.stderr.decode()


def test_prometheus_can_read_the_rules() -> None:
    promtool("check", "rules", str(RULES))


@pytest.mark.req("J-12.2", "J-12.3", "J-13.5", "A-9.1")
def test_each_threshold_is_borne_and_one_more_is_not() -> None:
    promtool("test", "rules", str(Path(__file__).with_name("alerts_test.yml")))


@pytest.mark.req("U-16")
async def test_the_rules_ask_only_for_figures_that_are_exported() -> None:
    exported = set(re.findall(r'"(timebell_\w+)"', (ROOT / "src/timebell/web/metrics.py").read_text()))
    exported |= {f"{name}_total" for name in exported}
    expressions = re.findall(r"expr: (.*?)\n +(?:for|labels):", RULES.read_text(), re.DOTALL)
    asked = set(re.findall(r"timebell_\w+", " ".join(expressions)))
    assert len(expressions) == RULES.read_text().count("- alert:")
    assert asked
    assert asked <= exported, asked - exported


async def test_prometheus_finds_nothing_to_object_to_in_the_page() -> None:
    """But for the names that the specification gives, which promtool would spell otherwise."""
    tallies = Tallies()
    tallies.told("email", "smtp", "sent", 0.25)
    tallies.queues["mail"].lateness.note(0.1)
    page = await Metrics(tallies=tallies).text()
    complaints = await asyncio.to_thread(_checked, page)
    assert [line for line in complaints.splitlines() if not line.startswith("latency_ms")] == []
