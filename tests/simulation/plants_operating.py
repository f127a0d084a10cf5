"""Bugs to plant in what operators rely on: limits, pauses, revivals, schedules, tenants and the HTTP surface."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.simulation.database import altered
from tests.simulation.planting import Planted, answering, instead
from tests.simulation.plants import CALM, Plant, planter
from timebell.engine.limits import limits
from timebell.engine.planner import planner
from timebell.engine.store import EngineStore
from timebell.kernel.schedules.schedules import Schedules
from timebell.kernel.store import Store
from timebell.notify.delivery.delivery_store import DeliveryStore
from timebell.notify.delivery.digest_store import DigestStore
from timebell.web.operation.replies import Replies
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
def _unpaused() -> Planted:
    return answering(EngineStore, "read_pauses", lambda *_: set())


@_plant("every node has all the permits of a queue", "crowded")
def _everybody_may() -> Planted:
    def share_permits(concurrency: int, *facts: Any, **more: Any) -> int:
        return concurrency * 5

    return instead(limits, "share_permits", share_permits)


@_plant("the starts of a rate are given away at once", "hasty")
def _hurried() -> Planted:
    at_once = {"c.granted, c.spacing AS spacing_us": "c.granted, 1000::bigint AS spacing_us"}
    far_ahead = {"(now_us + :window_us::bigint": "(now_us + 7200000000 + :window_us::bigint"}
    return altered(EngineStore, "lease_starts", at_once | far_ahead)


@_plant("what is brought back waits for a day that nobody sees", "revived", "lost", scene=_DYING)
def _never_back() -> Planted:
    return altered(
        Store, "revive_jobs", {"interval '1 second',": "interval '1 second' + interval '1000 days',"}
    )


@_plant("what comes into reach later is never planned", "timetable", scene=_TIMED)
def _unplanned() -> Planted:
    async def plan_nothing(self: Any) -> bool:
        return False

    return instead(planner.Planner, "_plan_side_by_side", plan_nothing)


@_plant("the planner forgets an occurrence now and then", "timetable", scene=_TIMED, slow=True)
def _some_unplanned() -> Planted:
    def plan(made: Any, *facts: Any, **more: Any) -> Any:
        return replace(made, occurrences=made.occurrences[:-1])

    return answering(planner, "plan", plan)


@_plant("an occurrence that was left out happens", "timetable", scene=_TIMED)
def _not_left_out() -> Planted:
    async def override(self: Any, tx: Any, id: Any, original_local: Any, **more: Any) -> None:
        return None

    return instead(Schedules, "override", override)


@_plant("to cancel reaches the jobs of others that have the same names", "tenant", scene=_BESIDE)
def _cancel_everywhere() -> Planted:
    everybody = "(SELECT DISTINCT unnest(ARRAY['default', 'other', :tenant::text])) AS t(name)"
    of_all = {
        "FROM timebell.cancel_or_request(:tenant::text,": f"FROM {everybody}, timebell.cancel_or_request(t.name,"
    }
    return altered(Store, "cancel_jobs", of_all)


@_plant("a reply is not kept", "once", scene=_ASKED)
def _unkept() -> Planted:
    return answering(WebStore, "read_reply", lambda *_, **__: None)


@_plant("whoever asks again is answered anew", "answers", scene=_ASKED)
def _answered_anew() -> Planted:
    def begin(kept: Any, *facts: Any) -> Any:
        return kept and replace(kept, body=kept.body.replace(b"true", b"false"))

    return answering(Replies, "begin", begin)


@_plant("two who ask at once do not wait for each other", "once", "answers", scene=_ASKED)
def _side_by_side() -> Planted:
    async def lock_reply(self: Any, session: Any, **scope: Any) -> bool:
        return True

    return instead(WebStore, "lock_reply", lock_reply)


@_plant("a digest leaves out the last that joined it", "digest", scene=_GATHERED)
def _last_left_out() -> Planted:
    def read_digest_members(rows: Any, *facts: Any, **more: Any) -> Any:
        return rows[:-1] if len(rows) > 1 else rows

    return answering(DigestStore, "read_digest_members", read_digest_members)


@_plant("what is sent does not count towards the cap", "cap", scene=_GATHERED)
def _uncapped() -> Planted:
    async def write_recent_sends(self: Any, session: Any, **more: Any) -> None:
        return None

    return instead(DeliveryStore, "write_recent_sends", write_recent_sends)
