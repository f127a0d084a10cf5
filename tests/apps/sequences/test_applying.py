"""A version that is applied to many who are enrolled: some at a time, to each once, whatever happens meanwhile."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.apps.sequences.nodes import BY, furnish, open_cluster, stay_of, steps_of
from tests.apps.sequences.support import MINUTE, House, Json, done, open_house, step
from tests.apps.sequences.test_many import book_many
from tests.engine.support import Moment
from timebell.apps.sequences import APP
from timebell.apps.sequences.app import BACKGROUND
from timebell.apps.sequences.bookings import Bookings
from timebell.apps.sequences.models import SequenceChange
from timebell.apps.sequences.service import Sequences
from timebell.kernel import Timebell
from timebell.notify import Notify, notify_app
from timebell.testing.database import TestDatabase

FIRST = [step("day_1", "-P1D"), step("day_2", "-P2D")]
SECOND = [step("day_1", "-P1D"), step("day_3", "-P3D")]
THIRD = [step("day_4", "-P4D")]
# How many bookings have which version, and which messages are owed to how many.
VERSIONS = "SELECT version, count(*) AS count FROM sequences.enrolments GROUP BY version"
OWED = """
    SELECT m.step, count(*) AS count FROM timebell.jobs j JOIN sequences.messages m ON m.job_id = j.id
    WHERE m.status = 'scheduled' GROUP BY m.step
