"""`/v1/recipients`: made, read, changed by revision, erased; and nobody else's."""

from __future__ import annotations

import pytest

from tests.web.notify_support import UNHEARD_OF, person, save, tell
from tests.web.support import OTHER, Site, problem

WEBHOOK = {"kind": "webhook", "value": "https://hooks.example/in", "detail": {"secret": "whsec_" + "a" * 32}}


@pytest.mark.req("D-2.1")
async def test_a_recipient_is_answered_with_the_documented_fields(site: Site) -> None:
    made = await person(
        site,
        external_id="user-7",
        email="Ada@Example.org",
        phone="+49 170 1234567",
        timezone="Europe/Berlin",
        language="de",
        channel_preference="email",
        quiet_hours={"start": "22:00", "end": "07:00"},
    )
    assert (made["email"], made["phone"]) == ("ada@example.org", "+491701234567")
    assert (made["timezone"], made["language"], made["channel_preference"]) == (
        "Europe/Berlin",
        "de",
        "email",
    )
    assert made["whatsapp_opt_in"] is False
    assert (made["quiet_hours"]["start"], made["quiet_hours"]["end"]) == ("22:00", "07:00")
    assert "tenant" not in made

    read = await site.get(f"/v1/recipients/{made['id']}", key="read")
    assert read.json() == made
    assert read.headers["etag"] == f'"rev-{made["revision"]}"'
    listed = (await site.get("/v1/recipients", key="read")).json()
    assert (listed["data"], listed["next_cursor"], listed["has_more"]) == ([made], None, False)
    assert (await site.get("/v1/recipients?external_id=user-7")).json()["data"] == [made]
    assert (await site.get("/v1/recipients?external_id=user-8")).json()["data"] == []


async def test_the_list_is_read_by_pages_from_either_end(site: Site) -> None:
    made = [(await person(site))["id"] for _ in range(3)]
    for sort, ids in (("created_at", made), ("-created_at", made[::-1])):
        page = (await site.get(f"/v1/recipients?sort={sort}&limit=2")).json()
        rest = (await site.get(f"/v1/recipients?sort={sort}&cursor={page['next_cursor']}")).json()
        assert [one["id"] for one in page["data"] + rest["data"]] == ids
        assert (page["has_more"], rest["has_more"]) == (True, False)


async def test_who_is_bare_has_the_defaults(site: Site) -> None:
    made = await person(site)
    assert (made["timezone"], made["language"], made["quiet_hours"]) == ("UTC", "en", None)
    assert (made["email"], made["phone"], made["external_id"]) == (None, None, None)
    assert (made["addresses"], made["opt_outs"]) == ([], [])


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/name"),
        ({"name": ""}, "/name"),
        ({"name": "Ada", "email": "nobody"}, "/email"),
        ({"name": "Ada", "phone": "0170 1"}, "/phone"),
        ({"name": "Ada", "timezone": "Mars/Olympus"}, "/timezone"),
        ({"name": "Ada", "language": "klingonisch"}, "/language"),
        ({"name": "Ada", "channel_preference": "pigeon"}, "/channel_preference"),
        ({"name": "Ada", "quiet_hours": {"start": "22:00"}}, "/quiet_hours/end"),
        ({"name": "Ada", "quiet_hours": {"start": "25:00", "end": "07:00"}}, "/quiet_hours/start"),
        ({"name": "Ada", "fax": "1"}, "/fax"),
    ],
)
async def test_what_is_wrong_is_named_by_its_field(site: Site, body: dict[str, object], pointer: str) -> None:
    response = await site.post("/v1/recipients", body)
    assert response.status_code == 422, response.text
    assert [error["pointer"] for error in response.json()["errors"]] == [pointer]


async def test_a_change_names_what_it_changes_and_of_which_revision(site: Site) -> None:
    made = await person(site, email="ada@example.org", phone="+491701234567")
    path = f"/v1/recipients/{made['id']}"
    body = {"timezone": "Europe/Vienna", "phone": None}
    changed = await site.ask("PATCH", path, json=body, headers={"if-match": '"rev-1"'})
    assert changed.status_code == 200, changed.text
    after = changed.json()
    assert (after["timezone"], after["phone"], after["email"]) == ("Europe/Vienna", None, "ada@example.org")
    assert changed.headers["etag"] == f'"rev-{after["revision"]}"'
    late = await site.ask("PATCH", path, json={"name": "Eve"}, headers={"if-match": '"rev-1"'})
    problem(late, 412, "revision_conflict")
    refused = await site.ask("PATCH", path, json={"name": None})
    assert problem(refused, 422, "invalid_input")["errors"][0]["pointer"] == "/name"
    assert (await site.ask("PATCH", path, json={})).json() == after
    same = await site.get(path, headers={"if-none-match": changed.headers["etag"]})
    assert same.status_code == 304


