"""The documentation is true: its examples compile, its links lead somewhere, and it lists every error."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

from tests.docs.markdown import blocks, headings, pages, prose
from tests.shape.tree import ROOT, within
from timebell import errors
from timebell.config import Settings

ERRORS_PAGE = ROOT / "docs" / "reference" / "errors.md"

_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)(?:\s+\"[^\"]*\")?\)")


def example_complaints(name: str, text: str) -> list[str]:
    """Python examples whose first line is `# runs` must compile; `await` may stand outside a function."""
    complaints = []
    for block in blocks(text):
        if block.language == "python" and block.code.startswith("# runs"):
            try:
                compile(block.code, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            except SyntaxError as error:
                complaints.append(f"{name}:{block.line + (error.lineno or 1) - 1} {error.msg}")
    return complaints


def broken_links(page: Path, text: str) -> list[str]:
    """Links to files and headings of the repository that are not there; addresses elsewhere are not followed."""
    targets = [match["target"] for match in _LINK.finditer(prose(text))]
    relative = [target for target in targets if not re.match(r"[a-z]+:", target)]
    return [target for target in relative if not _leads_somewhere(page, text, target)]


def _leads_somewhere(page: Path, text: str, target: str) -> bool:
    name, _, heading = target.partition("#")
    file = page.parent / name
    if not heading or not file.exists():
        return file.exists()
    return heading in anchors(file.read_text(encoding="utf-8") if name else text)


def anchors(text: str) -> set[str]:
    """The names by which the headings of a page are linked to."""
    titles = [title for level in range(1, 7) for title in headings(text, level)]
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def request_complaints(text: str) -> list[str]:
    """Lines with curl that would be refused: at a port where nothing answers, or with JSON that is not called so."""
    shell = [block.code for block in blocks(text) if block.language == "sh"]
    lines = [line for code in shell for line in code.replace("\\\n", " ").splitlines() if "curl " in line]
    return [
        line
        for line in lines
        if set(re.findall(r"(?:localhost|127\.0\.0\.1):(\d+)", line)) - {str(Settings().port)}
        or (re.search(r" -d ['\"]?\{", line) and "application/json" not in line)
    ]


def error_names() -> list[str]:
    classes = [value for value in vars(errors).values() if inspect.isclass(value)]
    return [error.__name__ for error in classes if issubclass(error, errors.TimebellError)]


def test_every_example_that_runs_compiles() -> None:
    complaints = [
        c for page in pages() for c in example_complaints(within(page), page.read_text(encoding="utf-8"))
    ]
    assert not complaints, "\n".join(complaints)


def test_every_request_can_be_typed_in() -> None:
    read = [page.read_text(encoding="utf-8") for page in pages()]
    assert [line for text in read for line in request_complaints(text)] == []
    bad = """```sh\ncurl localhost:7420/v1/jobs\ncurl -s localhost:8080/v1/jobs \\\n  -d '{"kind": "x"}'\n```\n"""
    assert len(request_complaints(bad)) == 2


def test_every_link_leads_somewhere() -> None:
    broken = {within(page): broken_links(page, page.read_text(encoding="utf-8")) for page in pages()}
    assert not {page: targets for page, targets in broken.items() if targets}


def test_every_error_has_its_heading() -> None:
    listed = headings(ERRORS_PAGE.read_text(encoding="utf-8"), 3)
    assert sorted(listed) == sorted(error_names()), (
        f"{within(ERRORS_PAGE)} does not list the errors of errors.py"
    )


def test_the_drawing_of_the_error_tree_is_complete() -> None:
    drawing = inspect.getdoc(errors) or ""
    assert [name for name in error_names() if not re.search(rf"\b{name}\b", drawing)] == []


def test_an_example_that_cannot_run_is_found() -> None:
    page = "# Page\n\n```python\n# runs\nx = 1\ny = = 2\n```\n"
    assert example_complaints("page.md", page)[0].startswith("page.md:6 ")


@pytest.mark.parametrize(
    "code", ["# runs\nawait bell.enqueue()", "this is only shown", "# runs\n\nasync with x as y:\n    pass"]
)
def test_an_example_may(code: str) -> None:
    assert (
        example_complaints(
            "page.md", f"```python\n{code}\n```\n\n- a list\n\n  ```python\n  # runs\n  x = 1\n  ```\n"
        )
        == []
    )


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("## What it `promises`, now\n")
    text = (
        "# Here\n[a](there.md#what-it-promises-now) [b](missing.md) [c](https://example.org/x) [d](#here)\n"
        "[f](there.md#elsewhere) [g](#there)\n```\n[e](gone.md)\n```\n"
    )
    assert broken_links(tmp_path / "page.md", text) == ["missing.md", "there.md#elsewhere", "#there"]


def test_headings_in_examples_do_not_count() -> None:
    assert headings("### One\n```\n### Two\n```\n#### Three\n### Four  \n", 3) == ["One", "Four"]


def test_decisions_are_numbered_in_the_order_of_writing() -> None:
    records = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
    numbers = [int(record.name[:4]) for record in records]
    assert numbers == list(range(1, len(numbers) + 1)), "two records met; give yours the next free number"
    for record in records:
        assert record.read_text(encoding="utf-8").startswith(f"# {record.name[:4]}. "), record.name
