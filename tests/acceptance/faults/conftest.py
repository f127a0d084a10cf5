"""A stage for each test, on a database of the test's own, with everything on it ended afterwards.

With `--resume` the tests that passed on this very commit before, as the file of results says, are not run again.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from tests.acceptance.faults.results import RESULTS, add_begin, add_end, add_tests, commit, is_done, load_runs
from tests.acceptance.faults.stage import Stage
from timebell.testing.database import TestDatabase

HERE = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--resume", action="store_true", help="run no fault again that passed on this commit")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Before anything else is chosen from them, so that it is known how many there are."""
    named = os.environ.get(RESULTS)
    if named is None:
        return
    add_tests(item.nodeid for item in items if _is_ours(item))
    if not config.getoption("--resume", default=False):
        return
    runs = load_runs(Path(named))
    done = [item for item in items if _is_ours(item) and is_done(runs.get(item.nodeid), commit())]
    config.hook.pytest_deselected(items=done)
    items[:] = [item for item in items if item not in done]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if _is_ours(item):
        add_begin(item.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What fails before or after the test itself has failed too."""
    report = yield
    if _is_ours(item) and (report.when == "call" or report.outcome != "passed"):
        add_end(item.nodeid, report.outcome)
    return report


def _is_ours(item: pytest.Item) -> bool:
    return item.path.is_relative_to(HERE)


class MakeStage(Protocol):
    def __call__(
        self,
        seed: int,
        *,
        url: str | None = None,
        owner_url: str | None = None,
        admin_url: str | None = None,
        **options: object,
    ) -> Stage: ...


@pytest.fixture
def make_stage(database_url: TestDatabase, place: Path) -> Iterator[MakeStage]:
    """Makes the stage of a test, on the shared server unless another database is named."""
    made: list[Stage] = []

    def make(
        seed: int,
        *,
        url: str | None = None,
        owner_url: str | None = None,
        admin_url: str | None = None,
        **options: object,
    ) -> Stage:
        stage = Stage(
            url or database_url.url,
            owner_url or database_url.owner_url,
            admin_url or database_url.admin_url,
            place,
            seed=seed,
            **options,  # type: ignore[arg-type]
        )
        made.append(stage)
        return stage

    yield make
    for stage in made:
        stage.end()
