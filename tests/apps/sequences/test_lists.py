"""Lists of bookings and messages: whose, in which status, and page by page."""

from __future__ import annotations

from typing import Any

from tests.apps.sequences.support import DAY, START, House, step
from timebell.apps.sequences.settling import Settling


async def every_id(house: House, path: str, **params: Any) -> list[str]:
    """All pages of a list, two to a page."""
    ids: list[str] = []
    cursor: str | None = None
    for _ in range(50):
        more = {} if cursor is None else {"cursor": cursor}
        page = await house.data(path, params={"limit": 2, **params, **more})
        ids += [one["id"] for one in page["data"]]
        cursor = page["next_cursor"]
        if cursor is None:
            return ids
    raise AssertionError("the list has no end")


async def test_bookings_are_listed_by_contact_and_status_in_the_order_of_their_coming(house: House) -> None:
    bob = str(house.bob)
    ids: dict[str, list[str]] = {"ada": [], "bob": []}
    for _ in range(3):
        ids["ada"].append((await house.book())["id"])
        ids["bob"].append((await house.book(contactId=bob))["id"])
    both = (await house.book(contacts=[bob]))["id"]
    cancelled = ids["bob"][1]
    await house.move(cancelled, "cancel")
    everything = sorted([*ids["ada"], *ids["bob"], both])
    assert await every_id(house, "/api/bookings") == everything
    assert await every_id(house, "/api/bookings", contactId=bob) == [*ids["bob"], both]
    assert await every_id(house, "/api/bookings", status="cancelled") == [cancelled]
    assert await every_id(house, "/api/bookings", status="created") == [
        id for id in everything if id != cancelled
    ]
    assert await every_id(house, "/api/bookings", status="cancelled", contactId=bob) == [cancelled]
    assert await every_id(house, "/api/bookings", status="cancelled", contactId=str(house.ada)) == []


async def test_messages_are_listed_by_contact_sequence_and_status(house: House) -> None:
    one = await house.save(step("now", anchor="event_time"), step("later", "-P1D"))
    other = await house.save(step("all", "-P2D", contacts="all"), name="Other")
    for _ in range(3):
        await house.book(contacts=[str(house.bob)])
    await house.bench.run_due()
    kept = await house.rows(
        "SELECT id::text, sequence_id::text, recipient_id, step FROM sequences.messages ORDER BY id"
    )
    ids = [row["id"] for row in kept]
    assert len(ids) == 3 * 4
    of_bob = [row["id"] for row in kept if row["recipient_id"] == house.bob]
    of_one = [row["id"] for row in kept if row["sequence_id"] == one["id"]]
    path = "/api/messages"
    assert await every_id(house, path) == ids
    assert await every_id(house, path, contactId=str(house.bob)) == of_bob
    assert await every_id(house, path, sequenceId=one["id"]) == of_one
    assert await every_id(house, path, sequenceId=one["id"], contactId=str(house.bob)) == []
    assert await every_id(house, path, sequenceId=other["id"], contactId=str(house.bob)) == of_bob
    sent = [row["id"] for row in kept if row["step"] == "now"]
    assert await every_id(house, path, status="sent") == sent
    assert await every_id(house, path, status="sent", sequenceId=other["id"]) == []


async def test_the_funnel_is_the_same_before_and_after_it_is_settled(house: House) -> None:
    sequence = await house.save(step("now", anchor="event_time"), step("later", "-P1D"), step("end", "-P2D"))
    for _ in range(3):
        await house.book()
    await house.pass_until(START - 2 * DAY)
    path = f"/api/sequences/{sequence['id']}/funnel"
    before = await house.data(path)
    assert {row["stepKey"]: (row["scheduled"], row["sent"]) for row in before["steps"]} == {
        "now": (0, 3),
        "later": (3, 0),
        "end": (0, 3),
    }
    # Two at a time, and what is to come is not looked at.
    settling, bell = Settling(), house.bench.bell
    for _ in range(10):
        if await settling(bell, 2) < 2:
            break
    settled = "SELECT step, count(*) FROM sequences.messages WHERE settled_at IS NOT NULL GROUP BY step"
    assert {row[0]: row[1] for row in await house.rows(settled)} == {"now": 3, "end": 3}
    assert await house.data(path) == before
