"""When people are reminded of a meeting, through what, and when not."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.apps.meetings.support import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    START,
    Office,
    done,
    open_office,
    slot,
)
from tests.contract.providers.http_server import Request
from tests.contract.providers.other_sides import WebPushSide
from tests.engine.notify.stage import device
from tests.web.support import problem
from timebell.config import Settings
from timebell.notify import Address, Rejected, Unavailable, Uncertain
from timebell.notify.provider import Answer
from timebell.providers.building import open_providers
from timebell.providers.log import captured_providers
from timebell.testing import RecordingProvider
from timebell.testing.database import TestDatabase

OFFSETS = {"24h_before": DAY, "1h_before": HOUR, "15m_before": 15 * MINUTE}
MAIL: dict[str, Any] = {
    name: {"email": f"{name.lower()}@example.org"} for name in ("Ada", "Bob", "Cleo", "Dan")
}
NO = Unavailable(reason="out of order", error_class="transient")


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.req("M-2.4", "M-5.1")
async def test_three_reminders_for_each_participant_at_the_exact_instants(office: Office) -> None:
    row = await office.accepted()
    found = await office.reminders(row["id"])
    assert len(found) == 9
    for one in found:
        assert at(one["scheduled_at"]) == START - OFFSETS[one["reminder_type"]]
        assert (one["status"], one["attempts"], one["last_attempt_at"]) == ("pending", 0, None)
        assert one["next_attempt_at"] == one["scheduled_at"]
    assert {(one["recipient_id"], one["reminder_type"]) for one in found} == {
        (person, type) for person in row["participants"] for type in OFFSETS
    }
    await office.bench.advance(to=START)
    assert await office.told("meeting_reminder") == {"Ada": 3, "Bob": 3, "Cleo": 3}
    for person in (office.ada, office.bob, office.cleo):
        due = [line.due_at for line in await office.inbox(person) if line.type == "meeting_reminder"]
        assert due == [START - offset for offset in OFFSETS.values()]
    assert {one["status"] for one in await office.reminders(row["id"])} == {"sent"}


@pytest.mark.req("M-2.4", "M-6.3")
async def test_a_day_before_is_a_day_of_elapsed_time_over_a_change_of_clocks(office: Office) -> None:
    """On the 28th of March 2027 clocks in Berlin are put forward; nine there is eight hours after midnight."""
    start = datetime(2027, 3, 28, 7, 0, tzinfo=UTC)
    row = await office.propose(proposed_slots=[slot(start)])
    await office.accept(row["id"], at=start)
    days = [one for one in await office.reminders(row["id"]) if one["reminder_type"] == "24h_before"]
    assert {one["scheduled_at"] for one in days} == {"2027-03-27T07:00:00Z"}


@pytest.mark.req("M-2.5", "X-M11")
async def test_accepted_forty_minutes_before_only_the_last_is_owed(office: Office) -> None:
    id = (await office.propose(participants=[office.bob]))["id"]
    office.clock.move_to(START - 40 * MINUTE)
    await office.accept(id)
    assert [(one["reminder_type"], one["status"]) for one in await office.reminders(id)] == [
        ("15m_before", "pending")
    ] * 2
    await office.bench.advance(to=START - 15 * MINUTE - SECOND)
    assert await office.told("meeting_reminder") == {}
    await office.bench.advance(to=START)
    assert await office.told("meeting_reminder") == {"Ada": 1, "Bob": 1}
    skipped = await office.value(
        "SELECT data->'skipped' FROM meetings.audit_events WHERE action = 'meeting.accepted'"
    )
    assert skipped.count('"past"') == 4
    assert await office.value("SELECT count(*) FROM timebell.job_log WHERE state = 'skipped'") == 4


THREE = (0, 1, 6)
DOUBT = Uncertain(reason="no answer")


@pytest.mark.req("M-5.4", "M-5.5", "X-M1", "X-M10")
@pytest.mark.parametrize(
    ("answer", "traits", "calls", "attempts", "reason"),
    [
        (NO, {}, THREE, 3, "exhausted"),
        (Unavailable(reason="refused", error_class="unavailable"), {}, THREE, 3, "exhausted"),
        (Unavailable(reason="429", error_class="rate_limited"), {}, THREE, 3, "exhausted"),
        (
            Unavailable(reason="429", error_class="rate_limited", retry_after=90 * SECOND),
            {},
            (0, 1.5, 3, 8, 23, 38, 53, 68, 83, 98),
            0,
            "exhausted",
        ),
        (Rejected(reason="no such mailbox", blame="address"), {}, (0,), 1, "rejected"),
        (DOUBT, {}, (0,), 1, "no_answer"),
        (DOUBT, {"key_lifetime": DAY}, THREE, 3, "no_answer"),
    ],
)
async def test_whatever_the_provider_goes_on_to_answer_a_reminder_fails(
    meetings_database: TestDatabase,
    answer: Answer,
    traits: dict[str, Any],
    calls: tuple[float, ...],
    attempts: int,
    reason: str,
) -> None:
    """After one minute and after five, and no more; what nobody knows to have arrived is not called sent anywhere."""
    mail = RecordingProvider(channels=["email"], **traits)
    async with open_office(meetings_database, [mail], people={"Bob": MAIL["Bob"]}) as office:
        id = (await office.accepted(participants=[office.bob]))["id"]
        await office.bench.run_due()
        mail.parcels.clear()
        mail.answer(*[answer] * 99)
        due = START - DAY
        await office.bench.advance(to=due)
        assert {
            one["status"] for one in await office.reminders(id) if one["recipient_id"] == str(office.bob)
        } == ({"pending"} if len(calls) > 1 else {"pending", "failed"})
        await office.bench.advance(to=due + 4 * HOUR)
        assert [parcel.attempted_at for parcel in mail.parcels] == [due + minute * MINUTE for minute in calls]
        (failed,) = await office.reminders(id, "failed")
        assert (failed["recipient_id"], failed["reminder_type"]) == (str(office.bob), "24h_before")
        assert (failed["attempts"], failed["reason"]) == (attempts, reason)
        assert at(failed["last_attempt_at"]) == due + calls[-1] * MINUTE
        assert failed["next_attempt_at"] is None
        states = await office.rows(
            "SELECT d.state, d.attempt_count FROM timebell_notify.deliveries d WHERE d.channel = 'email' "
            "AND d.notification_id = $1",
            UUID(failed["id"]),
        )
        state = "uncertain" if reason == "no_answer" else "failed"
        assert [tuple(one) for one in states] == [(state, len(calls))]


@pytest.mark.req("M-5.1")
async def test_what_another_channel_took_is_sent_although_one_is_in_doubt(
    meetings_database: TestDatabase,
) -> None:
    push = RecordingProvider("pushes", channels=["push"])
    bob = {"addresses": [device("phone"), device("tablet")], "channel_preference": "push"}
    async with open_office(meetings_database, [push], people={"Bob": bob}) as office:
        id = (await office.accepted(participants=[office.bob]))["id"]
        await office.bench.run_due()
        push.answer(DOUBT)
        await office.bench.advance(to=START - DAY)
        (sent,) = [
            one for one in await office.reminders(id, "sent") if one["recipient_id"] == str(office.bob)
        ]
        assert sent["reason"] is None


@pytest.mark.req("M-5.4")
async def test_one_that_fails_once_is_sent(meetings_database: TestDatabase) -> None:
    mail = RecordingProvider(channels=["email"])
    async with open_office(meetings_database, [mail], people={"Bob": MAIL["Bob"]}) as office:
        id = (await office.accepted(participants=[office.bob]))["id"]
        await office.bench.run_due()
        mail.answer(NO)
        await office.bench.advance(to=START - DAY)
        (waiting,) = [one for one in await office.reminders(id, "pending") if one["attempts"]]
        assert at(waiting["next_attempt_at"]) == START - DAY + MINUTE
        assert at(waiting["scheduled_at"]) == START - DAY
        await office.bench.advance(MINUTE)
        (sent,) = [
            one for one in await office.reminders(id, "sent") if one["recipient_id"] == str(office.bob)
        ]
        assert (sent["attempts"], sent["channels"]) == (1, ["email", "inbox"])


@pytest.mark.req("M-5.5")
async def test_a_tenant_may_have_it_tried_more_often(meetings_database: TestDatabase) -> None:
    mail = RecordingProvider(channels=["email"])
    async with open_office(meetings_database, [mail], people={"Bob": MAIL["Bob"]}) as office:
        done(
            await office.site.ask(
                "PATCH", "/api/meeting-settings", key="admin", json={"reminder_attempts_max": 4}
            )
        )
        await office.accepted(participants=[office.bob])
        await office.bench.run_due()
        mail.parcels.clear()
        mail.answer(NO, NO, NO, NO)
        await office.bench.advance(to=START - 20 * HOUR)
        due = START - DAY
        late = (timedelta(), MINUTE, 6 * MINUTE, 21 * MINUTE)
        assert [parcel.attempted_at for parcel in mail.parcels] == [due + by for by in late]


@pytest.mark.req("M-5.6", "X-M12")
async def test_nobody_is_reminded_once_the_meeting_has_begun(office: Office) -> None:
    id = (await office.accepted(participants=[office.bob]))["id"]
    await office.bench.advance(to=START - 20 * MINUTE)
    # Nobody looks until it has begun.
    office.clock.move_to(START + SECOND)
    await office.bench.run_due()
    assert await office.told("meeting_reminder") == {"Ada": 2, "Bob": 2}
    late = await office.reminders(id, "failed")
    assert [(one["reminder_type"], one["reason"]) for one in late] == [("15m_before", "expired")] * 2


@pytest.mark.req("M-5.6")
async def test_what_could_not_be_sent_before_the_start_is_given_up(meetings_database: TestDatabase) -> None:
    mail = RecordingProvider(channels=["email"])
    async with open_office(meetings_database, [mail], people={"Bob": MAIL["Bob"]}) as office:
        id = (await office.accepted(participants=[office.bob]))["id"]
        await office.bench.advance(to=START - 20 * MINUTE)
        mail.parcels.clear()
        mail.answer(NO, NO)
        await office.bench.advance(to=START - 14 * MINUTE)
        office.clock.move_to(START + SECOND)
        await office.bench.run_due()
        assert len(mail.parcels) == 2
        last = [one for one in await office.reminders(id) if one["recipient_id"] == str(office.bob)][-1]
        assert (last["status"], last["reason"], last["attempts"]) == ("failed", "expired", 2)


@pytest.mark.req("M-5.4", "M-5.6", "M-5.9")
@pytest.mark.parametrize(
    ("end", "minutes", "status", "reason"),
    [
        ("too late to wait", 4, "failed", "exhausted"),
        ("nobody was there", 15, "failed", "expired"),
        ("cancelled", 15, "cancelled", "cancelled"),
    ],
)
async def test_what_only_the_inbox_was_told_is_not_called_sent_while_the_mail_was_owed(
    meetings_database: TestDatabase, end: str, minutes: int, status: str, reason: str
) -> None:
    """The mail was never tried: the provider asked everybody to be left alone."""
    mail = RecordingProvider(channels=["email"])
    limited = Unavailable(reason="429", error_class="rate_limited", retry_after=HOUR)
    people = {"Bob": MAIL["Bob"], "Cleo": MAIL["Cleo"]}
    async with open_office(meetings_database, [mail], people=people) as office:
        done(
            await office.site.ask(
                "PATCH", "/api/meeting-settings", key="admin", json={"reminder_offsets_min": [minutes]}
            )
        )
        id = (await office.accepted(participants=[office.bob]))["id"]
        other = (await office.propose(participants=[office.cleo], title="Other"))["id"]
        await office.bench.advance(to=START - minutes * MINUTE - SECOND)
        mail.parcels.clear()
        mail.answer(*[limited] * 99)
        done(await office.transit(office.ada, other, "cancel", {}))
        await office.bench.run_due()
        assert [parcel.address for parcel in mail.parcels] == ["cleo@example.org"]
        await office.bench.advance(SECOND)
        assert await office.told("meeting_reminder") == {"Ada": 1, "Bob": 1}
        if end == "nobody was there":
            office.clock.move_to(START + SECOND)
            await office.bench.run_due()
        elif end == "cancelled":
            done(await office.transit(office.ada, id, "cancel", {}))
        (one,) = [one for one in await office.reminders(id) if one["recipient_id"] == str(office.bob)]
        assert (one["status"], one["reason"], one["attempts"]) == (status, reason, 0)
        assert "bob@example.org" not in [parcel.address for parcel in mail.parcels]


@pytest.mark.req("M-5.7")
@pytest.mark.parametrize(
    "change", ["status = 'cancelled'", "accepted_start = accepted_start + interval '1 minute'"]
)
async def test_the_meeting_is_read_again_before_anybody_is_told(office: Office, change: str) -> None:
    id = (await office.accepted())["id"]
    await office.rows(f"UPDATE meetings.meeting_requests SET {change}")
    await office.bench.advance(to=START)
    assert await office.told("meeting_reminder") == {}
    assert {(one["status"], one["reason"]) for one in await office.reminders(id)} == {
        ("cancelled", "guard_refused")
    }


@pytest.mark.req("M-5.8", "X-M15")
async def test_in_demo_mode_only_the_inbox_is_told(meetings_database: TestDatabase) -> None:
    people = {"Bob": {**MAIL["Bob"]}}
    async with open_office(meetings_database, captured_providers(), people=people) as office:
        id = (await office.accepted(participants=[office.bob]))["id"]
        await office.bench.advance(to=START)
        assert await office.told("meeting_reminder") == {"Ada": 3, "Bob": 3}
        assert {one["status"] for one in await office.reminders(id)} == {"sent"}
        states = await office.rows(
            "SELECT DISTINCT channel, state FROM timebell_notify.deliveries WHERE state <> 'skipped' ORDER BY 1"
        )
        assert [tuple(one) for one in states] == [("email", "suppressed"), ("inbox", "sent")]
        kept = "SELECT count(*) FROM timebell_notify.outbox WHERE template = 'meetings.reminder'"
        assert await office.value(kept) == 3


class Browsers(WebPushSide):
    """A push service that reads what it is given, at whatever time that is."""

    def examine(self, request: Request) -> tuple[str, str]:
        self.messages.append(json.loads(self.browser.decrypt(request.body)))
        return request.path, ""


@pytest.mark.req("M-5.8", "X-M15")
@pytest.mark.parametrize("is_demo", [True, False])
async def test_a_reminder_is_pushed_and_in_demo_mode_nothing_leaves(
    meetings_database: TestDatabase, is_demo: bool
) -> None:
    """Through the provider of Web Push itself, which encrypts it for the browser."""
    side = Browsers()
    await side.open()
    try:
        detail = {"keys": side.browser.keys()}
        devices = [
            Address(kind="push", value=f"{side.server.url}/push/{name}", detail=detail)
            for name in ("phone", "tablet")
        ]
        bob = {"addresses": devices, "channel_preference": "push"}
        async with (
            open_providers(Settings(demo=is_demo), [side.provider]) as providers,
            open_office(meetings_database, providers, people={"Bob": bob}) as office,
        ):
            id = (await office.accepted(participants=[office.bob]))["id"]
            await office.bench.run_due()
            side.messages.clear()
            await office.bench.advance(to=START - DAY)
            assert [message["title"] for message in side.messages] == ([] if is_demo else ["Review"] * 2)
            assert await office.told("meeting_reminder") == {"Ada": 1, "Bob": 1}
            (sent,) = [
                one for one in await office.reminders(id, "sent") if one["recipient_id"] == str(office.bob)
            ]
            assert sent["channels"] == ["inbox", "push"]
            states = await office.rows(
                "SELECT channel, state, reason FROM timebell_notify.deliveries WHERE notification_id = $1 "
                "AND channel = 'push'",
                UUID(sent["id"]),
            )
            outcome = ("push", "suppressed", "demo") if is_demo else ("push", "sent", "accepted")
            assert [tuple(one) for one in states] == [outcome] * 2
    finally:
        await side.close()


@pytest.mark.req("M-5.8", "X-M15")
async def test_a_person_is_told_as_it_prefers_and_in_the_inbox(meetings_database: TestDatabase) -> None:
    recorder = RecordingProvider()
    phone = {"phone": "+4915112345678", "channel_preference": "sms"}
    async with open_office(
        meetings_database, [recorder], people={"Ada": MAIL["Ada"], "Bob": {**MAIL["Bob"], **phone}}
    ) as office:
        await office.accepted()
        await office.bench.run_due()
        recorder.parcels.clear()
        await office.bench.advance(to=START - DAY)
        assert {(parcel.channel, parcel.address) for parcel in recorder.parcels} == {
            ("email", "ada@example.org"),
            ("sms", "+4915112345678"),
        }
        assert await office.told("meeting_reminder") == {"Ada": 1, "Bob": 1, "Cleo": 1}


@pytest.mark.req("M-5.9")
async def test_what_was_told_or_has_failed_stays_so_when_the_rest_is_withdrawn(
    meetings_database: TestDatabase,
) -> None:
    mail = RecordingProvider(channels=["email"])
    async with open_office(meetings_database, [mail], people={"Bob": MAIL["Bob"]}) as office:
        id = (await office.accepted(participants=[office.bob]))["id"]
        await office.bench.run_due()
        mail.answer(NO, NO, NO)
        await office.bench.advance(to=START - 2 * HOUR)
        done(await office.transit(office.ada, id, "cancel", {}))
        found = sorted((one["reminder_type"], one["status"]) for one in await office.reminders(id))
        assert found == [
            ("15m_before", "cancelled"),
            ("15m_before", "cancelled"),
            ("1h_before", "cancelled"),
            ("1h_before", "cancelled"),
            ("24h_before", "failed"),
            ("24h_before", "sent"),
        ]
        assert {at(one["updated_at"]) for one in await office.reminders(id, "cancelled")} == {
            START - 2 * HOUR
        }
        problem(await office.transit(office.ada, id, "cancel", {}), 409, "meeting_status")
        assert sorted((one["reminder_type"], one["status"]) for one in await office.reminders(id)) == found


async def test_a_tenant_decides_when_and_what_is_on_follows(office: Office) -> None:
    ids = []
    for days in range(25):
        start = START + days * DAY
        ids.append((await office.propose(participants=[office.bob], proposed_slots=[slot(start)]))["id"])
        await office.accept(ids[-1], at=start)
    settings = await office.site.get("/api/meeting-settings")
    assert done(settings) == {"reminder_offsets_min": [1440, 60, 15], "reminder_attempts_max": 3}
    changed = {"reminder_offsets_min": [2880, 15, 15]}
    problem(await office.site.ask("PATCH", "/api/meeting-settings", json=changed), 403, "scope_missing")
    row = done(await office.site.ask("PATCH", "/api/meeting-settings", key="admin", json=changed))
    assert row == {"reminder_offsets_min": [2880, 15], "reminder_attempts_max": 3}
    await office.bench.run_due()
    for id in ids:
        found = {one["reminder_type"] for one in await office.reminders(id, "pending")}
        assert found == {"48h_before", "15m_before"}
    for wrong in ([0], [1] * 6, [50_000], "x"):
        refused = await office.site.ask(
            "PATCH", "/api/meeting-settings", key="admin", json={"reminder_offsets_min": wrong}
        )
        problem(refused, 422, "invalid_input")


async def test_nobody_is_reminded_where_the_tenant_wants_none(office: Office) -> None:
    done(
        await office.site.ask(
            "PATCH", "/api/meeting-settings", key="admin", json={"reminder_offsets_min": []}
        )
    )
    id = (await office.accepted())["id"]
    assert await office.reminders(id) == []
    await office.bench.advance(to=START + HOUR)
    assert (await office.get(id))["status"] == "completed"


@pytest.mark.req("M-6.3")
async def test_each_reads_it_on_their_own_clock_and_in_their_own_language(
    meetings_database: TestDatabase,
) -> None:
    mail = RecordingProvider(channels=["email"])
    people = {
        "Ada": {**MAIL["Ada"], "timezone": "Asia/Kolkata"},
        "Bob": {**MAIL["Bob"], "timezone": "Europe/Berlin", "language": "de"},
    }
    async with open_office(meetings_database, [mail], people=people) as office:
        row = await office.propose(participants=[office.bob], location="Raum 4")
        await office.accept(row["id"])
        await office.bench.advance(to=START - DAY)
        told = {(p.address, p.content.subject): p.content.text for p in mail.parcels}
        assert "In 24 hours: Mar 5, 2027, 2:30" in told["ada@example.org", "Review"]
        assert "(Asia/Kolkata)\nWhere: Raum 4" in told["ada@example.org", "Review"]
        german = told["bob@example.org", "Review"]
        assert german.startswith("Guten Tag Bob,")
        assert "In 24 Stunden: 05.03.2027, 10:00 – 11:00 (Europe/Berlin)\nWo: Raum 4" in german
        assert ("bob@example.org", "Terminvorschlag: Review") in told
        assert ("ada@example.org", "Meeting accepted: Review") in told
        stored = await office.value("SELECT accepted_start FROM meetings.meeting_requests")
        assert stored == START


async def test_what_happens_is_told_in_words(meetings_database: TestDatabase) -> None:
    people = {"Bob": {"language": "de"}}
    async with open_office(meetings_database, people=people) as office:
        row = await office.propose(proposed_slots=[slot(), slot(START + DAY)])
        await office.bench.run_due()
        child = await office.reschedule(row["id"], START + DAY, person=office.cleo, reason="Strike")
        await office.bench.run_due()
        await office.accept(child["id"], office.ada, START + DAY)
        await office.bench.run_due()
        path = f"/api/meetings/{child['id']}/participants"
        done(await office.ask(office.cleo, "POST", path, {"participant_id": str(office.dan)}))
        await office.bench.run_due()
        done(await office.ask(office.cleo, "DELETE", f"{path}/{office.dan}"))
        done(await office.transit(office.cleo, child["id"], "cancel", {"reason": "Enough"}))
        await office.bench.run_due()
        english = [(line.title, line.description) for line in await office.inbox(office.ada)]
        german = [(line.title, line.description) for line in await office.inbox(office.bob)]
        assert [title for title, _ in english] == [
            "Meeting to be moved: Review",
            "Meeting accepted: Review",
            "Meeting cancelled: Review",
        ]
        assert [title for title, _ in german] == [
            "Terminvorschlag: Review",
            "Termin wird verlegt: Review",
            "Termin angenommen: Review",
            "Termin abgesagt: Review",
        ]
        assert german[0][1] == "Ada schlägt 05.03.2027, 09:00 (UTC) und andere Zeiten vor."
        assert german[3][1] == "06.03.2027, 09:00 – 10:00 (UTC): er findet nicht statt. Enough"
        dan = [(line.title, line.type) for line in await office.inbox(office.dan)]
        assert dan == [
            ("You take part in a meeting: Review", "meeting_added"),
            ("You no longer take part: Review", "meeting_removed"),
        ]
