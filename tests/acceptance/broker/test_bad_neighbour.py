"""Somebody else on the broker does their worst: poison, huge bodies, headers without end, names of other tenants.

Each is a dead letter with its reason, what is good between them is handled, and the process stays small.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.acceptance.broker.ground import Ground, eventually, ground_on
from tests.acceptance.broker.measures import peak_megabytes
from tests.acceptance.broker.talking import DEAD, Letter, calling, listening, request
from tests.daily import daily_seed
from timebell.testing.database import TestDatabase

LIMIT_MEGABYTES = 250
_MEGABYTE = 1_000_000


def raw(body: bytes, **headers: object) -> Letter:
    return Letter(key="schedule.request", body=body, headers=headers)


def asked(**fields: object) -> Letter:
    return raw(json.dumps({"type": "ScheduleRequest", **fields}).encode())


def poison(now: str, large: int) -> Iterator[tuple[str, Letter]]:
    """What is wrong, and a message that has it."""
    for number in range(large):
        yield "too_large", raw(b'{"payload": "' + b"x" * (10 * _MEGABYTE) + b'"}', number=number)
    good = json.dumps({"type": "ScheduleRequest", "id": "bomb", "at": now}).encode()
    for number in range(20):
        yield "headers_too_large", raw(good, **{f"h{each}": "x" * 900 for each in range(100)})
        yield "headers_too_large", raw(good, **{f"h{each}": each for each in range(1_000)})
        yield "headers_too_large", raw(good, nested={"a": [{"b": ["x" * 1000] * 30}]})
        yield "foreign_tenant", asked(id=f"f{number}", at=now, tenant="other")
        yield "not_json", raw(b"[" * 100_000)
        yield "not_an_object", raw(b"[" * 200 + b"]" * 200)
        yield "bad_rule", asked(id=f"r{number}", rrule="FREQ=DAILY;BYHOUR=" + ",".join(["1"] * 20_000))
        yield "bad_id", asked(id="x" * 100_000, at=now)
        yield "not_utf8", raw(b"\xff\xfe" * 50_000)
        yield "no_time", asked(id=f"n{number}")


@pytest.mark.req("S-1.5")
@pytest.mark.parametrize("large", [4, pytest.param(60, marks=pytest.mark.slow)])
async def test_poison_is_in_nobodys_way(
    place: Path, database: TestDatabase, broker_url: str, large: int
) -> None:
    with ground_on(database, broker_url, place) as ground:
        await send_poison(ground, large)


async def send_poison(ground: Ground, large: int) -> None:
    intake = ground.run("ivy", "consume", has_port=True)
    await ground.ready("ivy")
    before = peak_megabytes(intake.pid)
    now = datetime.now(UTC)
    letters = list(poison(now.isoformat(), large))
    expected = Counter(reason for reason, _ in letters)
    goods = [request(f"good-{number}", at=now) for number in range(100)]
    sent = [*(letter for _, letter in letters), *goods]
    random.Random(daily_seed()).shuffle(sent)
    async with calling(ground.broker_url) as caller, listening(ground.broker_url, DEAD) as dead:
        for first in range(0, len(sent), 10):
            await caller.send(*sent[first : first + 10])

        async def is_over() -> bool:
            return len(dead.heard) >= len(letters)

        await eventually(is_over, 120, "every dead letter")
        assert await caller.depth("timebell.requests") == 0
    after = peak_megabytes(intake.pid)
    print(f"{len(letters)} dead letters, {large} of 10 MB; peak {before:.0f} MB before, {after:.0f} MB after")
    assert Counter(str(one.headers["timebell-reason"]) for one in dead.heard) == expected
    assert all(len(one.body) <= 131_072 for one in dead.heard)
    assert after < LIMIT_MEGABYTES
    assert intake.status() == 200
    rows = await ground.ask("SELECT tenant, id FROM scheduler.requests")
    assert {(row["tenant"], row["id"]) for row in rows} == {
        ("default", f"good-{number}") for number in range(100)
    }
    assert intake.stop() == 0, intake.words