"""


async def counted(house: House, sql: str) -> dict[object, int]:
    return {row[0]: row[1] for row in await house.rows(sql)}


async def apply(house: House, sequence: Json, *steps: Json, **given: object) -> Json:
    changed = done(
        await house.ask(
            "PATCH",
            f"/api/sequences/{sequence['id']}",
            {"steps": list(steps), **given},
            params={"apply": "true"},
        )
    )
    application: Json = changed["application"]
    return application


async def progress(house: House, sequence: Json, application: Json) -> Json:
    return await house.data(f"/api/sequences/{sequence['id']}/applications/{application['id']}")


async def test_who_has_left_keeps_the_version_that_counted(house: House) -> None:
    """A subject that entered twice is in the sequence by its second entry alone; the first stays as it was."""
    await house.template("plain", "Hello")
    sequence = await house.save(step("soon", "P1D", anchor="event_time", templateId="plain"), event="began")
    begun = {"event": "began", "subject": "trial:1", "facts": {"contacts": [str(house.ada)]}}
    ended = {**begun, "event": "ended", "cancels": True}
    for event in (begun, ended, {**begun, "entry": 2}):
        done(await house.ask("POST", "/api/sequences/events", event))
    later = step("soon", "P2D", anchor="event_time", templateId="plain")
    assert (await apply(house, sequence, later))["enrolledCount"] == 1
    rows = await house.rows("SELECT entry, version, ended_reason FROM sequences.enrolments ORDER BY entry")
    assert [tuple(row) for row in rows] == [(1, 1, "cancelled"), (2, 2, None)]


async def test_it_is_shown_how_far_a_version_has_come(house: House) -> None:
    sequence = await house.save(*FIRST)
    await book_many(house, 120)
    begun = await apply(house, sequence, *SECOND)
    assert (begun["enrolledCount"], begun["doneCount"], begun["finishedAt"]) == (120, 50, None)
    seen = []
    for _ in range(2):
        await house.bench.run_some("default", BACKGROUND, 1)
        now = await progress(house, sequence, begun)
        seen.append((now["doneCount"], now["finishedAt"] is not None))
    assert seen == [(100, False), (120, True)]
    assert now["diff"] == {"kept": 120, "moved": 0, "added": 120, "withdrawn": 120}
    assert now["refused"] == 0
    assert await counted(house, VERSIONS) == {2: 120}
    assert await counted(house, OWED) == {"day_1": 120, "day_3": 120}


async def test_who_comes_meanwhile_has_the_new_version_and_is_left_alone(house: House) -> None:
    sequence = await house.save(*FIRST)
    await book_many(house, 60)
    begun = await apply(house, sequence, *SECOND)
    await book_many(house, 7)
    assert await counted(house, VERSIONS) == {1: 10, 2: 57}
    await house.bench.run_due()
    now = await progress(house, sequence, begun)
    assert (now["enrolledCount"], now["doneCount"]) == (60, 60)
    assert await counted(house, VERSIONS) == {2: 67}
    assert await counted(house, OWED) == {"day_1": 67, "day_3": 67}


async def test_of_two_that_are_applied_at_once_the_newer_stays(house: House) -> None:
    sequence = await house.save(*FIRST)
    await book_many(house, 120)
    second = await apply(house, sequence, *SECOND)
    third = await apply(house, sequence, *THIRD)
    assert (third["enrolledCount"], third["doneCount"]) == (120, 50)
    for _ in range(4):
        await house.bench.run_some("default", BACKGROUND, 1)
    ends = [await progress(house, sequence, each) for each in (second, third)]
    assert all(each["finishedAt"] for each in ends)
    assert ends[1]["doneCount"] == 120
    assert await counted(house, VERSIONS) == {3: 120}
    assert await counted(house, OWED) == {"day_4": 120}


async def test_who_cannot_have_the_version_keeps_theirs_and_is_counted(
    sequences_database: TestDatabase,
) -> None:
    async with open_house(sequences_database, steps_max=6) as house:
        sequence = await house.save(*FIRST)
        crowded = await house.book(contacts=[str(house.bob)])
        await book_many(house, 119)
        wide = [step(f"all_{number}", f"-P{number}D", contacts="all") for number in range(1, 4)]
        begun = await apply(house, sequence, *wide)
        await house.bench.run_due()
        now = await progress(house, sequence, begun)
        assert (now["doneCount"], now["enrolledCount"], now["refused"]) == (120, 120, 1)
        assert now["diff"]["added"] == 119 * 3
        assert await counted(house, VERSIONS) == {1: 1, 2: 119}
        assert await house.statuses(crowded["id"]) == {"day_1": "scheduled", "day_2": "scheduled"}


async def begin(bell: Timebell, count: int) -> UUID:
    """So many who are enrolled, and a new version that is applied to the first of them by now."""
    notify = Notify(bell)
    ada, sequence_id = await furnish(bell, steps_of(1, 2))
    for _ in range(0, count, 50):
        async with bell.transaction() as tx:
            await Bookings(bell, notify).add_many(tx, [stay_of(ada)] * 50, by=BY)
    async with bell.transaction() as tx:
        sequences = Sequences(bell, notify)
        held = await sequences.hold(tx, sequence_id)
        changed = await sequences.change(tx, held, SequenceChange(steps=steps_of(1, 3)), by=BY)
        application = await sequences.apply(tx, changed, by=BY)
    assert (application.done_count, application.finished_at) == (50, None)
    return application.id


@pytest.mark.parametrize(
    ("moment", "place"),
    [
        ("before", "note_application"),
        ("after", "note_application"),
        ("before", "COMMIT"),
        ("after", "COMMIT"),
    ],
)
async def test_a_crash_in_the_middle_applies_it_to_each_once(
    sequences_database: TestDatabase, moment: Moment, place: str
) -> None:
    apps = [notify_app(), APP]
    async with open_cluster(sequences_database) as cluster:
        doomed = await cluster.node(apps)
        application_id = await begin(doomed.bell, 200)
        await doomed.run_until(doomed.stage.hold(moment, place))
        await cluster.kill(doomed)
        node = await cluster.node(apps)
        for _ in range(2):
            await node.run_due()
            cluster.clock.move(MINUTE)
        (row,) = await cluster.owner.rows(
            "SELECT done_count, enrolled_count, counts::text, finished_at IS NOT NULL AS is_over"
            " FROM sequences.applications WHERE id = $1",
            application_id,
        )
        assert (row["done_count"], row["enrolled_count"], row["is_over"]) == (200, 200, True)
        assert '"added": 200' in row["counts"]
        versions = await cluster.owner.rows(VERSIONS)
        assert versions == [{"version": 2, "count": 200}]
        owed = {each["step"]: each["count"] for each in await cluster.owner.rows(OWED)}
        assert owed == {"day_1": 200, "day_3": 200}
