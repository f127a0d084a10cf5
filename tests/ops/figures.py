"""Which figures an expression of Prometheus asks for, and which there are."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from timebell.apps.scheduler import with_broker
from timebell.db.pool import Database
from timebell.kernel.insights.insights import Insights
from timebell.notify import notify_app
from timebell.providers.log import captured_providers
from timebell.testing import harness
from timebell.testing.database import TestDatabase
from timebell.web.server.figures import FigureReader
from timebell.web.server.metrics import Metrics

# What the exporter of RabbitMQ has on its two pages, as a broker with the plugin says; test_operating.py compares.
RABBITMQ = frozenset(Path(__file__).with_name("rabbitmq_figures.txt").read_text(encoding="utf-8").split())
# What Prometheus makes by itself of every target.
PROMETHEUS = frozenset({"up"})

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_LABELS = re.compile(r"\{[^}]*\}|\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)")
_RANGE = re.compile(r"\[[^\]]*\]|\boffset\s+\w+")
_NAME = re.compile(r"(?<![\w.$])[a-zA-Z_]\w*(?!\w|\s*\()")
_WORDS = frozenset({"and", "or", "unless", "bool"})


def asked_for(expression: str) -> set[str]:
    """The names of figures in an expression: no functions, no labels, no words of the language."""
    text = _STRING.sub('""', expression)
    for part in (_LABELS, _RANGE):
        text = part.sub(" ", text)
    return set(_NAME.findall(text)) - _WORDS


def names_on(page: str) -> set[str]:
    """The names of the samples that a page may have, also of figures that have none yet."""
    found: set[str] = set()
    for family in text_string_to_metric_families(page):
        match family.type:
            case "counter":
                found.add(f"{family.name.removesuffix('_total')}_total")
            case "histogram":
                found |= {f"{family.name}_{part}" for part in ("bucket", "sum", "count")}
            case _:
                found.add(family.name)
    return found


@asynccontextmanager
async def page_of_a_node(database: TestDatabase) -> AsyncIterator[str]:
    """What a node with the scheduler exports, read as Prometheus reads it."""
    apps = [with_broker(None), notify_app(captured_providers())]
    reader = await Database.open(database.read_url, size=2)
    try:
        async with harness(database.url, apps) as h:
            metrics = Metrics(
                tallies=h.bell.tallies,
                engine=h.engine,
                apps=h.bell.registry.apps,
                holds=h.bell.holds,
                figures=FigureReader(Insights(reader, h.clock), h.clock),
            )
            yield (await metrics.text()).decode()
    finally:
        await reader.close()


def unknown_to(exported: Iterable[str], expressions: Iterable[str]) -> set[str]:
    known = {*exported, *RABBITMQ, *PROMETHEUS}
    return {name for expression in expressions for name in asked_for(expression)} - known
