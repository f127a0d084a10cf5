"""What the world of each seed is like."""

from __future__ import annotations

from dataclasses import replace

from tests.simulation.parts import parts
from tests.simulation.scene import Scene

_BUSY = Scene(
    neighbours=0.4,
    crowds_a_day=2,
    queue_pauses_a_day=2,
    revivals_a_day=3,
    schedules_a_day=3,
    orders_a_day=6,
    digests_a_day=4,
)
_MET = replace(
    _BUSY,
    enqueues_a_day=5,
    plans_a_day=2,
    tells_a_day=2,
    visits_a_day=0.5,
    meetings_a_day=9,
    crowds_a_day=1,
    queue_pauses_a_day=1,
    schedules_a_day=2,
    orders_a_day=4,
    digests_a_day=2,
)
_SERVED = replace(
    _BUSY,
    enqueues_a_day=8,
    plans_a_day=3,
    tells_a_day=2,
    visits_a_day=0.5,
    crowds_a_day=1,
    queue_pauses_a_day=1,
    schedules_a_day=1,
    orders_a_day=4,
    digests_a_day=2,
    requests_a_day=40,
    broker_faults_a_day=6,
)
# An app can be taken away, and then nobody meets, or asks through a broker.
_DO_MEET = any(part.is_in(_MET) for part in parts())
_DO_SERVE = any(part.is_in(_SERVED) for part in parts())
# So little at a time that a year can be played.
YEAR = replace(
    _MET,
    enqueues_a_day=3,
    plans_a_day=1,
    holds_a_day=0.3,
    poisons_a_day=0.05,
    tells_a_day=1,
    visits_a_day=0.3,
    meetings_a_day=1 if _DO_MEET else 0,
    requests_a_day=1 if _DO_SERVE else 0,
    broker_faults_a_day=0.3,
    crowds_a_day=0.2,
    queue_pauses_a_day=0.2,
    revivals_a_day=0.3,
    schedules_a_day=0.05,
    orders_a_day=0.5,
    digests_a_day=0.5,
    kills_a_day=0.7,
    pauses_a_day=0.4,
    cuts_a_day=0.3,
    stops_a_day=0.3,
)


def scene_of(seed: int) -> Scene:
    """In the world of every third seed people meet, and in that of the next services ask through a broker; as much less
    is asked for besides as that takes."""
    if _DO_MEET and seed % 3 == 1:
        return _MET
    return _SERVED if _DO_SERVE and seed % 3 == 2 else _BUSY
