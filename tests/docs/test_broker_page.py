"""The page about running with a broker has the names and the numbers that the code has."""

from __future__ import annotations

import re

import click

from tests.shape.tree import ROOT
from timebell.apps.scheduler.app import QUEUE
from timebell.apps.scheduler.intake import BATCH, PREFETCH
from timebell.brokers.app import QUEUE as PUBLISHING
from timebell.brokers.rabbitmq.link import PAUSE_SECONDS_MAX, PAUSE_SECONDS_MIN
from timebell.cli.program import program

PAGE = (ROOT / "docs" / "howto" / "broker.md").read_text(encoding="utf-8")
RULES = (ROOT / "ops" / "alerts.yml").read_text(encoding="utf-8")


def test_every_alert_about_messages_is_listed_with_its_severity() -> None:
    rules = RULES.partition("- name: timebell-messages-critical")[2]
    severities = re.findall(r"- alert: (\w+)\n(?:.*\n)*? +labels: {severity: (\w+)}", rules)
    assert re.findall(r"^\| `(\w+)` \| [^|]* \| (\w+) \|$", PAGE, re.MULTILINE) == severities


def test_every_role_is_a_command_and_the_queues_are_those_of_the_apps() -> None:
    roles = re.findall(r"^\| `timebell (\w+)` \|", PAGE, re.MULTILINE)
    assert {*roles} == {"up", "consume", "work", "serve"}
    assert {*roles} <= {*program.list_commands(click.Context(program))}
    assert f"--queues {QUEUE},{PUBLISHING}" in PAGE


def test_the_numbers_are_those_of_the_code() -> None:
    assert f"up to {BATCH} messages" in PAGE
    assert f"up to {PREFETCH:,} messages at hand" in PAGE
    assert (PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX) == (0.2, 5.0), "a fifth of a second, and five"
