"""What `timebell marketplace demo` makes, and where it is refused."""

from __future__ import annotations

import pytest

from tests.apps.marketplace.support import Market
from timebell.apps.marketplace import APP
from timebell.apps.marketplace.demo import demo
from timebell.db.pool import Database
from timebell.errors import ConfigurationError, InvalidInput
from timebell.kernel import Registry, Timebell
from timebell.notify import notify_app


async def test_it_fills_a_sandbox_once(market: Market) -> None:
    answer = await demo(market.bench.bell, tenant="shown", actor="ada")
    assert len(answer.value["bookings"]) == 30
    rows = await market.rows(
        "SELECT timezone, count(*) AS n FROM marketplace.staffing_bookings WHERE tenant = 'shown' GROUP BY 1 ORDER BY 1"
    )
    assert {row["timezone"]: row["n"] for row in rows} == {
        "America/New_York": 8,
        "Asia/Kolkata": 7,
        "Australia/Lord_Howe": 7,
        "Europe/Berlin": 8,
    }
    assert await market.value("SELECT count(*) FROM marketplace.companies WHERE tenant = 'shown'") == 4
    assert await market.value("SELECT count(*) FROM marketplace.time_log WHERE tenant = 'shown'") == 300
    with pytest.raises(InvalidInput, match="there already"):
        await demo(market.bench.bell, tenant="shown", actor="ada")
    assert await market.value("SELECT count(*) FROM marketplace.companies WHERE tenant = 'shown'") == 4


async def test_it_is_refused_where_time_is_real(market: Market) -> None:
    database = await Database.open(market.database.url)
    bell = Timebell(database, registry=Registry([notify_app([]), APP]))
    try:
        with pytest.raises(ConfigurationError, match="timebell up --sandbox"):
            await demo(bell, tenant="shown", actor="ada")
    finally:
        await bell.close()
        await database.close()
    assert await market.value("SELECT count(*) FROM marketplace.companies WHERE tenant = 'shown'") == 0
