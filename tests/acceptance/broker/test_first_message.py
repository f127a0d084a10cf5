"""The tutorial about a first message, typed in: a service in JavaScript, a real broker, and `timebell up`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.conftest import Up
from tests.acceptance.npm import node_modules
from tests.acceptance.processes import Process, clean_environment, until
from tests.docs.markdown import Block, blocks
from tests.shape.tree import ROOT

KEY = "tb_test_0123456789abcdef"
SCRIPT = ROOT / "examples" / "messages" / "bell.mjs"
PAGE = list(blocks((ROOT / "docs" / "tutorial" / "first-message.md").read_text(encoding="utf-8")))


def steps() -> Iterator[tuple[str, str | None]]:
    """What is typed into the third terminal, and what is shown then."""
    shell = [number for number, block in enumerate(PAGE) if block.language == "sh"]
    for number in shell[4:]:
        after: Block | None = PAGE[number + 1] if number + 1 < len(PAGE) else None
        yield PAGE[number].code, after.code if after is not None and after.language == "text" else None


def test_the_page_has_the_script_of_the_examples() -> None:
    [script] = [block.code for block in PAGE if block.language == "javascript"]
    assert script == SCRIPT.read_text(encoding="utf-8")


def test_the_page_begins_as_the_test_below_does() -> None:
    install, start, prepare, listen = [block.code for block in PAGE if block.language == "sh"][:4]
    assert install == "sudo apt install rabbitmq-server\n"
    assert f"TIMEBELL_API_KEY={KEY}\nTIMEBELL_BROKER_URL=amqp://guest:guest@127.0.0.1:5672/ make up" in start
    assert prepare.endswith("npm install amqplib@2\n")
    assert listen == "node bell.mjs listen\n"


@pytest.mark.slow
def test_the_tutorial(
    place: Path, processes: list[Process], up: Up, used_folder: Path, broker_url: str
) -> None:
    packages = node_modules("amqplib", "amqplib@2.3.1", node_min=18)
    timebell = up(used_folder, TIMEBELL_API_KEY=KEY, TIMEBELL_BROKER_URL=broker_url)
    (place / "node_modules").symlink_to(packages)
    (place / "bell.mjs").write_text(SCRIPT.read_text(encoding="utf-8"), encoding="utf-8")
    environment = clean_environment(BROKER_URL=broker_url)
    listener = Process(place / "listener", program=("node", "bell.mjs", "listen"), environment=environment)
    processes.append(listener)
    until(lambda: listener.said == "listening\n", 30, listener.words)

    printed = listener.said
    for code, shown in steps():
        done = subprocess.run(
            ["/bin/sh", "-c", code.replace("localhost:8080", f"127.0.0.1:{timebell.port}")],
            cwd=place,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), code
        if "/api/scheduler/jobs/walk" in code:
            assert json.loads(done.stdout)["status"] == "cancelled"
        elif "metrics" in code:
            assert done.stdout == shown
        elif shown is not None:
            printed += shown
            until(lambda: listener.said == printed, 30, f"what {code.strip()} brings")  # noqa: B023
    assert listener.said == printed
    assert timebell.stop() == 0, timebell.words
