"""Every requirement of the specification is proven by a test that names it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

import pytest

from tests.docs.conditions import INSTALLED, Conditions
from tests.packages import PACKAGES
from tests.shape.tree import ROOT, TESTS, python_files, within

_ID = re.compile(r"[A-Z]-[A-Z]?\d+(?:\.\d+)?")
_REQUIREMENT = re.compile(rf"^\s*[-*+]\s+\*\*(?P<id>{_ID.pattern})\*\*", re.MULTILINE)
# How many entries each list has that is here as a whole.
WHOLE = {"J": 165, "A": 39, "S": 28}
_NOT_RUN = {"pytest.mark.skip", "pytest.mark.xfail"}
PAGES = sorted((ROOT / "docs" / "spec").glob("*.md"))


def required_ids(text: str) -> list[str]:
    """The ids that begin an entry of a list in bold."""
    return [match["id"] for match in _REQUIREMENT.finditer(text)]


Mark = tuple[str, tuple[str, ...]]


def marked_ids(source: str) -> list[str]:
    """The ids that the tests of a module are marked with; a test that never runs proves nothing."""
    return [id_ for id_, _ in marks(source)]


def marks(source: str) -> list[Mark]:
    """The same with the names of the test, which are that of its class and its own."""
    return list(_marks(ast.parse(source).body))


def _marks(body: list[ast.stmt], *above: str, inherited: tuple[ast.expr, ...] = ()) -> Iterator[Mark]:
    for node in body:
        match node:
            case ast.Assign(targets=[ast.Name(id="pytestmark")], value=ast.List(elts=listed)):
                inherited += tuple(listed)
            case ast.Assign(targets=[ast.Name(id="pytestmark")], value=mark):
                inherited += (mark,)
            case _:
                pass
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if name.startswith("test_"):
                for id_ in _ids_of([*inherited, *node.decorator_list]):
                    yield id_, (*above, name)
            case ast.ClassDef(name=name, decorator_list=listed) if name.startswith("Test"):
                yield from _marks(node.body, *above, name, inherited=(*inherited, *listed))
            case _:
                pass


def _ids_of(listed: list[ast.expr]) -> Iterator[str]:
    if any(_called(mark) in _NOT_RUN for mark in listed):
        return
    for mark in listed:
        if isinstance(mark, ast.Call) and _called(mark) == "pytest.mark.req":
            yield from (ast.literal_eval(argument) for argument in mark.args)


def _called(mark: ast.expr) -> str:
    return ast.unparse(mark.func if isinstance(mark, ast.Call) else mark)


@cache
def _sources() -> dict[str, str]:
    """Every module of the tests, under the name that the others import it by."""
    return {
        within(path).removesuffix(".py").replace("/", "."): path.read_text(encoding="utf-8")
        for path in python_files(TESTS)
    }


@cache
def _marks_of_all_tests() -> dict[str, list[Mark]]:
    return {name: marks(text) for name, text in _sources().items() if "test_" in name.rpartition(".")[2][:5]}


def test_every_requirement_has_a_test_that_runs_wherever_the_tests_do() -> None:
    required = {id_: within(page) for page in PAGES for id_ in required_ids(page.read_text(encoding="utf-8"))}
    conditions = Conditions(_sources())
    skipped: dict[str, list[str]] = {}
    proven: set[str] = set()
    for module, found in _marks_of_all_tests().items():
        for id_, path in found:
            condition = conditions.of(module, *path)
            if condition is None:
                proven.add(id_)
            else:
                skipped.setdefault(id_, []).append(
                    f"{'.'.join((module, *path))} may be skipped ({condition})"
                )
    missing = [
        f"{id_} ({page}) has no test" + "".join(f"\n    {line}" for line in skipped.get(id_, ()))
        for id_, page in required.items()
        if id_ not in proven
    ]
    assert not missing, "mark the test that proves it with @pytest.mark.req:\n" + "\n".join(missing)


def test_no_requirement_is_stated_twice() -> None:
    ids = [id_ for page in PAGES for id_ in required_ids(page.read_text(encoding="utf-8"))]
    assert not {id_ for id_ in ids if ids.count(id_) > 1}


def test_every_mark_names_a_requirement_of_the_specification() -> None:
    """What is not promised is not proven either, least of all what waits for an app that is not there."""
    required = {id_ for page in PAGES for id_ in required_ids(page.read_text(encoding="utf-8"))}
    wrong = [
        f"{'.'.join((module, *path))}: {id_}"
        for module, found in _marks_of_all_tests().items()
        for id_, path in found
        if id_ not in required
    ]
    assert not wrong, "docs/spec promises no such thing; an id looks like U-6, M-5.4 or X-C9:\n" + "\n".join(
        wrong
    )


@pytest.mark.parametrize("name", WHOLE)
def test_a_list_that_is_here_as_a_whole_has_no_gap(name: str) -> None:
    """Every entry of it is promised, so that each has a test."""
    required = {id_ for page in PAGES for id_ in required_ids(page.read_text(encoding="utf-8"))}
    places = sorted(
        tuple(map(int, id_.removeprefix(f"{name}-").split(".")))
        for id_ in required
        if id_.startswith(f"{name}-")
    )
    assert len(places) == WHOLE[name]
    for before, after in pairwise(places):
        assert after in ((before[0], before[1] + 1), (before[0] + 1, 1)), (before, after)


def test_packages_that_tests_need_are_those_that_make_installs() -> None:
    [line] = re.findall(r"^PACKAGES := (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert {*line.split()} == {*PACKAGES.values()}


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
        ("pytestmark = [pytest.mark.slow, pytest.mark.req('U-1')]\ndef test_x(): ...", ["U-1"]),
        ("pytestmark = pytest.mark.req('U-1')\ndef test_x(): ...", ["U-1"]),
        ("pytestmark = pytest.mark.req('U-1')", []),
        ("pytestmark = pytest.mark.skip\n@pytest.mark.req('U-1')\ndef test_x(): ...", []),
        ("@pytest.mark.req('U-1')\ndef helper(): ...", []),
        ("@pytest.mark.req('U-1')\n@pytest.mark.skip\ndef test_x(): ...", []),
        ("@pytest.mark.req('U-1')\n@pytest.mark.xfail(reason='later')\ndef test_x(): ...", []),
        ("def test_x():\n    '''@pytest.mark.req('U-1')'''", []),
    ],
)
def test_marks_are_read_from_tests_that_run(source: str, ids: list[str]) -> None:
    assert marked_ids(source) == ids


SKIPS = "def f():\n    pytest.skip('none')\n"
ARGUED = "@pytest.fixture\ndef f(g): ...\n@pytest.fixture\ndef g():\n    pytest.skip('none')\n"
AUTOMATIC = "@pytest.fixture(autouse=True)\ndef f():\n    pytest.skip('none')\n"


@pytest.mark.parametrize(
    ("files", "place"),
    [
        ({"tests.test_a": "def test_x(): ..."}, None),
        ({"tests.test_a": "@pytest.mark.skipif(BSD)\ndef test_x(): ..."}, "tests.test_a:1"),
        ({"tests.test_a": "bsd = pytest.mark.skipif(BSD)\n@bsd\ndef test_x(): ..."}, "tests.test_a:1"),
        ({"tests.test_a": "pytestmark = pytest.mark.skipif(BSD)\ndef test_x(): ..."}, "tests.test_a:1"),
        ({"tests.test_a": "def test_x():\n    pytest.importorskip('a')"}, "tests.test_a:2"),
        ({"tests.test_a": SKIPS + "def test_x():\n    f()"}, "tests.test_a:2"),
        ({"tests.test_a": SKIPS + "def test_y():\n    f()\ndef test_x(): ..."}, None),
        ({"tests.test_a": ARGUED + "def test_x(f): ..."}, "tests.test_a:5"),
        ({"tests.test_a": ARGUED + "@pytest.mark.usefixtures('f')\ndef test_x(): ..."}, "tests.test_a:5"),
        ({"tests.test_a": AUTOMATIC + "def test_x(): ..."}, "tests.test_a:3"),
        ({"tests.test_a": "def test_x(f): ...", "tests.conftest": ARGUED}, "tests.conftest:5"),
        ({"tests.b.test_a": "def test_x(): ...", "tests.conftest": AUTOMATIC}, "tests.conftest:3"),
        ({"tests.test_a": "def test_x(): ...", "tests.b.conftest": AUTOMATIC}, None),
        (
            {"tests.test_a": "from tests.b import f as g\ndef test_x():\n    g()", "tests.b": SKIPS},
            "tests.b:2",
        ),
        (
            {"tests.c.test_a": "from tests.c import b\ndef test_x():\n    b.f()", "tests.c.b": SKIPS},
            "tests.c.b:2",
        ),
        ({INSTALLED: SKIPS, "tests.test_a": f"from {INSTALLED} import f\ndef test_x():\n    f()"}, None),
    ],
)
def test_conditions_are_found_wherever_they_stand(files: dict[str, str], place: str | None) -> None:
    [module] = [name for name in files if name.endswith("test_a")]
    assert Conditions(files).of(module, "test_x") == place


def test_a_condition_on_a_class_is_one_on_its_tests() -> None:
    source = (
        "@pytest.mark.skipif(BSD)\nclass TestX:\n    def test_x(self): ...\n"
        "class TestY:\n    def test_y(self): ...\n    def test_z(self):\n        pytest.skip('no')"
    )
    conditions = Conditions({"tests.test_a": source})
    found = [conditions.of("tests.test_a", *path) for path in (("TestX", "test_x"), ("TestY", "test_y"))]
    assert found == ["tests.test_a:1", None]


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
