"""Whoever has no part in a booking, and whoever is of another tenant: every route is asked for what is not theirs.

A route with an id in its path is in here by itself. Any other is refused until `ASKED` says how it is asked, or
`ELSEWHERE` where that is proven, so that nobody forgets one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import asyncpg

from tests.apps.marketplace.support import BASE
from tests.apps.marketplace.test_neighbours import INSURED, PROFILE, furnish, order, paths_of, values_of
from tests.web.neighbours import asked_in_every_way, reads_of
from tests.web.notify_support import open_sandbox
from tests.web.support import OTHER, problem
from timebell.apps.marketplace import APP
from timebell.testing.database import TestDatabase
from timebell.web import Route
from timebell.web.server.serving import routes_of

# What is changed without an id in the path, and names something of others in the body.
ASKED = {
    f"POST {BASE}/{path}" for path in ("projects", "workers", "bookings", "disputes", "incidents", "policies")
}
ELSEWHERE = {
    f"POST {BASE}/saved-searches": "It names nothing that is there: test_searches, and the twin in test_neighbours.",
    f"PATCH {BASE}/search-settings": "It is the tenant's, and the operator's: the twin in test_neighbours.",
    f"POST {BASE}/magic-links": "It is the operator's alone: test_tokens, and the twin in test_neighbours.",
    f"POST {BASE}/magic-links/redeem": "Whoever has the token may: test_tokens, and the twin in test_neighbours.",
    f"POST {BASE}/companies": "It names nothing that is there, and is the operator's: test_companies.",
    f"PATCH {BASE}/settings": "It is the tenant's, and the operator's: the twin in test_neighbours.",
    f"PUT {BASE}/simulator": "It is the tenant's: the twin in test_neighbours.",
    f"POST {BASE}/payment-reports": "It is signed, and names its tenant: test_money_routes.",
    "GET /t/{token}": "It is signed for one person: test_timesheet_pages.",
    "POST /t/{token}": "It is signed for one person: test_timesheet_pages.",
}
# Anybody in a tenant may find workers, and its settings and simulator are everybody's there.
FOUND_BY_ANYBODY = {
    f"GET {BASE}/{path}"
    for path in ("workers", "workers/{id}", "settings", "search-settings", "simulator/calls")
}
TENANTS_OWN = {f"GET {BASE}/settings", f"GET {BASE}/search-settings"}
# Of a worker whom everybody finds it is said that others may not change them.
NOT_ALLOWED = {f"PATCH {BASE}/workers/{{id}}", f"PUT {BASE}/workers/{{id}}/state"}


def name_of(route: Route) -> str:
    return f"{route.method} {route.path}"


def bodies(ids: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    about = {"time_log_id": ids["friday"], "option": "A"}
    place = {"company_id": ids["borrower"], "name": "Another", "timezone": "Asia/Tokyo"}
    worker = {"recipient_id": ids["new"], "company_id": ids["lender"], **PROFILE}
    return {
        f"POST {BASE}/projects": place,
        f"POST {BASE}/workers": worker,
        f"POST {BASE}/bookings": order(ids, 6),
        f"POST {BASE}/disputes": {**about, "reason": "Nobody was there"},
        f"POST {BASE}/incidents": {**about, "description": "A fall"},
        f"POST {BASE}/policies": {"company_id": ids["lender"], **INSURED},
    }


async def rows_of(database: TestDatabase) -> list[str]:
    """What the tenant has in the tables that a stranger would change."""
    admin = await asyncpg.connect(database.admin_url, timeout=10)
    try:
        return [
            row[0]
            for table in (
                *("staffing_bookings", "time_log", "disputes", "incident_reports", "company_members"),
                "insurance_policies",
            )
            for row in await admin.fetch(
                f"SELECT to_jsonb(t)::text FROM marketplace.{table} t WHERE tenant = $1 ORDER BY 1", OTHER
            )
        ]
    finally:
        await admin.close(timeout=10)


def test_every_route_is_asked() -> None:
    by_itself = {
        name_of(route) for route in routes_of(APP) if "{id}" in route.path or route in reads_of([route])
    }
    assert {name_of(route) for route in routes_of(APP)} == by_itself | ASKED | ELSEWHERE.keys()


async def test_to_whoever_has_no_part_it_is_as_if_it_were_not(marketplace_database: TestDatabase) -> None:
    """Somebody of the tenant without a role, and the operator of another tenant."""
    async with open_sandbox(marketplace_database, apps=(APP,)) as site:
        ids = await furnish(site)
        before = await rows_of(marketplace_database)
        unseen: set[str] = set()
        for key, actor in ((OTHER, ids["new"]), ("admin", None)):
            for number, route in enumerate(routes_of(APP)):
                name = name_of(route)
                # What is done for a person needs one: test_searches.
                if name in ELSEWHERE or (route.acts_for == "recipient" and actor is None):
                    continue
                path = route.path.format(**paths_of(ids)[route.path]) if "{" in route.path else route.path
                if route.method == "GET":
                    if (actor is not None and name in FOUND_BY_ANYBODY) or name in TENANTS_OWN:
                        continue
                    for given in asked_in_every_way(route, values_of(ids)):
                        person = actor if route.acts_for in ("either", "recipient") else None
                        seen = await site.get(path, key=key, actor=person, params=dict(given))
                        if seen.status_code == 200:
                            assert seen.json().get("data") == [], name
                        else:
                            assert seen.status_code in ((404,) if "{" in name else (404, 422)), name
                            unseen |= {name} if seen.status_code == 404 else set()
                    continue
                body = bodies(ids)[name] if name in ASKED else route.example and dict(route.example)
                once = {"idempotency-key": f"stranger-{key}-{number}"}
                options = {} if route.body is None else {"json": body}
                refused = await site.ask(route.method, path, key=key, actor=actor, headers=once, **options)
                if name == f"POST {BASE}/bookings":
                    problem(refused, 422, "invalid_input")
                elif actor is not None and name in NOT_ALLOWED:
                    problem(refused, 403, "not_allowed")
                else:
                    problem(refused, 404, "not_found")
                    unseen.add(name)
        documented = (await site.get("/openapi.json")).json()["paths"]
        untold = [
            name_of(route)
            for route in routes_of(APP)
            if name_of(route) in unseen
            and "404" not in documented[route.path][route.method.lower()]["responses"]
        ]
        assert untold == []
        assert await rows_of(marketplace_database) == before
