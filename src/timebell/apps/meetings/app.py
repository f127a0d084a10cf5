"""The app, as a process loads it."""

from __future__ import annotations

from timebell.apps.meetings import handlers
from timebell.apps.meetings.busy import RELEASE_HOLD
from timebell.apps.meetings.guards import IS_ON, is_on
from timebell.apps.meetings.holds import release_hold
from timebell.apps.meetings.imports import READ_CALENDAR
from timebell.apps.meetings.service import COMPLETE, REPLAN
from timebell.apps.meetings.templates import ship
from timebell.kernel import App, Handler, Queue

QUEUE = "meetings"
# What strangers' servers hold up can be paused by itself.
CALENDARS = "meetings.calendars"

APP = App(
    name="meetings",
    migrations="timebell.apps.meetings.migrations",
    handlers={
        COMPLETE: Handler(run=handlers.complete, mode="transactional", queue=QUEUE),
        REPLAN: Handler(run=handlers.replan, mode="transactional", queue=QUEUE),
        READ_CALENDAR: Handler(run=handlers.read_calendar, mode="external", queue=CALENDARS),
        RELEASE_HOLD: Handler(run=release_hold, mode="transactional", queue=QUEUE),
    },
    guards={IS_ON: is_on},
    queues=[Queue(name=QUEUE), Queue(name=CALENDARS)],
    routes="timebell.apps.meetings.routes",
    problems="timebell.apps.meetings.problems",
    on_declare=ship,
    on_erase=handlers.erase,
    on_export=handlers.export,
)
