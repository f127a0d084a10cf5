"""People, texts and time, for tests of what is told over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final

from tests.web.support import Site, open_site
from timebell.clock import SandboxClock
from timebell.testing.database import TestDatabase

START: Final = datetime(2027, 3, 1, 9, 0, tzinfo=UTC)
UNHEARD_OF: Final = "01890a5d-ac96-774b-bcce-b302099a8057"
SHIPPED: Final[dict[str, Any]] = {
    "texts": [
        {
            "channel": "inbox",
            "language": "en",
            "subject": "Shipped",
            "body": "Order {{ order }} is on its way.",
        },
        {
            "channel": "email",
            "language": "en",
            "subject": "Shipped",
            "body": "Order {{ order }} is on its way.",
        },
        {
            "channel": "email",
            "language": "de",
            "subject": "Unterwegs",
            "body": "Bestellung {{ order }} ist da.",
        },
        {"channel": "sms", "language": "en", "body": "Order {{ order }} is on its way."},
    ],
    "variables": [{"name": "order"}],
    "topic": "orders",
}
ORDER: Final = {"order": "A-1042"}


@asynccontextmanager
async def open_sandbox(database: TestDatabase, **options: Any) -> AsyncIterator[Site]:
    """A site whose time passes when the test says so."""
    async with open_site(database, clock=SandboxClock(START), **options) as site:
        yield site


async def pass_time(site: Site, by: str = "PT1M") -> dict[str, int]:
    response = await site.post("/v1/clock/advance", {"by": by})
    assert response.status_code == 200, response.text
    report: dict[str, int] = response.json()
    return report


async def person(site: Site, *, key: str = "write", **body: Any) -> dict[str, Any]:
    response = await site.post("/v1/recipients", {"name": "Ada", **body}, key=key)
    assert response.status_code == 201, response.text
    made: dict[str, Any] = response.json()
    return made


async def save(
    site: Site, name: str = "order.shipped", *, key: str = "write", **changes: Any
) -> dict[str, Any]:
    response = await site.ask("PUT", f"/v1/templates/{name}", json={**SHIPPED, **changes}, key=key)
    assert response.status_code == 200, response.text
    saved: dict[str, Any] = response.json()
    return saved


async def tell(site: Site, recipient: str, **body: Any) -> str:
    asked = {
        "recipient_id": recipient,
        "template": "order.shipped",
        "context": ORDER,
        "channels": ["inbox"],
        **body,
    }
    response = await site.post("/v1/notifications", asked)
    assert response.status_code == 201, response.text
    id: str = response.json()["id"]
    assert response.headers["location"] == f"/v1/notifications/{id}"
    return id
