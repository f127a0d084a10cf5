"""The operations of the source, by their names."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from itertools import pairwise
from uuid import UUID

import pytest

from tests.apps.sequences.nodes import BY, furnish, open_cluster, stay_of
from tests.apps.sequences.support import DAY, HOUR, MINUTE, NOW, START, House, open_house, step
from tests.engine.notify.test_delivery_crashes import CALL, calls_through
from tests.unit.notify.test_routing import contact, truth_rows
from timebell.apps.sequences import APP
from timebell.apps.sequences.app import GAUGES
from timebell.apps.sequences.bookings import Bookings, NewBooking
from timebell.apps.sequences.enrolling import MESSAGES
from timebell.apps.sequences.guards import context_of
from timebell.apps.sequences.models import SequenceStep
from timebell.apps.sequences.operations import Operations, Processed
from timebell.errors import InvalidInput
from timebell.kernel.insights.insights import Insights
from timebell.notify import Notify, Parcel, Rejected, Sent, TemplateDraft, Text, Unavailable, notify_app
from timebell.testing import RecordingProvider
from timebell.testing.database import TestDatabase

AWAY = Unavailable(reason="away", about="parcel")


def operations(house: House) -> Operations:
    return Operations(house.bench.bell, house.notify)


async def process(house: House, **options: int) -> Processed:
    return await operations(house).process_scheduled_messages(
        house.bench.run_some, tenant="default", **options
    )


async def book(house: House, count: int, new: NewBooking | None = None) -> list[UUID]:
    bell = house.bench.bell
    async with bell.transaction() as tx:
        bookings = Bookings(bell, house.notify)
        added = await bookings.add_many(tx, [new or stay_of(house.bob)] * count, by=BY)
    return [each.subject.id for each in added]


async def standing(house: House) -> Counter[str]:
    rows = await house.rows("SELECT status FROM sequences.message_queue")
    return Counter(row["status"] for row in rows)


@pytest.mark.req("A-1.1", "A-1.3", "A-2.3")
async def test_a_booking_is_created_enrolled_and_its_message_scheduled(house: House) -> None:
    await house.save(step("week", "-P7D"))
    await house.save(step("hello", anchor="event_time"), event="booking_confirmed")
    bell, doing = house.bench.bell, operations(house)
    async with bell.transaction() as tx:
        created = await doing.create_booking(tx, stay_of(house.ada), by=BY)
        assert created.enrolled == 1
        held = await Bookings(bell, house.notify).hold(tx, created.subject.id)
        # It has entered what its status starts.
        assert await doing.enroll_booking_in_sequences(tx, held, by=BY) == 0
        message = await doing.schedule_message(tx, held, "week", house.ada, by=BY)
        assert (message.status, message.due_at, message.channel) == ("scheduled", START - 7 * DAY, "email")
        with pytest.raises(InvalidInput, match="no sequence of the booking has a step 'other'"):
            await doing.schedule_message(tx, held, "other", house.ada, by=BY)
        with pytest.raises(InvalidInput, match="must be 1 to 50"):
            await doing.get_pending_messages(tx, NOW, 51)
    await house.save(step("late", "-P1D"), name="More")
    async with bell.transaction() as tx:
        held = await Bookings(bell, house.notify).hold(tx, created.subject.id)
        assert await doing.enroll_booking_in_sequences(tx, held, by=BY) == 1


@pytest.mark.req("A-3.1", "A-8.4", "A-6.4", "A-1.3")
async def test_what_is_due_is_sent_fifty_at_a_time_and_what_waits_longest_first(house: House) -> None:
    await house.save(step("now", anchor="event_time"))
    order: list[UUID] = []
    for _ in range(4):
        order += await book(house, 30)
        house.clock.move(timedelta(seconds=1))
    async with house.bench.bell.transaction() as tx:
        pending = await operations(house).get_pending_messages(tx, house.clock.now)
    assert len(pending) == 50
    assert {one.subject for one in pending[:30]} == {f"booking:{id}" for id in order[:30]}
    runs = [await process(house)]
    sent = await house.rows("SELECT subject FROM sequences.message_queue WHERE status = 'sent'")
    first = {row["subject"] for row in sent}
    assert {f"booking:{id}" for id in order[:30]} <= first <= {f"booking:{id}" for id in order[:60]}
    runs += [await process(house) for _ in range(3)]
    assert [run.count for run in runs] == [50, 50, 20, 0]
    assert [run.sent for run in runs] == [50, 50, 20, 0]
    assert len(house.arrived) == 120
    assert len({parcel.key for parcel in house.arrived}) == 120


@pytest.mark.req("A-3.1")
async def test_a_run_leaves_what_is_not_due_and_what_others_have(house: House) -> None:
    await house.save(step("now", anchor="event_time"), step("later", "-P1D"))
    await book(house, 3)
    await house.bench.run_some("another", MESSAGES, 50)
    await house.bench.run_some("default", "notify", 50)
    assert house.arrived == []
    assert await process(house, limit=2) == Processed(sent=2)
    assert await process(house, limit=2) == Processed(sent=1)
    assert await standing(house) == {"sent": 3, "scheduled": 3}


@pytest.mark.req("A-3.4")
async def test_two_runs_at_once_never_send_the_same(sequences_database: TestDatabase) -> None:
    provider = RecordingProvider()
    apps = [notify_app([provider]), APP]
    async with open_cluster(sequences_database) as cluster:
        one = await cluster.node(apps)
        other = await cluster.node(apps)
        ada, _ = await furnish(one.bell, [SequenceStep(key="now", template="note", anchor="event_time")])
        async with one.bell.transaction() as tx:
            await Bookings(one.bell, Notify(one.bell)).add_many(tx, [stay_of(ada)] * 100, by=BY)
        for _ in range(6):
            await asyncio.gather(
                *(
                    Operations(node.bell, Notify(node.bell)).process_scheduled_messages(
                        node.engine.run_some, tenant="default"
                    )
                    for node in (one, other)
                )
            )
        assert len(provider.parcels) == 100
        assert len({parcel.key for parcel in provider.parcels}) == 100


@pytest.mark.req("A-3.2", "A-7.1")
async def test_a_message_is_scheduled_sending_and_sent_and_logged_once(
    sequences_database: TestDatabase,
) -> None:
    provider = RecordingProvider("watching")
    async with open_house(sequences_database, [provider]) as house:
        seen: list[str] = []

        async def watch(parcel: Parcel) -> Sent:
            seen.extend(await standing(house))
            return provider.take(parcel)

        provider.answer(watch)
        await house.save(step("now", anchor="event_time"))
        row = await house.book()
        assert await house.statuses(row["id"]) == {"now": "scheduled"}
        assert await process(house) == Processed(sent=1)
        assert seen == ["sending"]
        assert await house.statuses(row["id"]) == {"now": "sent"}
        logged = await house.rows(
            "SELECT d.state, d.channel FROM timebell_notify.deliveries d"
            " JOIN sequences.messages m ON m.tenant = d.tenant AND m.job_id = d.notification_id"
        )
        assert [tuple(each) for each in logged] == [("sent", "email")]


@pytest.mark.req("A-3.3", "A-7.1")
@pytest.mark.parametrize("moment", ["before", "after"])
async def test_what_a_crash_cut_off_is_sent_again_with_the_same_key(
    sequences_database: TestDatabase, moment: str
) -> None:
    provider = RecordingProvider(key_lifetime=DAY)
    apps = [notify_app([provider]), APP]
    async with open_cluster(sequences_database) as cluster:
        doomed = await cluster.node(apps)
        ada, _ = await furnish(doomed.bell, [SequenceStep(key="now", template="note", anchor="event_time")])
        calls_through(provider, doomed)
        async with doomed.bell.transaction() as tx:
            await Bookings(doomed.bell, Notify(doomed.bell)).add(tx, stay_of(ada), by=BY)
        await doomed.run_until(doomed.stage.hold(moment, CALL))  # type: ignore[arg-type]
        stands = "SELECT status FROM sequences.message_queue"
        assert await cluster.owner.value(stands) == "sending"
        await cluster.kill(doomed)
        node = await cluster.node(apps)
        for minutes in (0, 1, 5):
            cluster.clock.move(timedelta(minutes=minutes))
            await node.run_due()
        assert await cluster.owner.value(stands) == "sent"
        assert len({parcel.key for parcel in provider.parcels}) == 1
        assert provider.taken == {"ada@example.org": 1}


@pytest.mark.req("A-5.1", "A-5.2", "A-5.3", "A-5.4", "A-5.5", "A-5.6", "A-1.3")
@pytest.mark.parametrize(("preference", "asked", "reachable", "told"), truth_rows())
def test_the_channel_of_a_step(preference: str, asked: str, reachable: str, told: str) -> None:
    wanted = SequenceStep(key="one", template="note", channel=asked)  # type: ignore[arg-type]
    chosen = Operations.select_channel(wanted, contact(preference, reachable))
    assert chosen == (None if told == "none" else told)


@pytest.mark.req("A-6.1", "A-7.1", "A-8.4")
async def test_what_always_fails_is_tried_four_times_and_ever_later(house: House) -> None:
    house.provider.answer(*[AWAY] * 9)
    await house.save(step("now", anchor="event_time"))
    row = await house.book()
    assert await process(house) == Processed(retried=1)
    assert await house.statuses(row["id"]) == {"now": "scheduled"}
    assert await process(house) == Processed()
    await house.bench.advance(DAY)
    assert await house.statuses(row["id"]) == {"now": "failed"}
    made = [parcel.attempted_at for parcel in house.arrived if parcel.attempted_at is not None]
    gaps = [later - earlier for earlier, later in pairwise(made)]
    assert len(made) == 4
    assert gaps == sorted(gaps)
    assert gaps[0] < gaps[-1]


async def test_a_message_that_is_looked_at_early_waits_for_its_next_attempt(house: House) -> None:
    house.provider.answer(AWAY)
    await house.save(step("now", anchor="event_time"), step("later", "-P1D"))
    row = await house.book()
    await process(house)
    messages = await house.messages(row["id"])
    async with house.bench.bell.transaction() as tx:
        assert await operations(house).deliver_message(tx, UUID(messages["now"]["id"]))
        assert not await operations(house).deliver_message(tx, UUID(messages["later"]["id"]))
    # It was looked at, and who just failed is not asked again.
    assert await process(house) == Processed(retried=1)
    assert len(house.arrived) == 1
    await house.bench.advance(HOUR)
    assert await house.statuses(row["id"]) == {"now": "sent", "later": "scheduled"}
    async with house.bench.bell.transaction() as tx:
        assert not await operations(house).deliver_message(tx, UUID(messages["now"]["id"]))


@pytest.mark.req("A-6.2")
async def test_a_number_that_is_no_good_leads_to_mail_and_both_are_logged(house: House) -> None:
    house.provider.answer(Rejected(reason="no such number", blame="address"))
    await house.save(step("now", anchor="event_time", channel="sms"))
    row = await house.book()
    assert await process(house) == Processed(sent=1)
    assert (await house.messages(row["id"]))["now"]["channel"] == "email"
    logged = await house.rows("SELECT channel, state FROM timebell_notify.deliveries ORDER BY id")
    assert [tuple(each) for each in logged] == [("sms", "failed"), ("email", "sent")]


@pytest.mark.req("A-6.3")
async def test_a_template_without_a_text_skips_its_message_alone(house: House) -> None:
    await house.template("gone")
    await house.save(step("gone", anchor="event_time", templateId="gone"), step("now", anchor="event_time"))
    bell = house.bench.bell
    async with bell.transaction() as tx:
        texts = [Text(channel="sms", language="en", body="By SMS alone")]
        await house.notify.templates.save(tx, TemplateDraft(key="gone", texts=texts))
    row = await house.book(contactId=str(house.bob))
    assert await process(house) == Processed(sent=1, skipped=1)
    assert await house.statuses(row["id"]) == {"gone": "skipped", "now": "sent"}
    assert (await house.messages(row["id"]))["gone"]["reason"] == "template_missing"


@pytest.mark.req("A-1.3", "A-4.1")
async def test_a_template_is_resolved_with_what_is_known_now(house: House) -> None:
    bell, doing = house.bench.bell, operations(house)
    async with bell.transaction() as tx:
        created = await doing.create_booking(tx, stay_of(house.ada), by=BY)
        ada = (await house.notify.recipients.get_many(tx, [house.ada]))[house.ada]
        said = context_of(created.subject, ada)
        content = await doing.resolve_template(tx, "note", said, contact=ada, channel="email")
        assert content.text == "Guten Tag Ada, A stay by the lake"
        with pytest.raises(InvalidInput, match="booking"):
            await doing.resolve_template(tx, "note", {"contact": {"name": "Ada"}}, contact=ada, channel="sms")
        with pytest.raises(InvalidInput, match="none"):
            await doing.resolve_template(tx, "none", said, contact=ada, channel="sms")


@pytest.mark.req("A-1.1", "A-1.3")
async def test_each_channel_has_its_own_way(house: House) -> None:
    bell, doing = house.bench.bell, operations(house)
    said = {"contact": {"name": "Ada"}, "booking": {"eventName": "A stay"}}
    async with bell.transaction() as tx:
        for send in (doing.send_email, doing.send_sms, doing.send_whatsapp):
            await send(tx, house.ada, "note", said)
    await house.bench.run_due()
    # She did not opt in to WhatsApp.
    assert sorted(parcel.channel for parcel in house.arrived) == ["email", "sms", "sms"]


@pytest.mark.req("A-9.3")
async def test_the_failure_rate_is_in_percent(house: House) -> None:
    house.provider.answer(*[Rejected(reason="never")] * 3)
    await house.save(step("now", anchor="event_time"))
    await book(house, 10)
    run = await process(house)
    assert (run.sent, run.failed, run.failure_percent) == (7, 3, 30.0)
    assert Processed().failure_percent == 0


@pytest.mark.req("A-9.2", "A-9.4")
async def test_how_many_wait_and_how_late_they_were(house: House) -> None:
    await house.save(step("now", anchor="event_time"), step("later", "-P1D"))
    await book(house, 5)
    house.clock.move(2 * MINUTE)
    insights = Insights(house.bench.bell.database, house.clock)
    depths = {depth.queue: depth for depth in await insights.depth()}
    gauges = {gauge.name: gauge.of(depths) for gauge in GAUGES}
    counted = await house.value("SELECT count(*) FROM sequences.message_queue WHERE status = 'scheduled'")
    overdue = await house.value(
        "SELECT count(*) FROM sequences.message_queue WHERE status = 'scheduled' AND \"scheduledFor\" < $1",
        house.clock.sql_now(),
    )
    assert (counted, overdue) == (10, 5)
    assert gauges == {"sequence_messages_scheduled": counted, "sequence_messages_overdue": overdue}
    latency = house.bench.bell.tallies.latency
    before = latency.count
    assert (await process(house)).sent == 5
    assert latency.count - before == 5
    assert latency.total >= 5 * 120
