"""Which ordered steps are looked at again when an earlier one has ended."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

from timebell.engine.ledger import waitlist
from timebell.engine.ledger.entry import JobEntry
from timebell.engine.ledger.waitlist import Waitlist

NINE = datetime(2026, 1, 5, 9, tzinfo=UTC)


def entry(subject: str, *, minute: int = 0, tenant: str = "t", slot: int = 7) -> JobEntry:
    row = {
        "id": UUID(int=minute + 1),
        "version": 1,
        "slot": slot,
        "lane": 1,
        "run_at": NINE + timedelta(minutes=minute),
        "tenant": tenant,
        "queue": "default",
        "subject": subject,
    }
    return JobEntry(row)


def test_a_step_that_waits_is_looked_at_when_an_earlier_one_ends() -> None:
    waiting = Waitlist()
    assert waiting.wait(entry("s", minute=5))
    assert waiting.wait(entry("s", minute=3))
    assert waiting.ended(entry("s"), is_starting=False) == (7, NINE + timedelta(minutes=3))
    assert waiting.ended(entry("s"), is_starting=False) is None


def test_other_subjects_and_tenants_do_not_matter() -> None:
    waiting = Waitlist()
    waiting.wait(entry("s"))
    assert waiting.ended(entry("other"), is_starting=False) is None
    assert waiting.ended(entry("s", tenant="other"), is_starting=False) is None


def test_a_step_does_not_wait_for_one_that_ended_while_its_start_was_under_way() -> None:
    """The refusal comes back after the news that the earlier step has ended; nothing more will come."""
    waiting = Waitlist()
    assert waiting.ended(entry("s"), is_starting=True) is None
    assert not waiting.wait(entry("s", minute=1))
    assert waiting.wait(entry("s", minute=1)), "a second refusal has another reason"


def test_what_ended_before_a_start_does_not_count_for_it() -> None:
    waiting = Waitlist()
    waiting.ended(entry("s"), is_starting=True)
    waiting.nothing_is_starting()
    assert waiting.wait(entry("s"))


def test_the_oldest_are_let_go_of() -> None:
    waiting = Waitlist()
    for number in range(waitlist._SUBJECTS_MAX + 1):
        waiting.wait(entry(f"s{number}"))
        waiting.ended(entry(f"e{number}"), is_starting=True)
    assert waiting.ended(entry("s0"), is_starting=False) is None
    assert waiting.ended(entry("s1"), is_starting=False) is not None
    assert waiting.wait(entry("e0"))
    assert not waiting.wait(entry("e1"))
