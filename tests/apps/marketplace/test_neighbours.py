"""Marketplaces of two tenants: what one costs beside another that has much more, and that nothing crosses, whichever
ids they have in common."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import asdict
from datetime import date
from typing import Any

import asyncpg
import pytest

from tests.apps.marketplace.support import BASE, weekdays
from tests.web.neighbours import NEIGHBOUR_ROWS, Reading, large_tables, settle_neighbours
from tests.web.notify_support import open_sandbox, pass_time
from tests.web.support import OTHER, Site, problem
from tests.web.twins import TWIN, Change, twin_of
from timebell.apps.marketplace import APP
from timebell.apps.marketplace.models import PenaltyPolicy
from timebell.testing.database import TestDatabase
from timebell.web.server.serving import routes_of

PROFILE = {"trade": "carpenter", "zip": "10115", "skills": ["roofs"], "hourly_rate": 2_500}
INSURED = {"type": "accident", "expiration_date": "2027-12-31"}
DECIDED = {"payout_trigger": "webhook", "hold_until_disputes_resolved": False}
ROLES = {
    "bea": ("borrower", "borrower_admin"),
    "sue": ("borrower", "supervisor"),
    "lea": ("lender", "lender_admin"),
    "wim": ("lender", "worker"),
    "wanda": ("lender", "worker"),
}
# What the twin says otherwise.
TOLD_APART = {
    "companies": "payment_customer = 'twin', type = CASE type WHEN 'lender' THEN 'borrower' ELSE 'lender' END",
    "company_members": "created_at = created_at + interval '5 hours'",
    "projects": "timezone = 'Asia/Tokyo'",
    "workers": "hourly_rate = 1, zip = '99999', trade = 'twin', skills = '{twin}'",
    "staffing_bookings": "currency = 'USD', payment_type = 'twin', rate = 1",
    "time_log": "amount = 1",
    "disputes": "filed_by = 'twin'",
    "incident_reports": "reported_by = 'twin'",
    "pending_payments": "provider = 'twin', amount = 1",
    "payment_lines": "amount = 1",
    "ledger_entries": "amount = 1",
    "payouts": "amount = 1, reason = 'twin'",
    "payout_lines": "amount = 1",
    "simulator_calls": "outcome = 'twin'",
    "simulator_movements": "state = 'declined'",
    "saved_searches": "criteria = '{}', channels = '{sms}', zero_streak = 9",
    "search_settings": "alerts_per_hour = 1",
    "magic_link_tokens": "user_id = gen_random_uuid()",
    "marketplace_settings": "payout_trigger = 'verification', max_extensions = 9",
    "insurance_policies": "expiration_date = '2030-01-01'",
    "insurance_warnings": "sent_at = sent_at + interval '5 hours'",
    "insurance_stops": "stopped_at = stopped_at + interval '5 hours'",
}
SETTLED = (
    *("companies", "company_members", "projects", "workers", "staffing_bookings", "taken", "time_log"),
    *(
        "disputes",
        "incident_reports",
        "pending_payments",
        "payment_lines",
        "payment_events",
        "ledger_entries",
    ),
    *("payouts", "payout_lines", "simulator_movements", "simulator_calls", "magic_link_tokens"),
    *("insurance_policies", "insurance_warnings", "insurance_stops", "saved_searches"),
)


class Furnishing:
    """Everything that a marketplace has, made over HTTP for the tenant `other`."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._numbers = itertools.count()
        self.ids: dict[str, str] = {}

    async def made(self, path: str, body: Any, method: str = "POST", person: str | None = None) -> Any:
        once = {"idempotency-key": f"key-{next(self._numbers)}"}
        actor = None if person is None else self.ids[person]
        response = await self._site.ask(method, path, key=OTHER, actor=actor, headers=once, json=body)
        assert response.is_success, f"{path}: {response.text}"
        return response.json()

    async def people(self) -> None:
        ids = self.ids
        for number, name in enumerate((*ROLES, "new")):
            person = {"name": name, "email": f"{name}@example.org", "phone": f"+491511234567{number}"}
            ids[name] = (await self.made("/v1/recipients", person))["id"]
        for type in ("borrower", "lender"):
            company = {
                "name": f"The {type}",
                "type": type,
                "payment_customer": "cus_1",
                "payment_account": "acct_1",
            }
            ids[type] = (await self.made(f"{BASE}/companies", company))["id"]
        for name, (side, role) in ROLES.items():
            members = f"{BASE}/companies/{ids[side]}/members"
            await self.made(members, {"recipient_id": ids[name], "role": role})
        place = {"company_id": ids["borrower"], "name": "The site", "timezone": "Europe/Berlin"}
        ids["project"] = (await self.made(f"{BASE}/projects", place))["id"]
        for name in ("wim", "wanda"):
            worker = {"recipient_id": ids[name], "company_id": ids["lender"], **PROFILE}
            ids[f"worker_{name}"] = (await self.made(f"{BASE}/workers", worker))["id"]
            await self.made(f"{BASE}/workers/{ids[f'worker_{name}']}/state", {"state": "Listed"}, "PUT")
        await self.made(f"{BASE}/settings", DECIDED, "PATCH")

    async def bookings(self) -> None:
        ids = self.ids
        ids["booking"] = (await self.made(f"{BASE}/bookings", order(ids)))["id"]
        ids["later"] = (await self.made(f"{BASE}/bookings", order(ids, 5)))["id"]
        shifts = await self._site.get(f"{BASE}/bookings/{ids['booking']}/shifts", key=OTHER)
        days = {one["shift_date"]: one["id"] for one in shifts.json()["data"]}
        # The borrower's is warned of within the week; that of the lender stops both bookings at its end.
        ending = {"company_id": ids["borrower"], "type": "liability", "expiration_date": "2027-03-10"}
        ids["ending"] = (await self.made(f"{BASE}/policies", ending))["id"]
        ids["policy"] = (await self.made(f"{BASE}/policies", {"company_id": ids["lender"], **INSURED}))["id"]
        ids["thursday"], ids["friday"], ids["monday"] = [days[f"2027-03-{day}"] for day in ("04", "05", "08")]

    async def week(self) -> None:
        """On Wednesday the next week is paid for; on Friday something happens, and Thursday's timesheet is disputed."""
        ids = self.ids
        await pass_time(self._site, "P3D")
        await self.made(f"{BASE}/time-logs/{ids['thursday']}/clock-in", None, person="wim")
        await pass_time(self._site, "P1D")
        await self.made(f"{BASE}/time-logs/{ids['thursday']}/submit", {}, person="wim")
        await self.made(f"{BASE}/time-logs/{ids['friday']}/clock-in", None, person="wim")
        report = {"time_log_id": ids["friday"], "option": "A", "description": "A fall"}
        ids["incident"] = (await self.made(f"{BASE}/incidents", report, person="sue"))["id"]
        disputed = {"time_log_id": ids["thursday"], "option": "A", "reason": "Nobody was there"}
        ids["dispute"] = (await self.made(f"{BASE}/disputes", disputed, person="sue"))["id"]
        await self.made(f"{BASE}/policies/{ids['policy']}/invalidate", {}, person="lea")
        looked_for = {"criteria": {"trade": "carpenter"}, "channels": ["email"]}
        ids["search"] = (await self.made(f"{BASE}/saved-searches", looked_for, person="bea"))["id"]
        await self.made(f"{BASE}/search-settings", {"alerts_per_hour": 5}, "PATCH")
        for name in ("bea", "wanda"):
            await self.made(f"{BASE}/magic-links", {"recipient_id": ids[name], "minutes": 1_440})


