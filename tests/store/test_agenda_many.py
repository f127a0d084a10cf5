"""Beginning many agendas at once leaves the same rows as setting each of them alone."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.store.support import HOUR, NOW, Tables
from timebell.errors import InvalidInput, UnknownKind
from timebell.kernel import Step, Timebell
from timebell.kernel.agenda.writer import StatedAgenda

ANCHOR = NOW + timedelta(days=2)
STEPS = [
    Step(key="week", kind="office.ring", offset=-timedelta(days=7)),
    Step(key="just", kind="office.ring", offset=-timedelta(days=2, hours=1), late="grace", grace=2 * HOUR),
    Step(
        key="day",
        kind="office.post",
        offset=-24 * HOUR,
        payload={"n": [1, {"ä": None}]},
        expires_after=HOUR,
        guard="still_wanted",
        priority=7,
        urgency="critical",
        max_attempts=9,
        ordered=True,
    ),
    Step(key="start", kind="office.book", offset=0 * HOUR, queue="slow"),
]
OWN = ("id", "subject", "slot", "created_at", "logged_at", "job_id", "payload")


async def stated(bell: Timebell, session: Any, subject: str, **options: Any) -> StatedAgenda:
    terms = {"tenant": "default", "anchor": ANCHOR, "steps": STEPS, "correlation_id": "c", **options}
    return await bell.agendas.stated(session, subject=subject, **terms)


def told(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows without what is each one's own."""
    plain = [{name: value for name, value in row.items() if name not in OWN} for row in rows]
    return sorted(plain, key=lambda row: str(row["step"]))


async def of(tables: Tables, table: str, subject: str) -> list[dict[str, Any]]:
    columns = "*, payload::text AS payload_text" if table == "jobs" else "*"
    return told(await tables.rows(f"SELECT {columns} FROM timebell.{table} WHERE subject = $1", subject))


async def test_it_writes_what_setting_each_would_have_written(bell: Timebell, tables: Tables) -> None:
    async with bell.transaction() as tx:
        alone = await bell.set_agenda(tx, subject="meeting:1", anchor=ANCHOR, steps=STEPS, correlation_id="c")
        agendas = [await stated(bell, tx.session, f"meeting:{n}") for n in (2, 3)]
        begun = await bell.agendas.begin_many(tx.session, agendas)
    for n, diff in zip((2, 3), begun.diffs, strict=True):
        assert diff is not None
        for name in ("added", "skipped"):
            told_alone = [(step.key, step.due_at, step.reason) for step in getattr(alone, name)]
            assert [(step.key, step.due_at, step.reason) for step in getattr(diff, name)] == told_alone
        for table in ("jobs", "job_log", "agenda_done"):
            rows = await of(tables, table, f"meeting:{n}")
            assert rows == await of(tables, table, "meeting:1")
            assert rows
    agendas_rows = await tables.rows("SELECT anchor, revision, updated_at FROM timebell.agendas")
    assert agendas_rows == [agendas_rows[0]] * 3


async def test_it_is_for_several_tenants_and_wakes_for_what_is_due(bell: Timebell, tables: Tables) -> None:
    now = [Step(key="now", kind="office.ring", offset=0 * HOUR)]
    async with bell.transaction() as tx:
        agendas = [
            await stated(bell, tx.session, "s", tenant=tenant, anchor=NOW, steps=now, correlation_id=None)
            for tenant in ("a", "b")
        ]
        begun = await bell.agendas.begin_many(tx.session, agendas)
    jobs = await tables.rows("SELECT tenant, slot, run_at FROM timebell.jobs ORDER BY tenant")
    assert [job["tenant"] for job in jobs] == ["a", "b"]
    assert {(row["slot"], row["run_at"]) for row in begun.due} == {(job["slot"], NOW) for job in jobs}


async def test_a_subject_that_has_an_agenda_is_left_alone(bell: Timebell, tables: Tables) -> None:
    async with bell.transaction() as tx:
        await bell.set_agenda(tx, subject="old", anchor=ANCHOR, steps=STEPS[2:3])
        before = await tables.jobs()
        agendas = [await stated(bell, tx.session, subject) for subject in ("old", "new")]
        begun = await bell.agendas.begin_many(tx.session, agendas)
    assert begun.diffs[0] is None
    assert begun.diffs[1] is not None
    assert [row["step"] for row in await tables.jobs("subject = 'old'")] == ["day"]
    assert before == []


@pytest.mark.parametrize(
    ("steps", "error"),
    [
        ([Step(key="a", kind="office.gone", offset=0 * HOUR)], UnknownKind),
        ([STEPS[3], STEPS[3]], InvalidInput),
        ([Step(key="a", kind="office.ring", offset=timedelta(days=10_000))], InvalidInput),
    ],
)
async def test_what_setting_refuses_is_refused_before_anything_is_written(
    bell: Timebell, steps: list[Step], error: type[Exception]
) -> None:
    async with bell.transaction() as tx:
        with pytest.raises(error):
            await stated(bell, tx.session, "s", steps=steps)
