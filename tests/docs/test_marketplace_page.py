"""The reference of the marketplace has the paths, roles, states and codes of the code, and nothing else."""

from __future__ import annotations

import re
from typing import get_args

from tests.shape.tree import ROOT
from timebell.apps.marketplace import APP
from timebell.apps.marketplace.shifts.models import ShiftStatus
from timebell.apps.marketplace.staffing.bodies import WorkersQuery
from timebell.apps.marketplace.staffing.models import BookingStatus, Role, WorkerState
from timebell.apps.marketplace.staffing.rules import EDGES
from timebell.web import PageQuery
from timebell.web.server.serving import routes_of

PAGE = (ROOT / "docs" / "reference" / "marketplace.md").read_text(encoding="utf-8")
BASE = "/api/marketplace"


def section(title: str) -> str:
    return PAGE[PAGE.index(f"\n## {title}\n") + 1 :].split("\n## ")[0]


def rows(title: str) -> dict[str, list[str]]:
    """The table of a section: the words of the first column, and what the others say."""
    lines = [line for line in section(title).splitlines() if line.startswith("| `")]
    return {
        word: [cell.strip() for cell in line.split("|")[2:-1]]
        for line in lines
        for word in re.findall(r"`(\w+)`", line.split("|")[1])
    }


def test_every_path_is_told() -> None:
    told = re.findall(r"^\| `(\w+)` \| `(\S+)` \|", section("Paths"), re.MULTILINE)
    told += re.findall(r"`(GET|POST)` `(/t/\S+)`", section("Paths"))
    there = [(route.method, route.path.removeprefix(BASE)) for route in routes_of(APP)]
    assert sorted(told) == sorted(there)


def test_every_role_and_every_status_is_told() -> None:
    assert list(rows("Who may do what")) == list(get_args(Role))
    assert list(rows("Status of a worker")) == list(get_args(WorkerState))
    assert list(rows("Status of a booking")) == list(get_args(BookingStatus))
    assert list(rows("Status of a time log")) == list(get_args(ShiftStatus))


def test_the_edges_are_those_of_the_code() -> None:
    for status, (_, leads_to) in rows("Status of a booking").items():
        others = {after for before, after in EDGES if before == status}
        told = others if leads_to == "all others" else set(re.findall(r"`(\w+)`", leads_to))
        assert told == others


def test_every_parameter_of_the_search_is_told() -> None:
    own = WorkersQuery.model_fields.keys() - PageQuery.model_fields.keys()
    assert {*rows("The search"), "timezone"} == own


def test_every_code_is_told_with_its_sentence() -> None:
    codes = {code: words for route in routes_of(APP) for code, words in route.codes.items()}
    assert {code: cells[0] for code, cells in rows("Codes").items()} == codes