def order(ids: Mapping[str, str], month: int = 3, **given: Any) -> dict[str, Any]:
    first, last = date(2027, month, 1), date(2027, month, 14)
    return {
        "project_id": ids["project"],
        "worker_id": ids["worker_wim"],
        "lender_company_id": ids["lender"],
        "supervisor_id": ids["sue"],
        "payment_type": "Weekly_Progress",
        "start_date": first.isoformat(),
        "end_date": last.isoformat(),
        "currency": "EUR",
        "shifts": weekdays(first, last),
        **given,
    }


async def furnish(site: Site) -> dict[str, str]:
    furnishing = Furnishing(site)
    await furnishing.people()
    await furnishing.bookings()
    await furnishing.week()
    return furnishing.ids


def paths_of(ids: Mapping[str, str], company: str = "borrower") -> dict[str, dict[str, object]]:
    """What the path of each operation names."""
    named = {
        "companies": ids[company],
        "projects": ids["project"],
        "workers": ids["worker_wim"],
        "bookings": ids["booking"],
        "time-logs": ids["friday"],
        "disputes": ids["dispute"],
        "incidents": ids["incident"],
        "policies": ids["policy" if company == "lender" else "ending"],
        "saved-searches": ids["search"],
    }
    return {
        route.path: {"id": named[route.path.split("/")[3]], "recipient_id": ids["bea"]}
        for route in routes_of(APP)
        if "{id}" in route.path
    }


