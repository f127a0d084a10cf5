"""The dashboard for Grafana and the configuration for Prometheus: readable, and about figures that there are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tests.ops.figures import RABBITMQ, asked_for, names_on, page_of_a_node, unknown_to
from tests.ops.test_alerts import promtool, rules
from timebell.apps.scheduler import with_broker
from timebell.config import Settings
from timebell.testing.database import TestDatabase

OPS = Path(__file__).parents[2] / "ops"
SCRAPING = OPS / "prometheus.yml"
DASHBOARD: dict[str, Any] = json.loads((OPS / "grafana-scheduler.json").read_text(encoding="utf-8"))
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
# The metrics of RabbitMQ's exporter are on this port unless somebody moves them.
RABBITMQ_PORT = 15692


def expressions() -> Iterator[str]:
    """What the panels ask for. Grafana puts a stretch of time into the place of the variable."""
    for panel in PANELS:
        for target in panel.get("targets", ()):
            yield target["expr"].replace("$__rate_interval", "1m")


def test_prometheus_can_read_the_configuration_and_finds_the_rules() -> None:
    promtool("check", "config", str(SCRAPING))


def test_every_process_and_the_broker_are_read() -> None:
    text = SCRAPING.read_text(encoding="utf-8")
    ports = dict(re.findall(r"job_name: (\S+)\n(?:.*\n)*?.*targets: \[\"127\.0\.0\.1:(\d+)\"\]", text))
    assert ports == {
        "timebell-api": str(Settings().port),
        "timebell-nodes": "8081",
        "timebell-intake": "8082",
        "rabbitmq": str(RABBITMQ_PORT),
        "rabbitmq-queues": str(RABBITMQ_PORT),
    }
    assert {name for name in RABBITMQ if name.startswith("rabbitmq_detailed_")}, (
        "that is what the last is for"
    )


@pytest.mark.req("S-6.1")
async def test_the_panels_ask_only_for_figures_that_are_exported(database_url: TestDatabase) -> None:
    async with page_of_a_node(database_url) as page:
        assert unknown_to(names_on(page), expressions()) == set()


@pytest.mark.req("S-6.3")
def test_everything_that_the_scheduler_counts_is_on_the_dashboard() -> None:
    app = with_broker(None)
    suffix = {"counter": "_total", "histogram": "_bucket"}
    shown = {name for expression in expressions() for name in asked_for(expression)}
    counted = {f"{measure.name}{suffix[measure.sort]}" for measure in app.measures}
    assert counted | {gauge.name for gauge in app.gauges} <= shown


def test_prometheus_can_read_every_expression(tmp_path: Path) -> None:
    found = list(expressions())
    assert len(found) > 20
    lines = [
        f"      - {{record: 'panel_{number}', expr: {json.dumps(each)}}}" for number, each in enumerate(found)
    ]
    path = tmp_path / "rules.yml"
    path.write_text("\n".join(["groups:", "  - name: panels", "    rules:", *lines]) + "\n", encoding="utf-8")
    promtool("check", "rules", str(path))


def test_every_panel_says_what_it_shows() -> None:
    for panel in PANELS:
        assert panel["title"]
        if panel["type"] != "row":
            assert panel["description"].endswith("."), panel["title"]
            assert panel["targets"], panel["title"]
            assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    [variable] = DASHBOARD["templating"]["list"]
    assert (variable["name"], variable["type"]) == ("datasource", "datasource")


def test_no_panel_lies_on_another() -> None:
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    places = [panel["gridPos"] for panel in PANELS]
    for one, other in combinations(places, 2):
        is_beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        is_below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert is_beside or is_below, (one, other)
    assert all(place["x"] + place["w"] <= 24 for place in places)


def test_every_figure_of_the_broker_that_is_listed_is_asked_for() -> None:
    asked = {name for each in (*expressions(), *rules().values()) for name in asked_for(each)}
    assert asked >= RABBITMQ
