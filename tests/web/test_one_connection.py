"""A request needs one connection at a time. Were it two, as many requests as there are connections would wait for each
other, and everybody else for them."""

from __future__ import annotations

import itertools
import re

from tests.web.support import open_site
from timebell.testing.database import TestDatabase

UNHEARD_OF = "01890a5d-ac96-774b-bcce-b302099a8057"
WORDS = {"original_local": "2027-03-12T17:00:00", "tenant": "default", "name": "mail", "key": "trial.secret"}
# Whoever names a revision is answered another way where an operation otherwise needs no transaction.
REVISIONS: tuple[dict[str, str], ...] = ({}, {"if-match": '"rev-1"'}, {"if-match": "*"})


async def test_every_operation_is_answered_over_one_connection(database_url: TestDatabase) -> None:
    async with open_site(database_url, connections=1) as site:
        person = (await site.post("/v1/recipients", {"name": "Ada"})).json()["id"]
        asked = 0
        for route, revision in itertools.product(site.routes, REVISIONS):
            if route.scope is None or route.is_stream:
                continue
            path = re.sub(r"\{(\w+)\}", lambda match: WORDS.get(match[1], UNHEARD_OF), route.path)
            once = {} if route.idempotency == "none" else {"idempotency-key": f"once-{asked}"}
            response = await site.ask(
                route.method,
                path,
                key="admin",
                actor=person if route.acts_for == "recipient" else None,
                headers={**once, **revision},
                json=None if route.body is None else dict(route.example or {}),
            )
            assert response.status_code < 500, f"{route.method} {route.path}: {response.text}"
            asked += 1
    assert asked > 120
