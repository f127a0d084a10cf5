"""Setting several agendas at once: what setting each by itself would leave, in a few statements."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.store.support import HOUR, NOW, Tables
from timebell.config import Settings
from timebell.errors import InvalidInput, NoTransaction, UnknownKind
from timebell.kernel import Agenda, AgendaDiff, Step, Timebell

ANCHOR = NOW + timedelta(days=2)
FIRST = [
    Step(key="kept", kind="office.ring", offset=HOUR),
    Step(key="changed", kind="office.ring", offset=HOUR, payload={"n": 1}),
    Step(key="moved", kind="office.post", offset=2 * HOUR),
    Step(key="withdrawn", kind="office.ring", offset=HOUR),
    Step(key="too_late", kind="office.ring", offset=HOUR),
    Step(key="done", kind="office.ring", offset=HOUR, once=True),
]
SECOND = [
    FIRST[0],
    Step(key="changed", kind="office.ring", offset=HOUR, payload={"n": 2}),
    Step(key="moved", kind="office.post", offset=3 * HOUR, guard="still_wanted", priority=3),
    Step(key="done", kind="office.ring", offset=HOUR, once=True),
    Step(key="late", kind="office.ring", offset=-timedelta(days=9)),
    Step(key="added", kind="office.book", offset=HOUR, ordered=True, expires_after=HOUR, max_attempts=2),
    Step(key="now", kind="office.ring", offset=-timedelta(days=2)),
]
OWN = ("id", "subject", "slot", "created_at", "logged_at", "job_id", "payload")
NAMES = [field for field in AgendaDiff.__dataclass_fields__ if field != "revision"]


async def prepared(bell: Timebell, tables: Tables, subject: str) -> None:
    """An agenda with a step that runs and one that was paid."""
    async with bell.transaction() as tx:
        diff = await bell.set_agenda(tx, subject=subject, anchor=ANCHOR, steps=FIRST)
    jobs = {change.key: change.job_id for change in diff.added}
    assert jobs["too_late"] is not None
    await tables.start(jobs["too_late"])
    await tables.rows("DELETE FROM timebell.jobs WHERE id = $1", jobs["done"])
    await tables.rows(
        "INSERT INTO timebell.agenda_done (tenant, subject, step, due_at, state, job_id, finished_at) "
        "VALUES ('default', $1, 'done', $2, 'done', $3, $4)",
        *(subject, ANCHOR + HOUR, jobs["done"], NOW),
    )


async def left(tables: Tables, subject: str) -> dict[str, list[dict[str, Any]]]:
    """All that the tables say about a subject, without what is each row's own."""
    result = {}
    for table in ("jobs", "job_log", "agenda_done", "agendas"):
        columns = "*, payload::text AS payload_text" if table == "jobs" else "*"
        rows = await tables.rows(f"SELECT {columns} FROM timebell.{table} WHERE subject = $1", subject)
        plain = [{name: value for name, value in row.items() if name not in OWN} for row in rows]
        result[table] = sorted(plain, key=str)
    return result


def told(diff: AgendaDiff) -> dict[str, list[object]]:
    """A diff, with whether there is a job in the place of which it is."""
    return {
        name: [replace(change, job_id=None) for change in getattr(diff, name)]
        + [change.job_id is not None for change in getattr(diff, name)]
        for name in NAMES
    } | {"revision": [diff.revision]}


async def test_it_leaves_and_answers_what_setting_each_would(bell: Timebell, tables: Tables) -> None:
    for subject in ("old:alone", "old:b", "old:a"):
        await prepared(bell, tables, subject)
    terms: dict[str, Any] = {"anchor": ANCHOR, "steps": SECOND, "correlation_id": "c"}
    async with bell.transaction() as tx:
        alone = {
            name: await bell.set_agenda(tx, subject=f"{name}:alone", reason="changed", actor="ann", **terms)
            for name in ("old", "new")
        }
        counted_alone = dict(tx.counted or {})
    subjects = ["old:b", "new:b", "old:a", "new:a", "empty"]
    async with bell.transaction() as tx:
        agendas = [Agenda(subject=subject, **terms) for subject in subjects[:-1]]
        diffs = await bell.set_agendas(tx, [*agendas, Agenda(subject="empty")], reason="changed", actor="ann")
        counted, woken = dict(tx.counted or {}), {slot for slot, _ in tx.take_wakeups()}
    for subject, diff in zip(subjects[:-1], diffs, strict=False):
        name = subject.partition(":")[0]
        assert told(diff) == told(alone[name]), subject
        assert await left(tables, subject) == await left(tables, f"{name}:alone"), subject
        jobs = {row["step"]: row["id"] for row in await tables.jobs("subject = $1", subject)}
        for change in (*diff.added, *diff.moved, *diff.kept):
            assert jobs[change.key] == change.job_id
    assert [change.key for change in alone["old"].too_late] == ["too_late"]
    assert [(change.key, change.reason) for change in diffs[0].skipped] == [("late", "late")]
    assert diffs[-1] == AgendaDiff(revision=1)
    assert counted == {name: 2 * number for name, number in counted_alone.items()}
    assert counted["enqueued"] == 2 * len(alone["old"].added + alone["new"].added)
    assert woken == await _due_now(tables, subjects)


