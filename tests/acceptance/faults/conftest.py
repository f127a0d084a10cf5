"""A stage for each test, on a database of the test's own, with everything on it ended afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from tests.acceptance.faults.stage import Stage
from timebell.testing.database import TestDatabase


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
