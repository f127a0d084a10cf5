"""Faults in alerts: which opens too soon, stays for ever, is seen by strangers, or keeps others from being asked."""

from __future__ import annotations

from tests.mutants.planted import Planted

_RULES = ("tests/unit/test_alert_rules.py",)
_WATCH = ("tests/engine/test_watch.py",)
_OWN = ("tests/engine/test_own_alerts.py",)
_WEB = ("tests/web/test_alerts.py",)
_TOLD = ("tests/engine/notify/test_operators.py",)

PLANTED = [
    Planted(
        name="alert-opens-at-its-bound",
        file="rules/alerting.py",
        old="return value > bound if",
        new="return value >= bound if",
        why="A hundred dead jobs are borne, and an alert opens.",
        tests=_RULES,
    ),
    Planted(
        name="alert-of-one-sample",
        file="rules/alerting.py",
        old="return samples >= self.samples_min and self._is_beyond(value, self.opens_at)",
        new="return self._is_beyond(value, self.opens_at)",
        why="The first job of a queue dies, and that is all of them.",
        tests=_RULES,
    ),
    Planted(
        name="alert-opens-before-it-has-lasted",
        file="rules/alerting.py",
        old="elif now - known.seen_at >= bounds.holds_for:",
        new="else:",
        why="A node that is started again is told of as if nobody worked.",
        tests=_RULES,
    ),
    Planted(
        name="alert-closes-where-it-opened",
        file="rules/alerting.py",
        old="self.opens_at if self.closes_at is None else self.closes_at",
        new="self.opens_at",
        why="A disk that is about full opens and closes an alert all day.",
        tests=_RULES,
    ),
    Planted(
        name="alert-closed-beyond-a-cut-answer",
        file="rules/alerting.py",
        old="return is_behind and (until is None or _bytes_of(place) <= _bytes_of(until))",
        new="return is_behind",
        why="What did not fit into an answer is taken to be over.",
        tests=_RULES,
    ),
    Planted(
        name="alert-question-that-fails-ends-the-round",
        file="engine/watch/watching.py",
        old="                self._note_failure(name, error)\n                return\n",
        new="                self._note_failure(name, error)\n                raise\n",
        why="One query that is wrong, and nobody hears of anything any more.",
        tests=_WATCH,
    ),
    Planted(
        name="alert-questions-without-a-limit",
        file="engine/watch/watching.py",
        old='f"SET TRANSACTION READ ONLY; {limit}"',
        new='"SET TRANSACTION READ ONLY"',
        why="A question that takes minutes holds up all others.",
        tests=_WATCH,
    ),
    Planted(
        name="alert-questions-may-write",
        file="engine/watch/watching.py",
        old='f"SET TRANSACTION READ ONLY; {limit}"',
        new="limit",
        why="A question changes what it asks about.",
        tests=_WATCH,
    ),
    Planted(
        name="alert-rounds-of-every-node",
        file="kernel/alerts/sql/take_rounds.sql",
        old="WHERE r.asked_at <= excluded.asked_at - :seconds::double precision * interval '1 second' OR",
        new="WHERE r.asked_at <= excluded.asked_at AND :seconds::double precision >= 0 OR",
        why="A hundred nodes ask everything a hundred times.",
        tests=_WATCH,
    ),
    Planted(
        name="alert-rounds-wait-for-the-old-time",
        file="kernel/alerts/sql/take_rounds.sql",
        old=" OR r.asked_at > excluded.asked_at\n",
        new="\n",
        why="The database's clock was set back by a day, and for that long nobody asks.",
        tests=_WATCH,
    ),
    Planted(
        name="alert-of-retries-of-long-ago",
        file="engine/watch/sql/ask_attempts.sql",
        old="AND l.finished_at > coalesce(:now::timestamptz, now()) - :seconds::double precision * interval '1 second'",
        new="AND coalesce(:now::timestamptz, now()) > '-infinity' AND :seconds::double precision > 0",
        why="A bad night is told of until the log is dropped.",
        tests=_OWN,
    ),
    Planted(
        name="alert-of-what-waits-on-purpose",
        file="engine/watch/sql/ask_late.sql",
        old="(VALUES (0::smallint), (1::smallint))",
        new="(VALUES (0::smallint), (1::smallint), (2::smallint))",
        why="A queue that somebody has paused is told of as late.",
        tests=_OWN,
    ),
    Planted(
        name="alert-of-the-engine-for-everybody",
        file="kernel/alerts/sql/list_alerts_oldest.sql",
        old="(:sees_engine::boolean OR NOT l.is_of_engine) AND",
        new="(:sees_engine::boolean OR true) AND",
        why="Whoever has a key that reads sees what is wrong with the installation.",
        tests=_WEB,
    ),
    Planted(
        name="alert-of-the-engine-acknowledged-by-anybody",
        file="kernel/alerts/sql/acknowledge_alert.sql",
        old="(:sees_engine::boolean OR NOT a.is_of_engine)",
        new="(:sees_engine::boolean OR true)",
        why="Somebody who may not see an alert says that they see to it.",
        tests=_WEB,
    ),
    Planted(
        name="alert-told-to-nobody-and-noted",
        file="notify/alerts/operators.py",
        old="    if failures and len(failures) == len(recipients):\n        raise failures[recipients[0]]\n",
        new="",
        why="Nobody could be told, and nobody ever is.",
        tests=_TOLD,
    ),
    Planted(
        name="alert-waits-for-the-morning",
        file="notify/alerts/operators.py",
        old='urgency="critical" if any(each.is_critical for each in news) else "normal"',
        new='urgency="normal"',
        why="At night nobody hears that nobody works.",
        tests=_TOLD,
    ),
    Planted(
        name="alert-of-which-nobody-hears-that-it-closed",
        file="kernel/alerts/sql/note_told.sql",
        old="WHEN a.told = 'nothing' AND (a.closed_at IS NULL OR a.severity = 'critical') THEN 'opening'",
        new="WHEN a.told = 'nothing' AND a.closed_at IS NULL AND a.severity = 'warning' THEN 'opening'",
        why="Somebody gets up, and it has been over for an hour.",
        tests=_TOLD,
    ),
    Planted(
        name="alert-acknowledged-by-the-last",
        file="kernel/alerts/sql/acknowledge_alert.sql",
        old="acknowledged_by = coalesce(a.acknowledged_by, :actor::text)",
        new="acknowledged_by = coalesce(:actor::text, a.acknowledged_by)",
        why="Two see to it, and the first is forgotten.",
        tests=_WEB,
    ),
    Planted(
        name="alert-of-somebody-who-may-be-told-later",
        file="notify/alerts/sql/ask_not_told.sql",
        old="w.state IN ('failed', 'uncertain') AND w.urgency <> 'normal'",
        new="w.state IN ('failed', 'uncertain')",
        why="A newsletter that nobody takes rings as the end of an insurance does.",
        tests=_TOLD,
    ),
    Planted(
        name="alert-of-whoever-was-not-told-long-ago",
        file="notify/alerts/sql/ask_not_told.sql",
        old="w.settled_at > coalesce(:now::timestamptz, now()) - :seconds::double precision * interval '1 second'",
        new="coalesce(:now::timestamptz, now()) > '-infinity' AND :seconds::double precision > 0",
        why="Whoever was called stays an alert for half a year, and hides the next.",
        tests=_TOLD,
    ),
]
