"""A batch that fails is tried again at half the size."""

from __future__ import annotations

import pytest

from timebell.errors import InvalidInput
from timebell.rules.batches import shrunk


@pytest.mark.req("J-14.9")
@pytest.mark.parametrize(
    ("failures", "size"), [(0, 100), (1, 50), (2, 25), (3, 12), (4, 6), (5, 3), (6, 1), (7, 1), (10_000, 1)]
)
def test_each_failure_halves_the_batch(failures: int, size: int) -> None:
    assert shrunk(100, failures) == size


def test_a_batch_of_one_stays_one() -> None:
    assert [shrunk(1, failures) for failures in range(3)] == [1, 1, 1]


@pytest.mark.parametrize(
    ("full", "failures", "field"), [(0, 0, "full"), (-5, 0, "full"), (10, -1, "failures")]
)
def test_nonsense_is_refused_by_name(full: int, failures: int, field: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{field}: "):
        shrunk(full, failures)
