"""One word per concept, and the words that the glossary refuses stay out of the names we choose.

Only names that this project gives are read: what other libraries call their things is theirs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

import pytest

from tests.shape.sql_text import line_of, without_comments_and_strings
from tests.shape.tree import PACKAGE, ROOT, python_files, sql_files, within

# The refused word, in the singular, and the word to use instead.
REFUSED: Mapping[str, str] = {
    "canceled": "cancelled",
    "canceling": "cancelling",
    "cancelation": "cancellation",
    "company": "tenant",
    "consumer": "handler, or intake for messages from the broker",
    "cron": "recurrence",
    "dedup": "key",
    "dedupe": "key",
    "dequeue": "claim",
    "entity": "subject",
    "entrypoint": "handler",
    "fetch": "claim for jobs, read for rows",
    "item": "job, step, or the noun that it is",
    "organisation": "tenant",
    "organization": "tenant",
    "pick": "claim",
    "rev": "revision",
    "task": "job, or loop for what asyncio runs",
    "timer": "job",
    "tz": "timezone",
    "workspace": "tenant",
}

REFUSED_NAMES: Mapping[str, str] = {
    "dead_letter": "dead",
    "lock_until": "lease_until",
    "next_attempt_at": "run_at",
    "next_run_at": "run_at",
    "payload_size": "payload_bytes",
    "retry_count": "attempt",
    "scheduled_at": "due_at",
    "scheduled_for": "due_at",
    "unique_key": "key",
}

# Where a refused word is the right one after all: the start of the path, the word, the reason.
ALLOWED: tuple[tuple[str, str, str], ...] = (
    ("src/timebell/apps/marketplace/", "company", "two companies meet inside one tenant there"),
    ("src/timebell/apps/reminders/", "task", "a task is a to-do there"),
    ("src/timebell/apps/reminders/bodies.py", "rev", "the source's own name for it, which clients know"),
    ("src/timebell/apps/reminders/bodies.py", "tz", "the source's own name for it, which clients know"),
    ("src/timebell/apps/reminders/migrations/", "canceled", "the source's own name for it, in a view"),
    *(
        (f"src/timebell/apps/meetings/{place}", name, "the source's own name for it, which clients know")
        for place in ("bodies.py", "migrations/", "sql/list_reminders.sql")
        for name in ("next_attempt_at", "organization", "scheduled_at")
    ),
    *(
        (f"src/timebell/apps/scheduler/{place}", name, "the source's own name for it, which clients know")
        for place in ("bodies.py", "migrations/")
        for name in ("next_run_at", "tz")
    ),
    *(
        (f"src/timebell/apps/sequences/{place}", name, "the source's own name for it, which clients know")
        for place in ("answer_bodies.py", "migrations/")
        for name in ("organization", "scheduled_for", "tz")
    ),
    ("src/timebell/client/dedupe.py", "dedupe", "the name that receivers know it by"),
    ("src/timebell/client/dedupe.py", "scheduled_for", "as it stands in the message"),
    ("src/timebell/client/people.py", "task", "a task is a to-do there"),
    ("src/timebell/client/people.py", "rev", "the source's own name for it, which clients know"),
    ("src/timebell/client/people.py", "tz", "the source's own name for it, which clients know"),
    ("src/timebell/client/scheduler.py", "tz", "as it stands in the message"),
    ("src/timebell/client/scheduler.py", "next_run_at", "the source's own name for it, which clients know"),
    (
        "src/timebell/client/sequence_records.py",
        "scheduled_for",
        "the source's own name for it, which clients know",
    ),
    *(
        (
            f"src/timebell/apps/sequences/{place}",
            "scheduled_for",
            "the source's own name for it, which clients know",
        )
        for place in ("preview_bodies.py", "seeing_bodies.py")
    ),
    ("src/timebell/rules/", "cron", "the name of a syntax for recurrences"),
)

_KEYWORDS = frozenset({"FETCH"})


def words_of(name: str) -> list[str]:
    """The words of a name in snake_case or CamelCase, in lower case."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return [word for word in spaced.lower().split("_") if word]


def refusal(name: str, path: str) -> str | None:
    """The word to use instead of one in the name, or None if the name is fine at this path."""
    allowed = {word for start, word, _ in ALLOWED if path.startswith(start)}
    words = words_of(name)
    for word in words:
        for singular in (word, word.removesuffix("s"), re.sub("ies$", "y", word)):
            if singular in REFUSED and singular not in allowed:
                return REFUSED[singular]
    joined = f"_{'_'.join(words)}_"
    refused_names = {refused: better for refused, better in REFUSED_NAMES.items() if refused not in allowed}
    return next((better for refused, better in refused_names.items() if f"_{refused}_" in joined), None)


