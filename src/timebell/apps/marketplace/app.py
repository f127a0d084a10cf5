"""The app, as a process loads it."""

from __future__ import annotations

from itertools import chain
from types import ModuleType
from typing import Any, Final

from timebell.apps.marketplace import people, pruning
from timebell.apps.marketplace.disputes import parts as dispute_parts
from timebell.apps.marketplace.insurance import parts as insurance_parts
from timebell.apps.marketplace.payments import parts as money_parts
from timebell.apps.marketplace.payments import weekly_parts
from timebell.apps.marketplace.payments.building import opened
from timebell.apps.marketplace.searches import parts as search_parts
from timebell.apps.marketplace.shifts import parts as shift_parts
from timebell.apps.marketplace.texts import ship
from timebell.apps.marketplace.tokens import parts as token_parts
from timebell.kernel import App, Queue

QUEUE: Final = "marketplace"

# Each room says in its `parts` what it brings, as far as it has them: HANDLERS, QUEUES, GUARDS, CONTEXTS, MEASURES,
# GAUGES and ALERTS.
_PARTS: Final[tuple[ModuleType, ...]] = (
    money_parts,
    weekly_parts,
    shift_parts,
    dispute_parts,
    insurance_parts,
    search_parts,
    token_parts,
    people,
)


def _mapped(name: str) -> dict[str, Any]:
    return {key: value for part in _PARTS for key, value in getattr(part, name, {}).items()}


def _listed(name: str) -> list[Any]:
    return list(chain.from_iterable(getattr(part, name, ()) for part in _PARTS))


def _ours(_: str) -> str:
    """What these jobs do follows from what stands in the tables, so nobody else has a reason to ask for one."""
    return "the marketplace asks for it by itself; use its routes"


APP = App(
    name="marketplace",
    migrations="timebell.apps.marketplace.migrations",
    handlers=_mapped("HANDLERS"),
    guards=_mapped("GUARDS"),
    contexts=_mapped("CONTEXTS"),
    queues=[Queue(name=QUEUE), *_listed("QUEUES")],
    routes="timebell.apps.marketplace.routes",
    problems="timebell.apps.marketplace.problems",
    commands="timebell.apps.marketplace.commands",
    refuses=dict.fromkeys(_mapped("HANDLERS"), _ours),
    on_prune=pruning.prune,
    on_open=opened,
    measures=_listed("MEASURES"),
    gauges=_listed("GAUGES"),
    alerts=_listed("ALERTS"),
    on_declare=ship,
    on_erase=people.erase,
    on_export=people.export,
)
