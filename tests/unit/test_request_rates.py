"""How often a key may call."""

from __future__ import annotations

from datetime import timedelta

import pytest

from timebell.testing import ManualClock
from timebell.web.access import rates
from timebell.web.access.rates import Rates, Who
from timebell.web.operation.problems import Problem


def rates_of(per_minute: int, clock: ManualClock | None = None) -> Rates:
    return Rates(per_minute, "key", monotonic=(clock or ManualClock()).monotonic)


def caller(name: str = "a", tenant: str = "default") -> Who:
    return tenant, name


def taken(rate: Rates, who: Who) -> int:
    """How many requests are let through before one is refused."""
    for count in range(10_000):
        try:
            rate.take(who)
        except Problem:
            return count
    raise AssertionError("nothing was ever refused")


def test_a_bucket_fills_up_again() -> None:
    clock = ManualClock()
    rate = rates_of(60, clock)
    assert taken(rate, caller()) == 60
    clock.move(timedelta(seconds=7))
    assert taken(rate, caller()) == 7
    clock.move(timedelta(seconds=3_600))
    assert taken(rate, caller()) == 60


def test_whoever_is_refused_hears_how_long_to_wait() -> None:
    clock = ManualClock()
    rate = rates_of(6, clock)
    assert taken(rate, caller()) == 6
    with pytest.raises(Problem) as refused:
        rate.take(caller())
    wait = int(refused.value.headers["retry-after"])
    assert (wait, refused.value.headers["ratelimit"]) == (10, '"key";r=0;t=60')
    clock.move(timedelta(seconds=wait))
    rate.take(caller())


def test_each_key_of_each_tenant_has_its_own() -> None:
    rate = rates_of(3)
    assert [taken(rate, each) for each in (caller(), caller("b"), caller("a", "acme"))] == [3, 3, 3]


def test_only_so_many_keys_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "_REMEMBERED_MAX", 2)
    rate = rates_of(1)
    for name in ("a", "b", "c"):
        assert taken(rate, caller(name)) == 1
    # The first was forgotten, and begins anew.
    assert taken(rate, caller("a")) == 1
