"""The list of planted changes is true of this tree, and the program that tries them says what is so.

What comes of the changes themselves takes long: `make mutants`.
"""

from __future__ import annotations

import ast
from collections import Counter
from functools import lru_cache
from pathlib import Path

import pytest

from tests.mutants.planted import Planted, Stale, path_of, planted
from tests.mutants.trying import Copy, Notebook, Outcome, Tried, faults, state_of, try_all
from tests.shape.tree import PACKAGE, ROOT
from timebell.db.queries import parse

PACKAGES = ("apps", "engine", "kernel", "notify", "providers", "rules", "web")
CHANGES_MIN = 150


def test_every_change_can_be_planted() -> None:
    stale = []
    for change in planted():
        try:
            text = change.applied_to(path_of(change).read_text(encoding="utf-8"))
        except (Stale, OSError) as error:
            stale.append(str(error))
            continue
        if change.file.endswith(".py"):
            ast.parse(text)
    assert not stale, "change what they replace, in tests/mutants or beside the app's tests:\n" + "\n".join(
        stale
    )


def test_every_changed_query_takes_what_it_took() -> None:
    """One that lacks a parameter is refused whenever it is run, and every test would notice that."""
    other = []
    for change in planted():
        if "/sql/" in change.file:
            text = path_of(change).read_text(encoding="utf-8")
            before, after = (set(parse("one", each).parameters) for each in (text, change.applied_to(text)))
            if before != after:
                other.append(f"{change.name}: {sorted(before ^ after)}")
    assert not other, "\n".join(other)


def test_the_tests_of_every_change_are_there() -> None:
    missing = [
        f"{change.name}: {test}" for change in planted() for test in change.tests if not _is_there(test)
    ]
    assert not missing, "\n".join(missing)


def _is_there(test: str) -> bool:
    file, _, name = test.partition("::")
    path = ROOT / file
    return path.is_file() and (not name or name in _tests_in(path))


@lru_cache
def _tests_in(path: Path) -> frozenset[str]:
    module = ast.parse(path.read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(
        [each.name for each in module.body if isinstance(each, functions)]
        + [
            f"{home.name}::{each.name}"
            for home in module.body
            if isinstance(home, ast.ClassDef)
            for each in home.body
            if isinstance(each, functions)
        ]
    )


def test_every_change_is_told_apart_and_is_one() -> None:
    changes = planted()
    assert [name for name, times in Counter(change.name for change in changes).items() if times > 1] == []
    assert [change.name for change in changes if change.old == change.new or not change.tests] == []
    assert [change.name for change in changes if not change.why.endswith(".")] == []


def test_every_package_has_some() -> None:
    changes = planted()
    counts = Counter(change.file.partition("/")[0] for change in changes)
    there = [name for name in PACKAGES if (PACKAGE / name).is_dir()]
    assert [name for name in there if name != "apps" and not counts[name]] == []
    assert sum(change.file.endswith(".sql") for change in changes) > CHANGES_MIN // 3
    assert len([change for change in changes if not change.file.startswith("apps/")]) >= CHANGES_MIN


RULE = "def is_due(at: int, now: int) -> bool:\n    return at <= now\n"
TEST = """from timebell.rule import is_due


def test_it() -> None:
    assert is_due(1, 2)
    assert not is_due(3, 2)
"""


def _change(name: str, new: str, old: str = "at <= now", *, survives: str | None = None) -> Planted:
    return Planted(
        name=name, file="rule.py", old=old, new=new, why="So.", tests=("test_rule.py",), survives=survives
    )


def test_the_program_says_what_is_so(tmp_path: Path) -> None:
    """On a tree of two files: what is noticed, what is not, what is not there any more, and what cannot run."""
    tree, place = tmp_path / "tree", tmp_path / "copy"
    (tree / "src" / "timebell").mkdir(parents=True)
    files = {
        tree / "src" / "timebell" / "rule.py": RULE,
        tree / "src" / "timebell" / "__init__.py": "",
        tree / "test_rule.py": TEST,
        tree / "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["src"]\n',
    }
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
    changes = [
        _change("always", "True"),
        _change("never-at-once", "at < now"),
        _change("gone", "True", old="at == now"),
        _change("no-python", "at <"),
    ]
    heard: list[Tried] = []
    tried = try_all(changes, [Copy(tree, files, place)], heard.append)
    assert tried == heard
    assert [(each.name, each.outcome) for each in tried] == [
        ("always", "killed"),
        ("never-at-once", "survived"),
        ("gone", "stale"),
        ("no-python", "broken"),
    ]
    assert tried[0].words == "test_rule.py::test_it"
    for path, text in files.items():
        assert path.read_text(encoding="utf-8") == text
        assert (place / path.relative_to(tree)).read_text(encoding="utf-8") == text


def test_what_has_to_be_mended() -> None:
    """An explanation is as good as a test, until a test proves it wrong."""
    outcomes: list[Outcome] = ["killed", "survived", "stale", "broken"]
    changes = [_change(f"{outcome} alone", "True") for outcome in outcomes]
    changes += [_change(f"{outcome} explained", "True", survives="It is the same.") for outcome in outcomes]
    tried = [
        Tried(name=change.name, outcome=outcome, words="", seconds=1)
        for change, outcome in zip(changes, outcomes * 2, strict=True)
    ]
    assert [fault.partition(":")[0] for fault in faults(changes, tried)] == [
        "survived alone",
        "stale alone",
        "broken alone",
        "killed explained",
        "stale explained",
        "broken explained",
    ]


def test_a_run_is_taken_up_again_only_for_the_same_tree(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("1", encoding="utf-8")
    before = state_of(tmp_path, [file])
    tried = Tried(name="a", outcome="killed", words="test", seconds=1.5)
    Notebook(tmp_path / "build" / "notes", before).add(tried)
    assert Notebook(tmp_path / "build" / "notes", before).read() == {"a": tried}
    file.write_text("2", encoding="utf-8")
    assert Notebook(tmp_path / "build" / "notes", state_of(tmp_path, [file])).read() == {}


@pytest.mark.parametrize("text", ["", "at <= now or at <= now"])
def test_what_is_not_there_once_is_stale(text: str) -> None:
    with pytest.raises(Stale, match="has to be there once"):
        _change("one", "True").applied_to(text)
