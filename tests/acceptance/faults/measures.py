"""How long the callers and the jobs of a run had to wait."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import accumulate

from tests.acceptance.faults.load import CALLER
from tests.history import Record

_ABOUT = timedelta(milliseconds=10)


def longest_call(records: Iterable[Record]) -> float:
    """Seconds that the slowest call of the caller took, whether it was answered or given up.

    The caller asks one thing after the other, so a call that was given up ended before the next began.
    """
    asked = sorted((each for each in records if each.node == CALLER), key=lambda each: each.invoked_at)
    longest = timedelta(0)
    for each, following in zip(asked, [*asked[1:], None], strict=True):
        ended = each.answered_at or (following.invoked_at if following is not None else None)
        if ended is not None:
            longest = max(longest, ended - each.invoked_at)
    return longest.total_seconds()


def longest_wait(records: Sequence[Record]) -> float:
    """Seconds from when a job could have begun to its first start, of the one that waited longest.

    It could have begun when it was due and its enqueue acknowledged, but not before the end of a fault that came
    between.
    """
    faults = sorted(each.answered_at or each.invoked_at for each in records if each.op == "fault")
    acknowledged = {
        each.key: each.answered_at for each in records if each.op == "enqueue" and each.answered_at
    }
    begun: dict[str, Record] = {}
    for each in sorted(records, key=lambda each: each.invoked_at):
        if each.op == "start" and each.due_at is not None:
            begun.setdefault(each.key, each)
    longest = timedelta(0)
    for key, start in begun.items():
        ready = max(start.due_at or start.invoked_at, acknowledged.get(key) or start.invoked_at)
        for ended in faults:
            if ready <= ended <= start.invoked_at:
                ready = ended
        longest = max(longest, start.invoked_at - ready)
    return longest.total_seconds()


def needless_starts(records: Sequence[Record]) -> int:
    """Starts of plain and external jobs beyond the first that no answer of their handler asked for."""
    starts = [each for each in records if each.op == "start" and each.mode != "transactional"]
    begun = {each.key for each in starts}
    failed = [each for each in records if each.op == "end" and each.answer in ("retry", "raised")]
    return len(starts) - len(begun) - sum(each.key in begun for each in failed)


def lateness(records: Iterable[Record], *prefixes: str) -> list[float]:
    """Seconds to the first start of each job whose name begins so, the shortest first: from its due instant, or from
    when the caller heard that it was taken, should that be later."""
    first: dict[str, Record] = {}
    taken: dict[str, datetime] = {}
    for each in records:
        if each.op == "enqueue" and each.answered_at is not None:
            taken[each.key] = each.answered_at
        if each.op == "start" and each.key.startswith(prefixes):
            known = first.get(each.key)
            if known is None or each.invoked_at < known.invoked_at:
                first[each.key] = each
    return sorted(
        (each.invoked_at - max(each.due_at, taken.get(each.key, each.due_at))).total_seconds()
        for each in first.values()
        if each.due_at is not None
    )


def longest_idle(records: Sequence[Record]) -> float:
    """Seconds for which a job was owed while nobody ran it and no fault went on, of the one that lay longest.

    It is owed from when it is due and taken until it has ended for good. What runs is not idle, wherever it runs.
    """
    faults = sorted(
        (each.invoked_at, each.answered_at or each.invoked_at) for each in records if each.op == "fault"
    )
    owed: dict[str, datetime] = {}
    ended: dict[str, datetime] = {}
    spans: dict[str, list[tuple[datetime, datetime]]] = {}
    began: dict[tuple[str, str], list[datetime]] = {}
    for each in sorted(records, key=lambda each: each.invoked_at):
        if each.op == "enqueue" and each.answered_at is not None and each.due_at is not None:
            owed[each.key] = max(each.due_at, each.answered_at)
        elif each.op == "final" and each.answered_at is not None:
            ended[each.key] = each.answered_at
        elif each.op == "start":
            began.setdefault((each.key, each.node), []).append(each.invoked_at)
        elif each.op == "end":
            spans.setdefault(each.key, []).append(
                (began[each.key, each.node].pop(0), each.answered_at or each.invoked_at)
            )
    return max((_idle(owed[key], ended[key], sorted(spans[key]), faults) for key in owed), default=0.0)


def _idle(
    since: datetime,
    until: datetime,
    spans: Sequence[tuple[datetime, datetime]],
    faults: Sequence[tuple[datetime, datetime]],
) -> float:
    longest = timedelta(0)
    for begin, end in [*spans, (until, until)]:
        for fault_begins, fault_ends in [*faults, (begin, begin)]:
            if fault_begins >= since:
                longest = max(longest, min(begin, fault_begins) - since)
            since = max(since, min(begin, fault_ends))
        since = max(since, end)
    return longest.total_seconds()


def busiest_second(records: Iterable[Record]) -> int:
    """The most starts in any half-open second, over all nodes; those that begin with a start are enough to look at."""
    starts = sorted(each.invoked_at for each in records if each.op == "start")
    second = timedelta(seconds=1)
    return max((bisect_left(starts, at + second) - rank for rank, at in enumerate(starts)), default=0)


def most_at_once(records: Sequence[Record]) -> int:
    """How many handlers ran at once at most, over all nodes: each from its start to the last sign that it gave.

    What is stopped in the middle of a step ends that step when it goes on, and nobody could keep it from that: of the
    signs after a pause the first of the node, where it comes at once, is not counted.
    """
    last: dict[tuple[str, str], int] = {}
    runs: list[tuple[datetime, datetime]] = []
    woken = _first_signs(records)
    for each in sorted(records, key=lambda each: each.invoked_at):
        job = (each.job_id or each.key, each.node)
        if each.op == "start":
            last[job] = len(runs)
            runs.append((each.invoked_at, each.invoked_at))
        elif each.op == "sign" and each not in woken and job in last:
            runs[last[job]] = (runs[last[job]][0], each.invoked_at)
    changes = sorted([(begin, 1) for begin, _ in runs] + [(end, -1) for _, end in runs])
    return max(accumulate(change for _, change in changes), default=0)


def longest_still(records: Sequence[Record]) -> float:
    """Seconds from the end of a fault until somebody ran again, of the longest."""
    alive = sorted(each.invoked_at for each in records if each.op in ("start", "sign"))
    ends = [each.answered_at or each.invoked_at for each in records if each.op == "fault"]
    following = [(end, bisect_left(alive, end)) for end in ends]
    return max(
        ((alive[rank] - end).total_seconds() for end, rank in following if rank < len(alive)), default=0.0
    )


def _first_signs(records: Sequence[Record]) -> list[Record]:
    """Of each pause the first sign of its node afterwards, if it came at once."""
    signs = sorted((each for each in records if each.op == "sign"), key=lambda each: each.invoked_at)
    firsts = []
    for pause in [each for each in records if each.op == "fault" and each.key == "pause"]:
        woken_at = pause.ends_at - _ABOUT
        first = next(
            (each for each in signs if each.node == pause.node and each.invoked_at >= woken_at), None
        )
        if first is not None and first.invoked_at <= pause.ends_at + _ABOUT:
            firsts.append(first)
    return firsts
