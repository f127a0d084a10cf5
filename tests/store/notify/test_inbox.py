"""The inbox: each entry once, numbered without gaps in the order of the commits, and read on from any number."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import orjson
import pytest

from tests.query_plans import queries_of
from tests.store.notify.support import SCHEMA, acquaint, begin
from tests.store.support import HOUR, NOW, StillClock, Tables
from timebell.errors import InvalidInput, NotFound, NoTransaction
from timebell.kernel import Timebell
from timebell.notify.delivery.desk import Desk
from timebell.notify.inbox.entries import InboxEntry, entry_columns
from timebell.notify.inbox.inbox import Inbox
from timebell.notify.inbox.inbox_store import InboxStore
from timebell.notify.models import InboxLine
from timebell.notify.provider import Content

ANA = UUID(int=1)
BO = UUID(int=2)


def entry(recipient: UUID = ANA, title: str | None = "Reminder", **changes: Any) -> InboxEntry:
    made = InboxEntry(
        tenant="default",
        notification_id=uuid4(),
        job_version=1,
        recipient_id=recipient,
        content=Content(subject=title, text="In ten minutes", data={"meeting": 7}),
        language="en",
        type="meeting_reminder",
        priority="time_bound",
        payload={"meeting": 7},
        subject="meeting:7",
        due_at=NOW - HOUR,
    )
    return replace(made, **changes)


async def show(bell: Timebell, entries: Sequence[InboxEntry]) -> None:
    for tenant in {each.tenant for each in entries}:
        await acquaint(bell, *(each.recipient_id for each in entries), tenant=tenant)
    await begin(bell, *(each.notification_id for each in entries))
    desk = Desk(bell)
    await asyncio.gather(*(desk.show(each) for each in entries))


async def lines(bell: Timebell, recipient: UUID = ANA, **asked: Any) -> tuple[InboxLine, ...]:
    return (await Inbox(bell).list(recipient, **asked)).lines


@pytest.mark.req("R-5.2", "M-5.8", "D-2.6")
async def test_an_entry_is_shown_and_its_delivery_is_sent(bell: Timebell, tables: Tables) -> None:
    told = entry()
    await show(bell, [told])
    (line,) = await lines(bell)
    assert line == InboxLine(
        id=told.notification_id,
        seq=1,
        recipient_id=ANA,
        type="meeting_reminder",
        title="Reminder",
        description="In ten minutes",
        status="unseen",
        priority="time_bound",
        payload={"meeting": 7},
        subject="meeting:7",
        due_at=NOW - HOUR,
        created_at=NOW,
        updated_at=NOW,
    )
    (delivery,) = await tables.rows(f"SELECT * FROM {SCHEMA}.deliveries")
    expected = {
        "notification_id": told.notification_id,
        "recipient_id": ANA,
        "channel": "inbox",
        "provider": "inbox",
        "address": "",
        "state": "sent",
        "reason": "shown",
        "language": "en",
        "sent_at": NOW,
    }
    assert {name: delivery[name] for name in expected} == expected


async def test_an_entry_without_a_title_has_an_empty_one(bell: Timebell) -> None:
    await show(bell, [entry(title=None)])
    assert [line.title for line in await lines(bell)] == [""]


@pytest.mark.req("R-5.2")
async def test_those_of_one_recipient_are_numbered_as_they_came(bell: Timebell) -> None:
    told = [entry(recipient, str(number)) for number in range(20) for recipient in (BO, ANA)]
    await show(bell, told)
    for recipient in (ANA, BO):
        assert [(line.seq, line.title) for line in await lines(bell, recipient)] == [
            (number + 1, str(number)) for number in range(20)
        ]


@pytest.mark.req("R-5.4")
async def test_a_second_run_shows_nothing_twice_and_takes_no_number(bell: Timebell, tables: Tables) -> None:
    """As after a crash between showing and noting it: the job runs again, among others that are new."""
    first, second, third = entry(), entry(), entry()
    await show(bell, [first, second])
    await show(bell, [second, third, third, first])
    assert [(line.seq, line.id) for line in await lines(bell)] == [
        (1, first.notification_id),
        (2, second.notification_id),
        (3, third.notification_id),
    ]
    assert await tables.value(f"SELECT count(*) FROM {SCHEMA}.deliveries") == 3
    assert await tables.value(f"SELECT last_seq FROM {SCHEMA}.inbox_ends") == 3


@pytest.mark.req("U-2")
async def test_a_run_whose_job_was_given_to_another_shows_nothing(bell: Timebell) -> None:
    """Its node stood still and was taken for dead; whoever has the job now shows it, unless it was withdrawn."""
    told = entry()
    await acquaint(bell, ANA)
    await begin(bell, told.notification_id)
    desk = Desk(bell)
    assert not await desk.show(replace(told, job_version=0))
    assert await lines(bell) == ()
    both = [replace(told, job_version=0), told]
    assert await asyncio.gather(*(desk.show(each) for each in both)) == [False, True]
    assert [line.id for line in await lines(bell)] == [told.notification_id]


@pytest.mark.req("R-5.4")
async def test_two_runs_at_once_show_it_once_and_leave_no_gap(bell: Timebell, tables: Tables) -> None:
    """The second waits for the first, which it could not see when it began."""
    told, later = entry(), entry()
    await acquaint(bell, ANA)
    await begin(bell, told.notification_id, later.notification_id)
    desk = Desk(bell)
    async with bell.database.transaction() as session:
        statement = f"""INSERT INTO {SCHEMA}.inbox_ends VALUES ('default', '{ANA}', 1);
            INSERT INTO {SCHEMA}.inbox (tenant, recipient_id, seq, id, type, title, description, due_at, created_at,
                updated_at) SELECT 'default', '{ANA}', 1, '{told.notification_id}', 'x', 'first', '', t, t, t
            FROM (SELECT timestamptz '2027-01-01') AS at(t)"""
        await session.execute(statement)
        showing = asyncio.create_task(desk.show(told))
        await tables.until_someone_waits()
    await showing
    await desk.show(later)
    assert [(line.seq, line.title) for line in await lines(bell)] == [(1, "first"), (2, "Reminder")]


@pytest.mark.req("R-5.4")
async def test_an_entry_that_cannot_be_stored_does_not_keep_the_others_out(bell: Timebell) -> None:
    desk = Desk(bell)
    await acquaint(bell, ANA)
    told = [entry(), entry(type="\x00"), entry()]
    await begin(bell, *(each.notification_id for each in told))
    answers = await asyncio.gather(*(desk.show(each) for each in told), return_exceptions=True)
    assert [isinstance(answer, Exception) for answer in answers] == [False, True, False]
    assert [line.seq for line in await lines(bell)] == [1, 2]


@pytest.mark.req("R-5.1")
async def test_workers_that_write_to_the_same_inboxes_do_not_get_in_each_others_way(
    bell: Timebell, tables: Tables
) -> None:
    """Eight batches at once, each over the same recipients in an order of its own, some of it shown by two."""
    people = [uuid4() for _ in range(12)]
    shared = [entry(person) for person in people]
    batches = []
    for worker in range(8):
        own = [entry(person) for person in people for _ in range(3)]
        batches.append((own + shared)[:: 1 if worker % 2 else -1])
    await asyncio.gather(*(show(bell, batch) for batch in batches))
    for person in people:
        found = await lines(bell, person)
        assert [line.seq for line in found] == list(range(1, 8 * 3 + 2))
        assert len({line.id for line in found}) == len(found)
    count = await tables.value(f"SELECT count(*) FROM {SCHEMA}.deliveries")
    assert count == len(people) * (8 * 3 + 1)


async def test_two_batches_over_the_same_inboxes_never_wait_for_each_other(bell: Timebell) -> None:
    """Straight to the statement, since the desk would ask again for each entry of a batch that failed."""
    store = InboxStore(bell.clock)
    people = [uuid4() for _ in range(200)]
    await acquaint(bell, *people)

    async def write(batch: list[UUID]) -> None:
        columns = entry_columns([entry(person) for person in batch], [uuid4() for _ in batch])
        async with bell.database.connection() as session:
            await store.show_entries(session, columns=columns)

    await asyncio.gather(*(write(people[:: 1 if number % 2 else -1]) for number in range(8)))
    assert [line.seq for line in await lines(bell, people[0])] == list(range(1, 9))


@pytest.mark.req("R-7.3")
async def test_a_reader_that_follows_misses_nothing(bell: Timebell) -> None:
    """Whoever reads on from the last number while others write sees each entry once and in order."""
    inbox = Inbox(bell)
    seen: list[int] = []

    async def follow() -> None:
        while len(seen) < 100:
            seen.extend(line.seq for line in await inbox.read_after(ANA, seen[-1] if seen else 0))

    async with asyncio.timeout(30):
        await asyncio.gather(
            follow(), *(show(bell, [entry()]) for _ in range(50)), show(bell, [entry() for _ in range(50)])
        )
    assert seen == list(range(1, 101))


@pytest.mark.req("R-7.3")
async def test_it_is_read_in_pages_either_way_and_by_status(bell: Timebell) -> None:
    inbox = Inbox(bell)
    told = [entry() for _ in range(5)]
    await show(bell, told)
    async with bell.transaction() as tx:
        await inbox.mark(tx, ANA, [told[1].notification_id, told[3].notification_id], "seen")

    async def pages(**asked: Any) -> list[list[int]]:
        found, cursor = [], None
        for _ in range(10):
            page = await inbox.list(ANA, limit=2, cursor=cursor, **asked)
            found.append([line.seq for line in page.lines])
            cursor = page.next_cursor
            if cursor is None:
                return found
        raise AssertionError("there is no end to it")

    assert await pages() == [[1, 2], [3, 4], [5]]
    assert await pages(newest_first=True) == [[5, 4], [3, 2], [1]]
    assert await pages(status="unseen") == [[1, 3], [5]]
    assert await pages(status="unseen", newest_first=True) == [[5, 3], [1]]
    assert await pages(status="seen") == [[2, 4]]
    assert await pages(status="dismissed") == [[]]
    assert [line.seq for line in await lines(bell, cursor="3")] == [4, 5]
    assert [line.seq for line in await inbox.read_after(ANA, 2, limit=2)] == [3, 4]
    assert await inbox.read_after(ANA, 5) == ()


@pytest.mark.parametrize("mode", ["force_generic_plan", "force_custom_plan"])
@pytest.mark.parametrize("status", ["NULL", "'unseen'", "'seen'", "'dismissed'"])
@pytest.mark.parametrize("name", ["list_inbox", "list_inbox_back"])
async def test_a_page_costs_the_same_however_much_there_is(
    bell: Timebell, tables: Tables, name: str, status: str, mode: str
) -> None:
    await tables.rows(
        f"""INSERT INTO {SCHEMA}.inbox (tenant, recipient_id, seq, id, type, title, description, status, due_at,
            created_at, updated_at)
        SELECT 'default', '{ANA}', seq, gen_random_uuid(), 'x', 'x', 'x',
            CASE WHEN seq % 10000 = 0 THEN 'unseen' ELSE 'seen' END, $1, $1, $1
        FROM generate_series(1, 20000) AS seq""",
        NOW,
    )
    query = queries_of("notify")[name]
    given = {
        "status": status,
        "tenant": "'default'",
        "recipient_id": f"'{ANA}'",
        "after": "5000",
        "before": "15000",
        "limit": "50",
    }
    values = ", ".join(given[parameter] for parameter in query.parameters)
    async with bell.database.transaction() as session:
        await session.execute(f"SET LOCAL plan_cache_mode = {mode}")
        await session.execute(f"PREPARE page AS {query.text}")
        explained = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE page({values})"
        (plan,) = orjson.loads(await session.connection.fetchval(explained))
        await session.execute("DEALLOCATE page")
    touched = plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"]
    assert touched < 80, plan


@pytest.mark.req("D-2.6")
async def test_what_a_recipient_did_with_an_entry_is_kept(bell: Timebell, clock: StillClock) -> None:
    inbox = Inbox(bell)
    told = [entry() for _ in range(4)]
    await show(bell, told)
    assert await inbox.count_unseen(ANA) == 4
    clock.now = NOW + HOUR
    async with bell.transaction() as tx:
        marked = await inbox.mark(tx, ANA, [told[2].notification_id, told[0].notification_id], "seen")
        await inbox.mark(tx, ANA, [told[1].notification_id], "dismissed")
    assert [(line.seq, line.status, line.updated_at) for line in marked] == [
        (1, "seen", NOW + HOUR),
        (3, "seen", NOW + HOUR),
    ]
    assert await inbox.count_unseen(ANA) == 1
    clock.now = NOW + 2 * HOUR
    async with bell.transaction() as tx:
        (again,) = await inbox.mark(tx, ANA, [told[0].notification_id], "seen")
        assert again.updated_at == NOW + HOUR, "nothing changed"
        (back,) = await inbox.mark(tx, ANA, [told[1].notification_id], "unseen")
        assert (back.status, back.updated_at) == ("unseen", NOW + 2 * HOUR)


async def test_all_that_was_shown_is_seen_and_what_came_meanwhile_is_not(bell: Timebell) -> None:
    inbox = Inbox(bell)
    told = [entry() for _ in range(4)]
    await show(bell, [*told, entry(BO)])
    async with bell.transaction() as tx:
        await inbox.mark(tx, ANA, [told[0].notification_id], "dismissed")
        assert await inbox.mark_all_seen(tx, ANA, up_to=3) == 2
    assert [line.status for line in await lines(bell)] == ["dismissed", "seen", "seen", "unseen"]
    async with bell.transaction() as tx:
        assert await inbox.mark_all_seen(tx, ANA) == 1
        assert await inbox.mark_all_seen(tx, ANA) == 0
    assert await inbox.count_unseen(ANA) == 0
    assert await inbox.count_unseen(BO) == 1


async def test_marks_of_several_clients_do_not_get_in_each_others_way(bell: Timebell) -> None:
    inbox = Inbox(bell)
    told = [entry() for _ in range(50)]
    await show(bell, told)
    ids = [each.notification_id for each in told]

    async def mark(backwards: bool) -> None:
        async with bell.transaction() as tx:
            await inbox.mark(tx, ANA, ids[::-1] if backwards else ids, "seen")

    async def mark_all() -> None:
        async with bell.transaction() as tx:
            await inbox.mark_all_seen(tx, ANA)

    await asyncio.gather(*(mark(bool(number % 2)) for number in range(6)), mark_all(), mark_all())
    assert await inbox.count_unseen(ANA) == 0


async def test_one_that_is_not_there_leaves_the_others_unmarked(bell: Timebell) -> None:
    inbox = Inbox(bell)
    own, others = entry(), entry(BO)
    await show(bell, [own, others])
    async with bell.transaction() as tx:
        with pytest.raises(NotFound, match=f"{others.notification_id} is not in the inbox"):
            await inbox.mark(tx, ANA, [own.notification_id, others.notification_id], "seen")
    assert (await inbox.count_unseen(ANA), await inbox.count_unseen(BO)) == (1, 1)


async def test_another_tenant_sees_and_changes_nothing(bell: Timebell) -> None:
    inbox = Inbox(bell)
    told = entry(tenant="a")
    await show(bell, [told, entry(tenant="b", notification_id=told.notification_id)])
    assert [line.seq for line in await lines(bell, tenant="b")] == [1]
    async with bell.transaction(tenant="b") as tx:
        await inbox.mark(tx, ANA, [told.notification_id], "dismissed")
    assert [line.status for line in await lines(bell, tenant="a")] == ["unseen"]
    assert await lines(bell, tenant="c") == ()
    assert await inbox.read_after(ANA, 0, tenant="c") == ()
    assert await inbox.count_unseen(ANA, tenant="c") == 0
    async with bell.transaction(tenant="c") as tx:
        assert await inbox.mark_all_seen(tx, ANA) == 0
        with pytest.raises(NotFound):
            await inbox.mark(tx, ANA, [told.notification_id], "seen")
    assert await inbox.count_unseen(ANA, tenant="a") == 1


@pytest.mark.parametrize("cursor", ["", "x", "-1", "1.5", "९", "1" * 20, 7])
async def test_a_cursor_is_a_number(bell: Timebell, cursor: Any) -> None:
    with pytest.raises(InvalidInput, match="cursor: cannot be read; give the next_cursor"):
        await Inbox(bell).list(ANA, cursor=cursor)


async def test_what_is_refused(bell: Timebell) -> None:
    inbox: Any = Inbox(bell)
    with pytest.raises(InvalidInput, match="recipient: 'ana' is not a UUID"):
        await inbox.list("ana")
    with pytest.raises(InvalidInput, match="limit: must be between 1 and 500"):
        await inbox.list(ANA, limit=501)
    with pytest.raises(
        InvalidInput, match="status: 'read' is no status; give one of unseen, seen, dismissed"
    ):
        await inbox.list(ANA, status="read")
    with pytest.raises(InvalidInput, match="seq: must be between 0"):
        await inbox.read_after(ANA, -1)
    with pytest.raises(NoTransaction):
        await inbox.mark_all_seen(None, ANA)
    async with bell.transaction() as tx:
        with pytest.raises(InvalidInput, match="ids: must be a list of the ids"):
            await inbox.mark(tx, ANA, ["x"], "seen")
        with pytest.raises(InvalidInput, match="ids: 501 at once, the limit is 500"):
            await inbox.mark(tx, ANA, [ANA] * 501, "seen")
        with pytest.raises(InvalidInput, match="up_to: must be between 0"):
            await inbox.mark_all_seen(tx, ANA, up_to=-1)


async def test_an_address_that_is_gone_is_marked_once_and_for_its_tenant_alone(
    bell: Timebell, clock: StillClock, tables: Tables
) -> None:
    ids = [uuid4() for _ in range(20)]
    for tenant in ("a", "b"):
        for id in ids:
            await tables.rows(
                f"INSERT INTO {SCHEMA}.addresses (tenant, id, recipient_id, kind, value, created_at) "
                "VALUES ($1, $2, $3, 'email', $4, $5)",
                tenant,
                id,
                ANA,
                f"{id}@example.org",
                NOW,
            )
    one, other = Desk(bell), Desk(bell)
    await asyncio.gather(
        *(one.mark_gone(("a", id)) for id in ids), *(other.mark_gone(("a", id)) for id in reversed(ids))
    )
    clock.now = NOW + HOUR
    await one.mark_gone(("a", ids[0]))
    counted = await tables.rows(
        f"SELECT tenant, gone_at, count(*) FROM {SCHEMA}.addresses GROUP BY tenant, gone_at ORDER BY tenant"
    )
    assert [tuple(row.values()) for row in counted] == [("a", NOW, 20), ("b", None, 20)]