async def _due_now(tables: Tables, subjects: list[str]) -> set[int]:
    rows = await tables.jobs("step = 'now' AND subject = ANY($1)", subjects)
    assert len(rows) == 4
    return {row["slot"] for row in rows}


async def test_it_takes_few_statements_for_many(bell: Timebell, tables: Tables) -> None:
    agendas = [Agenda(subject=f"s:{n}", anchor=ANCHOR, steps=SECOND) for n in range(100)]
    moved = [replace(agenda, anchor=ANCHOR + HOUR) for agenda in agendas]
    async with bell.transaction() as tx:
        seen: list[str] = []
        tx.session = _Counting(tx.session, seen)
        await bell.set_agendas(tx, agendas)
        first = len(seen)
        await bell.set_agendas(tx, moved)
    assert first <= 4
    assert len(seen) - first <= 8
    due = await tables.rows("SELECT DISTINCT due_at FROM timebell.jobs WHERE step = 'added'")
    assert due == [{"due_at": ANCHOR + 2 * HOUR}]


class _Counting:
    def __init__(self, session: Any, seen: list[str]) -> None:
        self._session, self._seen = session, seen

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._session, name)
        if name in ("fetch", "execute"):
            self._seen.append(name)
        return found


async def test_what_is_refused_of_one_changes_nothing_of_any(
    bell: Timebell, tables: Tables, subtests: pytest.Subtests
) -> None:
    good = Agenda(subject="good", anchor=ANCHOR, steps=FIRST)
    nobody = Agenda(subject="bad", steps=[Step(key="a", kind="office.gone", at=ANCHOR)])
    many = [replace(FIRST[0], key=f"k{n}") for n in range(300)]
    refused: list[tuple[Any, type[Exception], str, str]] = [
        ([good, good], InvalidInput, "agendas", "'good' is stated twice"),
        ([good, nobody], UnknownKind, "kind", "office.gone"),
        ([good, replace(good, subject="bad", anchor=None)], InvalidInput, "anchor", "give one"),
        ([good, "bad"], InvalidInput, "agendas", "sequence of Agenda"),
        ({"good": good}, InvalidInput, "agendas", "sequence of Agenda"),
        ([Agenda(subject=f"s{n}") for n in range(1_001)], InvalidInput, "agendas", "the limit is 1000"),
        (
            [Agenda(subject=f"s{n}", anchor=ANCHOR, steps=many) for n in range(34)],
            InvalidInput,
            "agendas",
            "10200 steps at once, the limit is 10000",
        ),
    ]
    for agendas, error, field, text in refused:
        with subtests.test(text):
            async with bell.transaction() as tx:
                with pytest.raises(error, match=text) as raised:
                    await bell.set_agendas(tx, agendas)
                assert raised.value.field == field  # type: ignore[attr-defined]
    assert set((await tables.counts()).values()) == {0}
    for terms, field in (
        ({"subject": ""}, "subject"),
        ({"subject": "s", "anchor": "soon"}, "anchor"),
        ({"subject": "s", "steps": None}, "steps"),
        ({"subject": "s", "correlation_id": 7}, "correlation_id"),
    ):
        with pytest.raises(InvalidInput) as bad:
            Agenda(**terms)
        assert bad.value.field == field
    with pytest.raises(NoTransaction):
        await bell.set_agendas(tx, [good])


async def test_nothing_is_written_for_none_and_the_most_is_taken(bell: Timebell, tables: Tables) -> None:
    async with bell.transaction() as tx:
        assert await bell.set_agendas(tx, []) == []
        diffs = await bell.set_agendas(tx, [Agenda(subject=f"s{n}") for n in range(1_000)])
    assert len(diffs) == 1_000
    assert Settings().many_max == 10_000


async def test_the_same_subjects_in_opposite_order_do_not_deadlock(bell: Timebell, tables: Tables) -> None:
    """Some of them new and some known: each caller locks all of them in one order."""

    async def change(subjects: list[str]) -> list[AgendaDiff]:
        async with bell.transaction() as tx:
            return await bell.set_agendas(
                tx, [Agenda(subject=subject, anchor=ANCHOR, steps=SECOND[:1]) for subject in subjects]
            )

    for number in range(5):
        names = [f"{number}-{place:04}" for place in range(800)]
        await change(names[::2])
        up, down = await asyncio.gather(change(names), change(names[::-1]))
        revisions = [(one.revision, other.revision) for one, other in zip(up, down[::-1], strict=True)]
        first = revisions[0][0] - 2
        assert revisions == [(2 + first, 3 - first), (1 + first, 2 - first)] * 400
    assert await tables.value("SELECT count(*) FROM timebell.jobs") == 5 * 800


async def test_another_tenant_has_agendas_of_its_own(bell: Timebell, tables: Tables) -> None:
    agendas = [Agenda(subject=name, anchor=ANCHOR, steps=FIRST) for name in ("a", "b")]
    for tenant in ("one", "two"):
        async with bell.transaction(tenant=tenant) as tx:
            await bell.set_agendas(tx, agendas)
    async with bell.transaction(tenant="one") as tx:
        diffs = await bell.set_agendas(tx, [Agenda(subject=name) for name in ("a", "b")])
    assert [len(diff.withdrawn) for diff in diffs] == [6, 6]
    assert {row["tenant"] for row in await tables.jobs()} == {"two"}
    assert len(await tables.jobs()) == 12
