"""The seed of the day: one for everybody, another tomorrow, and the same examples when it is played again."""

from __future__ import annotations

from datetime import UTC, datetime

import hypothesis.core
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.daily import VARIABLE, daily_seed, pin_seed


def test_the_environment_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "20260314")

    assert daily_seed() == 20260314


def test_the_day_is_the_seed_and_stays_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE)
    before = datetime.now(UTC)

    seed = pin_seed()

    assert seed in {int(day.strftime("%Y%m%d")) for day in (before, datetime.now(UTC))}
    monkeypatch.setattr("tests.daily.datetime", None)
    assert daily_seed() == seed


@pytest.mark.parametrize("text", ["", "today", "-1", "1.5", "9" * 19, "٣"])
def test_what_is_no_number_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, text)

    with pytest.raises(ValueError, match=VARIABLE):
        daily_seed()


def test_properties_draw_from_it(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--hypothesis-seed") is None:
        assert hypothesis.core.global_force_seed == daily_seed()


def test_a_seed_gives_the_same_examples_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn(seed: int) -> list[int]:
        monkeypatch.setattr(hypothesis.core, "global_force_seed", seed)
        found = []

        @settings(max_examples=20, database=None, deadline=None)
        @given(st.integers(0, 10**9))
        def keep(number: int) -> None:
            found.append(number)

        keep()
        return found

    assert drawn(daily_seed()) == drawn(daily_seed())
    assert drawn(daily_seed()) != drawn(daily_seed() + 1)
