"""The drawings of how a message travels have the names that the code has, and each flow is drawn."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import cache

import click
import orjson
import pytest

from tests.docs.markdown import Block, blocks, headings
from tests.docs.test_metrics_page import of_the_scheduler
from tests.shape.tree import ROOT
from timebell.apps.scheduler.dues import DUE, Due, message_of
from timebell.apps.scheduler.messages import CANCEL, REQUEST, read_message
from timebell.apps.scheduler.models import MISFIRES, STATUSES, ScheduleCancel, ScheduleRequest
from timebell.apps.scheduler.rows import FIRE
from timebell.apps.scheduler.topology import topology
from timebell.cli.program import program
from timebell.config import Settings

PAGE = (ROOT / "docs" / "explanation" / "messages.md").read_text(encoding="utf-8")
DRAWINGS = [block for block in blocks(PAGE) if block.language == "mermaid"]
FLOWS = ["Once", "Again and again", "Changing one's mind", "When a node dies", "Who watches"]
INSTANT = datetime(2026, 3, 29, 9, tzinfo=UTC)

# A name of ours is written together: ScheduleDue, timebell.due, next_run_at. What else is in a drawing is plain words.
_NAME = re.compile(r"ops/[\w.-]+|/\w+|[A-Za-z]+(?:[._][a-z]+)+|[A-Z][a-z]+(?:[A-Z][a-z]+)+")
_FIELDS = re.compile(r"(Schedule\w+)\(([^)]*)\)")
_STATE = re.compile(r"(?:commit|job): (\w+)|\bis (\w+) or (\w+)$|the request is (\w+)$", re.MULTILINE)
# The product that it is about, and a word of its own for a participant.
_OTHERS = frozenset({"RabbitMQ", "PostgreSQL"})


def names_at_the_broker() -> set[str]:
    stated = topology(Settings().broker_due_queue)
    queues = {name for queue in stated.queues for name in (queue.name, queue.exchange, *queue.keys)}
    return queues | {exchange.name for exchange in stated.exchanges}


def fields_of(message: str) -> set[str]:
    """What a message may say, as it is read and written here."""
    if message == DUE:
        due = message_of(Due(id="a", tenant="t", due_at=INSTANT, fired_at=INSTANT))
        return {*orjson.loads(due.body)}
    common = {"id": "a", "tenant": "t"}
    if message == CANCEL:
        assert isinstance(read_message(orjson.dumps({"type": CANCEL, **common})), ScheduleCancel)
        return {*common}
    once = {"at": "2026-03-29T09:00:00Z"}
    again = {"rrule": "FREQ=DAILY", "tz": "UTC", "dtstart": once["at"], "misfire": MISFIRES[0]}
    for terms in (once, again):
        read = read_message(orjson.dumps({"type": message, **common, **terms, "payload": {}}))
        assert isinstance(read, ScheduleRequest), read
    return {*common, *once, *again, "payload"}


@cache
def names_of_ours() -> frozenset[str]:
    views = (ROOT / "src/timebell/apps/scheduler/migrations").glob("*.sql")
    shown = set(re.findall(r" AS (\w+)", "".join(path.read_text(encoding="utf-8") for path in views)))
    files = {f"ops/{path.name}" for path in (ROOT / "ops").iterdir()}
    fields = {field for message in (REQUEST, CANCEL, DUE) for field in fields_of(message)}
    return frozenset(
        {REQUEST, CANCEL, DUE, FIRE, "/metrics", "message_id", *_OTHERS, *fields}
        | names_at_the_broker()
        | of_the_scheduler()
        | shown
        | files
    )


def complaints(code: str) -> list[str]:
    unknown = [name for name in _NAME.findall(code) if name not in names_of_ours()]
    fields = [
        f"{message}({field})"
        for message, listed in _FIELDS.findall(code)
        for field in re.split(r",\s*", listed)
        if message in (REQUEST, CANCEL, DUE) and field not in fields_of(message)
    ]
    states = [word for found in _STATE.findall(code) for word in found if word and word not in STATUSES]
    known = program.list_commands(click.Context(program))
    commands = [word for word in re.findall(r"timebell ([a-z]+)", code) if word not in known]
    return unknown + fields + states + commands


@pytest.mark.req("S-8.1")
def test_each_of_the_five_flows_is_drawn() -> None:
    assert [block.code.split()[0] for block in DRAWINGS] == ["sequenceDiagram"] * 4 + ["flowchart"]
    titles = headings(PAGE, 2)
    assert titles[:5] == FLOWS
    for number, title in enumerate(FLOWS):
        section = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
        assert next(iter(blocks(section))).code == DRAWINGS[number].code


@pytest.mark.req("S-8.1")
@pytest.mark.parametrize("drawing", DRAWINGS, ids=FLOWS)
def test_the_names_in_a_drawing_are_those_of_the_code(drawing: Block) -> None:
    assert complaints(drawing.code) == []


@pytest.mark.req("S-8.1")
def test_the_drawings_have_every_message_and_every_state() -> None:
    drawn = " ".join(block.code for block in DRAWINGS)
    assert [name for name in (REQUEST, CANCEL, DUE, *STATUSES) if not re.search(rf"\b{name}\b", drawn)] == []
    assert [name for name in of_the_scheduler() if "dropped" not in name and name not in drawn] == []


def test_the_names_at_the_broker_are_listed() -> None:
    listed = set(re.findall(r"^\| `(timebell[\w.]*)` \|", PAGE, re.MULTILINE))
    keys = set(re.findall(r"`(schedule\.[\w.#]+)`", PAGE))
    assert listed | keys == names_at_the_broker() - {"#"}


def test_the_states_and_what_becomes_of_misfires_are_listed() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", PAGE.partition("\n## States\n")[2], re.MULTILINE)
    assert rows == [*STATUSES]
    section = PAGE.partition("\n## Again and again\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \| (?!after)", section, re.MULTILINE) == [*MISFIRES]


@pytest.mark.parametrize(
    "line",
    [
        "Service->>Broker: SchedulePlease(id)",
        "Service->>Broker: ScheduleRequest(id, when)",
        "Broker->>Intake: from timebell.questions",
        "Node->>Database: finish the job: finished",
        "participant Node as timebell labour",
        "Node->>Database: start the job scheduler.shoot",
        "Database-->>Intake: commit: pending, with run_next_at",
        'Node -->|"/metrics: jobs_shot_total"| Prometheus',
    ],
)
def test_a_wrong_name_is_found(line: str) -> None:
    assert len(complaints(line)) == 1
