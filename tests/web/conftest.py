"""A site on a database of the test's own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

from tests.log_lines import kept_lines
from tests.web.support import Site, open_site
from timebell.testing.database import TestDatabase


@pytest.fixture(autouse=True)
def log_lines() -> Iterator[list[dict[str, Any]]]:
    """What was logged: kept and not printed, because a traceback in colours takes longer than the tests."""
    with kept_lines("tests") as lines:
        yield lines


@pytest_asyncio.fixture
async def site(database_url: TestDatabase) -> AsyncIterator[Site]:
    async with open_site(database_url) as opened:
        yield opened
