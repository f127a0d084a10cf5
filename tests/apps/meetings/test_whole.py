"""A transition is whole or was not: whatever fails on the way, and however often it is asked for."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.apps.meetings.support import DAY, MINUTE, START, Office, done, open_office, slot
from tests.web.support import problem
from timebell.errors import DatabaseUnavailable
from timebell.testing.database import TestDatabase

BODIES: dict[str, Any] = {
    "accept": {"slot": slot()},
    "deny": {"reason": "On leave"},
    "reschedule": {"proposed_slots": [slot(START + DAY)], "reason": "Train strike"},
    "cancel": {},
    "complete": None,
}
TRANSITIONS = sorted(BODIES)
# Longer than any transition is, in statements.
STATEMENTS_MAX = 100


# Looked at beside the request, and no part of what it answers.
BESIDE = ("read_kinds_left",)


class Faulty:
    """Fails behind the statement of that number, once; None: never."""

    def __init__(self) -> None:
        self.left: int | None = None

    def arm(self, number: int | None) -> None:
        self.left = number

    @property
    def has_failed(self) -> bool:
        return self.left is None

    async def before(self, name: str) -> None: ...

    async def after(self, name: str) -> None:
        if self.left is None or name.startswith(("BEGIN", "SET", "COMMIT", "ROLLBACK", *BESIDE)):
            return
        self.left -= 1
        if self.left < 0:
            self.left = None
            raise DatabaseUnavailable(name)


async def ready(office: Office, verb: str) -> str:
    id: str = (await office.propose())["id"]
    if verb in ("cancel", "complete", "reschedule"):
        await office.accept(id)
    return id


@pytest.mark.req("M-2.3", "M-3.2", "M-4.2", "M-2.6", "X-M8")
@pytest.mark.parametrize("verb", TRANSITIONS)
async def test_a_fault_at_any_statement_leaves_nothing(meetings_database: TestDatabase, verb: str) -> None:
    gate = Faulty()
    async with open_office(meetings_database, gate=gate) as office:
        id = await ready(office, verb)
        before = await office.effects()
        for number in range(STATEMENTS_MAX):
            gate.arm(number)
            response = await office.transit(office.bob, id, verb, BODIES[verb], key="the-same")
            if not gate.has_failed:
                break
            assert response.status_code == 503, response.text
            assert await office.effects() == before
        gate.arm(None)
        assert number > 15, "it was gone through"
        assert response.status_code == 200, response.text
        assert await office.effects() != before
        again = await office.transit(office.bob, id, verb, BODIES[verb], key="the-same")
        assert (again.content, again.headers["idempotent-replayed"]) == (response.content, "true")


@pytest.mark.req("M-8.1", "M-8.2", "M-8.3", "M-2.2", "M-3.1", "M-4.1", "X-M7", "X-M14")
@pytest.mark.parametrize("verb", TRANSITIONS)
async def test_a_transition_is_done_once_for_a_key(office: Office, verb: str) -> None:
    id = await ready(office, verb)
    path = f"/api/meetings/{id}/{verb}"
    body = {} if BODIES[verb] is None else {"json": BODIES[verb]}
    bare = await office.site.ask("POST", path, actor=office.bob, **body)
    problem(bare, 400, "idempotency_key_required")
    empty = await office.site.ask("POST", path, actor=office.bob, json={})
    problem(empty, 400, "idempotency_key_required")
    first = await office.transit(office.bob, id, verb, BODIES[verb], key="k")
    assert first.status_code == 200, first.text
    after = await office.effects()
    second = await office.transit(office.bob, id, verb, BODIES[verb], key="k")
    assert (second.status_code, second.content) == (200, first.content)
    assert second.headers["idempotent-replayed"] == "true"
    assert await office.effects() == after
    if BODIES[verb]:
        other = {**BODIES[verb], **({"slot": slot(START + DAY)} if verb == "accept" else {"reason": "Other"})}
        problem(await office.transit(office.bob, id, verb, other, key="k"), 422, "idempotency_key_reused")
    # Another person's key of the same name is another key.
    problem(await office.transit(office.cleo, id, verb, BODIES[verb], key="k"), 409, "meeting_status")


@pytest.mark.req("M-8.3")
async def test_a_key_is_free_after_a_day(office: Office) -> None:
    id = (await office.propose(proposed_slots=[slot(START + 9 * DAY)]))["id"]
    body = {"slot": slot(START + 9 * DAY)}
    first = done(await office.transit(office.bob, id, "accept", body, key="k"))
    office.clock.move(DAY - MINUTE)
    assert done(await office.transit(office.bob, id, "accept", body, key="k")) == first
    office.clock.move(timedelta(minutes=2))
    problem(await office.transit(office.bob, id, "accept", body, key="k"), 409, "meeting_status")


async def test_a_proposal_is_made_once_for_a_key(office: Office) -> None:
    body = {"title": "R", "participants": [str(office.bob)], "timezone": "UTC", "proposed_slots": [slot()]}
    rows = [done(await office.ask(office.ada, "POST", "/api/meetings", body, key="k"), 201) for _ in range(2)]
    assert rows[0] == rows[1]
    assert len(await office.data("/api/meetings")) == 1
    bare = await office.site.post("/api/meetings", body, actor=office.ada)
    assert done(bare, 201)["id"] != rows[0]["id"]
