"""What must hold of a history, whoever made it: a simulation under virtual time, or real processes and real kills.

A history is a list of records: what was asked, what ran, what went wrong, and what the database says in the end.
A record without `answered_at` has an unknown outcome: it may have happened or not, and both are allowed. Instants
are the database's; in a simulation they are virtual.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tests.history_facts import EVERYBODY, UNFINISHED, Facts, Life
from tests.history_records import NEVER, HistoryFile, Mode, Op, Record, load

__all__ = ["EVERYBODY", "HistoryFile", "Mode", "Op", "Record", "Violation", "check", "load", "summarise"]

# A plain job has no start mark and may still run in the instant of its cancel; this long is still that instant.
_PLAIN_WINDOW = timedelta(seconds=5)
# Ends that somebody or something asked for, and after which nothing is owed any more.
_ENDED = frozenset({"done", "dead", "expired", "cancelled", "superseded", "skipped", "gathered"})
_ASKED_FOR = frozenset({"cancelled", "superseded", "skipped"})
# A job is dead of the third crash that it may have caused, and runs alone before it, though not for ever.
_CRASHES_MAX = 5
_SOLITUDE = timedelta(seconds=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """Something that must not be: which invariant, of which key, in words."""

    invariant: str
    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.key}: {self.text}"


def check(
    history: Iterable[Record], *, until: datetime, grace: timedelta, lease: timedelta = timedelta(0)
) -> list[Violation]:
    """What the history breaks. It ran until `until`; what was due `grace` before that must be over by then.

    A pause shorter than `lease` explains nothing: nobody took the node for dead.
    """
    facts = Facts(history)
    found: list[Violation] = []
    for life in facts.lives.values():
        texts = [
            *_lost(life, until - grace),
            *_early(life),
            *_after_cancel(life),
            *_duplicated(life),
            *_repeated(life, facts, lease),
            *_truth(life, facts, lease),
            *_buried(life, facts),
            *_replaced(life, facts),
            *_order(life, facts),
        ]
        found += [Violation(invariant=invariant, key=life.key, text=text) for invariant, text in texts]
    for key, lives in facts.by_key.items():
        found += [Violation(invariant="key", key=key, text=text) for text in _key(lives)]
    for subject in facts.plans:
        found += _agenda(subject, facts, until, grace)
    return sorted(found, key=lambda each: (each.invariant, each.key, each.text))


def _lost(life: Life, overdue: datetime) -> Iterator[tuple[str, str]]:
    acknowledged = [
        each for each in life.enqueues if each.answered_at and each.answer in ("new", "existing", "replaced")
    ]
    if not acknowledged:
        return
    if life.state in _ENDED:
        yield from _ended_unasked(life, acknowledged)
        return
    due_at = max(each.due_at or each.invoked_at for each in acknowledged)
    put_off = [each for each in life.ends if each.answer != "done" and each.invoked_at > overdue]
    if due_at < overdue and not put_off:
        yield "lost", f"acknowledged and due at {due_at.isoformat()}, and in the end {life.state}"


def _ended_unasked(life: Life, acknowledged: list[Record]) -> Iterator[tuple[str, str]]:
    """It is over, but not in a way that anybody asked for."""
    is_cancelled = bool(life.cancels) or any(end.answer == "cancel" for end in life.ends)
    replaced = [each for each in acknowledged if each.answer == "replaced"]
    if life.state in _ASKED_FOR and not is_cancelled:
        yield "lost", f"in the end {life.state}, and nobody asked for it"
    elif life.state == "expired" and not any(each.expires_at for each in acknowledged):
        yield "lost", "expired, and nobody said when"
    elif life.state == "done" and replaced and not _has_begun(life, replaced):
        yield "lost", "replaced under its key, and what replaced it never began"


def _has_begun(life: Life, replaced: list[Record]) -> bool:
    """Whether one of those that may be the last to have replaced it began."""
    latest = max(each.invoked_at for each in replaced)
    last = {each.due_at for each in replaced if each.ends_at >= latest}
    return any(start.due_at in last for start in life.starts)


def _early(life: Life) -> Iterator[tuple[str, str]]:
    # What was replaced under its key may have begun at the time it had before.
    is_settled = not any(each.answer == "replaced" or each.answered_at is None for each in life.enqueues)
    stated = [each.due_at for each in life.enqueues if is_settled and each.answer == "new" and each.due_at]
    for start in life.starts:
        due_at = max([*stated, *([start.due_at] if start.due_at else [])], default=start.invoked_at)
        if start.invoked_at < due_at:
            yield "early", f"began at {start.invoked_at.isoformat()}, due at {due_at.isoformat()}"


def _after_cancel(life: Life) -> Iterator[tuple[str, str]]:
    answered = [each.answered_at for each in life.cancels if each.answer == "cancelled" and each.answered_at]
    if not answered:
        return
    cancelled_at = min(answered)
    for start in life.starts:
        if start.invoked_at > cancelled_at + (_PLAIN_WINDOW if start.mode == "plain" else timedelta(0)):
            yield (
                "after_cancel",
                f"began at {start.invoked_at.isoformat()}, cancelled at {cancelled_at.isoformat()}",
            )
    if any(each.count for each in life.effects):
        yield "after_cancel", "answered cancelled, and its effect is in the database"


def _duplicated(life: Life) -> Iterator[tuple[str, str]]:
    count = sum(each.count or 0 for each in life.effects)
    if count > 1:
        yield "duplicated", f"its effect is in the database {count} times"


def _repeated(life: Life, facts: Facts, lease: timedelta) -> Iterator[tuple[str, str]]:
    for earlier, later in itertools.pairwise(life.starts):
        if later.mode == "transactional":
            continue
        # Moved or replaced between the two, it is owed again.
        explained = later.due_at != earlier.due_at or any(
            end.node == earlier.node
            and end.answer != "done"
            and earlier.invoked_at <= end.invoked_at <= later.invoked_at
            for end in life.ends
        )
        if not explained and not facts.is_hit(earlier.node, earlier.invoked_at, later.invoked_at, lease):
            at = f"{earlier.invoked_at.isoformat()} on {earlier.node}"
            yield "repeated", f"begun at {at} and again at {later.invoked_at.isoformat()} on {later.node}"


def _truth(life: Life, facts: Facts, lease: timedelta) -> Iterator[tuple[str, str]]:
    if life.state == "done" and not life.starts:
        yield "truth", "done in the database, and no handler ever began"
    elif life.state == "done" and len(life.ends) >= len(life.starts) and not _may_be_done(life):
        yield "truth", "done in the database, and no handler ever said so"
    was_enqueued_at = min((each.ends_at for each in life.enqueues), default=NEVER)
    for cancel in [each for each in life.cancels if each.answered_at is not None]:
        match cancel.answer:
            case "cancelled" if life.state != "cancelled":
                yield "truth", f"answered cancelled, and in the end {life.state}"
            case "cancelled" if _was_running(life, cancel, facts, lease):
                yield "truth", "answered cancelled while it ran"
            case "too_late" | "undecided" if life.state in UNFINISHED:
                yield "truth", f"answered {cancel.answer}, and in the end {life.state}"
            case "too_late" if (again := _tried_again(life, cancel, facts, lease)) is not None:
                yield "truth", f"answered too_late, and begun again at {again.isoformat()}"
            case "too_late" if not life.starts and not facts.faults:
                yield "truth", "answered too_late, and no handler ever began"
            case "already_final" if (
                not life.revivals and life.over_at is not None and life.over_at > cancel.ends_at
            ):
                yield "truth", f"answered already_final before its end, and in the end {life.state}"
            case "not_found" if cancel.job_id is not None and was_enqueued_at < cancel.invoked_at:
                yield "truth", "answered not_found after its enqueue was acknowledged"
            case _:
                pass


def _may_be_done(life: Life) -> bool:
    return any(end.answer == "done" for end in life.ends)


def _was_running(life: Life, cancel: Record, facts: Facts, lease: timedelta) -> bool:
    """Whether it had a start mark that nobody took back: no fault, and no answer that leads to another attempt."""
    for start in [each for each in life.starts if each.mode == "external"]:
        if start.invoked_at >= cancel.invoked_at:
            continue
        again = any(
            end.answer != "done" and start.invoked_at <= end.invoked_at <= cancel.ends_at for end in life.ends
        )
        if not again and not facts.is_hit(start.node, start.invoked_at, cancel.ends_at, lease):
            return True
    return False


def _tried_again(life: Life, cancel: Record, facts: Facts, lease: timedelta) -> datetime | None:
    """When an attempt began after the one that was running as the cancel was answered, of the same due instant. What it
    died of may be mended, and an operator has it tried then.

    Where the last one that had begun was cut off before, the one that ran may have been marked and not have begun yet.
    """
    before = [each for each in life.starts if each.invoked_at < cancel.invoked_at]
    if not before or any(before[-1].invoked_at <= end.invoked_at <= cancel.ends_at for end in life.ends):
        return None
    last = before[-1]
    revived_at = min(
        (each.invoked_at for each in life.revivals if each.ends_at > cancel.invoked_at), default=NEVER
    )
    later = [
        each.invoked_at
        for each in life.starts
        if cancel.ends_at < each.invoked_at < revived_at and each.due_at == last.due_at
    ]
    is_cut_off = facts.is_hit(last.node, last.invoked_at, cancel.invoked_at, lease)
    return next(iter(later[1:] if is_cut_off else later), None)


def _buried(life: Life, facts: Facts) -> Iterator[tuple[str, str]]:
    """A job that only crashes may have killed: it must have been there each time, and alone the last time."""
    if life.state != "dead" or life.revivals or any(end.answer != "done" for end in life.ends):
        return
    # A start may be marked and its node die before the handler begins, even each time, so it is the faults that count.
    asked_at = min((each.invoked_at for each in life.enqueues), default=datetime.min.replace(tzinfo=UTC))
    kills = _kills(life, facts, asked_at)
    if len(kills) < _CRASHES_MAX:
        yield "buried", f"dead, begun {len(life.starts)} times, and only {len(kills)} nodes were hit"
        return
    last = life.starts[-1] if life.starts else None
    if last is None or len(_kills(life, facts, last.invoked_at)) > 1:
        # The crash that buried it may have been one in which it was marked and did not begin.
        return
    for other in facts.lives.values():
        for start in other.starts if other is not life else ():
            beside = (
                start.node == last.node and last.invoked_at - _SOLITUDE < start.invoked_at <= last.invoked_at
            )
            ended = any(
                end.node == start.node and start.invoked_at <= end.invoked_at <= last.invoked_at
                for end in other.ends
            )
            if (
                beside
                and not ended
                and not facts.is_hit(last.node, last.invoked_at - _SOLITUDE, last.invoked_at, _SOLITUDE)
            ):
                yield "buried", f"dead of a crash in which {other.key} ran beside it"


def _kills(life: Life, facts: Facts, since: datetime) -> list[Record]:
    """The faults from an instant to the job's end that cost a node its life."""
    kills = [fault for fault in facts.faults if fault.key in ("kill", "pause")]
    return [
        each
        for each in kills
        if each.ends_at >= since and (life.over_at is None or each.invoked_at <= life.over_at)
    ]


