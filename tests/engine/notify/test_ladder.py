"""What each class of answer costs: how often a provider is called that goes on answering like that, when, and what
becomes of what was to be told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, get_args

import pytest

from tests.engine.notify.stage import REMINDER, TITLE, Stage, stage
from timebell.notify import Rejected, Unavailable, Uncertain
from timebell.notify.provider import Answer, Parcel
from timebell.rules.backoff import ErrorClass
from timebell.testing import RecordingProvider
from timebell.testing.database import TestDatabase

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)

LIMITED = Unavailable(reason="429", error_class="rate_limited", retry_after=MINUTE)
AWAY = Unavailable(reason="connection refused", error_class="unavailable")

POLICY = (0, 1, 6, 21)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A provider that always answers the same. `calls`: at which minutes it is called."""

    name: str
    answer: Answer
    calls: tuple[int, ...] = POLICY
    end: tuple[str, str] = ("failed", "exhausted")
    traits: dict[str, Any] = field(default_factory=dict)


def unavailable(error_class: ErrorClass, asked: timedelta | None = None, **more: Any) -> Unavailable:
    return Unavailable(reason="no", error_class=error_class, retry_after=asked, **more)


CLASSES: tuple[ErrorClass, ...] = get_args(ErrorClass)
DOUBT = Uncertain(reason="hung up")
CASES = [
    *(Case(name=f"{each}", answer=unavailable(each)) for each in CLASSES),
    *(Case(name=f"{each} of one", answer=unavailable(each, about="parcel")) for each in CLASSES),
    *(
        Case(name=f"{each} for {asked}", answer=unavailable(each, asked * MINUTE), calls=calls)
        for each in CLASSES
        if each != "rate_limited"
        for asked, calls in [(1, POLICY), (2, (0, 2, 7, 22)), (60, (0, 60, 120, 180))]
    ),
    *(
        Case(name=f"limited for {asked}", answer=unavailable("rate_limited", asked * MINUTE), calls=calls)
        for asked, calls in [
            (1, (0, 1, 2, 7, 22, 37, 52, 67, 82, 97)),
            (10, (0, 10, 20, 30, 45, 60, 75, 90, 105, 120)),
            (60, tuple(range(0, 600, 60))),
        ]
    ),
    Case(name="doubt", answer=DOUBT, calls=(0,), end=("uncertain", "no_answer")),
    Case(
        name="doubt under a key",
        answer=DOUBT,
        end=("uncertain", "no_answer"),
        traits={"key_lifetime": DAY},
    ),
    Case(
        name="doubt that is risked",
        answer=DOUBT,
        end=("uncertain", "no_answer"),
        traits={"when_uncertain": "retry"},
    ),
    Case(
        name="doubt and a report",
        answer=DOUBT,
        calls=(0,),
        end=("uncertain", "no_answer"),
        traits={"reports": True},
    ),
    *(
        Case(
            name=f"no to {blame}",
            answer=Rejected(reason="no", blame=blame),
            calls=(0,),
            end=("failed", "rejected"),
        )
        for blame in ("address", "content", "account")
    ),
]


async def tell_as(s: Stage, tenant: str, provider: str, count: int = 1) -> list[Any]:
    """A tenant that tells by mail through one provider alone."""
    async with s.harness.bell.transaction(tenant=tenant) as tx:
        await s.notify.templates.save(tx, REMINDER)
        await s.notify.policies.change(tx, providers={"email": [provider]})
        person = await s.notify.recipients.add(tx, name="Eve", email="eve@example.org")
        return [
            (await s.notify.tell(tx, person.id, REMINDER.key, context=TITLE, channels=["email"])).id
            for _ in range(count)
        ]


@pytest.mark.req("A-6.1", "A-6.4")
async def test_what_each_answer_costs_if_it_never_changes(database_url: TestDatabase) -> None:
    """Each has its own tenant and its own provider; none of them is called for ever, whatever it says."""
    providers = {case.name: RecordingProvider(case.name, channels=["email"], **case.traits) for case in CASES}
    for case in CASES:
        providers[case.name].answer(*[case.answer] * 99)
    async with stage(database_url.url, list(providers.values())) as s:
        began = s.clock.now
        ids = {}
        for number, case in enumerate(CASES):
            (ids[case.name],) = await tell_as(s, f"t{number}", case.name)
        await s.harness.run_due()
        first = (await s.notify.notifications.get(ids["transient"], tenant="t0")).notification
        assert (first.state, first.reason, first.held_until) == ("held", "held_retry", began + MINUTE)
        await s.harness.advance(10 * HOUR)
        for number, case in enumerate(CASES):
            made = [parcel.attempted_at for parcel in providers[case.name].parcels]
            assert made == [began + minute * MINUTE for minute in case.calls], case.name
            told = (await s.notify.notifications.get(ids[case.name], tenant=f"t{number}")).notification
            assert (told.state, told.reason) == case.end, case.name
            assert told.settled_at is not None, case.name
            assert len({parcel.key for parcel in providers[case.name].parcels}) == 1, case.name


