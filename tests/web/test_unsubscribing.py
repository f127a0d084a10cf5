"""`/u/{token}`: a page that asks, and a button that acts (RFC 8058)."""

from __future__ import annotations

import re
from uuid import UUID

from tests.web.notify_support import UNHEARD_OF, person
from tests.web.support import OTHER, Site, problem
from timebell.notify.people.unsubscribing import WayOut

ONE_CLICK = {"content-type": "application/x-www-form-urlencoded"}


def link(site: Site, recipient: str, *, tenant: str = "default", topic: str | None = "news") -> str:
    way = WayOut(tenant=tenant, recipient=UUID(recipient), topic=topic, channel="email")
    return f"/u/{site.surface.notify.unsubscribing.token(way)}"


async def opt_outs(site: Site, recipient: str, key: str = "read") -> list[dict[str, str | None]]:
    shown: list[dict[str, str | None]] = (await site.get(f"/v1/recipients/{recipient}", key=key)).json()[
        "opt_outs"
    ]
    return shown


async def test_the_page_asks_and_the_button_acts(site: Site) -> None:
    ada = (await person(site, email="ada@example.org"))["id"]
    path = link(site, ada, topic="<b>news</b>")
    page = await site.get(path, key=None)
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert "&lt;b&gt;news" in page.text
    assert "<b>news" not in page.text
    assert not re.search(r"<script|https?://|Ada|ada@", page.text)
    assert '<form method="post">' in page.text
    assert "script-src" not in page.headers["content-security-policy"]
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    assert (page.headers["cache-control"], page.headers["referrer-policy"]) == ("no-store", "no-referrer")
    assert await opt_outs(site, ada) == []

    for _ in range(2):
        done = await site.ask(
            "POST", path, key=None, content=b"List-Unsubscribe=One-Click", headers=ONE_CLICK
        )
        assert (done.status_code, "no longer get" in done.text) == (200, True)
    assert await opt_outs(site, ada) == [{"topic": "<b>news</b>", "channel": "email"}]
    events = await site.tables.rows(
        "SELECT data::text AS data FROM timebell.events WHERE name = 'recipient.opted_out'"
    )
    assert [("unsubscribe" in event["data"]) for event in events] == [True]


async def test_a_link_works_behind_the_wall_of_its_own_tenant(site: Site) -> None:
    eve = (await person(site, key=OTHER))["id"]
    done = await site.ask("POST", link(site, eve, tenant=OTHER, topic=None), key=None)
    assert (done.status_code, "any messages by email" in done.text) == (200, True)
    assert await opt_outs(site, eve, key=OTHER) == [{"topic": None, "channel": "email"}]


async def test_whoever_was_erased_is_unsubscribed_already(site: Site) -> None:
    assert (await site.ask("POST", link(site, UNHEARD_OF), key=None)).status_code == 200


async def test_a_link_that_was_cut_or_forged_does_nothing(site: Site) -> None:
    ada = (await person(site))["id"]
    path = link(site, ada)
    for wrong in (path[:-1], path + "A", "/u/x", "/u/x.y", f"/u/{'a' * 3_000}"):
        for method in ("GET", "POST"):
            problem(await site.ask(method, wrong, key=None), 404, "not_found")
            shown = await site.ask(method, wrong, key=None, headers={"accept": "text/html"})
            assert (shown.status_code, "does not work" in shown.text) == (404, True)
    assert await opt_outs(site, ada) == []
