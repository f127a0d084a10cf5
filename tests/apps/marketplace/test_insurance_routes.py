"""Insurances over HTTP: who may do what, what is refused, and what is listed."""

from __future__ import annotations

from datetime import date
from typing import Any
from uuid import UUID

import pytest

from tests.apps.marketplace.insurance_support import insure, midnight
from tests.apps.marketplace.support import Market, done
from tests.web.support import problem
from timebell.apps.marketplace import APP
from timebell.apps.marketplace.insurance.question_store import InsuranceQuestionStore
from timebell.apps.marketplace.insurance.watching import EXPIRING
from timebell.db.pool import Database
from timebell.kernel.insights.insights import Insights
from timebell.web.server.figures import FigureReader
from timebell.web.server.metrics import Metrics

LATER = date(2028, 3, 1)


@pytest.mark.req("J-4.13", "D-6.6")
async def test_an_admin_of_the_company_decides_and_its_members_see(market: Market) -> None:
    row = await insure(market, LATER, who="Lea")
    assert row == {
        "id": row["id"],
        "company_id": str(market.lender),
        "type": "liability",
        "expiration_date": "2028-03-01",
        "is_active": True,
        "deactivated_at": None,
        "replaced_by": None,
        "created_at": "2027-03-01T08:00:00Z",
        "updated_at": "2027-03-01T08:00:00Z",
    }
    said = {"company_id": str(market.lender), "type": "x", "expiration_date": "2028-01-01"}
    path = f"policies/{row['id']}"
    for who, status in (("Leo", 403), ("Wim", 404), ("Bea", 404), ("Zoe", 404)):
        # Whoever is lent has a role in the company, and hears of it alone that only its admin may.
        adding = 403 if who == "Wim" else status
        assert (await market.ask(who, "POST", "policies", said)).status_code == adding
        assert (await market.ask(who, "GET", path)).status_code == (200 if who == "Leo" else 404)
        for verb, body in (("renew", {"expiration_date": "2028-01-01"}), ("invalidate", {})):
            refused = await market.ask(who, "POST", f"{path}/{verb}", body)
            problem(refused, status, "not_allowed" if status == 403 else "not_found")
    assert [one["id"] for one in await market.data("policies", "Leo")] == [row["id"]]
    assert [await market.data("policies", who) for who in ("Wim", "Bea", "Zoe")] == [[], [], []]


async def test_they_are_listed_by_company_and_by_whether_they_are_valid(market: Market) -> None:
    ids = [(await insure(market, LATER, side=side))["id"] for side in ("lender", "borrower", "lender")]
    done(await market.ask(None, "POST", f"policies/{ids[2]}/invalidate", {}))

    async def listed(who: str | None = None, **given: Any) -> list[str]:
        return [row["id"] for row in await market.data("policies", who, params=given)]

    assert await listed() == ids
    assert await listed(is_active=True) == ids[:2]
    assert await listed(company_id=str(market.lender)) == [ids[0], ids[2]]
    assert await listed("Lea", is_active=False) == [ids[2]]
    first = await market.get("policies", params={"limit": 2})
    assert [row["id"] for row in first["data"]] == ids[:2]
    assert await listed(cursor=first["next_cursor"]) == ids[2:]
    problem(
        await market.ask("Bea", "GET", "policies", params={"company_id": str(market.lender)}),
        404,
        "not_found",
    )