async def test_who_was_not_asked_costs_nothing(database_url: TestDatabase) -> None:
    """No connection was free, again and again, and afterwards every attempt is still there."""
    provider = RecordingProvider()
    provider.answer(*[Unavailable(reason="no_connection_free", about="nobody")] * 20, *[AWAY] * 99)
    async with stage(database_url.url, [provider]) as s:
        told = await s.told(channels=["email"])
        await s.harness.advance(HOUR)
        assert (await s.now(told.id)).state == "failed"
    assert len(provider.parcels) == 20 + 4


@pytest.mark.req("A-6.4")
async def test_a_rate_limit_that_is_lifted_leaves_every_attempt(database_url: TestDatabase) -> None:
    provider = RecordingProvider()
    provider.answer(*[LIMITED] * 5, *[AWAY] * 3)
    async with stage(database_url.url, [provider]) as s:
        told = await s.told(channels=["email"])
        await s.harness.advance(2 * HOUR)
        assert (await s.now(told.id)).state == "sent"
    assert len(provider.parcels) == 5 + 3 + 1


@pytest.mark.req("M-5.5")
@pytest.mark.parametrize("answer", [AWAY, LIMITED, DOUBT])
async def test_the_wait_begins_when_the_answer_comes(database_url: TestDatabase, answer: Answer) -> None:
    provider = RecordingProvider(key_lifetime=DAY)

    async def slow(parcel: Parcel) -> Answer:
        s.clock.move(20 * SECOND)
        return answer

    provider.answer(slow)
    async with stage(database_url.url, [provider]) as s:
        began = s.clock.now
        told = await s.told(channels=["email"])
        assert told.held_until == began + 20 * SECOND + MINUTE


def failing_until(s: Stage, provider: RecordingProvider, until: timedelta) -> Callable[[Parcel], Any]:
    began = s.clock.now

    async def answer(parcel: Parcel) -> Answer:
        return provider.take(parcel) if s.clock.now >= began + until else AWAY

    return answer


@pytest.mark.req("U-17", "J-13.2")
async def test_who_waits_behind_an_open_breaker_keeps_its_attempts(database_url: TestDatabase) -> None:
    """Two tenants have eight mails each to send while the provider is down for half an hour. A few calls find that out,
    each of which counts; nobody is given up for it, and everything is sent when the provider is back."""
    provider = RecordingProvider(channels=["email"])
    async with stage(database_url.url, [provider], concurrency=5, tenant_share=1) as s:
        provider.answer(*[failing_until(s, provider, HOUR / 2)] * 500)
        ids = [(tenant, id) for tenant in ("a", "b") for id in await tell_as(s, tenant, provider.name, 8)]
        await s.harness.advance(HOUR / 2 - SECOND)
        calls = Counter(parcel.delivery_id for parcel in provider.parcels)
        assert sum(calls.values()) < 20, "five that open it, and a probe for each spell"
        assert max(calls.values()) <= 2, "who has not asked yet asks first"
        await s.harness.advance(HOUR)
        states = [
            (await s.notify.notifications.get(id, tenant=tenant)).notification.state for tenant, id in ids
        ]
        assert Counter(states) == {"sent": 16}


@pytest.mark.req("A-6.4")
async def test_what_a_provider_asks_one_to_wait_all_wait(database_url: TestDatabase) -> None:
    """Forty are due. The first few are told to come back in a minute, and the others do not ask before that."""
    provider = RecordingProvider(channels=["email"])
    async with stage(database_url.url, [provider], concurrency=5, tenant_share=1) as s:
        provider.answer(*[LIMITED] * 5)
        ids = [await s.tell(channels=["email"]) for _ in range(40)]
        await s.harness.run_due()
        assert len(provider.parcels) <= 5
        held = Counter([(await s.now(id)).reason for id in ids])
        assert held["held_breaker"] >= 35
        await s.harness.advance(MINUTE - SECOND)
        assert len(provider.parcels) <= 5
        await s.harness.advance(2 * MINUTE)
        assert {(await s.now(id)).state for id in ids} == {"sent"}
    assert len(provider.parcels) <= 45
