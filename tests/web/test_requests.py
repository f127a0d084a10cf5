"""What every route has in common: bodies, queries, paths, revisions, refusals, limits, correlation ids."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
import pytest_asyncio
from starlette.requests import Request

from tests.web.bells import ROUTES
from tests.web.support import Site, open_site, problem
from timebell.testing.database import TestDatabase
from timebell.web.operation.bodies import check_json

ID = "01890a5d-ac96-774b-bcce-b302099a8057"


@pytest_asyncio.fixture
async def site(database_url: TestDatabase) -> AsyncIterator[Site]:
    async with open_site(database_url, routes=ROUTES) as opened:
        yield opened


async def send(site: Site, content: bytes, **headers: str) -> Any:
    given = {"content-type": "application/json", **headers}
    return await site.ask("POST", "/api/bells", content=content, headers=given)


class TestBodies:
    async def test_a_large_body_is_read_beside_the_loop(
        self, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        on_the_loop: list[bool] = []

        def check(request: Request, raw: bytes) -> None:
            on_the_loop.append(threading.current_thread() is threading.main_thread())
            check_json(request, raw)

        monkeypatch.setattr("timebell.web.operation.operations.check_json", check)
        for count in (1, 20_000):
            content = b'{"name": "x", "notes": {"a": [' + b"{}," * count + b"0]}}"
            assert (await send(site, content)).status_code < 500
        assert on_the_loop == [True, False]

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"{",
            b"nothing",
            b"\xff\xfe",
            b'\xef\xbb\xbf{"name": "x"}',
            b'{"name": "x", "name": "y"}',
            b'{"name": "x", "notes": {"a": 1, "a": 2}}',
            b'{"name": "x", "notes": {"a": NaN}}',
            b'{"name": "x", "notes": {"a": -Infinity}}',
            b'{"name": "x", "notes": {"a": 1e999}}',
            b'{"name": "x", "notes": {"a": ' + b"9" * 5_000 + b"}}",
            rb'{"name": "\u0000"}',
            rb'{"name": "\ud800"}',
            rb'{"name": "x", "notes": {"\u0000": 1}}',
            b'{"name": "x", "notes": ' + b'{"a":' * 40 + b"1" + b"}" * 40 + b"}",
            b"[" * 100_000,
            b"[" * 40 + b'"' + rb"\"" * 100_000,
            b"{" + b"".join(b'"%x":1,' % number for number in range(27_000)) + b'"z":1,"z":2}',
        ],
    )
    async def test_json_that_readers_may_read_differently_is_refused_quickly(
        self, site: Site, content: bytes
    ) -> None:
        began = time.perf_counter()
        problem(await send(site, content), 400, "malformed_json")
        assert time.perf_counter() - began < 1.0
        assert await site.tables.value("SELECT count(*) FROM timebell.jobs") == 0

    async def test_what_only_looks_like_it_is_taken(self, site: Site) -> None:
        nested = b'{"name": "x", "notes": ' + b'{"a":' * 30 + b"1" + b"}" * 30 + b"}"
        brackets = b'{"name": "x", "notes": {"a": "' + b"[" * 200 + rb" \\u0000 \ud83d\ude00" + b'"}}'
        for content in (nested, brackets):
            assert (await send(site, content)).status_code == 201

    @pytest.mark.parametrize(
        ("content", "pointer"),
        [
            (b'{"name": ""}', "/name"),
            (b'{"name": 1}', "/name"),
            (b'{"nam": "x", "name": "x"}', "/nam"),
            (b'{"name": "x", "due_at": "2030-01-01T00:00:00"}', "/due_at"),
            (b'{"name": "x", "due_at": "2030-02-30T00:00:00Z"}', "/due_at"),
            (b'{"name": "x", "due_at": 1700000000}', "/due_at"),
            (b'{"name": "x", "about": "7"}', "/about"),
            (b"[]", ""),
            (b'"text"', ""),
        ],
    )
    async def test_a_field_is_pointed_at(self, site: Site, content: bytes, pointer: str) -> None:
        found = problem(await send(site, content), 422, "invalid_input")
        assert [error["pointer"] for error in found["errors"]] == [pointer]
        assert all(error["message"] and error["code"] for error in found["errors"])

    async def test_ids_and_instants_of_a_body_are_read(self, site: Site) -> None:
        body = {"name": "x", "about": ID, "due_at": "2030-01-01T02:00:00+02:00"}
        assert (await site.post("/api/bells", body)).status_code == 201

    async def test_only_json_is_taken(self, site: Site) -> None:
        for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
            problem(
                await send(site, b'{"name": "x"}', **{"content-type": kind}), 415, "unsupported_media_type"
            )
        for kind in ("application/json; charset=utf-8", "application/merge-patch+json"):
            assert (await send(site, b'{"name": "x"}', **{"content-type": kind})).status_code == 201

    async def test_a_body_that_is_too_large_is_given_up(self, site: Site) -> None:
        large = b'{"name": "' + b"x" * 300_000 + b'"}'
        problem(await send(site, large), 413, "body_too_large")

        async def without_length() -> AsyncIterator[bytes]:
            for _ in range(1_000):
                yield b" " * 1_000

        unsaid = await site.ask(
            "POST",
            "/api/bells",
            content=without_length(),
            headers={"content-type": "application/json"},
        )
        problem(unsaid, 413, "body_too_large")


class TestQueriesAndPaths:
    @pytest.mark.parametrize(
        ("query", "pointer"),
        [
            ("limit=0", "?limit"),
            ("limit=501", "?limit"),
            ("limit=x", "?limit"),
            ("limit=1&limit=2", "?limit"),
            ("&".join(f"{number:x}" for number in range(12_000)) + "&z&z", "?z"),
            ("cursor=", "?cursor"),
            ("colour=red", "?colour"),
            ("limit=7&cursor=a%00b", "?cursor"),
        ],
    )
    async def test_parameters_that_are_refused_quickly(self, site: Site, query: str, pointer: str) -> None:
        began = time.perf_counter()
        found = problem(await site.get(f"/api/bells?{query}"), 422, "invalid_input")
        assert [error["pointer"] for error in found["errors"]] == [pointer]
        assert time.perf_counter() - began < 1.0

    async def test_parameters_are_read(self, site: Site) -> None:
        assert (await site.get("/api/bells?limit=7")).json()["limit"] == 7

    @pytest.mark.parametrize("id", ["7", "x" * 600, f"{{{ID}}}", ID.replace("-", ""), "%00", "a%2Fb"])
    async def test_an_id_that_is_none_names_nothing(self, site: Site, id: str) -> None:
        problem(await site.get(f"/api/bells/{id}"), 404, "not_found")

    async def test_a_dry_run_keeps_nothing(self, site: Site) -> None:
        answered = await site.post("/api/bells?dry_run=true", {"name": "x"})
        assert (answered.status_code, answered.json()["name"]) == (201, "x")
        assert await site.tables.value("SELECT count(*) FROM timebell.jobs") == 0
        for unclear in ("dry_run=maybe", "dry_run=true&dry_run=false"):
            problem(await site.post(f"/api/bells?{unclear}", {"name": "x"}), 422, "invalid_input")
        assert await site.tables.value("SELECT count(*) FROM timebell.jobs") == 0
        problem(await site.ask("DELETE", f"/api/bells/{ID}?dry_run=true"), 422, "invalid_input")


class TestRevisions:
    async def test_what_is_known_already_is_not_sent_again(self, site: Site) -> None:
        first = await site.get(f"/api/bells/{ID}")
        assert first.headers["etag"] == '"rev-7"'
        for known in ('"rev-7"', '"rev-1", W/"rev-7"', "*"):
            again = await site.get(f"/api/bells/{ID}", headers={"if-none-match": known})
            assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", '"rev-7"')
        assert (await site.get(f"/api/bells/{ID}", headers={"if-none-match": '"rev-6"'})).status_code == 200

    async def test_only_what_was_read_is_changed(self, site: Site) -> None:
        async def change(**headers: str) -> Any:
            return await site.ask("PATCH", f"/api/bells/{ID}", json={"name": "x"}, headers=headers)

        for known in ('"rev-7"', "*"):
            assert (await change(**{"if-match": known})).headers["etag"] == '"rev-8"'
        assert (await change()).status_code == 200
        refused = await change(**{"if-match": '"rev-6"'})
        problem(refused, 412, "revision_conflict")
        assert refused.headers["etag"] == '"rev-7"'
        problem(await change(**{"if-match": "yesterday"}), 400, "revision_invalid")

    async def test_a_revision_that_nobody_compares_is_not_passed_over(self, site: Site) -> None:
        for once in ({}, {"idempotency-key": "k"}):
            headers = {"if-match": '"rev-7"', **once}
            problem(await site.post("/api/bells", {"name": "x"}, headers=headers), 412, "revision_conflict")
        assert await site.tables.value("SELECT count(*) FROM timebell.jobs") == 0
        anyhow = await site.post("/api/bells", {"name": "x"}, headers={"if-match": "*"})
        assert anyhow.status_code == 201

    async def test_an_answer_without_content(self, site: Site) -> None:
        gone = await site.ask("DELETE", f"/api/bells/{ID}")
        assert (gone.status_code, gone.content) == (204, b"")


class TestRefusals:
    async def test_the_framework_refuses_in_the_same_form(self, site: Site) -> None:
        problem(await site.get("/nothing"), 404, "not_found")
        problem(await site.get("/api/bells/"), 404, "not_found")
        refused = await site.ask("PUT", f"/api/bells/{ID}")
        problem(refused, 405, "method_not_allowed")
        assert refused.headers["allow"] == "DELETE, GET, PATCH"

    async def test_a_code_may_bring_members_of_its_own(self, site: Site) -> None:
        assert (
            problem(await site.post("/api/bells", {"name": "refuse"}), 409, "bell_refused")["next_free"] == 7
        )

    async def test_a_fault_of_ours_tells_nothing_of_our_insides(
        self, site: Site, log_lines: list[dict[str, Any]]
    ) -> None:
        response = await site.post("/api/bells", {"name": "fail"})
        content = problem(response, 500, "internal_error")
        assert "secret" not in response.text
        [line] = [line for line in log_lines if line["log_level"] == "error"]
        assert line["correlation_id"] == content["correlation_id"]
        assert await site.tables.value("SELECT count(*) FROM timebell.jobs") == 0

    async def test_an_absent_database_is_a_reason_to_come_again(
        self, site: Site, database_url: TestDatabase
    ) -> None:
        admin = await asyncpg.connect(database_url.admin_url.replace(f"/{database_url.name}", "/postgres"))
        await site.get("/api/bells")
        await admin.execute(f"ALTER DATABASE {database_url.name} ALLOW_CONNECTIONS false")
        await admin.execute(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database_url.name}'"
        )
        for _ in range(2):
            refused = await site.post("/api/bells", {"name": "x"})
            problem(refused, 503, "unavailable")
            assert refused.headers["retry-after"]
        await admin.execute(f"ALTER DATABASE {database_url.name} ALLOW_CONNECTIONS true")
        await admin.close()
        assert (await site.post("/api/bells", {"name": "x"})).status_code == 201


async def test_nobody_else_may_keep_an_answer(site: Site) -> None:
    for answered in (await site.get("/api/bells"), await site.get("/nothing")):
        assert answered.headers["cache-control"] == "no-cache, private"
        assert answered.headers["x-content-type-options"] == "nosniff"
    assert (await site.get("/docs")).headers["cache-control"] == "no-cache"


class TestLimits:
    async def test_a_key_that_asks_too_often_waits(self, database_url: TestDatabase) -> None:
        async with open_site(database_url, routes=ROUTES, requests_per_minute=3) as site:
            for left in (2, 1, 0):
                answered = await site.get("/api/bells", key="read")
                assert answered.headers["ratelimit"] == f'"key";r={left};t=60'
                assert answered.headers["ratelimit-policy"] == '"key";q=3;w=60'
            refused = await site.get("/api/bells", key="read")
            problem(refused, 429, "rate_limited")
            assert 1 <= int(refused.headers["retry-after"]) <= 20
            # Others have their own, and refusals of theirs count.
            wrong = await site.get("/api/bells?limit=0", key="write")
            assert wrong.headers["ratelimit"] == '"key";r=2;t=60'
            known = await site.get(f"/api/bells/{ID}", key="write", headers={"if-none-match": "*"})
            assert (known.status_code, known.headers["ratelimit"]) == (304, '"key";r=1;t=60')
            beyond = await site.get("/v1/keys", key="write")
            assert (beyond.status_code, beyond.headers["ratelimit"]) == (403, '"key";r=0;t=60')

    async def test_an_address_that_needs_no_key_waits_too(self, database_url: TestDatabase) -> None:
        async with open_site(database_url, requests_per_minute=2) as site:
            for _ in range(2):
                problem(await site.get("/u/forged", key=None), 404, "not_found")
            refused = await site.get("/u/forged", key=None)
            problem(refused, 429, "rate_limited")
            assert refused.headers["ratelimit"] == '"address";r=0;t=60'
            # The link of another is another's.
            problem(await site.get("/u/another", key=None), 404, "not_found")


class TestActors:
    async def test_a_call_for_a_person_names_the_person(self, site: Site) -> None:
        path, once = f"/api/bells/{ID}/ring", {"idempotency-key": "1"}
        problem(await site.post(path, headers=once), 400, "actor_required")
        problem(await site.post(path, headers=once, actor="nobody"), 403, "actor_unknown")
        problem(await site.post(path, headers=once, actor=ID), 403, "actor_unknown")
        async with site.bell.transaction() as tx:
            mine = await site.surface.notify.recipients.add(tx, name="me")
        async with site.bell.transaction(tenant="other") as tx:
            theirs = await site.surface.notify.recipients.add(tx, name="them")
        problem(await site.post(path, headers=once, actor=theirs.id), 403, "actor_unknown")
        answered = await site.post(path, headers=once, actor=mine.id)
        assert answered.json()["name"] == f"recipient:{mine.id}"
        token, _ = site.surface.tokens.make("recipient", tenant="default", recipient=mine.id, seconds=60)
        by_token = await site.post(path, headers={"idempotency-key": "2"}, key=token, actor=theirs.id)
        assert by_token.json()["name"] == f"recipient:{mine.id}"


@pytest.mark.req("U-16")
class TestCorrelation:
    async def test_one_id_goes_from_the_request_to_the_job_and_the_log(
        self, site: Site, log_lines: list[dict[str, Any]]
    ) -> None:
        answered = await site.post("/api/bells", {"name": "x"}, headers={"x-correlation-id": "order-42"})
        assert answered.headers["x-correlation-id"] == "order-42"
        [job] = await site.tables.jobs()
        assert job["correlation_id"] == "order-42"
        [line] = [line for line in log_lines if line["event"] == "a bell is made"]
        assert line["correlation_id"] == "order-42"

    async def test_one_is_made_where_none_was_sent_or_it_is_no_good(self, site: Site) -> None:
        found = set()
        for headers in ({}, {"x-correlation-id": "a b"}, {"x-correlation-id": "x" * 200}):
            found.add((await site.get("/api/bells", headers=headers)).headers["x-correlation-id"])
        assert len(found) == 3
        assert all(len(each) == 32 for each in found)

    async def test_requests_at_once_do_not_mix(self, site: Site) -> None:
        names = [f"n{number}" for number in range(30)]
        await asyncio.gather(
            *(site.post("/api/bells", {"name": name}, headers={"x-correlation-id": name}) for name in names)
        )
        jobs = await site.tables.jobs()
        assert sorted(job["correlation_id"] for job in jobs) == sorted(names)
        assert all(f'"{job["correlation_id"]}"' in job["payload_text"] for job in jobs)
