"""The alert rules: readable for Prometheus, right on their thresholds, and about figures that there are."""

from __future__ import annotations

import asyncio
import re
import subprocess
from pathlib import Path

import pytest

from tests.ops.figures import asked_for, names_on, page_of_a_node, unknown_to
from tests.packages import need_program
from timebell.engine.watch.own_alerts import OWN_RULES
from timebell.kernel.tallies import Tallies
from timebell.notify.alerts.alert_rules import RULES as RULES_OF_NOTIFY
from timebell.testing.database import TestDatabase
from timebell.web.server.metrics import Metrics

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


def rules() -> dict[str, str]:
    """The expression of each alert."""
    found = re.findall(
        r"- alert: (\w+)\n +expr: ((?:.*\n)+?)(?: +for: \w+\n)? +labels: {severity: (?:critical|warning)}\n"
        r' +annotations:\n +summary: ".+"\n +remedy: ".+"\n',
        RULES.read_text(encoding="utf-8"),
    )
    return dict(found)


def test_prometheus_can_read_the_rules() -> None:
    promtool("check", "rules", str(RULES))


@pytest.mark.req("J-12.2", "J-12.3", "J-13.5", "A-9.1", "S-6.1")
def test_each_threshold_is_borne_and_one_more_is_not() -> None:
    promtool("test", "rules", str(Path(__file__).with_name("alerts_test.yml")))


def test_every_alert_says_what_to_do() -> None:
    assert len(rules()) == RULES.read_text(encoding="utf-8").count("- alert:")


def test_every_alert_about_messages_is_tried() -> None:
    _, groups, about_messages = RULES.read_text(encoding="utf-8").partition(
        "- name: timebell-messages-critical"
    )
    assert groups
    tried = Path(__file__).with_name("alerts_test.yml").read_text(encoding="utf-8")
    names = re.findall(r"- alert: (\w+)", about_messages)
    assert len(names) == 11
    assert [name for name in names if name not in tried] == []


# What Prometheus computes by itself under the name that the engine's own rule has.
TWINS = frozenset(rule.name for rule in (*OWN_RULES, *RULES_OF_NOTIFY)) - {
    "alert_question_fails",
    "clock_off",
    "disk_fills",
    "planner_is_behind",
    "schedule_missed",
    "somebody_not_told",
}


def test_prometheus_has_the_same_alerts_under_the_same_names() -> None:
    """What has no twin there is passed on from Timebell, and nothing is told twice."""
    text = RULES.read_text(encoding="utf-8")
    for name in TWINS:
        assert "Timebell" + "".join(part.capitalize() for part in name.split("_")) in rules(), name
    passed_on = re.findall(r'rule!~"([a-z_|]+)"', text)
    assert [set(names.split("|")) for names in passed_on] == [TWINS, TWINS]


@pytest.mark.req("U-16", "S-6.1")
async def test_the_rules_ask_only_for_figures_that_are_exported(database_url: TestDatabase) -> None:
    async with page_of_a_node(database_url) as page:
        assert unknown_to(names_on(page), rules().values()) == set()


async def test_prometheus_finds_nothing_to_object_to_in_the_page() -> None:
    """But for the names that the specification gives, which promtool would spell otherwise."""
    tallies = Tallies()
    tallies.told("email", "smtp", "sent", 0.25)
    tallies.queues["mail"].lateness.note(0.1)
    page = await Metrics(tallies=tallies).text()
    complaints = await asyncio.to_thread(_checked, page)
    assert [line for line in complaints.splitlines() if not line.startswith("latency_ms")] == []


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ('max by (queue) (a{queue=~"b|c"}) > 0 and sum(rate(d_total[5m])) == 0', {"a", "d_total"}),
        ("min_over_time(max(a)[1m:15s]) > bool 3e2 or vector(0)", {"a"}),
        ("sum(a) / on (x) group_left (y) b unless a offset 15m", {"a", "b"}),
        ('histogram_quantile(0.99, sum by (le) (rate(a_bucket{b="\\"c"}[$__rate_interval])))', {"a_bucket"}),
    ],
)
def test_the_names_in_an_expression(expression: str, names: set[str]) -> None:
    assert asked_for(expression) == names
