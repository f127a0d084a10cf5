"""How nodes divide what they share, each alone and all alike: slots to read, and permits to run.

Nobody is in charge. Every node computes the whole division from the same rows and acts on its own part, so
nodes that see the same facts never want the same thing, and nodes that see older ones are stopped by the
row they try to write.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from timebell.errors import InvalidInput

# What runs under a permit is stopped when the lease has been over for the shorter time and no other life was begun
# meanwhile. For the longer one nobody else gets the permit. What lies between is for the handler: to hear, and to end.
RUNS_ON_SECONDS = 1.0
PERMITS_OUTLIVE_SECONDS = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotMoves:
    """What one node should do now: slots that nobody owns to take, slots of its own to release."""

    take: tuple[int, ...] = ()
    release: tuple[int, ...] = ()


def balance_slots(
    owned: Mapping[int, int | None], alive: Sequence[int], me: int, *, kept: Collection[int] = ()
) -> SlotMoves:
    """The moves of node `me` towards an even division of all slots over the nodes `alive`.

    `owned` names the owner of every slot, None where there is none. A slot is never taken from an owner: it
    must be released, or set free when its owner's lease has run out. A node that is leaving is no longer
    among `alive`; its share is nothing, and it releases everything. Those of its slots that are `kept` cannot be given
    up soon, so others go in their place.
    """
    mine = sorted(slot for slot, owner in owned.items() if owner == me)
    unowned = sorted(slot for slot, owner in owned.items() if owner is None)
    counts = Counter(owned.values())
    targets = _slot_targets(len(owned), {node: counts[node] for node in alive})
    excess = len(mine) - targets.get(me, 0)
    if excess > 0:
        return SlotMoves(release=tuple([slot for slot in mine if slot not in kept][-excess:]))
    before_me = sum(max(0, targets[node] - counts[node]) for node in targets if node < me)
    return SlotMoves(take=tuple(unowned[before_me : before_me - excess]))


def _slot_targets(slot_count: int, held: Mapping[int, int]) -> dict[int, int]:
    """Even targets; the odd slots go to those who hold most already, so that least has to move."""
    if not held:
        return {}
    share, odd = divmod(slot_count, len(held))
    ranking = sorted(held, key=lambda node: (-held[node], node))
    return {node: share + (rank < odd) for rank, node in enumerate(ranking)}


def visited_kinds(
    owners: Mapping[int, int | None], kinds: Mapping[int, frozenset[str] | None], me: int
) -> dict[int, frozenset[str]]:
    """In which slots of others node `me` looks for jobs, and of which kinds: those that the owner has no handler for.

    `kinds` says of each node that lives what it can run, None where it does not tell. Where several could come, each
    of them knows which one does: another for the next slot, and another once that one is dead.
    """
    mine = kinds.get(me) or frozenset()
    able = {
        kind: sorted(node for node, known in kinds.items() if known is not None and kind in known)
        for kind in mine
    }
    left_by = {node: mine - known for node, known in kinds.items() if known is not None and mine - known}
    visited = {}
    for slot, owner in owners.items():
        left = left_by.get(owner) if owner is not None else None
        ours = frozenset(kind for kind in left or () if able[kind][slot % len(able[kind])] == me)
        if ours:
            visited[slot] = ours
    return visited


def share_permits(
    limit: int, holdings: Mapping[int, tuple[int, int]], me: int, *, kept: int = 0, turn: int = 0
) -> int:
    """How many permits node `me` may hold now.

    `holdings` says of each node how many permits it holds and how many it has a use for, those in hand
    included. An answer below what the node holds asks it to give back as its jobs finish; an answer above
    is covered by permits that are free now, each offered to one node only. So the limit holds even if all
    nodes act on the same facts at once, and the shares grow fair as permits come back.

    `kept` are the permits of lives that are over, under which something may still run: they are nobody's to have.

    `turn` moves the odd permits on from node to node. Let it grow with time where there may be fewer
    permits than nodes: otherwise the same nodes go without as long as the others are busy.
    """
    _check_permits(limit, holdings, me, kept)
    limit = max(0, limit - kept)
    ranking = _rotated(sorted(holdings), turn)
    shares = _fair_shares(limit, {node: holdings[node][1] for node in ranking})
    free = limit - sum(in_hand for in_hand, _ in holdings.values())
    before_me = sum(max(0, shares[node] - holdings[node][0]) for node in ranking[: ranking.index(me)])
    return min(shares[me], holdings[me][0] + max(0, free - before_me))


def _fair_shares(limit: int, wanted: Mapping[int, int]) -> dict[int, int]:
    """All get what they want up to one common line; the rest goes, one each, to the first who want more."""
    line = _common_line(limit, wanted.values())
    shares = {node: min(want, line) for node, want in wanted.items()}
    odd = limit - sum(shares.values())
    unsatisfied = [node for node, want in wanted.items() if want > line]
    for node in unsatisfied[:odd]:
        shares[node] += 1
    return shares


def _common_line(limit: int, wanted: Iterable[int]) -> int:
    """The highest line at which the wants, cut off there, still fit the limit."""
    ascending = sorted(wanted)
    left = limit
    for served, want in enumerate(ascending):
        line = left // (len(ascending) - served)
        if want > line:
            return line
        left -= want
    return ascending[-1]


def _rotated(nodes: list[int], turn: int) -> list[int]:
    first = turn % len(nodes)
    return nodes[first:] + nodes[:first]


def _check_permits(limit: int, holdings: Mapping[int, tuple[int, int]], me: int, kept: int) -> None:
    if limit < 0:
        raise InvalidInput(f"{limit} is no limit; give 0 or more", field="limit")
    if me not in holdings:
        raise InvalidInput(f"node {me} is missing; record what it holds and wants first", field="holdings")
    if kept < 0:
        raise InvalidInput(f"{kept} cannot be kept; give 0 or more", field="kept")
    if any(held < 0 or wanted < 0 for held, wanted in holdings.values()):
        raise InvalidInput("a negative count; give 0 or more", field="holdings")
