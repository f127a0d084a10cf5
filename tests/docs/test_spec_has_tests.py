"""Every requirement of the specification is proven by a test that names it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.shape.tree import ROOT, TESTS, python_files, within

_ID = re.compile(r"[A-Z]-[A-Z]?\d+(?:\.\d+)?")
_REQUIREMENT = re.compile(rf"^\s*[-*+]\s+\*\*(?P<id>{_ID.pattern})\*\*", re.MULTILINE)
_NOT_RUN = {"pytest.mark.skip", "pytest.mark.xfail"}


def required_ids(text: str) -> list[str]:
    """The ids that begin an entry of a list in bold."""
    return [match["id"] for match in _REQUIREMENT.finditer(text)]


def marked_ids(source: str) -> list[str]:
    """The ids that the tests of a module are marked with; a test that may not run proves nothing."""
    return [id_ for marks in _mark_lists(ast.parse(source)) for id_ in _ids_of(marks)]


def _mark_lists(tree: ast.Module) -> Iterator[list[ast.expr]]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                if name.startswith(("test_", "Test")):
                    yield node.decorator_list
            case ast.Assign(targets=[ast.Name(id="pytestmark")], value=ast.List(elts=marks)):
                yield marks
            case ast.Assign(targets=[ast.Name(id="pytestmark")], value=mark):
                yield [mark]
            case _:
                pass


def _ids_of(marks: list[ast.expr]) -> Iterator[str]:
    if any(_called(mark) in _NOT_RUN for mark in marks):
        return
    for mark in marks:
        if isinstance(mark, ast.Call) and _called(mark) == "pytest.mark.req":
            yield from (ast.literal_eval(argument) for argument in mark.args)


def _called(mark: ast.expr) -> str:
    return ast.unparse(mark.func if isinstance(mark, ast.Call) else mark)


def _marks_of_all_tests() -> dict[str, list[str]]:
    modules = [path for path in python_files(TESTS) if path.name.startswith("test_")]
    return {within(path): marked_ids(path.read_text(encoding="utf-8")) for path in modules}


def test_every_requirement_has_a_test() -> None:
    pages = sorted((ROOT / "docs" / "spec").glob("*.md"))
    required = {id_: within(page) for page in pages for id_ in required_ids(page.read_text(encoding="utf-8"))}
    proven = {id_ for ids in _marks_of_all_tests().values() for id_ in ids}
    missing = [f"{id_} ({page}) has no test" for id_, page in required.items() if id_ not in proven]
    assert not missing, "mark the test that proves it with @pytest.mark.req:\n" + "\n".join(missing)


def test_no_requirement_is_stated_twice() -> None:
    pages = sorted((ROOT / "docs" / "spec").glob("*.md"))
    ids = [id_ for page in pages for id_ in required_ids(page.read_text(encoding="utf-8"))]
    assert not {id_ for id_ in ids if ids.count(id_) > 1}


def test_every_marked_id_looks_like_one() -> None:
    wrong = [
        f"{module}: {id_}" for module, ids in _marks_of_all_tests().items() for id_ in ids if not is_id(id_)
    ]
    assert not wrong, "an id looks like U-6, M-5.4 or X-C9:\n" + "\n".join(wrong)


def is_id(text: object) -> bool:
    return isinstance(text, str) and _ID.fullmatch(text) is not None


def test_requirements_are_read_from_lists() -> None:
    text = "- **U-1** One.\n  * **M-5.4** Two.\nSee **U-9**.\n- see **U-8**\n- **Note** no\n- **X-C15** three"
    assert required_ids(text) == ["U-1", "M-5.4", "X-C15"]


@pytest.mark.parametrize(
    ("source", "ids"),
    [
        ("@pytest.mark.req('U-1', 'U-2')\ndef test_x(): ...", ["U-1", "U-2"]),
        ("@pytest.mark.req('U-1')\n@pytest.mark.slow\nasync def test_x(): ...", ["U-1"]),
        (
            "@pytest.mark.req('U-1')\nclass TestX:\n    @pytest.mark.req('U-2')\n    def test_x(self): ...",
            ["U-1", "U-2"],
        ),
        ("pytestmark = [pytest.mark.slow, pytest.mark.req('U-1')]", ["U-1"]),
        ("pytestmark = pytest.mark.req('U-1')", ["U-1"]),
        ("@pytest.mark.req('U-1')\ndef helper(): ...", []),
        ("@pytest.mark.req('U-1')\n@pytest.mark.skip\ndef test_x(): ...", []),
        ("@pytest.mark.req('U-1')\n@pytest.mark.xfail(reason='later')\ndef test_x(): ...", []),
        ("def test_x():\n    '''@pytest.mark.req('U-1')'''", []),
    ],
)
def test_marks_are_read_from_tests_that_run(source: str, ids: list[str]) -> None:
    assert marked_ids(source) == ids


@pytest.mark.parametrize(
    ("text", "looks_right"),
    [
        ("U-1", True),
        ("M-5.4", True),
        ("J-0.2", True),
        ("X-C15", True),
        ("U1", False),
        ("u-1", False),
        ("U-1.", False),
        ("U-1, U-2", False),
        (1, False),
    ],
)
def test_what_an_id_looks_like(text: object, looks_right: bool) -> None:
    assert is_id(text) is looks_right
