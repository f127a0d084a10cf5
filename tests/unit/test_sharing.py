"""Slots and permits divided between nodes without anyone in charge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from timebell.errors import InvalidInput
from timebell.rules.sharing import SlotMoves, balance_slots, share_permits, visited_kinds

QUICK = settings(max_examples=20, deadline=None)
SLOTS = 256

Owners = dict[int, int | None]
Holdings = dict[int, tuple[int, int]]

node_sets = st.lists(st.integers(1, 1_000), min_size=1, max_size=9, unique=True)


@st.composite
def any_ownership(draw: st.DrawFn) -> tuple[Owners, list[int]]:
    alive = draw(node_sets)
    # A few runs of slots with one owner each make more lopsided states than a draw for each slot would.
    owners = draw(st.lists(st.sampled_from([None, *alive]), min_size=1, max_size=16))
    return {slot: owners[slot % len(owners)] for slot in range(SLOTS)}, alive


def owned_counts(owned: Mapping[int, int | None], nodes: Iterable[int]) -> list[int]:
    counts = Counter(owned.values())
    return [counts[node] for node in nodes]


def act(owned: Owners, me: int, moves: SlotMoves) -> None:
    """Carry out moves; none may take what has an owner, nor release what belongs to another."""
    for slot in moves.take:
        assert owned[slot] is None, "a slot was taken while owned"
        owned[slot] = me
    for slot in moves.release:
        assert owned[slot] == me, "a slot was released by a node that did not own it"
        owned[slot] = None


def settle(owned: Owners, alive: Sequence[int], acting: Sequence[int] | None = None) -> int:
    """Let the nodes act in turn until nobody moves; the number of slots that were given up on the way."""
    released = 0
    for _ in range(4):
        moved = False
        for me in acting if acting is not None else alive:
            moves = balance_slots(owned, alive, me)
            released += len(moves.release)
            moved = moved or moves != SlotMoves()
            act(owned, me, moves)
        if not moved:
            return released
    raise AssertionError("the nodes did not come to rest")


@QUICK
@given(state=any_ownership(), data=st.data())
def test_any_state_settles_evenly_whoever_acts_first(
    state: tuple[Owners, list[int]], data: st.DataObject
) -> None:
    owned, alive = state
    settle(owned, alive, data.draw(st.permutations(alive)))
    counts = owned_counts(owned, alive)
    assert sum(counts) == SLOTS
    assert max(counts) - min(counts) <= 1


@QUICK
@given(state=any_ownership())
def test_no_more_slots_move_than_must(state: tuple[Owners, list[int]]) -> None:
    owned, alive = state
    share, odd = divmod(SLOTS, len(alive))
    even = [share + 1] * odd + [share] * (len(alive) - odd)
    fullest_first = sorted(owned_counts(owned, alive), reverse=True)
    necessary = sum(max(0, held - fair) for held, fair in zip(fullest_first, even, strict=True))
    assert settle(owned, alive) == necessary


@QUICK
@given(state=any_ownership())
def test_nodes_that_see_the_same_facts_never_take_the_same_slot(state: tuple[Owners, list[int]]) -> None:
    owned, alive = state
    moves = {me: balance_slots(owned, alive, me) for me in alive}
    taken = [slot for move in moves.values() for slot in move.take]
    assert len(taken) == len(set(taken))
    for me, move in moves.items():
        act(owned, me, move)
    for me in alive:
        held = owned_counts(owned, [me])[0]
        assert held <= -(-SLOTS // len(alive))


@QUICK
@given(alive=node_sets, newcomer=st.integers(1_001, 2_000))
def test_a_node_that_joins_is_given_its_share_and_nothing_else_moves(alive: list[int], newcomer: int) -> None:
    owned: Owners = dict.fromkeys(range(SLOTS), None)
    settle(owned, alive)
    before = dict(owned)
    released = settle(owned, [*alive, newcomer])
    assert released == SLOTS // (len(alive) + 1)
    assert {slot for slot in owned if owned[slot] != before[slot]} == {
        slot for slot in owned if owned[slot] == newcomer
    }


@QUICK
@given(alive=node_sets.filter(lambda nodes: len(nodes) > 1))
def test_a_node_that_leaves_frees_its_own_slots_and_no_others(alive: list[int]) -> None:
    owned: Owners = dict.fromkeys(range(SLOTS), None)
    settle(owned, alive)
    leaver, *rest = alive
    before = dict(owned)
    released = settle(owned, rest, acting=alive)
    assert released == owned_counts(before, [leaver])[0]
    assert all(owned[slot] == before[slot] for slot in owned if before[slot] != leaver)
    assert sum(owned_counts(owned, rest)) == SLOTS


def test_slots_of_a_silent_node_are_left_alone_until_they_are_set_free() -> None:
    owned: Owners = {slot: 1 if slot < 128 else 2 for slot in range(SLOTS)}
    assert balance_slots(owned, [2], 2) == SlotMoves()
    for slot in range(128):
        owned[slot] = None
    assert balance_slots(owned, [2], 2) == SlotMoves(take=tuple(range(128)))


@pytest.mark.parametrize(
    ("owned", "alive", "me", "moves"),
    [
        ({0: None, 1: None, 2: None}, [7], 7, SlotMoves(take=(0, 1, 2))),
        ({0: None, 1: None, 2: None}, [9, 7], 7, SlotMoves(take=(0, 1))),
        ({0: None, 1: None, 2: None}, [9, 7], 9, SlotMoves(take=(2,))),
        ({0: 9, 1: 9, 2: None}, [9, 7], 9, SlotMoves()),
        ({0: 9, 1: 9, 2: 9}, [9, 7], 9, SlotMoves(release=(2,))),
        ({0: 9, 1: 9, 2: 9}, [9, 7], 7, SlotMoves()),
        ({0: 9, 1: 7, 2: 9}, [7], 9, SlotMoves(release=(0, 2))),
        ({0: 9, 1: None}, [9, 7, 5], 7, SlotMoves()),
        ({0: 1, 1: 1, 2: 1, 3: 1, 4: None, 5: None}, [1, 2, 3], 2, SlotMoves(take=(4, 5))),
        ({0: 1, 1: 1, 2: 1, 3: 1, 4: None, 5: None}, [1, 2, 3], 3, SlotMoves()),
        ({0: None}, [], 7, SlotMoves()),
    ],
)
def test_the_moves_of_one_node(owned: Owners, alive: list[int], me: int, moves: SlotMoves) -> None:
    assert balance_slots(owned, alive, me) == moves


@st.composite
def any_holdings(draw: st.DrawFn) -> tuple[int, Holdings]:
    limit = draw(st.integers(0, 40))
    held = draw(st.dictionaries(st.integers(1, 99), st.integers(0, 12), min_size=1, max_size=6))
    return limit, {node: (count, draw(st.integers(0, 20))) for node, count in held.items()}


@pytest.mark.req("U-8")
@QUICK
@given(state=any_holdings(), turn=st.integers(0, 9))
def test_the_limit_holds_even_if_all_act_on_the_same_facts_at_once(
    state: tuple[int, Holdings], turn: int
) -> None:
    limit, holdings = state
    held = sum(count for count, _ in holdings.values())
    most = sum(
        max(count, share_permits(limit, holdings, me, turn=turn)) for me, (count, _) in holdings.items()
    )
    assert most <= max(limit, held)


@pytest.mark.req("U-8")
@QUICK
@given(state=any_holdings(), data=st.data())
def test_the_limit_holds_and_the_shares_grow_fair_as_permits_come_back(
    state: tuple[int, Holdings], data: st.DataObject
) -> None:
    limit, holdings = state
    turn = data.draw(st.integers(0, 9))
    for _ in range(len(holdings) + 2):
        for me in data.draw(st.permutations(sorted(holdings))):
            answer = share_permits(limit, holdings, me, turn=turn)
            before = sum(count for count, _ in holdings.values())
            holdings[me] = (answer, holdings[me][1])
            assert sum(count for count, _ in holdings.values()) <= max(limit, before)
    held = {node: count for node, (count, _) in holdings.items()}
    wanted = {node: want for node, (_, want) in holdings.items()}
    assert sum(held.values()) == min(limit, sum(wanted.values()))
    most = max(held.values())
    assert all(held[node] == wanted[node] or held[node] >= most - 1 for node in held)


@pytest.mark.parametrize(
    ("limit", "holdings", "answers"),
    [
        (10, {1: (0, 20)}, {1: 10}),
        (10, {1: (0, 3)}, {1: 3}),
        (10, {1: (10, 20), 2: (0, 20)}, {1: 5, 2: 0}),
        (10, {1: (6, 20), 2: (0, 20)}, {1: 5, 2: 4}),
        (10, {1: (5, 20), 2: (4, 20)}, {1: 5, 2: 5}),
        (10, {1: (0, 2), 2: (0, 20), 3: (0, 20)}, {1: 2, 2: 4, 3: 4}),
        (8, {1: (0, 2), 2: (0, 2), 3: (0, 20)}, {1: 2, 2: 2, 3: 4}),
        (11, {1: (0, 20), 2: (0, 20), 3: (0, 20)}, {1: 4, 2: 4, 3: 3}),
        (4, {1: (3, 9), 2: (0, 9), 3: (0, 9)}, {1: 2, 2: 1, 3: 0}),
        (2, {1: (5, 9), 2: (3, 9)}, {1: 1, 2: 1}),
        (0, {1: (1, 9), 2: (0, 9)}, {1: 0, 2: 0}),
    ],
)
def test_the_permits_of_each_node(limit: int, holdings: Holdings, answers: dict[int, int]) -> None:
    assert {me: share_permits(limit, holdings, me) for me in holdings} == answers


@pytest.mark.req("U-8")
def test_a_single_permit_goes_round_as_the_turn_moves_on() -> None:
    idle: Holdings = {1: (0, 100), 2: (0, 1), 3: (0, 5)}
    owners = [[me for me in idle if share_permits(1, idle, me, turn=turn)] for turn in range(6)]
    assert owners == [[1], [2], [3], [1], [2], [3]]


@pytest.mark.req("U-8")
@QUICK
@given(state=any_holdings(), kept=st.integers(0, 40), data=st.data())
def test_what_is_kept_for_the_dead_is_nobodys(
    state: tuple[int, Holdings], kept: int, data: st.DataObject
) -> None:
    """It counts as if somebody held it who wants no more and gives nothing back."""
    limit, holdings = state
    for me in data.draw(st.permutations(sorted(holdings))):
        answer = share_permits(limit, holdings, me, kept=kept)
        before = sum(count for count, _ in holdings.values())
        holdings[me] = (answer, holdings[me][1])
        assert sum(count for count, _ in holdings.values()) <= max(limit - kept, before)


@pytest.mark.req("U-8")
def test_what_is_left_beside_the_dead_is_shared_evenly() -> None:
    idle: Holdings = {1: (0, 10), 2: (0, 10)}
    assert [share_permits(5, idle, me, kept=1) for me in idle] == [2, 2]
    assert [share_permits(5, idle, me, kept=7) for me in idle] == [0, 0]


def test_less_than_nothing_is_not_kept() -> None:
    with pytest.raises(InvalidInput, match=r"^kept: "):
        share_permits(5, {1: (0, 0)}, 1, kept=-1)


@pytest.mark.parametrize(
    ("limit", "holdings", "field"),
    [(-1, {1: (0, 0)}, "limit"), (5, {2: (0, 0)}, "holdings"), (5, {1: (-1, 0)}, "holdings")],
)
def test_holdings_without_sense_are_refused_by_field(limit: int, holdings: Holdings, field: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{field}: "):
        share_permits(limit, holdings, 1)


kind_sets = st.frozensets(st.sampled_from("abcd"))


@QUICK
@given(
    st.dictionaries(st.integers(1, 9), st.none() | kind_sets, min_size=1),
    st.lists(st.none() | st.integers(1, 9), min_size=1, max_size=16),
)
def test_what_an_owner_leaves_is_looked_for_by_exactly_one_that_can_run_it(
    kinds: dict[int, frozenset[str] | None], some: list[int | None]
) -> None:
    owners = {slot: some[slot % len(some)] for slot in range(SLOTS)}
    visits = {me: visited_kinds(owners, kinds, me) for me in kinds}
    for slot, owner in owners.items():
        known = None if owner is None else kinds.get(owner)
        for kind in "abcd":
            comes = [me for me in kinds if kind in visits[me].get(slot, ())]
            able = [me for me, each in kinds.items() if each is not None and kind in each]
            assert set(comes) <= set(able)
            assert len(comes) == bool(able and known is not None and kind not in known)


def test_those_who_can_share_what_others_leave() -> None:
    kinds = {1: frozenset("a"), 2: frozenset("b"), 3: frozenset("b")}
    owners: Owners = dict.fromkeys(range(SLOTS), 1)
    visits = [visited_kinds(owners, kinds, me) for me in (2, 3)]
    assert [len(each) for each in visits] == [128, 128]
    assert not visits[0].keys() & visits[1].keys()


@QUICK
@given(state=any_ownership(), kept=st.sets(st.integers(0, SLOTS - 1)))
def test_what_is_kept_stays_and_as_many_others_go(state: tuple[Owners, list[int]], kept: set[int]) -> None:
    owned, alive = state
    for me in alive:
        free, moves = balance_slots(owned, alive, me), balance_slots(owned, alive, me, kept=kept)
        others = [slot for slot, owner in owned.items() if owner == me and slot not in kept]
        assert moves.take == free.take
        assert not kept & set(moves.release)
        assert len(moves.release) == min(len(free.release), len(others))
        assert set(moves.release) <= set(others)
