"""Approving senders over HTTP: for whoever administers the tenants, and for nobody else."""

from __future__ import annotations

import pytest

from tests.web.support import OTHER, Site, open_site, problem
from timebell.testing.database import TestDatabase

PLACE = f"/v1/tenants/{OTHER}/senders"
DOMAIN = {"kind": "email", "value": "acme.example"}


async def test_the_operator_approves_and_withdraws(site: Site) -> None:
    said = {"sender": {"email": "desk@acme.example", "email_name": "Acme"}}
    refused = await site.ask("PATCH", "/v1/policy", json=said, key=OTHER)
    content = problem(refused, 422, "invalid_input")
    assert content["errors"][0]["pointer"] == "/sender/email"
    assert "have the operator approve it" in content["detail"]
    made = await site.post(PLACE, DOMAIN, key="admin")
    assert (made.status_code, made.json()["value"]) == (201, "acme.example")
    assert (await site.ask("PATCH", "/v1/policy", json=said, key=OTHER)).status_code == 200
    for key in ("admin", OTHER):
        listed = (await site.get(PLACE, key=key)).json()
        assert [one["value"] for one in listed["senders"]] == ["acme.example"]
    gone = await site.ask("DELETE", f"{PLACE}?kind=email&value=acme.example", key="admin")
    assert gone.status_code == 204
    again = await site.ask("DELETE", f"{PLACE}?kind=email&value=acme.example", key="admin")
    problem(again, 404, "not_found")


@pytest.mark.parametrize("place", [PLACE, "/v1/tenants/default/senders"])
async def test_a_tenant_approves_nothing_itself(site: Site, place: str) -> None:
    problem(await site.post(place, DOMAIN, key=OTHER), 403, "default_tenant_only")
    asked = await site.ask("DELETE", f"{place}?kind=email&value=acme.example", key=OTHER)
    problem(asked, 403, "default_tenant_only")
    assert await site.tables.value("SELECT count(*) FROM timebell_notify.approved_senders") == 0


async def test_nor_does_it_see_those_of_others(site: Site) -> None:
    problem(await site.get("/v1/tenants/default/senders", key=OTHER), 403, "default_tenant_only")


async def test_a_tenant_that_is_not_there(site: Site) -> None:
    problem(await site.post("/v1/tenants/nobody/senders", DOMAIN, key="admin"), 404, "not_found")


async def test_one_connection_is_enough_to_approve(database_url: TestDatabase) -> None:
    """A request that holds one and wants another waits for itself when all requests do so."""
    async with open_site(database_url, connections=1) as site:
        assert (await site.post(PLACE, DOMAIN, key="admin")).status_code == 201
        assert (await site.ask("DELETE", PLACE, params=DOMAIN, key="admin")).status_code == 204
