"""The providers that are no web API keep the same contract."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.contract.providers.http_side import LONG_TIMEOUT, HttpSide, has_a_crowd
from tests.contract.providers.other_sides import (
    AppriseSide,
    CapturedSide,
    LogSide,
    SmtpSide,
    WebPushSide,
)
from timebell.testing.provider_suite import CHECKS, Check, name_of

# Apprise loads every service that it knows, and one of them a module that Python is about to drop.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")

SIDES: list[type[HttpSide | SmtpSide | LogSide]] = [
    SmtpSide,
    WebPushSide,
    AppriseSide,
    LogSide,
    CapturedSide,
]


@pytest_asyncio.fixture
async def side(request: pytest.FixtureRequest) -> AsyncIterator[HttpSide | SmtpSide | LogSide]:
    made: HttpSide | SmtpSide | LogSide = request.param()
    if not isinstance(made, LogSide) and has_a_crowd(request):
        made.timeout = LONG_TIMEOUT
    await made.open()
    yield made
    await made.close()


@pytest.mark.req("U-19", "X-C13", "M-5.8")
@pytest.mark.parametrize("side", SIDES, indirect=True, ids=lambda it: it.__name__)
@pytest.mark.parametrize("check", CHECKS, ids=name_of)
async def test_it_conforms(check: Check, side: HttpSide | SmtpSide | LogSide) -> None:
    await check(side)