def _replaced(life: Life, facts: Facts) -> Iterator[tuple[str, str]]:
    """A step that began although the plan in effect wants it at another time, or not at all."""
    subject, _, step = life.key.rpartition("/")
    for start in life.starts if subject in facts.plans else ():
        window = _PLAIN_WINDOW if start.mode == "plain" else timedelta(0)
        recent = facts.plans_in_effect(subject, start.invoked_at)
        lately = facts.plans_in_effect(subject, start.invoked_at - window) if window else []
        stated = [(plan.steps or {}).get(step) for plan in [*recent, *lately]]
        if not recent or start.due_at in stated or any(step in plan.running for plan in recent):
            continue
        wanted = {each.isoformat() for each in stated if each is not None}
        invariant = "early" if wanted else "after_cancel"
        due_at = start.due_at.isoformat() if start.due_at else "?"
        yield (
            invariant,
            f"began for {due_at}, and the plan then said {', '.join(sorted(wanted)) or 'nothing'}",
        )


def _order(life: Life, facts: Facts) -> Iterator[tuple[str, str]]:
    subject, _, step = life.key.rpartition("/")
    for start in life.starts if subject in facts.plans else ():
        plans = facts.plans_in_effect(subject, start.invoked_at)
        if len(plans) != 1 or not plans[0].is_ordered or (plans[0].steps or {}).get(step) != start.due_at:
            continue
        for name, due_at in (plans[0].steps or {}).items():
            if name == step:
                break
            for other in facts.by_key.get(f"{subject}/{name}", ()):
                is_meant = other.final is not None and other.final.due_at == due_at
                if is_meant and other.over_at is not None and other.over_at > start.invoked_at:
                    yield "order", f"began at {start.invoked_at.isoformat()} before {name} was over"


