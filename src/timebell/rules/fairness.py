"""How many places one tenant may take of those that all share, so that there is always one for whoever comes next."""

from __future__ import annotations

from math import floor

# Of fewer places than these none can be kept free without slowing down whoever is alone.
FEW = 4
# So that a sum of fractions that should be whole is not cut off below it.
_CLOSE = 1e-9


def room_for(*, capacity: int, taken: int, own: int, share: float) -> int:
    """How many more of `capacity` places a tenant may take, of which it has `own` and all together have `taken`.

    Whoever is alone gets `share` of them, the rest stays free. Two that want all they can get have about half of that
    each, and there is less left free the more there are: what a tenant may have shrinks with what is free. Where it has
    more already, because it was alone before, it takes no more until it is down to that. One that has none gets one
    as long as there is any.
    """
    free = capacity - taken
    if free <= 0:
        return 0
    if capacity < FEW or share >= 1:
        return free
    room = floor(share * free - (1 - share) * own + _CLOSE)
    return min(free, max(room, 0 if own else 1))
