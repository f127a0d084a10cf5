"""The tutorial of sequences and their guide, typed in as they stand: every step answers what the page says."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.acceptance.processes import Process
from tests.acceptance.test_examples import KEY, sandbox, shell
from tests.docs.markdown import Block, blocks
from tests.shape.tree import PACKAGE, ROOT

MARK = "--- the next block"
# Some sixty processes one after the other, each of which a busy machine lets wait.
SECONDS_MAX = 240


def typed(page: list[Block]) -> Iterator[tuple[str, str]]:
    """What is typed in, and what the page says is seen then: nothing, where no text follows it."""
    for block, after in pairwise([*page, None]):
        if block is not None and block.language == "sh":
            is_shown = after is not None and after.language == "text"
            yield block.code, after.code if is_shown and after is not None else ""


@pytest.mark.skipif(not (PACKAGE / "apps" / "sequences").exists(), reason="the app sequences was taken away")
@pytest.mark.parametrize(
    ("page", "shown_count"), [("tutorial/first-sequence.md", 8), ("howto/sequences.md", 11)]
)
def test_every_line_of_the_page(page: str, shown_count: int, place: Path, processes: list[Process]) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    (start, _), *rest = typed(list(blocks(text)))
    assert f"TIMEBELL_API_KEY={KEY}" in start
    assert "--start 2026-03-01T00:00:00Z" in start
    process = sandbox(place, processes)
    script = "".join(f"{code}\necho '{MARK}'\n" for code, _ in rest)
    here = script.replace("127.0.0.1:8080", f"127.0.0.1:{process.port}")
    printed = "\n".join(shell(here, seconds=SECONDS_MAX))
    answers = [part.strip() for part in printed.split(MARK)]
    assert answers == [*(shown.strip() for _, shown in rest), ""]
    assert sum(bool(shown) for _, shown in rest) == shown_count