def given_names(source: str) -> Iterator[tuple[int, str]]:
    """The names that the source gives: of functions, classes, arguments, variables and attributes."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name):
                yield node.lineno, name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case (
                ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
            ):
                yield node.lineno, name
            case ast.alias(asname=str(name)):
                yield node.lineno, name
            case _:
                pass


def python_complaints(path: str, source: str) -> list[str]:
    module = path.rsplit("/", 1)[-1].removesuffix(".py")
    return _complaints(path, [(1, module), *given_names(source)])


def sql_complaints(path: str, sql: str) -> list[str]:
    names = re.finditer(r"[A-Za-z_]\w*", without_comments_and_strings(sql))
    return _complaints(
        path, [(line_of(sql, m.start()), m.group()) for m in names if m.group() not in _KEYWORDS]
    )


def _complaints(path: str, names: list[tuple[int, str]]) -> list[str]:
    found = {(line, name): refusal(name, path) for line, name in names}
    return [f"{path}:{line} {name}: say {better}" for (line, name), better in sorted(found.items()) if better]


def test_python_names_keep_to_the_glossary() -> None:
    complaints = [
        complaint
        for path in python_files(PACKAGE)
        for complaint in python_complaints(within(path), path.read_text(encoding="utf-8"))
    ]
    assert not complaints, "\n".join(complaints)


def test_sql_names_keep_to_the_glossary() -> None:
    complaints = [
        complaint
        for path in sql_files()
        for complaint in sql_complaints(within(path), path.read_text(encoding="utf-8"))
    ]
    assert not complaints, "\n".join(complaints)


def test_the_glossary_lists_every_refused_word() -> None:
    glossary = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    missing = [word for word in [*REFUSED, *REFUSED_NAMES] if not re.search(rf"\b{word}\b", glossary)]
    assert not missing, f"docs/glossary.md does not say that these are refused: {missing}"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("run_at", ["run", "at"]),
        ("_InboxItem", ["inbox", "item"]),
        ("HTTPServer", ["http", "server"]),
        ("__all__", ["all"]),
    ],
)
def test_the_words_of_a_name(name: str, words: list[str]) -> None:
    assert words_of(name) == words


@pytest.mark.parametrize(
    "source",
    [
        "def dequeue(): ...",
        "class TaskRunner: ...",
        "def f(*, entity_id: str) -> None: ...",
        "task = start()",
        "for item in things: ...",
        "self.pending_tasks = 1",
        "companies: int = 1",
        "with start() as timer: ...",
        "import croniter as cron",
        "job = {entity: 1 for entity in things}",
        "payload_size_max = 1",
    ],
)
def test_names_that_are_refused(source: str) -> None:
    assert len(python_complaints("src/timebell/kernel/m.py", source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "rows = connection.fetch('SELECT 1 AS task')",
        "loop = asyncio.create_task(run())",
        "async with asyncio.TaskGroup() as loops: ...",
        "for key, value in pairs.items(): ...",
        "timestamptz = itemgetter(1)",
        "events = picked",
    ],
)
def test_names_that_are_fine(source: str) -> None:
    assert python_complaints("src/timebell/kernel/m.py", source) == []


def test_a_module_name_is_a_name_too() -> None:
    assert python_complaints("src/timebell/engine/consumer.py", "") == [
        "src/timebell/engine/consumer.py:1 consumer: say handler, or intake for messages from the broker"
    ]


def test_a_word_is_allowed_only_where_it_was_explained() -> None:
    assert python_complaints("src/timebell/apps/reminders/models.py", "class Task: ...") == []
    assert python_complaints("src/timebell/apps/reminders/models.py", "class Entity: ...")


def test_sql_names_are_read_outside_comments_and_strings() -> None:
    fine = "-- a task\nSELECT 'item' AS kind FROM jobs FETCH FIRST 1 ROW ONLY"
    assert sql_complaints("q.sql", fine) == []
    assert sql_complaints("q.sql", "SELECT 1\nFROM jobs WHERE :task = canceled_at") == [
        "q.sql:2 canceled_at: say cancelled",
        "q.sql:2 task: say job, or loop for what asyncio runs",
    ]
