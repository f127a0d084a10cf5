"""API keys: shown once, hashed at rest, scoped, revocable; and who administers the tenants."""

from __future__ import annotations

import hashlib
import re
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from tests.web.support import OTHER, Site, open_site, problem
from timebell.testing import ManualClock
from timebell.testing.database import TestDatabase
from timebell.web.access import access
from timebell.web.operation.routes import Route
from timebell.web.store import WebStore


async def make(site: Site, **body: Any) -> dict[str, Any]:
    response = await site.post("/v1/keys", {"name": "a key", **body}, key="admin")
    assert response.status_code == 201, response.text
    made: dict[str, Any] = response.json()
    return made


@pytest.mark.req("X-C11")
async def test_a_key_is_shown_once_and_only_its_digest_is_kept(
    site: Site, database_url: TestDatabase
) -> None:
    made = await make(site, scope="read", is_test=True)
    assert re.fullmatch(r"tb_test_[0-9a-f]{8}_[A-Za-z0-9_-]{43}", made["key"])
    assert made["key"].startswith(made["prefix"])
    [listed] = [
        each for each in (await site.get("/v1/keys", key="admin")).json()["data"] if each["id"] == made["id"]
    ]
    assert "key" not in listed
    assert listed["created_by"].startswith("key:tb_live_")
    assert await tables_with(database_url, made["prefix"]) == ["timebell.events", "timebell_web.api_keys"]
    assert await tables_with(database_url, made["key"][-20:]) == []


async def tables_with(database: TestDatabase, text: str) -> list[str]:
    """The tables in which some row, as a dump would show it, has the text in it."""
    admin = await asyncpg.connect(database.admin_url)
    names = await admin.fetch(
        "SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables WHERE schemaname LIKE 'timebell%' "
        "AND tablename !~ '_2\\d{7}$' ORDER BY 1"
    )
    found = []
    for row in names:
        alike = f"SELECT EXISTS (SELECT FROM {row['name']} AS t WHERE position($1 IN t::text) > 0)"
        if await admin.fetchval(alike, text):
            found.append(row["name"])
    await admin.close()
    return found


async def test_a_key_that_is_revoked_is_refused_soon(database_url: TestDatabase) -> None:
    clock = ManualClock()
    async with open_site(database_url, clock=clock) as site:
        made = await make(site, scope="admin")
        assert (await site.get("/v1/keys", key=made["key"])).status_code == 200
        ada = (await site.post("/v1/recipients", {"name": "Ada"})).json()["id"]
        token = (await site.post("/v1/recipient-tokens", {"recipient_id": ada}, key=made["key"])).json()[
            "token"
        ]
        assert (await site.get("/v1/inbox", key=token)).status_code == 200
        revoked = await site.ask("DELETE", f"/v1/keys/{made['id']}", key="admin")
        assert revoked.status_code == 200
        assert revoked.json()["revoked_at"] is not None
        # It is remembered for two seconds at most, which the limit of five leaves room for.
        assert access._REMEMBERED_SECONDS <= 2.0
        clock.move(timedelta(seconds=access._REMEMBERED_SECONDS))
        problem(await site.get("/v1/keys", key=made["key"]), 401, "unauthenticated")
        problem(await site.get("/v1/inbox", key=token), 401, "unauthenticated")
        again = await site.ask("DELETE", f"/v1/keys/{made['id']}", key="admin")
        assert again.json()["revoked_at"] == revoked.json()["revoked_at"]


async def test_after_a_restore_no_key_opens_but_the_one_of_the_settings(site: Site) -> None:
    store = WebStore(site.bell.clock)
    chosen = hashlib.sha256(site.keys["admin"].encode()).digest()
    async with site.bell.database.connection() as session:
        assert await store.revoke_restored_keys(session, kept=chosen) == len(site.keys) - 1
        left = "SELECT digest FROM timebell_web.api_keys WHERE revoked_at IS NULL"
        assert [row["digest"] for row in await session.connection.fetch(left)] == [chosen]
        # Where the settings name none, none does.
        assert await store.revoke_restored_keys(session, kept=None) == 1


async def test_a_key_expires(site: Site) -> None:
    made = await make(site, scope="read", expires_at="2001-01-01T00:00:00Z")
    content = problem(await site.get("/v1/keys", key=made["key"]), 401, "unauthenticated")
    assert "expired" in content["detail"]


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Basic abc",
        "Bearer tb_live_00000000_none",
        "Bearer tbr_x.y",
        "Bearer ü",
    ],
)
async def test_who_has_no_key_is_told_how_to_come_in(site: Site, header: str | None) -> None:
    headers = {} if header is None else {b"authorization": header.encode("latin-1")}
    response = await site.client.get("/v1/keys", headers=headers)
    problem(response, 401, "unauthenticated")
    assert response.headers["www-authenticate"].startswith("Bearer")