def _key(lives: list[Life]) -> Iterator[str]:
    made = [(each, life) for life in lives for each in life.enqueues if each.answer == "new" and each.job_id]
    made.sort(key=lambda pair: pair[0].ends_at)
    for (_, earlier), (second, later) in itertools.pairwise(made):
        is_whole = earlier is not later and not earlier.revivals
        if is_whole and earlier.over_at is not None and earlier.over_at > second.ends_at:
            yield "a second job was made while the first was not over"
    for life in lives:
        told = [each for each in life.enqueues if each.answer == "existing"]
        if told and life.state == "missing":
            yield "answered existing, and there is no such job"


def _agenda(subject: str, facts: Facts, until: datetime, grace: timedelta) -> list[Violation]:
    """What is pending in the end must be what one of the plans that may be in effect states, less what is over."""
    finals = [life.final for life in facts.steps.get(subject, ()) if life.final is not None]
    plans = facts.plans_in_effect(subject, until)
    stated = [plan.steps for plan in plans if plan.steps is not None]
    if all(plan.answered_at is None for plan in plans):
        # Perhaps none of them came to anything.
        stated.append({})
    return min((_against(steps, subject, finals, until - grace) for steps in stated), key=len)


def _against(
    steps: Mapping[str, datetime], subject: str, finals: list[Record], overdue: datetime
) -> list[Violation]:
    found = []
    stated = {(f"{subject}/{step}", due_at) for step, due_at in steps.items()}
    over = {(final.key, final.due_at) for final in finals if final.state in _ENDED}
    pending = Counter((final.key, final.due_at) for final in finals if final.state in UNFINISHED)
    for key, due_at in sorted(stated):
        if (key, due_at) in over:
            continue
        if (key, due_at) not in pending:
            text = f"the plan says {due_at.isoformat()}, and it is neither pending nor over"
            found.append(Violation(invariant="agenda", key=key, text=text))
        elif due_at < overdue:
            text = f"planned for {due_at.isoformat()}, and still pending"
            found.append(Violation(invariant="lost", key=key, text=text))
    for (key, at), count in sorted(pending.items()):
        if (key, at) not in stated or count > 1:
            text = f"{count} pending for {at.isoformat() if at else '?'}, which the plan does not say"
            found.append(Violation(invariant="agenda", key=key, text=text))
    return found


