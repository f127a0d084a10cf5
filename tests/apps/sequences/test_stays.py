"""What counts as a message that was doubled in a world: histories that are fine, and those that have to be caught."""

from __future__ import annotations

import pytest

from tests.apps.sequences.simulation.stays import Begun, doubled
from tests.apps.sequences.support import MINUTE, NOW


def begun(job: str, minute: int, *, taken: bool, message: str = "one", subject: str = "booking:1") -> Begun:
    at = NOW + minute * MINUTE
    return Begun(subject=subject, message=message, job_id=job, at=at, may_be_taken=taken)


FINE: dict[str, list[Begun]] = {
    "nothing was begun": [],
    "once": [begun("a", 0, taken=True)],
    "again by the same job, which has the key": [begun("a", 0, taken=True), begun("a", 1, taken=True)],
    "not taken, withdrawn, and planned again": [begun("a", 0, taken=False), begun("b", 1, taken=True)],
    "never taken": [begun("a", 0, taken=False), begun("b", 1, taken=False), begun("c", 2, taken=False)],
    "of two messages": [begun("a", 0, taken=True), begun("b", 1, taken=True, message="other")],
    "of two bookings": [begun("a", 0, taken=True), begun("b", 1, taken=True, subject="booking:2")],
}

CAUGHT: dict[str, list[Begun]] = {
    "taken by two": [begun("a", 0, taken=True), begun("b", 1, taken=True)],
    "perhaps taken, and tried by another in vain": [begun("a", 0, taken=True), begun("b", 1, taken=False)],
    "taken at the second attempt of the first": [
        begun("a", 0, taken=False),
        begun("a", 1, taken=True),
        begun("b", 2, taken=True),
    ],
    "told in any order": [begun("b", 1, taken=False), begun("a", 0, taken=True)],
    "after one that was not taken": [
        begun("a", 0, taken=False),
        begun("b", 1, taken=True),
        begun("c", 2, taken=True),
    ],
}


@pytest.mark.parametrize("name", FINE)
def test_what_is_fine_is_not_called_doubled(name: str) -> None:
    assert list(doubled(FINE[name])) == []


@pytest.mark.parametrize("name", CAUGHT)
def test_what_is_doubled_is_caught(name: str) -> None:
    last = max(CAUGHT[name], key=lambda each: each.at)
    assert list(doubled(CAUGHT[name])) == [last]
