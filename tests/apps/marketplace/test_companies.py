"""Companies, who has which role in them, and their projects."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any
from uuid import uuid4

import pytest

from tests.apps.marketplace.support import Market, done
from tests.web.support import problem
from timebell.apps.marketplace.models import PenaltyPolicy


async def every_id(market: Market, path: str, who: str | None = None, **params: Any) -> list[str]:
    """All pages of a list, two to a page."""
    ids: list[str] = []
    cursor: str | None = None
    for _ in range(50):
        more = {} if cursor is None else {"cursor": cursor}
        page = await market.get(path, who, params={"limit": 2, **params, **more})
        ids += [one.get("id") or one["recipient_id"] for one in page["data"]]
        cursor = page["next_cursor"]
        if cursor is None:
            return ids
    raise AssertionError("the list has no end")


@pytest.mark.req("D-6.1")
async def test_a_company_is_added_changed_and_listed(market: Market) -> None:
    body = {"name": "Builders", "type": "borrower", "payment_customer": "cus_9"}
    company = done(await market.ask(None, "POST", "companies", body), 201)
    assert (company["name"], company["type"], company["payment_customer"]) == (
        "Builders",
        "borrower",
        "cus_9",
    )
    path = f"companies/{company['id']}"
    changed = done(await market.ask(None, "PATCH", path, {"payment_method": "pm_9"}))
    assert (changed["name"], changed["payment_customer"], changed["payment_method"]) == (
        *("Builders", "cus_9", "pm_9"),
    )
    assert await market.get(path) == changed
    assert company["id"] in await every_id(market, "companies")
    assert await every_id(market, "companies", "Bea") == [str(market.borrower)]
    assert await every_id(market, "companies", "Zoe") == []
    assert await market.events(f"company:{company['id']}") == ["company.added", "company.changed"]


async def test_only_the_operator_adds_companies_and_an_admin_changes_one(market: Market) -> None:
    body = {"name": "Builders", "type": "lender"}
    for who in ("Bea", "Lea", "Zoe"):
        problem(await market.ask(who, "POST", "companies", body), 403, "not_allowed")
    path, change = f"companies/{market.borrower}", {"name": "Renamed"}
    assert done(await market.ask("Bea", "PATCH", path, change))["name"] == "Renamed"
    refused = problem(await market.ask("Ben", "PATCH", path, change), 403, "not_allowed")
    assert "borrower admin" in refused["detail"]
    for who in ("Lea", "Zoe"):
        problem(await market.ask(who, "PATCH", path, change), 404, "not_found")
        problem(await market.ask(who, "GET", path), 404, "not_found")


async def test_a_key_that_acts_for_nobody_has_to_be_an_admin_key(market: Market) -> None:
    for path in ("companies", "projects", "workers", "bookings"):
        refused = problem(await market.ask(None, "GET", path, key="write"), 403, "not_allowed")
        assert "Timebell-Actor" in refused["detail"]


@pytest.mark.req("D-6.1", "X-J41")
async def test_members_have_roles(market: Market) -> None:
    path = f"companies/{market.borrower}/members"
    zoe = str(market.people["Zoe"])
    added = done(await market.ask("Bea", "POST", path, {"recipient_id": zoe, "role": "supervisor"}), 201)
    assert added == {"recipient_id": zoe, "roles": ["supervisor"]}
    role = {"recipient_id": zoe, "role": "borrower_manager"}
    for _ in range(2):
        added = done(await market.ask("Bea", "POST", path, role), 201)
        assert added["roles"] == ["borrower_manager", "supervisor"]
    names = ("Bea", "Ben", "Sue", "Zoe")
    assert await every_id(market, path, "Ben") == sorted(str(market.people[name]) for name in names)
    await market.ask("Bea", "DELETE", f"{path}/{zoe}", params={"role": "supervisor"})
    assert {one["recipient_id"]: one["roles"] for one in await market.data(path)}[zoe] == ["borrower_manager"]
    assert (await market.ask("Bea", "DELETE", f"{path}/{zoe}")).status_code == 204
    problem(await market.ask("Bea", "DELETE", f"{path}/{zoe}"), 404, "not_found")
    assert zoe not in await every_id(market, path)
    events = await market.events(f"company:{market.borrower}")
    assert events == ["company_member.added"] * 2 + ["company_member.removed"] * 2


@pytest.mark.parametrize(
    ("company", "role"), [("borrower", "lender_admin"), ("borrower", "worker"), ("lender", "borrower_admin")]
)
async def test_a_role_has_to_fit_its_company(market: Market, company: str, role: str) -> None:
    path = f"companies/{getattr(market, company)}/members"
    body = {"recipient_id": str(market.people["Zoe"]), "role": role}
    refused = problem(await market.ask(None, "POST", path, body), 422, "invalid_input")
    assert refused["errors"][0]["pointer"] == "/role"


async def test_a_member_is_somebody(market: Market) -> None:
    path = f"companies/{market.borrower}/members"
    body = {"recipient_id": str(uuid4()), "role": "supervisor"}
    refused = problem(await market.ask("Bea", "POST", path, body), 422, "invalid_input")
    assert refused["errors"][0]["pointer"] == "/recipient_id"


@pytest.mark.req("D-6.1", "X-J58")
async def test_a_project_has_a_timezone_that_is_known(market: Market) -> None:
    body = {"company_id": str(market.borrower), "name": "Harbour", "timezone": "Asia/Kolkata"}
    project = done(await market.ask("Bea", "POST", "projects", body), 201)
    assert await market.get(f"projects/{project['id']}", "Sue") == project
    refused = problem(
        await market.ask("Bea", "POST", "projects", {**body, "timezone": "Asia/Calcuta"}),
        422,
        "unknown_timezone",
    )
    assert refused["errors"][0]["pointer"] == "/timezone"
    both = sorted([str(market.project), project["id"]])
    assert await every_id(market, "projects") == both
    assert await every_id(market, "projects", "Sue") == both
    assert await every_id(market, "projects", "Bea", company_id=str(market.borrower)) == both
    assert await every_id(market, "projects", "Lea") == []
    problem(await market.ask("Lea", "GET", f"projects/{project['id']}"), 404, "not_found")
    problem(
        await market.ask("Lea", "GET", "projects", params={"company_id": str(market.borrower)}),
        404,
        "not_found",
    )


async def test_only_an_admin_of_a_company_that_borrows_adds_projects(market: Market) -> None:
    body = {"company_id": str(market.borrower), "name": "Harbour", "timezone": "Asia/Kolkata"}
    problem(await market.ask("Ben", "POST", "projects", body), 403, "not_allowed")
    problem(await market.ask("Lea", "POST", "projects", body), 404, "not_found")
    lends = {**body, "company_id": str(market.lender)}
    refused = problem(await market.ask("Lea", "POST", "projects", lends), 422, "invalid_input")
    assert refused["errors"][0]["pointer"] == "/company_id"


async def test_a_tenant_decides_by_what_lenders_are_paid(market: Market) -> None:
    defaults = {
        "payout_trigger": "verification",
        "max_extensions": 1,
        "penalty_policy": asdict(PenaltyPolicy()),
        "hold_until_disputes_resolved": True,
    }
    assert await market.get("settings") == defaults
    assert done(await market.ask(None, "PATCH", "settings", {})) == defaults
    changed = done(await market.ask(None, "PATCH", "settings", {"payout_trigger": "webhook"}))
    assert changed == {**defaults, "payout_trigger": "webhook"}
    changed = done(await market.ask(None, "PATCH", "settings", {"max_extensions": 0}))
    assert changed == {**defaults, "payout_trigger": "webhook", "max_extensions": 0}
    assert await market.get("settings") == changed
    problem(await market.ask(None, "PATCH", "settings", {"max_extensions": 11}), 422, "invalid_input")
    problem(await market.ask(None, "PATCH", "settings", {}, key="write"), 403, "scope_missing")
