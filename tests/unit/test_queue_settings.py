"""Queues in the settings: what the file and the environment say, what is refused, and before whose limits they go."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from tests.shape.tree import ROOT
from timebell.config import QueueSettings, Settings, explain, load_settings, rules_of
from timebell.config.queues import QUEUES_MAX
from timebell.errors import ConfigurationError
from timebell.kernel import App, Queue, Registry


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def loaded(text: str, **environ: str) -> tuple[QueueSettings, ...]:
    Path("timebell.toml").write_text(text, encoding="utf-8")
    return load_settings(environ=environ).queues


def refusal(text: str, **environ: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        loaded(text, **environ)
    return str(caught.value)


FILE = """
[queues.payments]
rate_per_second = 50
burst = 2
concurrency = 5
[queues."notify.reports"]
concurrency = "none"
"""
PAYMENTS = QueueSettings(name="payments", rate_per_second=50.0, burst=2, concurrency=5)


def test_tables_of_the_file_by_the_names_of_their_queues() -> None:
    assert loaded(FILE) == (PAYMENTS, QueueSettings(name="notify.reports", concurrency="none"))
    assert isinstance(loaded(FILE)[0].rate_per_second, float)


def test_the_variable_takes_the_place_of_all_tables() -> None:
    assert loaded(FILE, TIMEBELL_QUEUES='{"mails": {"rate_per_second": 0.5}}') == (
        QueueSettings(name="mails", rate_per_second=0.5),
    )
    assert loaded(FILE, TIMEBELL_QUEUES="{}") == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("queues = 5", "queues: the value (file) is refused; give 0 to 1000 tables"),
        ("[[queues]]\nname = 'a'", "queues: the value (file) is refused; give 0 to 1000 tables"),
        ("[queues]\na = 5", "queues.a: is not a table; write [queues.a] above its limits"),
        ("[queues.a]\nrate = 5", "queues.a.rate: is no limit of a queue; did you mean rate_per_second?"),
        (
            "[queues.a]\nconcurency = 5",
            "queues.a.concurency: is no limit of a queue; did you mean concurrency?",
        ),
        ("[queues.a]\nname = 'b'", "queues.a.name: is no limit of a queue; did you mean"),
        (
            "[queues.a]\npaused = true",
            "queues.a.paused: is no limit of a queue; a pause is no setting; use `timeb",
        ),
        (
            "[queues.a.b]\nburst = 1",
            'queues.a.b: is a table; put a name with a dot in quotes: [queues."a.b"]',
        ),
        ("[queues.Mails]\nburst = 1", "queues.Mails.name: 'Mails' is refused; give 1 to 200 small letters"),
        (
            "[queues.a]\nrate_per_second = 0",
            "queues.a.rate_per_second: 0 is refused; give a number from 0.001 to",
        ),
        (
            "[queues.a]\nrate_per_second = 'no'",
            """'no' is refused; give a number from 0.001 to 100000, or "none\"""",
        ),
        (
            "[queues.a]\nconcurrency = 1.5",
            "queues.a.concurrency: 1.5 is refused; give a whole number from 1 to",
        ),
        (
            "[queues.a]\nburst = 'none'",
            "queues.a.burst: 'none' is refused; give a whole number from 1 to 100000",
        ),
    ],
)
def test_what_is_refused_names_the_field_and_the_remedy(text: str, said: str) -> None:
    assert said in refusal(text)


def test_every_wrong_limit_is_reported_at_once_and_the_report_is_bounded() -> None:
    said = refusal("[queues.a]\nburst = 0\nconcurrency = 0\n[queues.b]\nrate = 1")
    assert [line.partition(":")[0] for line in said.splitlines()] == [
        "queues.a.burst",
        "queues.a.concurrency",
        "queues.b.rate",
    ]
    many = "\n".join(f"[queues.q{number}]\nburst = 0" for number in range(100))
    assert len(refusal(many).splitlines()) == 20
    too_many = json.dumps({f"q{number}": {} for number in range(QUEUES_MAX + 1)})
    assert "queues: the value (environment) is refused" in refusal("", TIMEBELL_QUEUES=too_many)
    assert "queues: the value (environment) is refused" in refusal("", TIMEBELL_QUEUES="payments=50")


def test_a_program_gives_records_each_queue_once() -> None:
    settings = Settings(queues=(PAYMENTS,))
    assert pickle.loads(pickle.dumps(settings)).queues == (PAYMENTS,)
    [line] = [line for line in explain(settings) if line.name == "queues"]
    assert line.value == ({"name": "payments", "rate_per_second": 50.0, "burst": 2, "concurrency": 5},)
    with pytest.raises(ConfigurationError, match="queues: the value"):
        Settings(queues=(PAYMENTS, PAYMENTS))


BROUGHT = Queue(name="payments", rate=10, burst=3, concurrency=7)


@pytest.mark.parametrize(
    ("given", "counts"),
    [
        ({}, BROUGHT),
        ({"rate_per_second": 50}, Queue(name="payments", rate=50, burst=3, concurrency=7)),
        ({"burst": 1}, Queue(name="payments", rate=10, burst=1, concurrency=7)),
        ({"concurrency": 1}, Queue(name="payments", rate=10, burst=3, concurrency=1)),
        ({"rate_per_second": "none", "concurrency": "none"}, Queue(name="payments", burst=3)),
    ],
)
def test_each_limit_goes_before_the_apps_own(given: dict[str, Any], counts: Queue) -> None:
    brought = Registry([App(name="t", queues=[BROUGHT])])
    registry = brought.limited([QueueSettings(name="payments", **given)])
    assert (registry.queues["payments"], registry.unbrought) == (counts, ())
    assert brought.queues["payments"] == BROUGHT


def test_a_queue_that_no_app_brings_is_there_and_known_as_such() -> None:
    registry = Registry().limited(
        [QueueSettings(name="misspelt", concurrency=2), QueueSettings(name="default")]
    )
    assert registry.queues["misspelt"] == Queue(name="misspelt", concurrency=2)
    assert registry.unbrought == ("misspelt",)


def test_the_page_has_every_limit() -> None:
    page = (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
    section = page.partition("### queues\n")[2].partition("\n### ")[0]
    rules = {name: rule for name, rule in rules_of(QueueSettings).items() if name != "name"}
    rows = [f"| `{name}` | none | {rule.allowed} | {rule.about} |" for name, rule in rules.items()]
    assert [line for line in section.splitlines() if line.startswith("| `")] == rows
