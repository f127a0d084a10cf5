"""Faults in schedules and tasks. They go with the app."""

from __future__ import annotations

from tests.mutants.planted import Planted

_TWIN = ("tests/apps/reminders/test_neighbours.py::test_a_twin_is_neither_seen_nor_changed",)
_TASKS = ("tests/apps/reminders/test_tasks.py",)

PLANTED = [
    Planted(
        name="muted-and-told",
        file="apps/reminders/service.py",
        old="for minutes in details.told]",
        new="for minutes in details.offsets]",
        why="An hour that was unticked is told all the same.",
        tests=("tests/apps/reminders/test_reminding.py",),
    ),
    Planted(
        name="task-of-another-tenant",
        file="apps/reminders/sql/read_task.sql",
        old="WHERE t.tenant = :tenant::text AND t.user_id",
        new="WHERE (t.tenant = :tenant::text OR true) AND t.user_id",
        why="Without a wall in the database a tenant reads another's task.",
        tests=_TWIN,
    ),
    Planted(
        name="task-done-for-another-tenant",
        file="apps/reminders/sql/complete_task.sql",
        old="WHERE tenant = :tenant::text AND user_id",
        new="WHERE (tenant = :tenant::text OR true) AND user_id",
        why="Without a wall in the database a tenant completes another's task.",
        tests=_TWIN,
    ),
    Planted(
        name="tasks-erased-of-another-tenant",
        file="apps/reminders/sql/erase_tasks.sql",
        old="WHERE tenant = :tenant::text AND user_id",
        new="WHERE (tenant = :tenant::text OR true) AND user_id",
        why="Without a wall in the database an erasure takes another tenant's tasks with it.",
        tests=_TWIN,
    ),
    Planted(
        name="task-done-twice",
        file="apps/reminders/sql/complete_task.sql",
        old=" AND completed_at IS NULL\n",
        new="\n",
        why="Completing a task again moves the instant at which it was done.",
        tests=_TASKS,
    ),
    Planted(
        name="task-seen-a-moment-late",
        file="apps/reminders/sql/list_tasks.sql",
        old="t.visible_from <= coalesce(:now::timestamptz, now())",
        new="t.visible_from < coalesce(:now::timestamptz, now())",
        why="A task is not there at the instant from which it is to be seen.",
        tests=_TASKS,
    ),
    Planted(
        name="done-task-removed",
        file="apps/reminders/sql/remove_tasks.sql",
        old=" AND completed_at IS NULL",
        new="",
        why="What somebody has done vanishes when the schedule is edited at the same time.",
        tests=_TASKS,
    ),
    Planted(
        name="done-task-renamed",
        file="apps/reminders/sql/move_tasks.sql",
        old="title = CASE WHEN t.completed_at IS NULL THEN :title::text ELSE t.title END,",
        new="title = :title::text,",
        why="What somebody has done gets another name afterwards.",
        tests=_TASKS,
    ),
    Planted(
        name="split-leaves-a-task-behind",
        file="apps/reminders/sql/hand_over_tasks.sql",
        old="AND original_local >= :from_local::timestamp",
        new="AND original_local > :from_local::timestamp",
        why="The task of the occurrence at which a schedule is split belongs to the old one.",
        tests=("tests/apps/reminders/test_reminding.py",),
    ),
    Planted(
        name="done-tasks-taken-away",
        file="apps/reminders/rules.py",
        old="for rest in left.values() for task in rest if not task.is_completed",
        new="for rest in left.values() for task in rest",
        why="What was done is taken back with its occurrence.",
        tests=("tests/apps/reminders/test_rules.py",),
    ),
    Planted(
        name="lead-in-days-too-soon",
        file="apps/reminders/rules.py",
        old="if minutes % _DAY == 0 and minutes > 2 * _DAY:",
        new="if minutes % _DAY == 0 and minutes >= 2 * _DAY:",
        why="48 hours are called two days, although people were promised hours.",
        tests=("tests/apps/reminders/test_rules.py",),
    ),
]