def with_some_ids(route: Route) -> str:
    return re.sub(r"\{[^}]*\}", "01890a5d-ac96-774b-bcce-b302099a8057", route.path)


async def test_every_route_refuses_a_key_of_too_small_a_scope(site: Site) -> None:
    """Every scope on every route: what a key may not do is 403, and what it may do is anything else."""
    ranks = {"read": 0, "write": 1, "admin": 2}
    for route in site.routes:
        if route.scope is None:
            continue
        for name, rank in ranks.items():
            if rank >= ranks[route.scope]:
                continue
            response = await site.ask(route.method, with_some_ids(route), key=name)
            problem(response, 403, "scope_missing")


async def test_every_route_refuses_who_has_no_key(site: Site) -> None:
    for route in site.routes:
        if route.scope is not None:
            problem(await site.ask(route.method, with_some_ids(route), key=None), 401, "unauthenticated")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"scope": "read"}, "/name"),
        ({"name": ""}, "/name"),
        ({"name": "x", "scope": "root"}, "/scope"),
        ({"name": "x", "expires_at": "2030-01-01T00:00:00"}, "/expires_at"),
        ({"name": "x", "tenant": "other"}, "/tenant"),
        ({"name": "x", "is_test": "true"}, "/is_test"),
    ],
)
async def test_keys_that_are_refused(site: Site, body: dict[str, Any], pointer: str) -> None:
    content = problem(await site.post("/v1/keys", body, key="admin"), 422, "invalid_input")
    assert [error["pointer"] for error in content["errors"]] == [pointer]


async def test_the_default_tenant_makes_tenants_and_their_keys(site: Site) -> None:
    made = await site.post("/v1/tenants", {"tenant": "acme", "name": "Acme"}, key="admin")
    assert made.status_code == 201, made.text
    key = (await site.post("/v1/tenants/acme/keys", {"name": "first", "scope": "admin"}, key="admin")).json()
    assert key["tenant"] == "acme"
    [own] = (await site.get("/v1/keys", key=key["key"])).json()["data"]
    assert own["id"] == key["id"]
    listed = (await site.get("/v1/tenants/acme/keys", key="admin")).json()["data"]
    assert [each["id"] for each in listed] == [key["id"]]
    assert (await site.ask("DELETE", f"/v1/tenants/acme/keys/{key['id']}", key="admin")).status_code == 200
    events = await site.tables.rows(
        "SELECT tenant, name FROM timebell.events WHERE tenant = 'acme' ORDER BY id"
    )
    assert [event["name"] for event in events] == ["api_key.created", "api_key.revoked"]
    problem(
        await site.post("/v1/tenants", {"tenant": "acme", "name": "Acme"}, key="admin"), 409, "key_conflict"
    )


async def test_another_tenant_administers_nobody_but_itself(site: Site) -> None:
    body = {"tenant": "mine", "name": "Mine"}
    problem(await site.post("/v1/tenants", body, key=OTHER), 403, "default_tenant_only")
    for tenant in ("default", OTHER):
        refused = await site.post(f"/v1/tenants/{tenant}/keys", {"name": "x"}, key=OTHER)
        problem(refused, 403, "default_tenant_only")
    assert [each["tenant"] for each in (await site.get("/v1/tenants", key=OTHER)).json()["data"]] == [OTHER]
    assert (await site.get(f"/v1/tenants/{OTHER}", key=OTHER)).status_code == 200
    problem(await site.get("/v1/tenants/default", key=OTHER), 404, "not_found")
    tenants = (await site.get("/v1/tenants", key="admin")).json()["data"]
    assert [each["tenant"] for each in tenants] == ["default", OTHER]


async def test_lists_of_tenants_have_pages(site: Site) -> None:
    first = (await site.get("/v1/tenants?limit=1", key="admin")).json()
    assert ([each["tenant"] for each in first["data"]], first["has_more"]) == (["default"], True)
    second = (await site.get(f"/v1/tenants?limit=1&cursor={first['next_cursor']}", key="admin")).json()
    assert ([each["tenant"] for each in second["data"]], second["has_more"]) == ([OTHER], False)


async def test_a_chosen_key_is_taken_and_one_that_was_revoked_is_not(site: Site) -> None:
    chosen = "a-key-that-an-operator-chose"
    for _ in range(2):
        await site.surface.keys.ensure(chosen, name="TIMEBELL_API_KEY")
    listed = (await site.get("/v1/keys", key=chosen)).json()["data"]
    [own] = [each for each in listed if each["name"] == "TIMEBELL_API_KEY"]
    await site.ask("DELETE", f"/v1/keys/{own['id']}", key="admin")
    with pytest.raises(Exception, match="revoked"):
        await site.surface.keys.ensure(chosen, name="TIMEBELL_API_KEY")


async def test_only_the_very_first_key_is_made_by_itself(site: Site) -> None:
    assert await site.surface.keys.ensure_first() is None