@pytest.mark.req("D-2.2")
async def test_an_external_id_stands_for_one_recipient(site: Site) -> None:
    await person(site, external_id="user-7")
    problem(await site.post("/v1/recipients", {"name": "Eve", "external_id": "user-7"}), 409, "key_conflict")
    await person(site, key=OTHER, external_id="user-7")


async def test_an_address_comes_and_goes_and_its_secret_is_never_shown(site: Site) -> None:
    made = await person(site)
    path = f"/v1/recipients/{made['id']}/addresses"
    added = await site.post(path, WEBHOOK)
    assert added.status_code == 201, added.text
    assert added.json()["value"] == WEBHOOK["value"]
    for response in (added, await site.get(f"/v1/recipients/{made['id']}"), await site.get("/v1/recipients")):
        assert "whsec_" not in response.text
    assert (await site.ask("DELETE", f"{path}/{added.json()['id']}")).status_code == 204
    problem(await site.ask("DELETE", f"{path}/{added.json()['id']}"), 404, "not_found")


async def test_what_is_wrong_with_an_address_is_named_as_it_was_sent(site: Site) -> None:
    made = await person(site)
    push = {"kind": "push", "value": "https://push.example/1"}
    for address, pointer in (
        ({**WEBHOOK, "detail": {}}, "/detail/secret"),
        ({**WEBHOOK, "value": "hooks.example"}, "/value"),
        ({"kind": "phone", "value": "0170 1"}, "/value"),
        ({**push, "value": "http://push.example/1"}, "/value"),
        (push, "/detail/keys"),
        ({**push, "detail": {"keys": {"p256dh": "AA"}}}, "/detail/keys/p256dh"),
    ):
        bad = await site.post(f"/v1/recipients/{made['id']}/addresses", address)
        [error] = problem(bad, 422, "invalid_input")["errors"]
        assert error["pointer"] == pointer


