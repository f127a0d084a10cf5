"""The pages of the marketplace, typed in as they stand: every step answers what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.processes import Process, clean_environment, free_port
from tests.acceptance.test_examples import KEY, shell
from tests.acceptance.test_sequence_pages import MARK, SECONDS_MAX, typed
from tests.docs.markdown import blocks
from tests.shape.tree import PACKAGE, ROOT

# Where each page has its sandbox, and how many answers it shows.
PAGES = {
    "tutorial/first-marketplace.md": ("/tmp/my-marketplace", 7),
    "howto/disputes.md": ("/tmp/my-disputes", 7),
}

pytestmark = pytest.mark.skipif(
    not (PACKAGE / "apps" / "marketplace").exists(), reason="the app marketplace was taken away"
)


@pytest.mark.req("J-7.15")
@pytest.mark.parametrize("page", PAGES)
def test_every_line_of_the_page(place: Path, processes: list[Process], page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    named, shown_max = PAGES[page]
    (start, _), *rest = typed(list(blocks(text)))
    assert f"TIMEBELL_API_KEY={KEY}" in start
    assert f"--sandbox --start 2026-03-01T00:00:00Z --data {named}" in start
    port, folder = free_port(), place / "data"
    process = Process(
        place / "sandbox",
        *("up", "--sandbox", "--start", "2026-03-01T00:00:00Z", "--data", folder, "--port", port),
        port=port,
        environment=clean_environment(TIMEBELL_API_KEY=KEY, TMPDIR=str(place)),
    )
    processes.append(process)
    process.wait_ready()
    script = "".join(f"{code}\necho '{MARK}'\n" for code, _ in rest)
    here = script.replace("127.0.0.1:8080", f"127.0.0.1:{port}").replace(named, str(folder))
    printed = "\n".join(shell(f"cd {ROOT}\n{here}", seconds=SECONDS_MAX))
    answers = [part.strip() for part in printed.split(MARK)]
    assert answers == [*(shown.strip() for _, shown in rest), ""]
    assert sum(bool(shown) for _, shown in rest) == shown_max
