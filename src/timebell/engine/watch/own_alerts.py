"""The engine's own rules for alerts: what is wrong with the installation, whatever the apps do with it.

`ops/alerts.yml` has most of them too, under the same names, so that Prometheus tells of it where Timebell cannot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

from timebell.engine.watch import questions as ask
from timebell.kernel.alerts import AlertRule, Asked, Finding
from timebell.rules.alerting import Bounds

QUESTION_FAILS: Final = "alert_question_fails"
# What fails under this name is no question, and no rule has it.
TELLING: Final = "(telling)"
_HOUR: Final = timedelta(hours=1)
_SAMPLES_MIN: Final = 20


async def _itself(_: Asked) -> None:
    """What fails is known to the watch, which asks this of itself."""


def failing(failed: Mapping[str, int]) -> Sequence[Finding]:
    """What the watch finds of itself, by how often in a row each question has failed."""
    return [
        Finding(subject=name, value=count, detail=f"{_what(name)} {count} times in a row")
        for name, count in sorted(failed.items())
    ]


def _what(name: str) -> str:
    if name == TELLING:
        return "operators could not be told of alerts"
    return f"the question of the rule {name} has failed"


OWN_RULES: Final[tuple[AlertRule, ...]] = (
    AlertRule(
        name="many_dead_jobs",
        severity="critical",
        about="More than 100 dead jobs wait for an operator.",
        remedy="`timebell dead causes` says what killed them; mend that, then `timebell jobs revive`.",
        question=ask.dead_jobs,
        bounds=Bounds(opens_at=100),
    ),
    AlertRule(
        name="jobs_fail",
        severity="critical",
        about="More than one in twenty of the jobs of a queue dies.",
        remedy="`timebell dead causes` says what of.",
        question=ask.failed_jobs,
        bounds=Bounds(opens_at=0.05, samples_min=_SAMPLES_MIN),
        window=_HOUR,
    ),
    AlertRule(
        name="jobs_are_late",
        severity="warning",
        about="A job has been due for more than five minutes.",
        remedy="See `timebell queues list` for its limits and `timebell nodes` for who works; start another node.",
        question=ask.late_jobs,
        bounds=Bounds(opens_at=300),
    ),
    AlertRule(
        name="many_retries",
        severity="warning",
        about="More than a fifth of the attempts of a queue are tried again.",
        remedy="`timebell journey ID` of one of its jobs says why.",
        question=ask.retried_jobs,
        bounds=Bounds(opens_at=0.2, samples_min=_SAMPLES_MIN),
    ),
    AlertRule(
        name="loop_stands_still",
        severity="critical",
        about="A loop of a node has made no pass in twice its time.",
        remedy="Start that process again, and look into its log.",
        question=ask.loops,
        bounds=Bounds(opens_at=2),
    ),
    AlertRule(
        name="nobody_works",
        severity="critical",
        about="What is owed has nobody who pays it.",
        remedy="Start a node: `timebell work`.",
        question=ask.unowned_slots,
        bounds=Bounds(holds_for=timedelta(minutes=2)),
    ),
    AlertRule(
        name="nobody_can_run",
        severity="critical",
        about="Jobs are due of a kind that no living node has a handler for.",
        remedy="Start the program whose App brings the handler, or look why it stopped.",
        question=ask.left_kinds,
        bounds=Bounds(holds_for=timedelta(minutes=2)),
    ),
    AlertRule(
        name="breaker_open",
        severity="warning",
        about="A provider or a destination has been away for a quarter of an hour.",
        remedy="See whether it answers. What waits for it goes on by itself when it is back.",
        question=ask.breakers,
        bounds=Bounds(holds_for=timedelta(minutes=15)),
    ),
    AlertRule(
        name="broker_away",
        severity="critical",
        about="Nodes cannot reach the broker, or it refuses what they hand to it, and jobs wait.",
        remedy="Start the broker, or free its memory or disk if it is blocked. What waits leaves by itself then.",
        question=ask.held_queues,
        bounds=Bounds(holds_for=timedelta(minutes=1)),
    ),
    AlertRule(
        name="disk_fills",
        severity="critical",
        about="There is less than one gigabyte of space for the data of the embedded server.",
        remedy="Free some space there, or move the data: docs/howto/backup.md.",
        question=ask.disk,
        bounds=Bounds(side="below", opens_at=1e9, closes_at=1.5e9),
    ),
    AlertRule(
        name="clock_off",
        severity="warning",
        about="The clock of a node is more than five seconds from the database's.",
        remedy="Synchronise both machines (NTP). The database's clock decides what is due.",
        question=ask.clocks,
        bounds=Bounds(opens_at=5, closes_at=2, holds_for=timedelta(minutes=1)),
    ),
    AlertRule(
        name="schedule_parked",
        severity="warning",
        about="A schedule could not be planned, and does not run.",
        remedy="Edit it, or `timebell schedules resume ID` once the cause is gone.",
        question=ask.parked_schedules,
    ),
    AlertRule(
        name="schedule_missed",
        severity="warning",
        about="A schedule did not run: what was due within the last day was not done in time.",
        remedy="`timebell journey ID` of one of its jobs says why; its `catch_up` says what is done about it.",
        question=ask.missed_schedules,
        window=timedelta(days=1),
    ),
    AlertRule(
        name="planner_is_behind",
        severity="warning",
        about="A schedule has waited for more than five minutes to be planned.",
        remedy="Look for the planner in the logs of the nodes.",
        question=ask.unplanned_schedules,
        bounds=Bounds(opens_at=300),
    ),
    AlertRule(
        name="old_snapshot",
        severity="warning",
        about="A session keeps the database from cleaning up for more than an hour.",
        remedy="`timebell doctor` names the session; end it.",
        question=ask.oldest_snapshot,
        bounds=Bounds(opens_at=3_600),
    ),
    AlertRule(
        name="audit_not_sealed",
        severity="warning",
        about="An event of the audit trail has had no seal for more than an hour.",
        remedy="Look for the pruner in the logs of the nodes. `timebell audit verify` says how many there are.",
        question=ask.unsealed_events,
        bounds=Bounds(opens_at=3_600),
    ),
    AlertRule(
        name="log_not_prepared",
        severity="warning",
        about="The log of jobs is prepared for less than two days.",
        remedy="Look for the pruner in the logs of the nodes.",
        question=ask.log_days,
        bounds=Bounds(side="below", opens_at=2, holds_for=_HOUR),
    ),
    AlertRule(
        name=QUESTION_FAILS,
        severity="warning",
        about="A question about alerts fails, or telling operators of them, so that nobody would hear of it.",
        remedy="The log has the error. The questions of the other rules are asked all the same.",
        question=_itself,
        bounds=Bounds(opens_at=2, closes_at=0),
    ),
)