async def test_what_is_taken_back_twice_with_one_key_is_answered_alike(site: Site) -> None:
    """An answer may be lost, and a client that asks again must not hear that there was nothing to take back."""
    made = await person(site, email="ada@example.org")
    path = f"/v1/recipients/{made['id']}"
    await site.post(f"{path}/opt-outs", {"topic": "news"})
    await site.post("/v1/suppressions", {"channel": "email", "address": "ada@example.org"})
    for what in (
        f"{path}/opt-outs?topic=news",
        f"{path}/addresses/{made['addresses'][0]['id']}",
        "/v1/suppressions?channel=email&address=ada@example.org",
    ):
        answers = [await site.ask("DELETE", what, headers={"idempotency-key": "once"}) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [204, 204], what
        assert answers[1].headers["idempotent-replayed"] == "true"


@pytest.mark.req("X-C12")
async def test_an_opt_out_is_of_a_topic_or_a_channel_or_both(site: Site) -> None:
    made = await person(site)
    path = f"/v1/recipients/{made['id']}/opt-outs"
    for body in ({"topic": "news"}, {"channel": "sms"}, {"topic": "news", "channel": "email"}, {}):
        assert (await site.post(path, body)).status_code == 201
    shown = (await site.get(f"/v1/recipients/{made['id']}")).json()["opt_outs"]
    assert {(one["topic"], one["channel"]) for one in shown} == {
        ("news", None),
        (None, "sms"),
        ("news", "email"),
        (None, None),
    }
    assert (await site.ask("DELETE", f"{path}?topic=news")).status_code == 204
    problem(await site.ask("DELETE", f"{path}?topic=news"), 404, "not_found")
    events = await site.tables.rows(
        "SELECT name, actor FROM timebell.events WHERE subject = $1 ORDER BY id", f"recipient:{made['id']}"
    )
    assert [event["name"] for event in events] == [
        "recipient.added",
        *["recipient.opted_out"] * 4,
        "recipient.opted_in",
    ]
    assert all(event["actor"].startswith("key:tb_") for event in events)


async def test_whoever_is_erased_is_gone_and_is_told_nothing(site: Site) -> None:
    made = await person(site, email="ada@example.org")
    await save(site)
    owed = await tell(site, made["id"], due_at="2031-01-01T00:00:00Z")
    exported = (await site.get(f"/v1/recipients/{made['id']}/export?limit=1")).json()
    assert exported["document"]["recipient"]["name"] == "Ada"
    assert [one["id"] for one in exported["document"]["notifications"]] == [owed]
    rest = await site.get(f"/v1/recipients/{made['id']}/export?cursor={exported['next_cursor']}")
    assert (rest.json()["document"], rest.json()["has_more"]) == ({"inbox": []}, False)

    path = f"/v1/recipients/{made['id']}"
    problem(await site.ask("DELETE", path, headers={"if-match": '"rev-9"'}), 412, "revision_conflict")
    current = (await site.get(path)).headers["etag"]
    erased = await site.ask("DELETE", path, headers={"if-match": current})
    assert erased.status_code == 200, erased.text
    assert erased.json() == {"id": made["id"], "withdrawn": [owed], "too_late": [], "undecided": []}
    again = await site.ask("DELETE", path)
    assert again.json() == {"id": made["id"], "withdrawn": [], "too_late": [], "undecided": []}
    for response in (await site.get(path), await site.get(f"{path}/export")):
        problem(response, 404, "not_found")
    problem(await site.get("/v1/inbox", actor=made["id"]), 403, "actor_unknown")
    assert "ada@example.org" not in (await site.get("/v1/recipients")).text


async def test_what_was_answered_to_whoever_is_erased_is_forgotten(site: Site) -> None:
    made = await person(site)
    token = (await site.post("/v1/recipient-tokens", {"recipient_id": made["id"]})).json()["token"]
    once = {"idempotency-key": "all"}
    assert (await site.post("/v1/inbox/seen-all", {"up_to": 1}, key=token, headers=once)).status_code == 200
    kept = "SELECT body, headers::text AS headers FROM timebell_web.replies WHERE caller = $1"
    caller = f"recipient:{made['id']}"
    [before] = await site.tables.rows(kept, caller)
    assert before["body"]
    assert (await site.ask("DELETE", f"/v1/recipients/{made['id']}")).status_code == 200
    assert await site.tables.rows(kept, caller) == [{"body": b"", "headers": "{}"}]


async def test_what_is_another_tenants_is_not_there(site: Site) -> None:
    theirs = await person(site, key=OTHER)
    added = await site.post(f"/v1/recipients/{theirs['id']}/addresses", WEBHOOK, key=OTHER)
    for method, path, body in (
        ("GET", "", None),
        ("PATCH", "", {"name": "Eve"}),
        ("DELETE", "", None),
        ("GET", "/export", None),
        ("POST", "/addresses", WEBHOOK),
        ("DELETE", f"/addresses/{added.json()['id']}", None),
        ("POST", "/opt-outs", {"topic": "news"}),
        ("DELETE", "/opt-outs?topic=news", None),
    ):
        said = [
            problem(await site.ask(method, f"/v1/recipients/{id}{path}", json=body), 404, "not_found")[
                "detail"
            ]
            for id in (theirs["id"], UNHEARD_OF)
        ]
        assert said[0].replace(theirs["id"], UNHEARD_OF) == said[1], (method, path)
    assert (await site.get("/v1/recipients")).json()["data"] == []
    assert (await site.get(f"/v1/recipients/{theirs['id']}", key=OTHER)).json()["name"] == "Ada"


async def test_a_key_that_only_reads_changes_nothing(site: Site) -> None:
    problem(await site.post("/v1/recipients", {"name": "Ada"}, key="read"), 403, "scope_missing")


async def test_an_idempotency_key_makes_one_recipient(site: Site) -> None:
    headers = {"idempotency-key": "once"}
    first = await site.post("/v1/recipients", {"name": "Ada"}, headers=headers)
    again = await site.post("/v1/recipients", {"name": "Ada"}, headers=headers)
    assert again.json() == first.json()
    assert again.headers["idempotent-replayed"] == "true"
    assert len((await site.get("/v1/recipients")).json()["data"]) == 1
