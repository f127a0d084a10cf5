"""The assertions that users make: exact where something is named, indifferent where it is not."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from timebell import App
from timebell.errors import InvalidInput
from timebell.kernel import Job
from timebell.testing import Harness, assert_enqueued, assert_not_enqueued
from timebell.testing.fixtures import HarnessFactory

HOUR = timedelta(hours=1)


async def ring(job: Job) -> None:
    return None


APP = App(name="office", handlers={"office.ring": ring, "office.post": ring})


async def enqueue(bench: Harness, *jobs: dict[str, Any], tenant: str = "default") -> None:
    async with bench.bell.transaction(tenant=tenant) as tx:
        for job in jobs:
            await bench.bell.enqueue(tx, **{"kind": "office.ring", **job})


async def test_what_is_not_named_is_not_compared(timebell_harness: HarnessFactory) -> None:
    async with timebell_harness([APP]) as bench:
        await enqueue(bench, {"payload": {"to": "ann", "n": 1}, "subject": "visit:1", "delay": HOUR})
        [job] = await assert_enqueued(bench, "office.ring")
        for named in [
            {"payload": {"to": "ann"}},
            {"payload": {"to": "ann", "n": 1}, "subject": "visit:1"},
            {"due_at": bench.clock.now + HOUR},
        ]:
            assert await assert_enqueued(bench.bell, "office.ring", **named) == [job]  # type: ignore[arg-type]
        assert (job.payload, job.subject, job.state) == ({"to": "ann", "n": 1}, "visit:1", "pending")


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ({"kind": "office.post"}, "kind is office.ring"),
        ({"subject": "visit:2"}, "subject is visit:1"),
        ({"payload": {"to": "bob"}}, "payload['to'] is 'ann'"),
        ({"payload": {"cc": None}}, "payload has no 'cc'"),
        ({"tenant": "other"}, "Nothing is owed"),
        ({"count": 2}, "2 jobs office.ring should be owed to tenant 'default', found 1."),
    ],
)
async def test_what_is_named_must_be_so(
    timebell_harness: HarnessFactory, named: dict[str, Any], why: str
) -> None:
    async with timebell_harness([APP]) as bench:
        await enqueue(bench, {"payload": {"to": "ann"}, "subject": "visit:1"})
        with pytest.raises(AssertionError) as failed:
            await assert_enqueued(bench, **{"kind": "office.ring", **named})
        assert why in str(failed.value)
        if "count" not in named:
            await assert_not_enqueued(bench, **{"kind": "office.ring", **named})


async def test_the_nearest_comes_first_and_the_list_is_bounded(timebell_harness: HarnessFactory) -> None:
    async with timebell_harness([APP]) as bench:
        await enqueue(bench, *({"kind": "office.post", "payload": {"n": n}} for n in range(30)))
        await enqueue(bench, {"payload": {"n": 30}, "subject": "near", "delay": HOUR})
        with pytest.raises(AssertionError) as failed:
            await assert_enqueued(bench, "office.ring", payload={"n": 31})
        lines = str(failed.value).splitlines()
        assert "about near" in lines[1]
        assert lines[-1] == "  and 11 more"


async def test_what_has_ended_is_not_owed(timebell_harness: HarnessFactory) -> None:
    async with timebell_harness([APP]) as bench:
        await enqueue(bench, {})
        with pytest.raises(AssertionError, match=r"no job office\.ring should be owed .*, found 1\."):
            await assert_not_enqueued(bench, "office.ring")
        await bench.run_due()
        await assert_not_enqueued(bench, "office.ring")


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"kind": "ring"}, "kind"),
        ({"count": 0}, "count"),
        ({"tenant": ""}, "tenant"),
        ({"where": 7}, "where"),
    ],
)
async def test_a_question_that_makes_no_sense_is_refused(
    timebell_harness: HarnessFactory, options: dict[str, Any], field: str
) -> None:
    async with timebell_harness([APP]) as bench:
        with pytest.raises(InvalidInput, match=f"^{field}"):
            await assert_enqueued(**{"where": bench, "kind": "office.ring", **options})
