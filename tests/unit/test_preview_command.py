"""What `timebell schedule preview` answers, and what it refuses."""

from __future__ import annotations

import json
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from timebell.cli.program import program
from timebell.errors import InvalidInput


def asked(*arguments: str) -> Result:
    return CliRunner().invoke(program, ["schedule", "preview", *arguments])


def test_an_answer_in_json() -> None:
    answer = asked(
        *("FREQ=WEEKLY;BYDAY=SU;COUNT=4", "--from", "2026-10-11T02:30", "--tz", "Europe/Berlin"),
        *("--exdate", "2026-10-18T02:30", "--rdate", "2026-10-20 09:00", "--on-fold", "second"),
        *("--until", "2026-10-31", "--after", "2026-10-11T00:30Z", "--json"),
    )
    told: dict[str, Any] = json.loads(answer.output)
    assert [line["at"] for line in told["occurrences"]] == ["2026-10-20T07:00:00Z", "2026-10-25T01:30:00Z"]
    assert told["occurrences"][1]["adjusted"] == "fold"
    assert (told["timezone"], told["has_more"]) == ("Europe/Berlin", False)


def test_a_calendar_file_knows_its_entries_again() -> None:
    def ids(timezone: str) -> list[str]:
        file = asked("cron 0 9 * * 1", "--from", "2026-01-01", "--count", "2", "--tz", timezone, "--ics")
        assert file.output.count("BEGIN:VEVENT") == 2
        return [line for line in file.output.splitlines() if line.startswith("UID:")]

    once, again, elsewhere = ids("UTC"), ids("UTC"), ids("Asia/Kolkata")
    assert once == again
    assert len({*once, *elsewhere}) == 4


def test_a_calendar_file_has_instants() -> None:
    file = asked("FREQ=DAILY", "--from", "2026-03-29T02:30", "--tz", "Europe/Berlin", "--count", "1", "--ics")
    assert b"DTSTART:20260329T013000Z\r\n" in file.stdout_bytes
    assert b"DESCRIPTION:FREQ=DAILY\\, Europe/Berlin\\; clocks leave out 02:30" in file.stdout_bytes


def test_what_may_surprise_is_told_before_the_table() -> None:
    lines = asked("FREQ=SECONDLY;BYHOUR=9", "--from", "2026-01-01T08:00", "--count", "1").output.splitlines()
    assert lines[1].startswith("Note that the start, 2026-01-01 08:00:00, is not an occurrence")
    assert lines[2].startswith("Note that a schedule with it would be refused: recurrence: FREQ")


def test_nothing_is_due() -> None:
    answer = asked("FREQ=DAILY;UNTIL=20260101", "--from", "2026-02-01")
    assert answer.exit_code == 0
    assert answer.output.splitlines()[-1] == "Nothing is due."


def test_an_offset_of_another_century() -> None:
    assert (
        "-00:01:15"
        in asked("FREQ=DAILY", "--from", "1840-01-01", "--tz", "Europe/London", "--count", "1").output
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["FREQ=DAILY;BYHOUR=24"], "BYHOUR"),
        (["every P1M"], "FREQ=MONTHLY"),
        (["FREQ=DAILY", "--tz", "Europe/Berlim"], "did you mean Europe/Berlin"),
        (["FREQ=DAILY", "--ics", "--json"], "--ics and --json"),
        (["FREQ=MONTHLY;BYDAY=TU;BYSETPOS=10"], "can ever agree"),
    ],
)
def test_what_cannot_be_answered(arguments: list[str], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        program.main(["schedule", "preview", *arguments], standalone_mode=False)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--from", "2026-01-01T09:00+01:00"),
        ("--from", "tomorrow"),
        ("--after", "2026-01-01T09:00"),
        ("--after", "later"),
        ("--count", "0"),
        ("--count", "1001"),
        ("--on-gap", "fill"),
    ],
)
def test_options_that_are_refused(option: str, value: str) -> None:
    with pytest.raises(click.BadParameter) as refused:
        program.main(["schedule", "preview", "FREQ=DAILY", option, value], standalone_mode=False)
    assert refused.value.param is not None
    assert option in refused.value.param.opts
