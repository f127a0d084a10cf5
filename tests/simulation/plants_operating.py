"""Bugs to plant in what operators rely on: limits, pauses, revivals, schedules, tenants and the HTTP surface."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from tests.simulation.database import altered
from tests.simulation.plants import CALM, Plant, planter
from timebell.engine import limits, planner
from timebell.engine.store import EngineStore
from timebell.kernel.schedules import Schedules
from timebell.kernel.store import Store
from timebell.notify.delivery_store import DeliveryStore
from timebell.notify.digest_store import DigestStore
from timebell.rules import planning
from timebell.web.replies import Replies
from timebell.web.store import WebStore

OPERATING_PLANTS: list[Plant] = []
_CROWDED = replace(CALM, crowds_a_day=20, queue_pauses_a_day=0)
_PAUSED = replace(CALM, crowds_a_day=12, queue_pauses_a_day=6)
_DYING = replace(CALM, enqueues_a_day=60, revivals_a_day=6)
_TIMED = replace(CALM, schedules_a_day=12)
_BESIDE = replace(CALM, enqueues_a_day=60, plans_a_day=20, neighbours=1)
_ASKED = replace(CALM, orders_a_day=30, kills_a_day=6)
_GATHERED = replace(CALM, digests_a_day=20, kills_a_day=3, rush=0.2)
_plant = planter(OPERATING_PLANTS, _CROWDED)


@_plant("a pause is asked for, and jobs start all the same", "paused", scene=_PAUSED)
def _unpaused() -> AbstractContextManager[Any]:
    async def read_pauses(self: Any, session: Any) -> set[Any]:
        return set()

    return patch.object(EngineStore, "read_pauses", read_pauses)


@_plant("every node has all the permits of a queue", "crowded")
def _everybody_may() -> AbstractContextManager[Any]:
    def share_permits(concurrency: int, *facts: Any, **more: Any) -> int:
        return concurrency * 5

    return patch.object(limits, "share_permits", share_permits)


@_plant("the starts of a rate are given away at once", "hasty")
def _hurried() -> AbstractContextManager[Any]:
    at_once = {"c.granted, c.spacing AS spacing_us": "c.granted, 1000::bigint AS spacing_us"}
    far_ahead = {"(now_us + :window_us::bigint": "(now_us + 7200000000 + :window_us::bigint"}
    return altered(EngineStore, "lease_starts", at_once | far_ahead)


@_plant("what is brought back waits for a day that nobody sees", "revived", "lost", scene=_DYING)
def _never_back() -> AbstractContextManager[Any]:
    return altered(
        Store, "revive_jobs", {"interval '1 second',": "interval '1 second' + interval '1000 days',"}
    )


@_plant("what comes into reach later is never planned", "timetable", scene=_TIMED)
def _unplanned() -> AbstractContextManager[Any]:
    async def plan_nothing(self: Any) -> bool:
        return False

    return patch.object(planner.Planner, "_plan_side_by_side", plan_nothing)


@_plant("the planner forgets an occurrence now and then", "timetable", scene=_TIMED, slow=True)
def _some_unplanned() -> AbstractContextManager[Any]:
    def plan(*facts: Any, **more: Any) -> Any:
        made = planning.plan(*facts, **more)
        return replace(made, occurrences=made.occurrences[:-1])

    return patch.object(planner, "plan", plan)


@_plant("an occurrence that was left out happens", "timetable", scene=_TIMED)
def _not_left_out() -> AbstractContextManager[Any]:
    async def override(self: Any, tx: Any, id: Any, original_local: Any, **more: Any) -> None:
        return None

    return patch.object(Schedules, "override", override)


@_plant("to cancel reaches the jobs of others that have the same names", "tenant", scene=_BESIDE)
def _cancel_everywhere() -> AbstractContextManager[Any]:
    everybody = "(SELECT DISTINCT unnest(ARRAY['default', 'other', :tenant::text])) AS t(name)"
    of_all = {
        "FROM timebell.cancel_or_request(:tenant::text,": f"FROM {everybody}, timebell.cancel_or_request(t.name,"
    }
    return altered(Store, "cancel_jobs", of_all)


@_plant("a reply is not kept", "once", scene=_ASKED)
def _unkept() -> AbstractContextManager[Any]:
    async def read_reply(self: Any, session: Any, **scope: Any) -> None:
        return None

    return patch.object(WebStore, "read_reply", read_reply)


@_plant("whoever asks again is answered anew", "answers", scene=_ASKED)
def _answered_anew() -> AbstractContextManager[Any]:
    async def begin(self: Any, tx: Any, scope: Any) -> Any:
        kept = await original(self, tx, scope)
        return kept and replace(kept, body=kept.body.replace(b"true", b"false"))

    original = Replies.begin
    return patch.object(Replies, "begin", begin)


@_plant("two who ask at once do not wait for each other", "once", "answers", scene=_ASKED)
def _side_by_side() -> AbstractContextManager[Any]:
    async def lock_reply(self: Any, session: Any, **scope: Any) -> bool:
        return True

    return patch.object(WebStore, "lock_reply", lock_reply)


@_plant("a digest leaves out the last that joined it", "digest", scene=_GATHERED)
def _last_left_out() -> AbstractContextManager[Any]:
    async def read_digest_members(self: Any, *facts: Any, **more: Any) -> Any:
        rows = await original(self, *facts, **more)
        return rows[:-1] if len(rows) > 1 else rows

    original = DigestStore.read_digest_members
    return patch.object(DigestStore, "read_digest_members", read_digest_members)


@_plant("what is sent does not count towards the cap", "cap", scene=_GATHERED)
def _uncapped() -> AbstractContextManager[Any]:
    async def write_recent_sends(self: Any, session: Any, **more: Any) -> None:
        return None

    return patch.object(DeliveryStore, "write_recent_sends", write_recent_sends)
