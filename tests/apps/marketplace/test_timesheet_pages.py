"""The page behind the link in a text message, on which the supervisor verifies a timesheet."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from urllib.parse import urlsplit
from uuid import UUID

import httpx2
import pytest
import pytest_asyncio

from tests.apps.marketplace.shift_support import END, disputed, fund, read, submitted
from tests.apps.marketplace.support import DAY, MINUTE, SECOND, Market, open_market
from timebell.apps.marketplace.shifts.links import TimesheetLinks
from timebell.apps.marketplace.shifts.store import ShiftStore
from timebell.testing.database import TestDatabase

SECRET = "s" * 32
PUBLIC = "https://time.example.org"


@pytest_asyncio.fixture
async def signing(market_database: TestDatabase) -> AsyncIterator[Market]:
    """A market whose server knows where it is, and can sign."""
    async with open_market(market_database, secret_key=SECRET, public_url=PUBLIC) as market:
        yield market


async def link(market: Market, id: str, who: str = "Sue") -> str:
    """Where a link for somebody leads to."""
    async with market.bench.bell.transaction() as tx:
        found = await ShiftStore(market.bench.bell.clock).read_shift(tx, id=UUID(id))
    assert found is not None
    return urlsplit(TimesheetLinks(market.bench.bell).url(found, market.people[who])).path


async def visit(market: Market, path: str, method: str = "GET", accept: str = "text/html") -> httpx2.Response:
    return await market.site.ask(method, path, key=None, headers={"accept": accept})


def is_offered(page: httpx2.Response) -> bool:
    return "<button>Verify</button>" in page.text


@pytest.mark.req("J-7.6")
async def test_the_link_in_the_message_opens_that_timesheet(signing: Market) -> None:
    id = await submitted(signing)
    await signing.pass_until(END + SECOND)
    (text,) = [parcel.content.text for parcel in signing.arrived]
    found = re.fullmatch(r"Timesheet for Wim submitted\. Verify: (https://time\.example\.org/t/\S+)", text)
    assert found is not None
    # With it the message is still two parts of an SMS.
    assert len(text) <= 306
    path = urlsplit(found[1]).path
    page = await visit(signing, path)
    assert (page.status_code, is_offered(page)) == (200, True)
    for shown in ("Wim", "2027-03-02 08:00 (Europe/Berlin)", "2027-03-02 16:00", "8:00", "2027-03-02 20:00"):
        assert shown in page.text
    # Reading it has changed nothing: robots follow every link.
    assert (await read(signing, id))["status"] == "Pending_Verification"
    await fund(signing, id)
    verified = await visit(signing, path, "POST")
    assert (verified.status_code, is_offered(verified)) == (200, False)
    row = await read(signing, id)
    assert (row["status"], row["verified_by"]) == ("Verified", f"recipient:{signing.people['Sue']}")


async def test_a_link_is_for_one_person_and_one_timesheet(signing: Market) -> None:
    id = await submitted(signing)
    stranger, worker = await link(signing, id, "Zoe"), await link(signing, id, "Wim")
    for method in ("GET", "POST"):
        assert (await visit(signing, stranger, method)).status_code == 404
    assert (await visit(signing, worker)).status_code == 200
    assert (await visit(signing, worker, "POST")).status_code == 403
    assert (await visit(signing, worker, "POST", accept="*/*")).json()["code"] == "not_allowed"
    assert (await read(signing, id))["status"] == "Pending_Verification"


async def test_a_link_that_is_not_ours_opens_nothing(signing: Market) -> None:
    id = await submitted(signing)
    path = await link(signing, id)
    body, _, signature = path.rpartition(".")
    for broken in (f"{body}.{signature[:-2]}AA", f"{body}", f"/t/x{path[3:]}", "/t/" + "x" * 700):
        for method in ("GET", "POST"):
            assert (await visit(signing, broken, method)).status_code == 404, broken
    assert (await visit(signing, f"{body}.A", accept="*/*")).json()["code"] == "not_found"


async def test_a_link_says_what_became_of_it(signing: Market) -> None:
    id = await submitted(signing)
    path = await link(signing, id)
    await disputed(signing, id)
    page = await visit(signing, path)
    assert (page.status_code, is_offered(page)) == (200, False)
    assert "disputed" in page.text
    refused = await visit(signing, path, "POST")
    assert (refused.status_code, is_offered(refused)) == (409, False)
    assert (await visit(signing, path, "POST", accept="*/*")).json()["code"] == "time_log_status"


async def test_a_link_grows_old(signing: Market) -> None:
    id = await submitted(signing)
    path = await link(signing, id)
    signing.clock.move_to(END + 7 * DAY)
    for method in ("GET", "POST"):
        assert (await visit(signing, path, method)).status_code == 410
    assert (await visit(signing, path, accept="*/*")).json()["code"] == "link_expired"


async def test_without_a_secret_the_message_goes_all_the_same(market: Market) -> None:
    id = await submitted(market)
    await market.pass_until(END + MINUTE)
    (text,) = [parcel.content.text for parcel in market.arrived]
    assert text.endswith(f"/api/marketplace/time-logs/{id}")
