"""The wait list of ordered steps: those whose start was refused until an earlier step of their subject has ended."""

from __future__ import annotations

from datetime import datetime

from timebell.engine.ledger.entry import JobEntry

Subject = tuple[str, str]
# Beyond so many the oldest are let go of; the next look at what is due finds their steps too, only later.
_SUBJECTS_MAX = 10_000


class Waitlist:
    """Knows where to look again when a step ends."""

    def __init__(self) -> None:
        self._waiting: dict[Subject, tuple[int, datetime]] = {}
        self._freed: dict[Subject, None] = {}

    def wait(self, entry: JobEntry) -> bool:
        """A start was refused; False where a step of the subject ended meanwhile and it may begin after all."""
        subject = _subject_of(entry)
        if subject in self._freed:
            del self._freed[subject]
            return False
        known = self._waiting.get(subject)
        run_at = entry.row["run_at"]
        self._waiting[subject] = (entry.slot, run_at if known is None else min(run_at, known[1]))
        _let_go(self._waiting)
        return True

    def ended(self, entry: JobEntry, *, is_starting: bool) -> tuple[int, datetime] | None:
        """A step ended: answers with the slot and the instant to look at again, where another waits.

        While starts are under way, one of them may have seen this step unfinished and not be back yet.
        """
        subject = _subject_of(entry)
        if is_starting:
            self._freed[subject] = None
            _let_go(self._freed)
        return self._waiting.pop(subject, None)

    def nothing_is_starting(self) -> None:
        self._freed.clear()


def _subject_of(entry: JobEntry) -> Subject:
    return (entry.row["tenant"], entry.row["subject"])


def _let_go(subjects: dict[Subject, tuple[int, datetime]] | dict[Subject, None]) -> None:
    if len(subjects) > _SUBJECTS_MAX:
        del subjects[next(iter(subjects))]
