"""Streams: everything once and in order, wherever a client was cut off, and only to whom it belongs."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

from tests.web.streams_support import Listening, Message, add_person, listening, show, titles
from tests.web.support import OTHER, Site, open_site
from timebell.testing.database import TestDatabase
from timebell.web.access import access, tokens
from timebell.web.operation.problems import Problem
from timebell.web.operation.routes import Route
from timebell.web.streams import streams
from timebell.web.streams.streams import Pace
from timebell.web.v1 import inbox

INBOX, EVENTS = "/v1/inbox/stream", "/v1/events/stream"
QUICK = Pace(look_seconds=0.02, check_seconds=0.0)
# What an EventSource says that it reads.
BROWSER = {"accept": "text/event-stream"}


class Looks:
    """Sees the statements of the API go by, so that a test can wait for some that come later."""

    def __init__(self) -> None:
        self._done = asyncio.Condition()
        self._counts: Counter[str] = Counter()

    def count(self, name: str) -> int:
        return self._counts[name]

    async def before(self, name: str) -> None:
        """Nothing is stopped here."""

    async def after(self, name: str) -> None:
        async with self._done:
            self._counts[name] += 1
            self._done.notify_all()

    async def more(self, name: str, count: int = 3) -> None:
        wanted = self._counts[name] + count
        async with asyncio.timeout(10), self._done:
            await self._done.wait_for(lambda: self._counts[name] >= wanted)


@pytest.fixture
def looks() -> Looks:
    return Looks()


@pytest_asyncio.fixture
async def site(
    database_url: TestDatabase, looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Site]:
    """Looks often, and forgets at once what it learnt of a key."""
    monkeypatch.setattr(access, "_REMEMBERED_SECONDS", 0.0)
    async with open_site(database_url, gate=looks, origins=("https://app.example.org",)) as opened:
        opened.surface.streams.pace = QUICK
        yield opened
        opened.surface.stopping.set()


async def refusal(heard: Listening, status: int, code: str) -> None:
    message = await heard.next()
    assert (heard.status, message.data["code"]) == (status, code), message


async def sent_away(heard: Listening, reason: str) -> None:
    """Told in the one way after which an EventSource comes again."""
    (message,) = await heard.data(1)
    assert (heard.status, message.kind, message.data["reason"]) == (200, "end", reason)
    assert heard.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert heard.headers["access-control-allow-origin"] == "*"
    assert message.retry is not None
    await heard.over()


async def post(site: Site, path: str, body: dict[str, Any], **options: Any) -> dict[str, Any]:
    response = await site.post(path, body, **options)
    assert response.status_code == 201, response.text
    made: dict[str, Any] = response.json()
    return made


async def record(site: Site, *names: str, tenant: str = "default") -> None:
    for name in names:
        async with site.bell.transaction(tenant=tenant) as tx:
            await site.bell.record(tx, name, {"n": 1}, subject="door:1", actor="ada", correlation_id="c")


class TestInbox:
    async def test_entries_come_as_the_list_shows_them(self, site: Site) -> None:
        ada = await add_person(site)
        await show(site, ada, "one", "two")
        async with listening(site, INBOX, actor=ada, after="0") as heard:
            assert await heard.next() == Message(kind="opening", id="0")
            assert heard.headers["content-type"] == "text/event-stream; charset=utf-8"
            assert heard.headers["cache-control"] == "no-store"
            told = await heard.data(2)
            await show(site, ada, "three")
            told += await heard.data(1)
        assert [each.id for each in told] == ["1", "2", "3"]
        assert titles(told) == ["one", "two", "three"]
        assert told[0].data.keys() == inbox.InboxEntry.model_fields.keys()
        assert (told[0].data["status"], told[0].data["description"]) == ("unseen", "line\none")

    async def test_who_names_no_place_is_told_what_comes_from_now_on(self, site: Site) -> None:
        ada = await add_person(site)
        await show(site, ada, "before")
        async with listening(site, INBOX, actor=ada) as heard:
            assert await heard.next() == Message(kind="opening", id="1")
        # Cut off before anything came: the place was told all the same.
        await show(site, ada, "meanwhile")
        async with listening(site, INBOX, actor=ada, headers={"last-event-id": "1"}) as heard:
            assert titles(await heard.data(1)) == ["meanwhile"]

    @pytest.mark.req("R-7.3")
    async def test_whoever_was_cut_off_goes_on_from_the_last_message(self, site: Site) -> None:
        ada = await add_person(site)
        await show(site, ada, *map(str, range(130)))
        seen: list[Message] = []
        for count in (1, 60, 9, 60):
            # What the header says is newer than what the address says.
            headers = {"last-event-id": seen[-1].id or ""} if seen else {}
            async with listening(site, INBOX, actor=ada, headers=headers, after="0") as heard:
                seen += await heard.data(count)
        assert titles(seen) == [str(number) for number in range(130)]

    async def test_nothing_of_another_person_or_tenant_is_told(self, site: Site) -> None:
        ada, bo = await add_person(site), await add_person(site, "Bo")
        them = await add_person(site, tenant=OTHER)
        async with listening(site, INBOX, actor=ada, after="0") as heard:
            await show(site, bo, "not for Ada")
            await show(site, them, "nor this", tenant=OTHER)
            await show(site, ada, "for Ada")
            assert titles(await heard.data(1)) == ["for Ada"]
        async with listening(site, INBOX, actor=them) as heard:
            await refusal(heard, 403, "actor_unknown")
        async with listening(site, INBOX) as heard:
            await refusal(heard, 400, "actor_required")

    async def test_who_saw_another_table_is_told_to_read_anew(self, site: Site) -> None:
        ada = await add_person(site)
        await show(site, ada, "one", "two", "three")
        async with listening(site, INBOX, actor=ada, after="9") as heard:
            assert await heard.data(1) == [Message(kind="resync", id="3", data={"after": "3"})]
            await show(site, ada, "four")
            assert titles(await heard.data(1)) == ["four"]
        await site.tables.rows("DELETE FROM timebell_notify.inbox WHERE seq = 2")
        async with listening(site, INBOX, actor=ada, after="1") as heard:
            resync, three = await heard.data(2)
        assert resync == Message(kind="resync", id="2", data={"after": "2"})
        assert three.data["seq"] == 3

    @pytest.mark.parametrize("place", ["-1", "x", "1.5", "99999999999999999999", "٣"])
    @pytest.mark.parametrize("path", [INBOX, EVENTS])
    async def test_places_that_are_none(self, site: Site, path: str, place: str) -> None:
        ada = await add_person(site) if path == INBOX else None
        async with listening(site, path, actor=ada, after=place) as heard:
            await refusal(heard, 422, "invalid_input")

    async def test_one_look_finds_out_for_everybody(self, site: Site, looks: Looks) -> None:
        """However many listen, the ends are asked for once; and who has nothing new reads nothing."""
        people = [await add_person(site, f"n{number}") for number in range(12)]
        async with AsyncExitStack() as stack:
            heard = [
                await stack.enter_async_context(listening(site, INBOX, actor=person)) for person in people
            ]
            for each in heard:
                await each.next()
            # Each has told its place before it reads for the first time.
            while looks.count("list_inbox") < len(people):
                await looks.more("list_inbox", 1)
            await show(site, people[-1], "first")
            await heard[-1].data(1)
            reads = looks.count("list_inbox")
            await show(site, people[7], "x")
            assert titles(await heard[7].data(1)) == ["x"]
            await looks.more("read_inbox_ends")
            assert looks.count("list_inbox") == reads + 1
            assert site.surface.streams.count == 12
        assert site.surface.streams.count == 0


class TestEvents:
    async def test_events_come_in_the_order_in_which_they_are_committed(self, site: Site) -> None:
        await record(site, "door.opened", "door.closed")
        await record(site, "not.theirs", tenant=OTHER)
        async with listening(site, EVENTS, after="0") as heard:
            told = [each for each in await _until(heard, "door.closed") if each.data["subject"] == "door:1"]
            assert [each.data["name"] for each in told] == ["door.opened", "door.closed"]
            await record(site, "door.locked")
            (locked,) = await heard.data(1)
        assert locked.data["name"] == "door.locked"
        listed = (await site.get("/v1/events?subject=door:1", key="read")).json()["data"]
        assert [*(each.data for each in told), locked.data] == listed
        async with listening(site, EVENTS, headers={"last-event-id": told[0].id or ""}) as heard:
            again = await heard.data(2)
        assert [each.id for each in again] == [told[1].id, locked.id]

    async def test_what_is_committed_late_is_not_missed(self, site: Site, looks: Looks) -> None:
        """The first of two writers commits last. Who read on past the second would never see what the first wrote."""
        place = await _now(site)
        async with listening(site, EVENTS, after=place) as heard:
            async with site.bell.transaction() as tx:
                await site.bell.record(tx, "door.first")
                await record(site, "door.second")
                await looks.more("read_event_end")
                assert await heard.next() == Message(kind="opening", id=place)
                assert heard.coming.empty()
            told = await heard.data(2)
        assert [each.data["name"] for each in told] == ["door.first", "door.second"]
        async with listening(site, EVENTS, after=place) as heard:
            assert await heard.data(2) == told

    async def test_many_writers_and_a_reader_that_is_cut_off_again_and_again(self, site: Site) -> None:
        async def write(writer: int) -> None:
            for number in range(12):
                async with site.bell.transaction() as tx:
                    await site.bell.record(tx, "door.written", {"n": f"{writer}.{number}"})
                    await asyncio.sleep(0)
                    await site.bell.record(tx, "door.written", {"n": f"{writer}.{number}b"})

        seen: list[Message] = []
        async with asyncio.TaskGroup() as group:
            place = await _now(site)
            for writer in range(5):
                group.create_task(write(writer))
            while len(seen) < 120:
                async with listening(site, EVENTS, after=(seen[-1].id or "") if seen else place) as heard:
                    seen += await heard.data(min(17, 120 - len(seen)))
        rows = await site.tables.rows(
            "SELECT id::text FROM timebell.events WHERE name = 'door.written' ORDER BY written_in, id"
        )
        assert [each.data["id"] for each in seen] == [row["id"] for row in rows]

    async def test_a_place_of_another_server_is_lost(self, site: Site) -> None:
        async with listening(site, EVENTS, after="9000000000000") as heard:
            (resync,) = await heard.data(1)
            assert resync.kind == "resync"
            await record(site, "door.opened")
            assert await _until(heard, "door.opened")


async def _until(heard: Listening, name: str) -> list[Message]:
    """What is told up to an event of this name, with it."""
    told = await heard.data(1)
    while told[-1].data["name"] != name:
        told += await heard.data(1)
    return told


async def _now(site: Site) -> str:
    """A place that everything before has been told at. Where a stream opens by itself, a transaction of whomever it may
    be holds back what was written since that began, and it is told afterwards."""
    await record(site, "door.marked")
    async with listening(site, EVENTS, after="0") as heard:
        return (await _until(heard, "door.marked"))[-1].id or ""


class TestClients:
    async def test_silence_is_broken_by_a_beat(self, site: Site) -> None:
        assert Pace().beat_seconds == 15.0
        site.surface.streams.pace = Pace(beat_seconds=0.02)
        ada = await add_person(site)
        async with listening(site, INBOX, actor=ada) as heard:
            assert [(await heard.next()).kind for _ in range(3)] == ["opening", "beat", "beat"]

    async def test_who_does_not_read_is_dropped_and_nothing_is_kept(self, site: Site, looks: Looks) -> None:
        assert Pace().send_seconds == 30.0
        site.surface.streams.pace = Pace(look_seconds=0.02, send_seconds=0.1)
        ada = await add_person(site)
        await show(site, ada, *map(str, range(200)))
        async with listening(site, INBOX, actor=ada, after="0") as heard:
            seen = await heard.data(1)
            heard.is_reading.clear()
            await heard.over()
            assert heard.was_cut
            # Two pages of the four at most were ever asked for.
            assert looks.count("list_inbox") <= 2
        assert site.surface.streams.count == 0
        while not heard.coming.empty():
            seen.append(heard.coming.get_nowait())
        async with listening(site, INBOX, actor=ada, after=heard.last_id or "") as heard:
            seen += await heard.data(200 - len(seen))
        assert titles(seen) == [str(number) for number in range(200)]

    async def test_a_client_comes_again_after_ten_minutes(self, site: Site) -> None:
        assert Pace().life_seconds == 600.0
        site.surface.streams.pace = Pace(life_seconds=0.1)
        ada = await add_person(site)
        async with listening(site, INBOX, actor=ada) as heard:
            assert await heard.data(1) == [Message(kind="end", data={"reason": "renew"})]
            await heard.over()

    async def test_streams_end_when_the_process_does(self, site: Site) -> None:
        ada = await add_person(site)
        async with listening(site, INBOX, actor=ada) as mine, listening(site, EVENTS) as all_of_it:
            for heard in (mine, all_of_it):
                await heard.next()
            site.surface.stopping.set()
            for heard in (mine, all_of_it):
                assert (await heard.data(1))[0].data == {"reason": "stopping"}
                await heard.over()

    async def test_who_leaves_is_noticed(self, site: Site) -> None:
        ada = await add_person(site)
        async with listening(site, INBOX, actor=ada) as heard:
            await heard.next()
            assert site.surface.streams.count == 1
            heard.has_left.set()
            await heard.over()
            assert site.surface.streams.count == 0

    async def test_one_person_has_so_many_streams_and_no_more(
        self, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(streams, "STREAMS_OF_ONE_MAX", 1)
        ada, bo = await add_person(site), await add_person(site, "Bo")
        async with listening(site, INBOX, actor=ada) as heard:
            await heard.next()
            async with listening(site, INBOX, actor=ada) as refused:
                await refusal(refused, 429, "too_many_streams")
                assert refused.headers["retry-after"] == "30"
            async with listening(site, INBOX, actor=bo) as other:
                assert (await other.next()).kind == "opening"
                monkeypatch.setattr(streams, "STREAMS_MAX", 2)
                async with listening(site, EVENTS) as refused:
                    await refusal(refused, 429, "too_many_streams")

    async def test_a_database_that_is_away_is_waited_for(
        self, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ada = await add_person(site)
        whole = site.surface.streams.inbox.read_after
        failures = 0

        async def failing(*arguments: Any, **options: Any) -> Any:
            nonlocal failures
            failures += 1
            if failures == 1:
                raise ConnectionResetError
            return await whole(*arguments, **options)

        monkeypatch.setattr(site.surface.streams.inbox, "read_after", failing)
        await show(site, ada, "one")
        async with listening(site, INBOX, actor=ada, after="0") as heard:
            assert titles(await heard.data(1)) == ["one"]
        assert failures > 1


class TestBrowsers:
    """An EventSource takes every status but 200 as final."""

    async def test_who_finds_no_room_comes_again_later(
        self, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(streams, "STREAMS_OF_ONE_MAX", 1)
        ada = await add_person(site)
        async with listening(site, INBOX, actor=ada, headers=BROWSER) as heard:
            await heard.next()
            async with listening(site, INBOX, actor=ada, headers=BROWSER) as refused:
                await sent_away(refused, "too_many_streams")
                assert refused.last_retry >= 30_000
            assert site.surface.requests.counts["GET", INBOX, 429] == 1

    async def test_who_comes_while_the_database_is_away_comes_again(
        self, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def away(*_: Any, **__: Any) -> Any:
            raise ConnectionResetError

        ada = await add_person(site)
        monkeypatch.setattr(site.surface.streams.inbox, "read_ends", away)
        async with listening(site, INBOX, actor=ada, headers=BROWSER) as heard:
            await sent_away(heard, "unavailable")
        async with listening(site, INBOX, actor=ada) as heard:
            await refusal(heard, 503, "unavailable")

    async def test_who_asks_too_often_comes_again(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        ada = await add_person(site)

        def refuse(_: object) -> None:
            raise Problem(429, "rate_limited", "slower", headers={"retry-after": "7"})

        monkeypatch.setattr(site.surface.access._rates, "take", refuse)
        async with listening(site, INBOX, actor=ada, headers=BROWSER) as heard:
            await sent_away(heard, "rate_limited")
            assert 7_000 <= heard.last_retry < 14_000

    async def test_those_who_are_sent_away_together_do_not_come_again_together(self, site: Site) -> None:
        people = [await add_person(site, f"n{number}") for number in range(8)]
        async with AsyncExitStack() as stack:
            opened = [listening(site, INBOX, actor=person, headers=BROWSER) for person in people]
            heard = [await stack.enter_async_context(each) for each in opened]
            for each in heard:
                await each.next()
            site.surface.stopping.set()
            for each in heard:
                await each.data(1)
        assert len({each.last_retry for each in heard}) > 2

    async def test_who_can_never_be_let_in_as_it_is_is_told_so(self, site: Site) -> None:
        ada = await add_person(site)
        for status, more in (
            (401, {"key": None, "token": "tbs_x"}),
            (422, {"actor": ada, "after": "x"}),
            (400, {}),
        ):
            async with listening(site, INBOX, headers=BROWSER, **more) as heard:
                await heard.next()
                assert heard.status == status


class TestShares:
    async def test_a_full_node_takes_from_the_tenant_with_most(
        self, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(streams, "STREAMS_MAX", 4)
        people = [await add_person(site, f"n{number}") for number in range(5)]
        others = [await add_person(site, f"o{number}", tenant=OTHER) for number in range(3)]
        async with AsyncExitStack() as stack:

            async def open_one(person: UUID, key: str) -> Listening:
                heard = await stack.enter_async_context(listening(site, INBOX, key=key, actor=person))
                await heard.next()
                return heard

            keys = ("read", "write", "write", "read")
            mine = [await open_one(person, key) for person, key in zip(people, keys, strict=False)]
            async with listening(site, INBOX, key="read", actor=people[4]) as refused:
                await refusal(refused, 429, "too_many_streams")
            theirs = [await open_one(person, OTHER) for person in others[:2]]
            assert [each.status for each in theirs] == [200, 200]
            # The newest of either key, since both had as many.
            for number in (2, 3):
                assert (await mine[number].data(1))[0].data == {"reason": "too_many_streams"}
                await mine[number].over()
            assert not any(each.is_over.is_set() for each in mine[:2])
            async with listening(site, INBOX, key=OTHER, actor=others[2]) as refused:
                await refusal(refused, 429, "too_many_streams")
            assert site.surface.streams.count == 4
            assert not any(each.is_over.is_set() for each in theirs)


class TestAccess:
    async def test_a_revoked_key_ends_its_streams_and_those_of_its_tokens(self, site: Site) -> None:
        # What is remembered of a key, and how often it is looked at, leave room for the ten seconds that are promised.
        assert Pace().check_seconds + Pace().look_seconds + 2.0 <= 10
        ada = await add_person(site)
        key = await post(site, "/v1/keys", {"name": "k", "scope": "write"}, key="admin")
        mine = await post(site, "/v1/recipient-tokens", {"recipient_id": str(ada)}, key=key["key"])
        short = await post(site, "/v1/stream-tokens", {}, key=mine["token"])
        assert short["recipient_id"] == str(ada)
        async with AsyncExitStack() as stack:
            opened = [
                await stack.enter_async_context(listening(site, INBOX, key=key["key"], actor=ada)),
                await stack.enter_async_context(listening(site, INBOX, key=mine["token"])),
                await stack.enter_async_context(listening(site, INBOX, key=None, token=short["token"])),
                await stack.enter_async_context(listening(site, EVENTS, key=key["key"])),
            ]
            other = await stack.enter_async_context(listening(site, INBOX, actor=ada))
            for heard in (*opened, other):
                assert (await heard.next()).kind == "opening"
            await site.ask("DELETE", f"/v1/keys/{key['id']}", key="admin")
            for heard in opened:
                *_, last = await heard.data(1)
                assert last.data.get("reason", last.data.get("name")) in ("revoked", "api_key.revoked")
                await heard.over()
            assert not other.is_over.is_set()
        async with listening(site, INBOX, key=None, token=short["token"]) as heard:
            await refusal(heard, 401, "unauthenticated")
        async with listening(site, INBOX, key=mine["token"]) as heard:
            await refusal(heard, 401, "unauthenticated")

    async def test_an_erased_person_is_told_nothing_more(self, site: Site) -> None:
        ada = await add_person(site)
        token = await post(site, "/v1/recipient-tokens", {"recipient_id": str(ada)})
        async with listening(site, INBOX, key=token["token"]) as heard:
            await heard.next()
            async with site.bell.transaction() as tx:
                await site.surface.notify.recipients.erase(tx, ada)
            assert (await heard.data(1))[0].data == {"reason": "revoked"}
        async with listening(site, INBOX, key=token["token"]) as heard:
            await refusal(heard, 403, "actor_unknown")
        gone = await site.post("/v1/recipient-tokens", {"recipient_id": str(ada)})
        assert gone.status_code == 404

    async def test_a_token_opens_what_it_was_made_for(self, site: Site) -> None:
        ada = await add_person(site)
        mine = (await post(site, "/v1/stream-tokens", {}, key="read", actor=ada))["token"]
        events = (await post(site, "/v1/stream-tokens", {"seconds": 5}, key="read"))["token"]
        for path, token, status in (
            (INBOX, mine, 200),
            (EVENTS, events, 200),
            (INBOX, events, 400),
            (EVENTS, mine, 403),
            (INBOX, mine[:-9] + ("A" if mine[-9] != "A" else "B") + mine[-8:], 401),
            (INBOX, mine + "x", 401),
            (INBOX, "tbs_", 401),
            (INBOX, site.keys["admin"], 401),
        ):
            async with listening(site, path, key=None, token=token) as heard:
                await heard.next()
                assert heard.status == status, (path, token)
        # Naming a person is for keys.
        async with listening(site, INBOX, key=None, token=events, actor=ada) as heard:
            await refusal(heard, 400, "actor_required")
        for token in (mine, events):
            assert (await site.get("/v1/keys", key=token)).status_code == 401
            assert (await site.get(f"/v1/keys?token={token}", key=None)).status_code == 401

    async def test_a_token_expires(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        token = (await post(site, "/v1/stream-tokens", {"seconds": 60}, key="read"))["token"]
        later = tokens._real_seconds() + 60
        monkeypatch.setattr(tokens, "_real_seconds", lambda: later)
        async with listening(site, EVENTS, key=None, token=token) as heard:
            await refusal(heard, 401, "token_expired")
        async with listening(site, EVENTS, key=None, token=token, headers=BROWSER) as heard:
            await sent_away(heard, "token_expired")

    async def test_tokens_are_made_for_ones_own_people(self, site: Site) -> None:
        them = await add_person(site, tenant=OTHER)
        refused = await site.post("/v1/recipient-tokens", {"recipient_id": str(them)})
        unknown = await site.post("/v1/recipient-tokens", {"recipient_id": str(UUID(int=7))})
        assert (refused.status_code, unknown.status_code) == (404, 404)
        assert (await site.post("/v1/stream-tokens", {}, key="read", actor=them)).status_code == 403
        for seconds in (0, 601):
            assert (await site.post("/v1/stream-tokens", {"seconds": seconds})).status_code == 422
        # A person cannot make tokens for others.
        ada, bo = await add_person(site), await add_person(site, "Bo")
        token = (await post(site, "/v1/recipient-tokens", {"recipient_id": str(ada)}))["token"]
        response = await site.post("/v1/recipient-tokens", {"recipient_id": str(bo)}, key=token)
        assert (response.status_code, response.json()["code"]) == (403, "key_required")
        own = await post(site, "/v1/stream-tokens", {}, key=token, actor=bo)
        assert own["recipient_id"] == str(ada)

    async def test_a_persons_token_reaches_only_what_is_made_for_persons(self, site: Site) -> None:
        ada = await add_person(site)
        token = (await post(site, "/v1/recipient-tokens", {"recipient_id": str(ada)}))["token"]
        for route in site.routes:
            if route.scope is None or route.acts_for != "nobody":
                continue
            response = await site.ask(route.method, _with_ids(route), key=token)
            assert response.status_code == 403, (route.method, route.path, response.text)
            assert response.json()["code"] in ("key_required", "scope_missing")

    @pytest.mark.parametrize(
        ("origin", "status", "allowed"),
        [
            ("https://app.example.org", 200, "https://app.example.org"),
            ("http://bell.test", 200, None),
            ("https://bell.test", 200, None),
            ("https://evil.example", 403, None),
            ("https://app.example.org.evil.example", 403, None),
            ("http://app.example.org", 403, None),
            ("null", 403, None),
        ],
    )
    async def test_whose_pages_may_open_streams(
        self, site: Site, origin: str, status: int, allowed: str | None
    ) -> None:
        async with listening(site, EVENTS, headers={"origin": origin}) as heard:
            await heard.next()
            assert heard.status == status
            assert heard.headers.get("access-control-allow-origin") == allowed


def _with_ids(route: Route) -> str:
    return "/".join(
        "01890a5d-ac96-774b-bcce-b302099a8057" if part.startswith("{") else part
        for part in route.path.split("/")
    )
