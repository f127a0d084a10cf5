"""Several `timebell work` beside each other on one database."""

from __future__ import annotations

from tests.acceptance.conftest import Work
from tests.acceptance.processes import answer, until
from timebell.testing.database import TestDatabase


def test_two_nodes_share_the_slots_and_one_takes_over(database_url: TestDatabase, work: Work) -> None:
    variables = {
        "DATABASE_URL": database_url.url,
        "TIMEBELL_LEASE_SECONDS": "6",
        "TIMEBELL_LEASE_MARGIN_SECONDS": "1",
    }

    def shares() -> list[int]:
        return sorted(node["slot_count"] for node in answer("nodes", **variables))

    first = work(**variables)
    second = work(**variables, TIMEBELL_NODE_NAME="second")
    until(lambda: shares() == [128, 128], 30, "even shares")
    report = answer("check", "--jobs", 100, "--seconds", 1, **variables)
    assert (report["finished"], report["early"]) == (100, 0)
    assert first.stop() == 0, first.words
    until(lambda: shares() == [256], 30, "the takeover")
    assert [node["node"] for node in answer("nodes", **variables)] == ["second"]
    assert second.stop() == 0, second.words
    assert answer("nodes", **variables) == []
