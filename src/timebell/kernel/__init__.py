"""The kernel: what is owed, to whom and when, with the verbs, their records, and the app that brings handlers."""

from timebell.clock import Ids
from timebell.db.failures import DATABASE_ERRORS
from timebell.db.pool import Session
from timebell.db.together import Gathering, Together
from timebell.kernel.alerts.alerting import AlertRule, Asked, Finding
from timebell.kernel.alerts.alerts import Alerts
from timebell.kernel.app import App, Handler, Registry
from timebell.kernel.aside import ProcessorLimit
from timebell.kernel.bell import Timebell
from timebell.kernel.commands import Command, CommandAnswer, CommandArgument, CommandOption
from timebell.kernel.insights.records import QueueDepth
from timebell.kernel.jobs.job import Job
from timebell.kernel.jobs.outcomes import Cancel, Dead, Done, Outcome, Refused, Retry, Snooze
from timebell.kernel.measures import Gauge, Measure, TableGauge
from timebell.kernel.models import Agenda, AgendaDiff, Cancelled, Enqueue, Enqueued, Queue, Step, StepChange
from timebell.kernel.options import (
    EnqueueOptions,
    NamedStepOptions,
    NewScheduleOptions,
    ScheduleOptions,
    StepOptions,
)
from timebell.kernel.paging import Page, decode_cursor, encode_cursor, page_of
from timebell.kernel.schedules.models import (
    Occurrence,
    OccurrenceChange,
    OrphanedOverride,
    Schedule,
    ScheduleChange,
    ScheduleDiff,
)
from timebell.kernel.statements import Statements
from timebell.kernel.transaction import Transaction
from timebell.rules.alerting import Bounds
from timebell.rules.planned import Override

__all__ = [
    "DATABASE_ERRORS",
    "Agenda",
    "AgendaDiff",
    "AlertRule",
    "Alerts",
    "App",
    "Asked",
    "Bounds",
    "Cancel",
    "Cancelled",
    "Command",
    "CommandAnswer",
    "CommandArgument",
    "CommandOption",
    "Dead",
    "Done",
    "Enqueue",
    "EnqueueOptions",
    "Enqueued",
    "Finding",
    "Gathering",
    "Gauge",
    "Handler",
    "Ids",
    "Job",
    "Measure",
    "NamedStepOptions",
    "NewScheduleOptions",
    "Occurrence",
    "OccurrenceChange",
    "OrphanedOverride",
    "Outcome",
    "Override",
    "Page",
    "ProcessorLimit",
    "Queue",
    "QueueDepth",
    "Refused",
    "Registry",
    "Retry",
    "Schedule",
    "ScheduleChange",
    "ScheduleDiff",
    "ScheduleOptions",
    "Session",
    "Snooze",
    "Statements",
    "Step",
    "StepChange",
    "StepOptions",
    "TableGauge",
    "Timebell",
    "Together",
    "Transaction",
    "decode_cursor",
    "encode_cursor",
    "page_of",
]
