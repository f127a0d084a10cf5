"""What the verbs take by name is typed: mypy refuses a wrong call, and the types say what the records say."""

from __future__ import annotations

import dataclasses
import inspect
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import get_type_hints

import pytest

from tests.shape.tree import ROOT
from timebell.kernel import Enqueue, Step, Timebell, options
from timebell.kernel.schedules.models import ScheduleTerms
from timebell.kernel.schedules.schedules import Schedules
from timebell.notify import Notify, Policy, Tell
from timebell.notify import options as told
from timebell.notify.people.policies import POLICY_FIELDS, Policies
from timebell.notify.people.recipients import Recipients

HEAD = """\
from datetime import datetime, timedelta
from uuid import UUID

from timebell import EnqueueOptions, NewScheduleOptions, ScheduleOptions, Step, Timebell, Transaction
from timebell.notify import Notify, Tell


async def calls(
    bell: Timebell,
    notify: Notify,
    tx: Transaction,
    id: UUID,
    at: datetime,
    step: Step,
    tell: Tell,
    options: EnqueueOptions,
    new: NewScheduleOptions,
    changes: ScheduleOptions,
) -> None:
"""
# Each call, with what mypy says of it; nothing of one that is right.
CALLS: Mapping[str, str | None] = {
    'bell.enqueue(tx, "a.b", {"n": 1}, due_at=at, key="k", on_conflict="keep")': None,
    'bell.enqueue(tx, "a.b", None, **options)': None,
    'bell.enqueue(tx, "a.b", delay=5)': 'Argument "delay" to "enqueue" .* has incompatible type "int"',
    'bell.enqueue(tx, "a.b", duet=at)': 'Unexpected keyword argument "duet" for "enqueue"',
    'bell.enqueue(tx, "a.b", urgency="high")': 'Argument "urgency" to "enqueue" .* incompatible type',
    'bell.enqueue(tx, "a.b", on_conflict="raise")': 'Argument "on_conflict" to "enqueue" .* incompatible type',
    'bell.enqueue(tx, "a.b", payloads={})': 'Unexpected keyword argument "payloads"',
    'bell.schedules.create(tx, timezone="UTC", start_local=at, steps=[step], actor="me")': None,
    "bell.schedules.create(tx, **new)": None,
    'bell.schedules.create(tx, timezone="UTC", start_local=at)': 'Missing named argument "steps" for "create"',
    'bell.schedules.create(tx, timezone="UTC", start_local=at, steps=[step], rrule="")': (
        'Unexpected keyword argument "rrule" for "create"'
    ),
    'bell.schedules.edit(tx, id, recurrence="every P1D")': None,
    "bell.schedules.edit(tx, id, **changes)": None,
    'bell.schedules.edit(tx, id, on_gap="first")': 'Argument "on_gap" to "edit" .* incompatible type',
    "bell.schedules.edit(tx, id, state=None)": 'Unexpected keyword argument "state" for "edit"',
    'bell.schedules.split(tx, id, at, payload={"n": 1})': None,
    "bell.schedules.split(tx, id, at, steps=step)": 'Argument "steps" to "split" .* incompatible type "Step"',
    "bell.schedules.split(tx, id, at, catch_up=True)": 'Argument "catch_up" to "split" .* incompatible type',
    'notify.tell(tx, id, "hello", channels=["email"], context={"n": 1})': None,
    'notify.tell(tx, id, "hello", channels=["fax"])': "List item 0 has incompatible type .*fax",
    'notify.tell(tx, id, "hello", contxt={})': 'Unexpected keyword argument "contxt" for "tell"',
    'notify.step(tx, tell, key="k", offset=timedelta(hours=-1), late="skip")': None,
    'notify.step(tx, tell, key="k", kind="a.b")': 'Unexpected keyword argument "kind" for "step"',
    "notify.step(tx, tell, offset=timedelta(0))": 'Missing named argument "key" for "step"',
    'notify.step(tx, tell, key="k", cut_off="stop")': 'Argument "cut_off" to "step" .* incompatible type',
    'notify.steps(tx, [(tell, {"key": "k", "at": at})])': None,
    'notify.steps(tx, [(tell, {"at": at})])': 'Missing key "key" for TypedDict "NamedStepOptions"',
    "notify.policies.change(tx, attempts_max=None)": None,
    "notify.policies.change(tx, attempts=3)": 'Unexpected keyword argument "attempts" for "change"',
    'notify.recipients.change(tx, id, email="a@example.org")': None,
    "notify.recipients.change(tx, id, addresses=[])": 'Unexpected keyword argument "addresses" for "change"',
}


def test_mypy_refuses_wrong_calls_alone(tmp_path: Path) -> None:
    file = tmp_path / "wrong_calls.py"
    file.write_text(HEAD + "".join(f"    await {call}\n" for call in CALLS), encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        "pyproject.toml",
        "--no-error-summary",
        str(file),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    said: dict[int, str] = {}
    for line in done.stdout.splitlines():
        found = re.fullmatch(r".*wrong_calls\.py:(\d+): error: (.*)", line)
        if found is not None:
            said.setdefault(int(found[1]), found[2])
    first = HEAD.count("\n") + 1
    for number, (call, expected) in enumerate(CALLS.items(), start=first):
        heard = said.pop(number, None)
        assert (heard is None) == (expected is None), f"{call}: {heard} {done.stderr}"
        assert expected is None or re.search(expected, heard or ""), f"{call}: {heard}"
    assert said == {}


@pytest.mark.parametrize(
    ("named", "record", "left_out"),
    [
        (options.EnqueueOptions, Enqueue, {"kind", "payload"}),
        (options.StepOptions, Step, {"key", "kind", "payload", "urgency"}),
        (options.NamedStepOptions, Step, {"kind", "payload", "urgency"}),
        (options.NewScheduleOptions, ScheduleTerms, set()),
        (options.ScheduleOptions, ScheduleTerms, set()),
        (told.TellOptions, Tell, {"recipient", "template"}),
    ],
)
def test_the_types_say_what_the_records_say(named: type, record: type, left_out: set[str]) -> None:
    fields = {each.name for each in dataclasses.fields(record)} - left_out
    hints = get_type_hints(record)
    assert get_type_hints(named) == {name: hints[name] for name in fields}


def test_all_of_a_policy_and_of_a_recipient_may_be_changed() -> None:
    assert get_type_hints(told.PolicyOptions).keys() == set(POLICY_FIELDS)
    assert set(POLICY_FIELDS) == {each.name for each in dataclasses.fields(Policy)} - {"revision"}
    added = inspect.signature(Recipients.add).parameters.keys() - {"self", "tx", "actor", "addresses"}
    assert get_type_hints(told.RecipientOptions).keys() == added


@pytest.mark.parametrize("verbs", [Timebell, Schedules, Notify, Policies, Recipients])
def test_no_verb_takes_just_anything(verbs: type) -> None:
    for name, verb in inspect.getmembers(verbs, inspect.isfunction):
        named = [
            each
            for each in inspect.signature(verb).parameters.values()
            if each.kind is inspect.Parameter.VAR_KEYWORD
        ]
        assert name.startswith("_") or [each for each in named if each.annotation == "Any"] == [], name
