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
_BOOKED = replace(
    _MET,
    meetings_a_day=0,
    bookings_a_day=12,
)
# Nothing else in more than a week: what is paid for on one Wednesday is worked in the week after it, and the second
# Wednesday is when no fault is left.
_LENT = Scene(
    enqueues_a_day=0,
    plans_a_day=0,
    holds_a_day=0,
    poisons_a_day=0,
    tells_a_day=0,
    visits_a_day=0,
    staffings_a_day=0.5,
    lapses_a_day=0.4,
    days_min=8,
    rush=0.03,
    kills_a_day=2,
    pauses_a_day=0.8,
    cuts_a_day=0.5,
    stops_a_day=0.3,
)
# An app can be taken away, and then nobody meets, asks through a broker, books, or is lent.
_DO_MEET = any(part.is_in(_MET) for part in parts())
_DO_SERVE = any(part.is_in(_SERVED) for part in parts())
_DO_BOOK = any(part.is_in(_BOOKED) for part in parts())
_DO_LEND = any(part.is_in(_LENT) for part in parts())
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
    bookings_a_day=0.7 if _DO_BOOK else 0,
    staffings_a_day=0.03 if _DO_LEND else 0,
    lapses_a_day=0.02 if _DO_LEND else 0,
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
    """In the world of every fourth seed people meet, in that of the next services ask through a broker, and in that of
    the one after it people book; as much less is asked for besides as that takes. In half of the last workers are lent,
    week by week."""
    if seed % 8 == 7 and _DO_LEND:
        return _LENT
    kinds = {1: (_MET, _DO_MEET), 2: (_SERVED, _DO_SERVE), 3: (_BOOKED, _DO_BOOK)}
    scene, is_there = kinds.get(seed % 4, (_BUSY, True))
    return scene if is_there else _BUSY
