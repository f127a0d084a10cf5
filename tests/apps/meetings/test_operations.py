"""Every operation of the app, asked with what its document allows and with what it does not."""

from __future__ import annotations

import pytest

from tests.apps.meetings.support import Office
from tests.web.test_every_operation import ask_all

# Not `/v1`, which is asked elsewhere.
BEGIN = ("/api/meeting", "/api/availability", "/api/calendar", "/feeds/", "/r/")


async def test_a_few_requests_to_each(office: Office) -> None:
    assert await ask_all(office.site, examples=2, begin=BEGIN) > 30


@pytest.mark.slow
async def test_many_requests_to_each(office: Office) -> None:
    assert await ask_all(office.site, examples=60, begin=BEGIN) > 600