def summarise(
    history: Iterable[Record], violations: Iterable[Violation] = ()
) -> dict[str, int | float | None]:
    """The figures of a run: how much was done, what was broken, and how long it took to recover from faults."""
    records = list(history)
    facts = Facts(records)
    counts = Counter(record.op for record in records)
    broken = Counter(violation.invariant for violation in violations)
    recoveries = sorted(_recoveries(facts))
    return {
        "jobs": sum(1 for life in facts.lives.values() if life.final is not None or life.starts),
        "starts": counts["start"],
        "faults": counts["fault"],
        **{name: broken[name] for name in ("lost", "early", "after_cancel", "duplicated", "repeated")},
        **{name: broken[name] for name in ("agenda", "order", "key", "truth", "buried")},
        "recovered": len(recoveries),
        "recovery_seconds_max": recoveries[-1] if recoveries else None,
        "recovery_seconds_median": recoveries[len(recoveries) // 2] if recoveries else None,
    }


def _recoveries(facts: Facts) -> Iterator[float]:
    """From a fault on a node to the next start of each job that it had begun and not ended; from one of the database
    to the next start of any."""
    starts = sorted(start.invoked_at for life in facts.lives.values() for start in life.starts)
    for fault in facts.faults:
        if fault.node in EVERYBODY:
            later = next((at for at in starts if at > fault.ends_at), None)
            if later is not None:
                yield (later - fault.ends_at).total_seconds()
            continue
        for life in facts.lives.values():
            begun = [each for each in life.starts if each.invoked_at <= fault.invoked_at]
            if not begun or begun[-1].node != fault.node:
                continue
            ended = any(begun[-1].invoked_at <= each.invoked_at <= fault.invoked_at for each in life.ends)
            again = [each for each in life.starts if each.invoked_at > fault.invoked_at]
            if again and not ended:
                yield (again[0].invoked_at - fault.invoked_at).total_seconds()