async def test_what_cannot_be_is_refused_with_its_field(market: Market) -> None:
    policy = await insure(market, LATER)
    said = {"company_id": str(market.lender), "type": "liability", "expiration_date": "2028-03-01"}
    for path, body, pointer in (
        ("policies", {**said, "type": " "}, "/type"),
        ("policies", {**said, "expiration_date": "soon"}, "/expiration_date"),
        ("policies", {**said, "expiration_date": "3000-01-01"}, "/expiration_date"),
        (f"policies/{policy['id']}/renew", {}, "/expiration_date"),
        (f"policies/{policy['id']}/renew", {"expiration_date": "2027-02-28"}, "/expiration_date"),
        (f"policies/{policy['id']}/invalidate", {"reason": ""}, "/reason"),
    ):
        refused = problem(await market.ask(None, "POST", path, body), 422, "invalid_input")
        assert [each["pointer"] for each in refused["errors"]] == [pointer]
    nobody = {**said, "company_id": str(UUID(int=7))}
    problem(await market.ask(None, "POST", "policies", nobody), 404, "not_found")
    unkeyed = await market.site.ask(
        "POST", f"/api/marketplace/policies/{policy['id']}/invalidate", key="admin", json={}
    )
    assert unkeyed.status_code == 400
    once = [
        await market.ask(None, "POST", f"policies/{policy['id']}/invalidate", {}, idempotency="once")
        for _ in range(2)
    ]
    assert [one.status_code for one in once] == [200, 200]
    assert once[1].headers["idempotent-replayed"] == "true"


@pytest.mark.req("J-14.2")
async def test_the_index_of_the_source_is_there(market: Market) -> None:
    rows = await market.rows(
        "SELECT indexdef FROM pg_indexes WHERE schemaname = 'marketplace' AND tablename = 'insurance_policies'"
    )
    assert any("(tenant, company_id, is_active, expiration_date)" in row["indexdef"] for row in rows)


async def open_alerts(market: Market) -> list[tuple[str, str]]:
    """What is open after a look: the rule, and what it found."""
    await market.bench.engine.watch.look()
    rows = await market.rows(
        "SELECT rule, detail FROM timebell.alerts WHERE app = 'marketplace' AND closed_at IS NULL ORDER BY rule"
    )
    return [(row["rule"], row["detail"].partition(";")[0]) for row in rows]


@pytest.mark.req("J-4.15", "J-12.2")
async def test_operators_see_what_ends_soon_and_what_the_run_has_left_undone(market: Market) -> None:
    for number, day in enumerate((date(2027, 3, 1), date(2027, 3, 4), date(2027, 3, 12), date(2027, 3, 25))):
        await insure(market, day, type=f"type {number}")
    store = InsuranceQuestionStore(market.clock)
    reader = await Database.open(market.database.read_url, size=1)
    try:

        async def asked(after: tuple[str, str] | None = None) -> list[list[tuple[Any, ...]]]:
            async with reader.connection() as session:
                given: Any = {"seconds": 3_600, "after": after, "limit": 10}
                found = [
                    await store.ask_expired_active(session, **given),
                    await store.ask_unwarned(session, **given),
                ]
            return [[(row["tenant"], row["policy_count"], row["oldest"]) for row in rows] for rows in found]

        async with market.bench.bell.transaction() as tx:
            await market.bench.bell.pause(tx, "insurance-monitor")
        # Until an hour after midnight the run may still be on its way.
        await market.pass_until(midnight(3, 2))
        assert await asked() == [[], []]
        figures = FigureReader(Insights(reader, market.clock), market.clock, reader)
        page = (await Metrics(figures=figures, apps=(APP,)).text()).decode()
        shown = {line.rpartition(" ")[0]: line.rpartition(" ")[2] for line in page.splitlines()}
        assert [shown[f'{EXPIRING}{{days="{days}"}}'] for days in ("expired", "0-7", "8-14", "15-30")] == [
            *("1.0", "1.0", "1.0", "1.0")
        ]
        market.clock.move_to(midnight(3, 2).replace(hour=1))
        assert await asked() == [
            [("default", 1, date(2027, 3, 1))],
            [("default", 2, date(2027, 3, 4))],
        ]
        assert await asked(("default", "")) == [[], []]
        assert await open_alerts(market) == [
            ("marketplace_insurance_expired", "1 insurances have ended, and work goes on"),
            ("marketplace_insurance_unwarned", "2 insurances end soon, and nobody was warned"),
        ]
        async with market.bench.bell.transaction() as tx:
            await market.bench.bell.resume(tx, "insurance-monitor")
        await market.bench.run_due()
        assert await asked() == [[], []]
        assert await open_alerts(market) == []
    finally:
        await reader.close()
