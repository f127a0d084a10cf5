"""`timebell sequences install`: what it writes, that it can be run again, and what becomes of those who are told."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.acceptance.processes import answer, command
from tests.apps.sequences.support import DAY, NOW, House, done
from tests.docs.markdown import blocks
from tests.shape.tree import ROOT
from timebell.apps.sequences.commands import install, list_them
from timebell.apps.sequences.starting import SETS, read_set
from timebell.kernel import CommandAnswer
from timebell.notify import Notify
from timebell.testing.database import TestDatabase


async def installed(house: House, name: str, *, replace: bool = False, tenant: str = "default") -> Any:
    made = await install(house.bench.bell, name=name, replace=replace, tenant=tenant, actor="ada")
    assert isinstance(made, CommandAnswer)
    return made


def outcomes(made: CommandAnswer) -> set[str]:
    return {each["outcome"] for part in ("templates", "sequences") for each in made.value[part]}


async def saved(house: House) -> list[Any]:
    return (await house.data("/api/sequences", params={"limit": 500}))["data"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", SETS)
async def test_a_set_is_written_once(house: House, name: str) -> None:
    chosen = read_set(name)
    first = await installed(house, name)
    assert outcomes(first) == {"written"}
    assert [each["key"] for each in first.value["templates"]] == [each.key for each in chosen.templates]
    before = await saved(house)
    assert [each["name"] for each in before] == [each.name for each in chosen.sequences]
    assert [str(each["id"]) for each in first.value["sequences"]] == [each["id"] for each in before]
    again = await installed(house, name)
    assert outcomes(again) == {"kept"}
    assert await saved(house) == before, "not even the instant of the last change is another"
    assert (
        await house.value("SELECT max(version) FROM timebell_notify.templates WHERE tenant = 'default'") == 1
    )
    actors = await house.rows("SELECT DISTINCT actor FROM sequences.sequence_versions")
    assert [row["actor"] for row in actors] == ["ada"]


async def test_all_sets_stand_beside_each_other(house: House) -> None:
    for name in SETS:
        await installed(house, name)
    page = await list_them(house.bench.bell, limit=3, cursor=None, tenant="default")
    assert len(page.lines) == 4
    assert page.value["has_more"] is True
    assert page.lines[-1] == f"There are more: --cursor {page.value['next_cursor']}"
    rest = await list_them(house.bench.bell, limit=500, cursor=page.value["next_cursor"], tenant="default")
    names = [each["name"] for each in (*page.value["data"], *rest.value["data"])]
    assert names == [each.name for name in SETS for each in read_set(name).sequences]
    assert (await list_them(house.bench.bell, limit=5, cursor=None, tenant="other")).lines == [
        "There are none."
    ]


async def test_what_somebody_changed_is_left_unless_it_is_to_be_replaced(house: House) -> None:
    await installed(house, "trial")
    (runs, cancelled) = await saved(house)
    steps = [each for each in runs["steps"] if each["key"] != "first-days"]
    await house.ask("PATCH", f"/api/sequences/{runs['id']}", {"steps": steps})
    await house.ask("PATCH", f"/api/sequences/{cancelled['id']}", {"active": False})
    await house.template("trial.ended", "It is over.")
    kept = await installed(house, "trial")
    differing = [each for part in ("templates", "sequences") for each in kept.value[part]]
    assert [each.get("key") or each["name"] for each in differing if each["outcome"] == "different"] == [
        "trial.ended",
        "Trial: while it runs",
    ]
    assert "template trial.ended, version 2: kept, differs" in kept.lines
    assert kept.lines[-1] == "What differs was left as it is; --replace gives it a new version."
    assert [len(each["steps"]) for each in await saved(house)] == [4, 1]
    replaced = await installed(house, "trial", replace=True)
    assert "template trial.ended, version 3: replaced" in replaced.lines
    assert "sequence Trial: while it runs, version 3: replaced" in replaced.lines
    assert "sequence Trial: cancelled, version 1: kept" in replaced.lines
    assert [(len(each["steps"]), each["active"]) for each in await saved(house)] == [(5, True), (1, False)]
    assert outcomes(await installed(house, "trial", replace=True)) == {"kept"}


async def test_those_who_install_at_once_write_one_of_each(house: House) -> None:
    """The templates are there, so nothing but the lock makes one wait for another. What was deleted is written anew."""
    await installed(house, "guest_stay")
    for each in await saved(house):
        assert (await house.ask("DELETE", f"/api/sequences/{each['id']}")).status_code == 204
    await asyncio.gather(*(installed(house, "guest_stay") for _ in range(4)))
    names = [each["name"] for each in await saved(house)]
    assert len(names) == len(set(names)) == len(read_set("guest_stay").sequences)


async def test_a_set_is_one_tenants(house: House) -> None:
    await installed(house, "trial", tenant="other")
    assert await saved(house) == []
    listing = await Notify(house.bench.bell).templates.list(tenant="default")
    assert [each.key for each in listing.lines if each.key.startswith("trial.")] == []


def trial(event: str, **given: Any) -> dict[str, Any]:
    return {"event": event, "subject": "trial:42", **given}


async def begin_trial(house: House) -> None:
    await installed(house, "trial")
    facts = {
        "start": NOW.isoformat(),
        "end": (NOW + 14 * DAY).isoformat(),
        "timezone": "Europe/Berlin",
        "status": "trialing",
        "contacts": [str(house.bob)],
        "productName": "Ledgerly",
    }
    told = done(await house.ask("POST", "/api/sequences/events", trial("trial_started", facts=facts)))
    assert told["enrolled"] == 5
    await house.pass_until(NOW + 5 * DAY)


def subjects(house: House) -> list[str | None]:
    return [parcel.content.subject for parcel in house.arrived]


FIRST = ["Welcome to Ledgerly", "How are your first days with Ledgerly?"]


async def test_a_trial_that_nobody_buys_is_told_to_the_end(house: House) -> None:
    await begin_trial(house)
    await house.pass_until(NOW + 20 * DAY)
    assert subjects(house) == [
        *FIRST,
        "Your trial of Ledgerly ends in three days",
        "Your trial of Ledgerly ends tomorrow",
        "Your trial of Ledgerly has ended",
    ]


@pytest.mark.parametrize("cancels", [False, True])
async def test_whoever_buys_does_not_read_that_the_trial_ends(house: House, cancels: bool) -> None:
    """By another status, by an event that cancels, or by both."""
    await begin_trial(house)
    said = trial("trial_converted", cancels=cancels, facts={} if cancels else {"status": "converted"})
    assert done(await house.ask("POST", "/api/sequences/events", said))["diff"]["withdrawn"] == 3
    await house.pass_until(NOW + 20 * DAY)
    assert subjects(house) == FIRST


async def test_a_trial_that_is_cancelled_says_so_and_nothing_more(house: House) -> None:
    await begin_trial(house)
    said = trial("trial_cancelled", cancels=True, facts={"status": "cancelled"})
    assert done(await house.ask("POST", "/api/sequences/events", said))["enrolled"] == 1
    await house.pass_until(NOW + 20 * DAY)
    assert subjects(house) == [*FIRST, "Your trial of Ledgerly is cancelled"]


async def test_a_stay_is_told_of_from_the_booking_to_the_thanks(house: House) -> None:
    """In German, since Ada reads it; on the channel that she prefers, which is mail."""
    await installed(house, "guest_stay")
    booking = await house.book()
    await house.bench.run_due()
    await house.move(booking["id"], "confirm")
    await house.pass_until(NOW + 13 * DAY)
    await house.move(booking["id"], "check-in")
    await house.pass_until(NOW + 16 * DAY)
    await house.move(booking["id"], "complete")
    await house.pass_until(NOW + 400 * DAY)
    statuses = await house.statuses(booking["id"])
    assert set(statuses.values()) == {"sent"}, statuses
    assert len(house.arrived) == len(statuses) >= 6
    assert all(
        "A stay by the lake" in f"{each.content.subject} {each.content.text}" for each in house.arrived
    )


async def test_a_stay_that_comes_confirmed_is_told_of_once(house: House) -> None:
    await installed(house, "guest_stay")
    booking = await house.book(status="confirmed")
    await house.bench.run_due()
    messages = await house.messages(booking["id"])
    assert (messages["received"]["status"], messages["received"]["reason"]) == ("skipped", "status")
    assert messages["confirmed"]["status"] == "sent"
    assert len(house.arrived) == 1


async def test_as_an_operator_types_it(sequences_database: TestDatabase) -> None:
    around = {"DATABASE_URL": sequences_database.url, "TIMEBELL_APPS": "timebell.apps.sequences"}
    first = command("sequences", "install", "trial", **around)
    assert (first.returncode, first.stderr) == (0, "")
    page = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    assert first.stdout in [block.code for block in blocks(page) if block.language == "text"]
    again = answer("sequences", "install", "trial", **around)
    assert again["set"] == "trial"
    assert again["sequences"][0].keys() == {"id", "name", "version", "outcome"}
    assert {each["outcome"] for each in again["templates"] + again["sequences"]} == {"kept"}
    shown = answer("sequences", "list", **around)
    assert [each["id"] for each in shown["data"]] == [each["id"] for each in again["sequences"]]
    refused = command("sequences", "install", "nights", **around)
    assert refused.returncode == 2
    assert all(name in refused.stderr for name in (*SETS, "nights"))
    assert answer("sequences", "list", "--tenant", "other", **around)["data"] == []
