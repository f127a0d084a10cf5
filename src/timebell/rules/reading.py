"""One text, three kinds of recurrence: `FREQ=...` on the wall clock, `every ...` in elapsed time, `cron ...`."""

from __future__ import annotations

from timebell.errors import RecurrenceError
from timebell.rules.cron import Cron, parse_cron
from timebell.rules.every import Every, parse_every
from timebell.rules.rrule import Rule, parse_rule, shown


def read_recurrence(text: str) -> Rule | Every | Cron:
    """The recurrence that a text means. Its first word says which kind it is."""
    word, space, rest = text.partition(" ")
    kind = word.lower()
    if kind == "every":
        return parse_every(rest)
    if kind == "cron":
        return parse_cron(rest)
    if kind.startswith("@"):
        return parse_cron(text)
    if space and "=" not in word:
        raise RecurrenceError(
            part="recurrence",
            reason=f"{shown(text)} begins with no known word",
            remedy="write FREQ=DAILY, every PT15M or cron 0 9 * * 1",
        )
    return parse_rule(text)
