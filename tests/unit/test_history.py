"""Each invariant of a history: one that keeps it, and one that breaks it and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.history import HistoryFile, Op, Record, check, load, summarise

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
END = NOON + timedelta(hours=10)
MINUTE = timedelta(minutes=1)


def at(minutes: float) -> datetime:
    return NOON + minutes * MINUTE


def record(
    op: Op, key: str, minute: float, *, node: str = "a", took: float | None = 0.01, **facts: Any
) -> Record:
    answered_at = None if took is None else at(minute + took)
    return Record(op=op, key=key, node=node, invoked_at=at(minute), answered_at=answered_at, **facts)


def enqueue(key: str = "one", *, due: float = 10, job_id: str | None = "1", **facts: Any) -> Record:
    facts = {"answer": "new", "mode": "external", **facts}
    return record("enqueue", key, facts.pop("minute", 0), due_at=at(due), job_id=job_id, **facts)


def start(key: str = "one", minute: float = 10, *, due: float = 10, **facts: Any) -> Record:
    facts = {"mode": "external", "job_id": "1", **facts}
    return record("start", key, minute, due_at=at(due), **facts)


def end(key: str = "one", minute: float = 11, answer: str = "done", **facts: Any) -> Record:
    return record("end", key, minute, answer=answer, **{"job_id": "1", **facts})


def final(
    key: str = "one", minute: float | None = 12, state: str = "done", *, due: float = 10, **facts: Any
) -> Record:
    over = {"took": 0.0, "minute": minute} if minute is not None else {"took": None, "minute": 600}
    facts = {"job_id": "1", **facts}
    return record("final", key, due_at=at(due), state=state, **over, **facts)


def cancel(minute: float, answer: str, **facts: Any) -> Record:
    return record("cancel", "one", minute, answer=answer, **{"job_id": "1", **facts})


def plan(minute: float, steps: dict[str, float], **facts: Any) -> Record:
    return record("plan", "meeting", minute, steps={step: at(due) for step, due in steps.items()}, **facts)


def step(name: str, due: float, minute: float, **facts: Any) -> Record:
    return start(f"meeting/{name}", minute, due=due, **{"job_id": f"{name}{due}", **facts})


def over(name: str, due: float, minute: float | None, state: str = "done") -> Record:
    return final(f"meeting/{name}", minute, state, due=due, job_id=f"{name}{due}")


def effect(count: int) -> Record:
    return record("effect", "one", 600, count=count, job_id="1")


def fault(kind: str, minute: float, *, node: str = "a", took: float | None = 1) -> Record:
    return record("fault", kind, minute, node=node, took=took)


RAN = [enqueue(), start(), end(), final()]

KEPT: dict[str, list[Record]] = {
    "it ran": RAN,
    "lost: not due yet": [enqueue(due=590), final(minute=None, state="pending", due=590)],
    "lost: never acknowledged": [enqueue(took=None, job_id=None)],
    "lost: cancelled when asked": [enqueue(), cancel(1, "cancelled"), final(minute=1, state="cancelled")],
    "lost: still being retried": [
        enqueue(),
        start(),
        end(minute=11, answer="retry"),
        start(minute=590),
        end(minute=595, answer="retry"),
        final(minute=None, state="pending"),
    ],
    "truth: dead when it was cancelled, and brought back": [
        enqueue(),
        start(),
        end(answer="dead"),
        cancel(15, "already_final"),
        record("revive", "1", 20, job_id="1"),
        start(minute=21),
        end(minute=22),
        final(minute=22),
    ],
    "key: another took it while the first was dead": [
        enqueue(),
        start(),
        end(answer="dead"),
        enqueue(minute=15, due=16, job_id="2"),
        start(minute=16, due=16, job_id="2"),
        end(minute=17, job_id="2"),
        final(minute=17, due=16, job_id="2"),
        record("revive", "1", 20, job_id="1"),
        start(minute=21),
        end(minute=22),
        final(minute=22),
    ],
    "truth: told in a digest, by another": [
        enqueue(),
        start(),
        end(answer="snooze"),
        final(minute=30, state="gathered"),
    ],
    "early: on time": [enqueue(), start(minute=10), end(), final()],
    "early: the plan moved it too late": [
        plan(0, {"remind": 10}),
        step("remind", 10, 10),
        plan(10.5, {"remind": 30}, running=("remind",)),
        over("remind", 10, 11),
        step("remind", 30, 30),
        over("remind", 30, 31),
    ],
    "early: nobody knows whether it was moved": [
        plan(0, {"remind": 10}),
        plan(1, {"remind": 30}, took=None),
        step("remind", 10, 10),
        over("remind", 10, 11),
    ],
    "early: a plain step in the instant of its move": [
        plan(0, {"remind": 10}),
        plan(9.98, {"remind": 30}),
        step("remind", 10, 10, mode="plain"),
        step("remind", 30, 30, mode="plain"),
        over("remind", 30, 31),
    ],
    "after_cancel: cancelled after its start": [enqueue(), start(), cancel(10.5, "too_late"), end(), final()],
    "after_cancel: plain, in the same instant": [
        enqueue(mode="plain"),
        cancel(9.98, "cancelled"),
        start(mode="plain"),
        final(minute=9.98, state="cancelled"),
    ],
    "duplicated: once": [*RAN, effect(1)],
    "repeated: retried": [
        enqueue(),
        start(),
        end(answer="raised"),
        start(minute=20),
        end(minute=21),
        final(minute=21),
    ],
    "repeated: its node was killed": [
        enqueue(),
        start(),
        fault("kill", 11),
        start(minute=20, node="b"),
        final(minute=21),
    ],
    "repeated: the database was": [
        enqueue(),
        start(),
        fault("kill", 11, node="database"),
        start(minute=20),
        final(minute=21),
    ],
    "agenda: pending as planned": [plan(0, {"remind": 595}), over("remind", 595, None, "pending")],
    "agenda: a plan of unknown outcome came to nothing": [plan(0, {"remind": 595}, took=None)],
    "agenda: one of two plans at once": [
        plan(0, {"remind": 595}, took=2),
        plan(1, {"remind": 598}, took=2),
        over("remind", 595, None, "pending"),
    ],
    "order: one after the other": [
        plan(0, {"first": 10, "second": 11}, is_ordered=True),
        step("first", 10, 10),
        over("first", 10, 12),
        step("second", 11, 12.5),
        over("second", 11, 13),
    ],
    "key: again after the first was over": [
        *RAN,
        enqueue(minute=20, job_id="2", due=30),
        start(minute=30, due=30, job_id="2"),
        final(minute=31, due=30, job_id="2"),
    ],
    "key: told of the first": [enqueue(), enqueue(minute=1, answer="existing"), start(), end(), final()],
    "key: replaced, and run as it was replaced": [
        enqueue(mode="plain"),
        start(mode="plain"),
        enqueue(minute=10.5, due=40, answer="replaced", mode="plain"),
        end(),
        start(minute=40, due=40, mode="plain"),
        end(minute=41),
        final(minute=41, due=40),
    ],
    "truth: cancelled between two attempts": [
        enqueue(),
        start(),
        end(answer="retry"),
        cancel(12, "cancelled"),
        final(minute=12, state="cancelled"),
    ],
    "truth: too late for the attempt after a failed one": [
        enqueue(),
        start(),
        end(answer="retry"),
        cancel(12, "too_late"),
        start(minute=12.5),
        end(minute=13),
        final(minute=13),
    ],
    "truth: too late for the attempt after one that its node died of": [
        enqueue(),
        start(),
        fault("kill", 11),
        cancel(13, "too_late"),
        start(minute=13.1, node="b"),
        end(minute=14, node="b"),
        final(minute=14),
    ],
    "truth: too late, dead, and tried again by an operator": [
        enqueue(),
        start(),
        cancel(10.5, "too_late"),
        end(answer="dead"),
        record("revive", "1", 20, job_id="1"),
        start(minute=21),
        end(minute=22),
        final(minute=22),
    ],
    "truth: undecided, and cancelled when it was free": [
        enqueue(),
        cancel(9, "undecided"),
        final(minute=9.5, state="cancelled"),
    ],
    "truth: started, then killed": [
        enqueue(),
        cancel(10.5, "too_late"),
        fault("kill", 10.6),
        final(minute=12, state="cancelled"),
    ],
    "buried: five times, alone in the end": [
        enqueue(),
        *(
            each
            for minute in (10, 15, 20, 25, 30)
            for each in (start(minute=minute), fault("kill", minute + 1), fault("kill", minute + 1, node="b"))
        ),
        final(minute=35, state="dead"),
    ],
    "buried: marked five times, and its node died before it began": [
        enqueue(),
        *(fault("kill", minute) for minute in (10, 15, 20, 25, 30)),
        final(minute=35, state="dead"),
    ],
}

BROKEN: list[tuple[str, list[Record]]] = [
    ("lost", [enqueue(), final(minute=None, state="pending")]),
    ("lost", [enqueue()]),
    ("lost", [enqueue(), final(minute=1, state="cancelled")]),
    ("lost", [enqueue(), final(minute=1, state="expired")]),
    (
        "lost",
        [
            enqueue(mode="plain"),
            start(mode="plain"),
            enqueue(minute=10.5, due=40, answer="replaced", mode="plain"),
            end(),
            final(due=40),
        ],
    ),
    ("lost", [plan(0, {"remind": 10}), over("remind", 10, None, "pending")]),
    ("early", [enqueue(), start(minute=9.9), end(), final()]),
    ("early", [enqueue(due=20), start(minute=19, due=10), end(minute=20), final(minute=20, due=20)]),
    (
        "early",
        [
            plan(0, {"remind": 10}),
            plan(1, {"remind": 30}),
            step("remind", 10, 10),
            step("remind", 30, 30),
            over("remind", 30, 31),
        ],
    ),
    (
        "after_cancel",
        [enqueue(), cancel(9.9, "cancelled"), start(), final(minute=9.9, state="cancelled")],
    ),
    (
        "after_cancel",
        [
            enqueue(mode="plain"),
            cancel(9, "cancelled"),
            start(mode="plain"),
            final(minute=9, state="cancelled"),
        ],
    ),
    ("after_cancel", [enqueue(), cancel(9, "cancelled"), final(minute=9, state="cancelled"), effect(1)]),
    ("after_cancel", [plan(0, {"remind": 10}), plan(1, {}), step("remind", 10, 10)]),
    ("duplicated", [*RAN, effect(2)]),
    ("repeated", [enqueue(), start(), start(minute=20, node="b"), end(minute=21), final(minute=21)]),
    ("repeated", [enqueue(), start(), end(), start(minute=20), final(minute=21)]),
    ("repeated", [enqueue(), start(), fault("kill", 11, node="b"), start(minute=20), final(minute=21)]),
    ("repeated", [enqueue(), start(), fault("pause", 11, took=0.1), start(minute=20), final(minute=21)]),
    ("agenda", [plan(0, {"remind": 595})]),
    ("agenda", [plan(0, {}), over("remind", 595, None, "pending")]),
    (
        "agenda",
        [
            plan(0, {"remind": 595}),
            over("remind", 595, None, "pending"),
            final("meeting/remind", None, "pending", due=595, job_id="other"),
        ],
    ),
    (
        "order",
        [
            plan(0, {"first": 10, "second": 11}, is_ordered=True),
            step("first", 10, 10),
            over("first", 10, 12),
            step("second", 11, 11),
            over("second", 11, 13),
        ],
    ),
    (
        "key",
        [
            *RAN,
            enqueue(minute=11.5, job_id="2", due=30),
            start(minute=30, due=30, job_id="2"),
            final(minute=31, due=30, job_id="2"),
        ],
    ),
    ("key", [enqueue(answer="existing", due=595, minute=1)]),
    (
        "buried",
        [*(fault("kill", minute) for minute in (-3, -2, -1)), enqueue(), final(minute=35, state="dead")],
    ),
    ("truth", [enqueue(), final()]),
    ("truth", [enqueue(), start(), end(answer="retry"), final()]),
    ("truth", [enqueue(), start(), cancel(10.5, "cancelled"), final(minute=10.5, state="cancelled")]),
    (
        "truth",
        [
            enqueue(),
            start(),
            fault("pause", 10.2, took=0.1),
            cancel(10.5, "cancelled"),
            final(minute=10.5, state="cancelled"),
        ],
    ),
    ("truth", [enqueue(), cancel(9, "cancelled"), final(minute=9, state="skipped")]),
    ("truth", [enqueue(due=595), cancel(9, "too_late"), final(minute=None, state="pending", due=595)]),
    ("truth", [enqueue(), cancel(9, "too_late"), final(minute=9, state="cancelled")]),
    ("truth", [enqueue(due=595), cancel(9, "undecided"), final(minute=None, state="pending", due=595)]),
    (
        "truth",
        [
            enqueue(mode="transactional"),
            start(mode="transactional"),
            cancel(10.5, "too_late"),
            end(answer="retry"),
            start(minute=12, mode="transactional"),
            end(minute=13),
            final(minute=13),
        ],
    ),
    (
        "truth",
        [
            enqueue(),
            start(),
            fault("kill", 11),
            cancel(13, "too_late"),
            start(minute=13.1, node="b"),
            end(minute=14, answer="retry", node="b"),
            start(minute=15, node="b"),
            end(minute=16, node="b"),
            final(minute=16),
        ],
    ),
    (
        "truth",
        [
            enqueue(),
            start(),
            cancel(10.5, "too_late"),
            end(answer="dead"),
            start(minute=19),
            end(minute=19.5, answer="dead"),
            record("revive", "1", 20, job_id="1"),
            start(minute=21),
            end(minute=22),
            final(minute=22),
        ],
    ),
    ("truth", [enqueue(), cancel(9, "already_final"), start(), end(), final()]),
    ("truth", [enqueue(), cancel(9, "not_found"), start(), end(), final()]),
    ("buried", [enqueue(), start(), fault("kill", 11), final(minute=12, state="dead")]),
    (
        "buried",
        [
            enqueue(),
            *(
                each
                for minute in (10, 15, 20, 25, 30)
                for each in (start(minute=minute), fault("kill", minute + 1))
            ),
            final(minute=35, state="dead"),
            record("start", "two", 29.9, due_at=at(29), mode="external", job_id="2"),
        ],
    ),
]


@pytest.mark.parametrize("history", KEPT.values(), ids=list(KEPT))
def test_a_history_that_keeps_them_all(history: list[Record]) -> None:
    assert check(history, until=END, grace=30 * MINUTE, lease=0.5 * MINUTE) == []


@pytest.mark.parametrize(("invariant", "history"), BROKEN)
def test_a_history_that_breaks_one(invariant: str, history: list[Record]) -> None:
    found = check(history, until=END, grace=30 * MINUTE, lease=0.5 * MINUTE)
    assert {violation.invariant for violation in found} == {invariant}
    assert str(found[0]).startswith(f"{invariant}: ")


def test_a_file_gives_back_what_was_appended(tmp_path: Path) -> None:
    path = tmp_path / "history"
    history = [*RAN, plan(0, {"remind": 10}, running=("remind",), is_ordered=True), plan(1, {}), effect(0)]
    with HistoryFile(path) as first, HistoryFile(path) as second:
        for position, each in enumerate(history):
            (first if position % 2 else second).append(each)
    path.write_bytes(path.read_bytes() + b'{"op": "sta')
    assert load(path) == history


def test_the_figures_of_a_run() -> None:
    history = [
        enqueue(),
        start(),
        fault("kill", 11),
        start(minute=20, node="b"),
        fault("kill", 30, node="database", took=1),
        start("two", 32, due=31, job_id="2"),
    ]
    figures = summarise(history, check(history, until=END, grace=MINUTE))
    assert figures["jobs"] == 2
    assert figures["starts"] == 3
    assert figures["faults"] == 2
    assert figures["lost"] == 1
    assert figures["recovered"] == 2
    assert figures["recovery_seconds_max"] == 540.0
