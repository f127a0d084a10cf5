"""Log lines of a program that has Timebell inside are the program's: it decides, or Python does for it."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import Any

import pytest

from tests.log_lines import kept_lines
from timebell.logs import Logger

PROGRAM = """
import logging, timebell, sys
{set_up}
from timebell.logs import Logger
log = Logger("timebell.trial")
log.info("an info", n=1)
log.warning("a warning", n=2, text="two words", nothing=None)
try:
    gest
except NameError:
    log.exception("an error", n=3)
"""


def written(set_up: str) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(set_up=set_up)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout, done.stderr


@pytest.mark.parametrize(
    ("set_up", "shown", "form"),
    [
        ("", "WE", "a warning n=2 text='two words'\n"),
        ("logging.basicConfig(level=logging.ERROR)", "E", "ERROR:timebell.trial:an error n=3\n"),
        ("logging.basicConfig(level=logging.INFO)", "IWE", "INFO:timebell.trial:an info n=1\n"),
        ("logging.getLogger('timebell').setLevel(logging.CRITICAL)", "", ""),
    ],
    ids=["nothing", "errors", "infos", "silence"],
)
def test_a_program_decides_what_it_sees(set_up: str, shown: str, form: str) -> None:
    out, err = written(set_up)
    assert out == "", "standard output is the program's own"
    levels = {"I": "an info", "W": "a warning", "E": "an error"}
    assert "".join(level for level, words in levels.items() if words in err) == shown
    assert ("NameError: name 'gest' is not defined" in err) == ("E" in shown)
    assert form in err


def test_a_line_has_its_facts_and_no_password() -> None:
    with kept_lines() as lines:
        Logger("timebell.trial").warning("100 % away", url="postgres://ann:secret@host/db", big="x" * 10_000)
    [line] = lines
    assert line["event"] == "100 % away"
    assert line["url"] == "postgres://ann:***@host/db"
    assert len(line["big"]) < 5_000


def test_a_password_is_masked_before_a_long_text_is_cut() -> None:
    """What is cut in the middle of an address no longer looks like one."""
    url = "postgres://ann:secret@host/db"
    for spare in range(len(url)):
        text = "x" * (4_000 - spare) + url
        with kept_lines() as lines:
            Logger("timebell.trial").warning("long", text=text)
        assert "secret" not in lines[0]["text"]


COMMAND = """
from timebell.cli.logs import set_up_logs
from timebell.logs import Logger
set_up_logs("info", "console")
try:
    raise ValueError("\\x1b[2J\\x9b31m of a stranger")
except ValueError:
    Logger("timebell.trial").exception("an error", kind="k\\x1b]0;title\\x07")
"""


def test_a_terminal_is_told_nothing_by_strangers() -> None:
    """An exception often repeats what a payload said, and a terminal obeys what it is shown."""
    done = subprocess.run(
        [sys.executable, "-c", COMMAND], capture_output=True, text=True, timeout=60, check=True
    )
    assert "of a stranger" in done.stderr
    assert "an error" in done.stderr
    assert not [each for each in done.stderr if not each.isprintable() and each != "\n"]


def test_the_words_of_a_line_are_those_of_its_place(caplog: pytest.LogCaptureFixture) -> None:
    Logger("timebell.trial").warning("100 % away", n=1)
    [record] = caplog.records
    assert record.getMessage() == "100 % away n=1"
    assert record.funcName == "test_the_words_of_a_line_are_those_of_its_place"


def test_whoever_logs_goes_on_when_a_handler_fails() -> None:
    asked: list[str] = []

    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            asked.append("to write")
            raise BrokenPipeError

    def refuse(record: Any) -> bool:
        asked.append("to let it pass")
        raise RuntimeError

    logger = logging.getLogger("timebell.broken")
    broken = Broken()
    logger.addHandler(broken)
    try:
        Logger("timebell.broken").error("told")
        logger.addFilter(refuse)
        Logger("timebell.broken").error("told")
    finally:
        logger.removeHandler(broken)
        logger.removeFilter(refuse)
    assert asked == ["to write", "to let it pass"]
