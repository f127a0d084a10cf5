"""The app, as a process loads it."""

from __future__ import annotations

from timebell.apps.reminders import handlers
from timebell.apps.reminders.exporting import export
from timebell.apps.reminders.guards import IS_OPEN, is_open
from timebell.apps.reminders.tasks import KEEP_TASKS
from timebell.apps.reminders.templates import ship
from timebell.kernel import App, Handler, Queue

QUEUE = "reminders"

APP = App(
    name="reminders",
    migrations="timebell.apps.reminders.migrations",
    handlers={
        KEEP_TASKS: Handler(run=handlers.keep_tasks, mode="plain", queue=QUEUE),
        handlers.SILENCE: Handler(run=handlers.silence, mode="plain", queue=QUEUE),
    },
    guards={IS_OPEN: is_open},
    queues=[Queue(name=QUEUE)],
    routes="timebell.apps.reminders.routes",
    on_declare=ship,
    on_erase=handlers.erase,
    on_export=export,
)
