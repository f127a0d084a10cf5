"""`POST /v1/providers/{provider}/reports`: verified on its bytes, kept at once, applied by a node, once."""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID

import orjson
import pytest
import pytest_asyncio

from tests.web.notify_support import UNHEARD_OF, open_sandbox, pass_time, person, save, tell
from tests.web.support import Site, problem
from timebell.errors import UnverifiedReport
from timebell.notify import Report
from timebell.testing.database import TestDatabase

PATH = "/v1/providers/log/reports"
SECRET = b"the secret of the webhook"


class SignedReports:
    """A provider's webhook of the simplest kind: JSON, signed as a whole."""

    def read_reports(self, headers: Mapping[str, str], body: bytes, now: datetime) -> Sequence[Report]:
        if headers.get("signature") != sign(body):
            raise UnverifiedReport("does not fit", field="signature")
        assert abs(now - datetime.now(now.tzinfo)) < timedelta(minutes=1)
        return [Report(**{**each, "delivery_id": UUID(each["delivery_id"])}) for each in orjson.loads(body)]


def sign(body: bytes) -> str:
    return hmac.digest(SECRET, body, sha256).hex()


@pytest_asyncio.fixture
async def sandbox(database_url: TestDatabase) -> AsyncIterator[Site]:
    async with open_sandbox(database_url, reporters={"log": SignedReports()}) as opened:
        await save(opened)
        yield opened


async def send(site: Site, reports: Sequence[Mapping[str, Any]], **headers: str) -> Any:
    body = orjson.dumps(reports)
    return await site.ask("POST", PATH, key=None, content=body, headers={"signature": sign(body), **headers})


async def carried(site: Site) -> str:
    """The delivery of a message that a provider carried."""
    ada = await person(site, email="ada@example.org")
    id = await tell(site, ada["id"], channels=["email"])
    await pass_time(site)
    [delivery] = (await site.get(f"/v1/deliveries?notification_id={id}")).json()["data"]
    # As if it had left through a provider that reports; demo mode lets nothing leave.
    await site.tables.rows(
        "UPDATE timebell_notify.deliveries SET provider = 'log', state = 'sent', reason = 'accepted' WHERE id = $1",
        UUID(delivery["id"]),
    )
    carried_id: str = delivery["id"]
    return carried_id


async def kept(site: Site) -> list[dict[str, Any]]:
    return await site.tables.rows(
        "SELECT tenant, delivery_id, applied, body::text AS body FROM timebell_notify.provider_reports "
        "ORDER BY report_id"
    )


async def test_a_report_is_kept_and_then_applied_once(sandbox: Site) -> None:
    delivery = await carried(sandbox)
    bounced = {"report_id": "r1", "kind": "bounced", "delivery_id": delivery, "reason": "no such mailbox"}
    for _ in range(2):
        response = await send(sandbox, [bounced])
        assert (response.status_code, response.json()) == (202, {"taken": 1})
    [row] = await kept(sandbox)
    assert (row["tenant"], row["delivery_id"], row["applied"]) == (None, None, None)
    assert (await sandbox.get(f"/v1/deliveries/{delivery}")).json()["state"] == "sent"

    await pass_time(sandbox)
    [row] = await kept(sandbox)
    assert (row["tenant"], row["delivery_id"], row["applied"]) == ("default", UUID(delivery), "applied")
    assert "no such mailbox" in row["body"]
    shown = (await sandbox.get(f"/v1/deliveries/{delivery}")).json()
    assert (shown["state"], shown["reason"]) == ("failed", "bounced")
    [suppressed] = (await sandbox.get("/v1/suppressions")).json()["data"]
    assert (suppressed["address"], suppressed["reason"]) == ("ada@example.org", "bounced")
    await send(sandbox, [bounced])
    await pass_time(sandbox)
    assert [one["applied"] for one in await kept(sandbox)] == ["applied"]
    assert await sandbox.tables.jobs("kind = 'notify.apply_reports'") == []


async def test_a_report_of_nothing_of_ours_is_forgotten_but_for_its_id(sandbox: Site) -> None:
    report = {
        "report_id": "r9",
        "kind": "bounced",
        "delivery_id": UNHEARD_OF,
        "reason": "eve@example.org is gone",
    }
    assert (await send(sandbox, [report])).status_code == 202
    await pass_time(sandbox, "PT10S")
    assert [row["applied"] for row in await kept(sandbox)] == [None]
    await pass_time(sandbox)
    [row] = await kept(sandbox)
    assert (row["applied"], "eve" in row["body"]) == ("unknown", False)
    assert await sandbox.tables.jobs("kind = 'notify.apply_reports'") == []


async def test_a_report_that_came_before_its_delivery_is_applied_after_all(sandbox: Site) -> None:
    delivery = await carried(sandbox)
    rename = "UPDATE timebell_notify.deliveries SET provider = $2 WHERE id = $1"
    await sandbox.tables.rows(rename, UUID(delivery), "not yet")
    await send(sandbox, [{"report_id": "r1", "kind": "delivered", "delivery_id": delivery}])
    await pass_time(sandbox, "PT10S")
    await sandbox.tables.rows(rename, UUID(delivery), "log")
    await pass_time(sandbox)
    assert (await sandbox.get(f"/v1/deliveries/{delivery}")).json()["state"] == "delivered"


async def test_only_what_is_signed_is_read(sandbox: Site) -> None:
    body = orjson.dumps([{"report_id": "r1", "kind": "delivered", "delivery_id": UNHEARD_OF}])
    for headers in ({}, {"signature": sign(body + b" ")}):
        refused = await sandbox.ask("POST", PATH, key=None, content=body, headers=headers)
        problem(refused, 401, "unverified_report")
    unknown = await sandbox.ask("POST", "/v1/providers/pigeon/reports", key=None, content=body)
    problem(unknown, 404, "not_found")
    large = await sandbox.ask("POST", PATH, key=None, content=b" " * 1_000_001)
    problem(large, 413, "body_too_large")
    wrong = await send(sandbox, [{"report_id": "r1", "kind": "eaten", "delivery_id": UNHEARD_OF}])
    problem(wrong, 422, "invalid_input")
    assert (await send(sandbox, [])).json() == {"taken": 0}
    assert await kept(sandbox) == []
    assert await sandbox.tables.jobs("kind = 'notify.apply_reports'") == []


async def test_nobody_reads_reports_behind_the_wall_before_they_are_somebodys(sandbox: Site) -> None:
    await send(sandbox, [{"report_id": "r1", "kind": "delivered", "delivery_id": UNHEARD_OF}])
    [job] = await sandbox.tables.jobs("kind = 'notify.apply_reports'")
    assert orjson.loads(job["payload_text"]) == {"provider": "log"}


@pytest.mark.parametrize("count", [0, 3])
async def test_many_come_at_once(sandbox: Site, count: int) -> None:
    reports = [
        {"report_id": f"r{number}", "kind": "delivered", "delivery_id": UNHEARD_OF} for number in range(count)
    ]
    assert (await send(sandbox, reports)).json() == {"taken": count}
    assert len(await kept(sandbox)) == count