def values_of(ids: Mapping[str, str]) -> dict[str, object]:
    return {
        "company_id": ids["borrower"],
        "project_id": ids["project"],
        "booking_id": ids["booking"],
        "at": "2027-03-20T08:00:00Z",
        "worker_id": ids["worker_wim"],
        "is_active": True,
        "trade": "carpenter",
        "zip": "10115",
        "zip_prefix": "101",
        "skills": "roofs",
        "rate_max": 2_500,
        "available_from": "2027-03-20",
        "available_to": "2027-03-21",
        "timezone": "Europe/Berlin",
    }


async def test_no_read_looks_at_the_rows_of_others(
    marketplace_database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an admin key; as an admin of each company; and as somebody who is lent."""
    async with open_sandbox(marketplace_database, apps=(APP,)) as site:
        ids = await furnish(site)
        await settle_neighbours(marketplace_database)
        large = await large_tables(marketplace_database)
        for table in SETTLED:
            assert large[table] > NEIGHBOUR_ROWS * 0.9, table
        for name, company in ((None, "borrower"), ("bea", "borrower"), ("lea", "lender"), ("wim", "lender")):
            paths, values = paths_of(ids, company), {**values_of(ids), "company_id": ids[company]}
            reading = Reading(
                site,
                monkeypatch,
                paths=paths,
                values=values,
                actor=ids[name or "bea"],
                acts_always=name is not None,
            )
            # Of a project only those know who borrow, of an insurance nobody who is lent, and of a search its user.
            others = [f"{BASE}/projects/{{id}}", f"{BASE}/saved-searches/{{id}}"]
            hidden = [] if company == "borrower" else others
            hidden += [f"{BASE}/policies/{{id}}"] if name == "wim" else []
            await reading.all([route for route in routes_of(APP) if route.path not in hidden])
            assert reading.too_far == []
            assert reading.count > 60


async def be_told_apart(database: TestDatabase, *, touching: str) -> None:
    """What the twin has under the same ids says something else, so that it shows where it is read. Whoever is touched
    lies behind the other one."""
    admin = await asyncpg.connect(database.admin_url, timeout=10)
    try:
        for table, change in TOLD_APART.items():
            said = change if touching == TWIN else "tenant = tenant"
            await admin.execute(f"UPDATE marketplace.{table} SET {said} WHERE tenant = '{touching}'")
    finally:
        await admin.close(timeout=10)


async def number_the_twin(database: TestDatabase) -> None:
    """No two workers have the same number, so the twin's have numbers of their own."""
    admin = await asyncpg.connect(database.admin_url, timeout=10)
    try:
        await admin.execute("SET session_replication_role = replica")
        await admin.execute(
            "INSERT INTO marketplace.workers (tenant, id, recipient_id, company_id, state, trade, zip, skills, "
            "hourly_rate, created_at, updated_at) SELECT $1, id, recipient_id, company_id, state, trade, zip, skills, "
            "hourly_rate, created_at, updated_at FROM marketplace.workers WHERE tenant = $2",
            *(TWIN, OTHER),
        )
        await admin.execute(
            "INSERT INTO marketplace.taken SELECT w.tenant, t.booking_id, t.worker_id, w.number, t.during "
            "FROM marketplace.taken t JOIN marketplace.workers w ON w.tenant = $1 AND w.id = t.worker_id "
            "WHERE t.tenant = $2",
            *(TWIN, OTHER),
        )
    finally:
        await admin.close(timeout=10)


def changes_of(ids: Mapping[str, str]) -> list[Change]:
    """What a tenant does with everything that its twin has too."""
    company, worker = f"{BASE}/companies/{ids['borrower']}", f"{BASE}/workers/{ids['worker_wim']}"
    project = {"company_id": ids["borrower"], "name": "Another", "timezone": "Asia/Tokyo"}
    new = {"recipient_id": ids["new"], "role": "borrower_manager"}
    friday, monday = [f"{BASE}/time-logs/{ids[day]}" for day in ("friday", "monday")]
    about = {"time_log_id": ids["monday"], "option": "A"}
    return [
        ("POST", f"{BASE}/companies", {"name": "Another", "type": "lender"}, None),
        ("PATCH", company, {"payment_method": "pm_2"}, ids["bea"]),
        ("POST", f"{company}/members", new, ids["bea"]),
        ("DELETE", f"{company}/members/{ids['new']}", None, ids["bea"]),
        ("POST", f"{BASE}/projects", project, ids["bea"]),
        (
            "POST",
            f"{BASE}/workers",
            {"recipient_id": ids["new"], "company_id": ids["lender"], **PROFILE},
            ids["lea"],
        ),
        ("PATCH", worker, {"trade": "roofer"}, ids["lea"]),
        ("PUT", f"{worker}/state", {"state": "Unlisted"}, ids["lea"]),
        ("POST", f"{BASE}/policies/{ids['policy']}/renew", {"expiration_date": "2028-01-01"}, ids["lea"]),
        ("POST", f"{BASE}/bookings", order(ids, 6), ids["bea"]),
        ("PATCH", f"{BASE}/settings", {"max_extensions": 3}, None),
        ("PATCH", f"{BASE}/search-settings", {"alerts_per_hour": 3}, None),
        ("POST", f"{BASE}/saved-searches", {"criteria": {"trade": "roofer"}}, ids["bea"]),
        ("PATCH", f"{BASE}/saved-searches/{ids['search']}", {"instant": False}, ids["bea"]),
        ("POST", f"{friday}/draft", {}, ids["wim"]),
        ("POST", f"{friday}/submit", {}, ids["wim"]),
        ("POST", f"{friday}/edit", {"start": "2027-03-05T08:30:00Z", "reason": "He was early"}, ids["sue"]),
        ("POST", f"{friday}/verify", None, ids["sue"]),
        ("POST", f"{BASE}/incidents/{ids['incident']}/close", None, ids["sue"]),
        ("POST", f"{monday}/clock-in", None, ids["wim"]),
        ("POST", f"{monday}/force-clock-out", {}, ids["sue"]),
        ("POST", f"{BASE}/incidents", {**about, "description": "Again"}, ids["sue"]),
        ("POST", f"{BASE}/disputes", {**about, "reason": "Nobody was there"}, ids["sue"]),
        ("POST", f"{BASE}/disputes/{ids['dispute']}/resolve", {"status": "Resolved"}, None),
        ("POST", f"{BASE}/policies", {"company_id": ids["borrower"], **INSURED}, ids["bea"]),
        ("POST", f"{BASE}/policies/{ids['policy']}/invalidate", {}, ids["lea"]),
        ("POST", f"{BASE}/bookings/{ids['booking']}/cancel", {}, ids["bea"]),
        ("PUT", f"{BASE}/simulator", {"outcome": "decline"}, None),
        ("POST", f"{BASE}/magic-links", {"recipient_id": ids["bea"], "minutes": 30}, None),
        ("POST", "/v1/clock/advance", {"by": "P7D"}, None),
        ("DELETE", f"{BASE}/saved-searches/{ids['search']}", None, ids["bea"]),
        ("DELETE", f"/v1/recipients/{ids['wanda']}", None, None),
        ("DELETE", f"/v1/recipients/{ids['wim']}", None, None),
    ]


async def test_a_twin_is_neither_seen_nor_changed(marketplace_database: TestDatabase) -> None:
    async with (
        open_sandbox(marketplace_database, apps=(APP,), has_wall=False) as site,
        twin_of(site, marketplace_database) as twin,
    ):
        ids = await furnish(site)

        async def seen() -> dict[str, Any]:
            found: dict[str, Any] = {}
            for name, company in (
                (None, "borrower"),
                ("bea", "borrower"),
                ("lea", "lender"),
                ("wim", "lender"),
            ):
                answers = await twin.answers(
                    routes_of(APP),
                    paths=paths_of(ids, company),
                    values={**values_of(ids), "company_id": ids[company]},
                    actor=ids[name or "bea"],
                    acts_always=name is not None,
                )
                found |= {f"{name} {asked}": answer for asked, answer in answers.items()}
            again = await site.ask(
                "POST",
                f"{BASE}/bookings?dry_run=true",
                key=OTHER,
                json=order(ids, worker_id=ids["worker_wanda"]),
            )
            # The lender's insurance is invalid; the twin's, which it is told apart by, would be good for years.
            assert again.json()["code"] == "insurance_invalid"
            found["checkout"] = {**again.json(), "correlation_id": ""}
            exported = await site.get(f"/v1/recipients/{ids['wim']}/export", key=OTHER)
            found["export"] = exported.status_code, exported.text
            return found

        before = await seen()
        assert await twin.come() >= {*SETTLED} - {"workers", "taken"}
        await number_the_twin(marketplace_database)
        assert {table for table, rows in (await twin.rows()).items() if rows} >= {
            f"marketplace.{table}" for table in SETTLED
        }
        # It lies behind the other one in the tables then, and before it after that: one may be found first, or last.
        for tenant in (TWIN, OTHER):
            await be_told_apart(marketplace_database, touching=tenant)
            after = await seen()
            assert {name: answer for name, answer in after.items() if answer != before[name]} == {}
        await twin.is_left_alone_by(changes_of(ids))


@pytest.mark.parametrize("has_wall", [True, False])
async def test_what_another_tenant_has_is_not_there(
    marketplace_database: TestDatabase, has_wall: bool
) -> None:
    """With the wall in the database, and by the statements alone."""
    async with open_sandbox(marketplace_database, apps=(APP,), has_wall=has_wall) as site:
        ids = await furnish(site)
        mine = (await site.post("/v1/recipients", {"name": "Mine"}, key="admin")).json()["id"]
        asked = 0
        for route in routes_of(APP):
            if "{id}" not in route.path:
                continue
            path = route.path.format(**paths_of(ids)[route.path])
            once = {"idempotency-key": f"stranger-{asked}"} if route.method != "GET" else {}
            body = None if route.body is None or route.example is None else dict(route.example)
            actor = mine if route.acts_for == "recipient" else None
            refused = await site.ask(route.method, path, key="admin", actor=actor, headers=once, json=body)
            problem(refused, 404, "not_found")
            asked += 1
        assert asked >= 11
        for path in ("companies", "projects", "workers", "bookings"):
            assert (await site.get(f"{BASE}/{path}", key="admin")).json()["data"] == []
        settings = await site.get(f"{BASE}/settings", key="admin")
        policy = asdict(PenaltyPolicy())
        assert settings.json() == {
            "payout_trigger": "verification",
            "max_extensions": 1,
            "penalty_policy": policy,
            "hold_until_disputes_resolved": True,
        }


async def test_nobody_names_what_another_tenant_has(marketplace_database: TestDatabase) -> None:
    """What a tenant has of its own leads to nothing of another's."""
    async with open_sandbox(marketplace_database, apps=(APP,)) as site:
        ids = await furnish(site)

        async def made(path: str, body: Any) -> Any:
            response = await site.post(path, body, key="admin")
            assert response.status_code == 201, response.text
            return response.json()["id"]

        own = {"person": await made("/v1/recipients", {"name": "Mine"})}
        for type in ("borrower", "lender"):
            own[type] = await made(f"{BASE}/companies", {"name": "Mine", "type": type})
        project = {"company_id": own["borrower"], "name": "Mine", "timezone": "UTC"}
        own["project"] = await made(f"{BASE}/projects", project)
        worker = {"recipient_id": own["person"], "company_id": own["lender"], **PROFILE}
        own["worker"] = await made(f"{BASE}/workers", worker)
        mine = {
            "project_id": own["project"],
            "worker_id": own["worker"],
            "lender_company_id": own["lender"],
            "supervisor_id": own["person"],
        }
        for path, body, status, pointer in (
            ("bookings", {**order(ids), **mine, "project_id": ids["project"]}, 422, "/project_id"),
            ("bookings", {**order(ids), **mine, "worker_id": ids["worker_wim"]}, 422, "/worker_id"),
            ("bookings", {**order(ids), **mine, "supervisor_id": ids["sue"]}, 422, "/supervisor_id"),
            (
                "bookings",
                {**order(ids), **mine, "lender_company_id": ids["lender"]},
                422,
                "/lender_company_id",
            ),
            ("projects", {**project, "company_id": ids["borrower"]}, 404, None),
            ("workers", {**worker, "company_id": ids["lender"]}, 404, None),
            ("workers", {**worker, "recipient_id": ids["new"]}, 422, "/recipient_id"),
            (
                f"companies/{own['borrower']}/members",
                {"recipient_id": ids["new"], "role": "supervisor"},
                422,
                "/recipient_id",
            ),
        ):
            refused = await site.post(f"{BASE}/{path}", body, key="admin")
            found = problem(refused, status, "not_found" if status == 404 else "invalid_input")
            assert [each["pointer"] for each in found["errors"]] == ([] if pointer is None else [pointer])
        for name in ("bea", "wim"):
            refused = await site.get(f"{BASE}/bookings", key="write", actor=ids[name])
            assert refused.status_code in (403, 404), "nobody acts for a person of another tenant"
