"""What was considered about a notification is told in words, each reason with its own."""

from __future__ import annotations

import ast
import inspect
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, get_args
from uuid import UUID

import pytest

from timebell.notify.delivery import delivering, sending
from timebell.notify.models import Check, Delivery, Notification, Route
from timebell.notify.reasons import REASONS, NotificationState
from timebell.notify.reports import reporting
from timebell.notify.rules import deciding, routing
from timebell.notify.rules.sentences import instant, sentence, sentences, summary

DUE = datetime(2027, 3, 1, 20, 30, tzinfo=UTC)
ENDS = "2027-03-02T06:00:00+00:00"
ID = UUID(int=7)
NOTE = Notification(
    id=ID,
    tenant="default",
    recipient_id=ID,
    template="hello",
    template_version=1,
    topic="news",
    message_class="transactional",
    urgency="normal",
    route=Route(),
    context={},
    due_at=DUE,
    state="pending",
)


def check(name: str, verdict: Any, reason: str | None = None, **detail: Any) -> Check:
    return Check(name=name, verdict=verdict, reason=reason, detail=detail)


@pytest.mark.parametrize(
    ("considered", "told"),
    [
        (
            check("guard", "passed", guard="still_booked"),
            "The guard 'still_booked' said that it is still wanted.",
        ),
        (
            check("guard", "refused", "guard_refused", guard="still_booked"),
            "The guard 'still_booked' said that it is no longer wanted.",
        ),
        (
            check("guard", "refused", "guard_refused", guard="still_booked", why="she cancelled."),
            "The guard 'still_booked' said that it is no longer wanted: she cancelled.",
        ),
        (check("recipient", "refused", "no_recipient"), "There is no such recipient, or it was erased."),
        (
            check("expiry", "refused", "expired", expires_at=ENDS),
            "It expired at 2027-03-02 07:00 Europe/Berlin.",
        ),
        (check("due", "held", "held_due", until=ENDS), "It is to be told at 2027-03-02 07:00 Europe/Berlin."),
        (
            check("digest", "held", "held_digest", closes_at=ENDS),
            "It joined a digest, which closes at 2027-03-02 07:00 Europe/Berlin.",
        ),
        (
            check("address", "refused", "no_address", channel="sms"),
            "Not by SMS: the recipient has no address for the channel.",
        ),
        (
            check("consent", "refused", "opted_out", channel="email", opt_out_topic="news"),
            "Not by email: the recipient opted out of 'news' on every channel.",
        ),
        (
            check("consent", "refused", "opted_out", channel="sms", opt_out_channel="sms"),
            "Not by SMS: the recipient opted out of everything by SMS.",
        ),
        (
            check("suppression", "refused", "suppressed", channel="email"),
            "Not by email: the address is on the suppression list.",
        ),
        (
            check("suppression", "refused", "suppressed", channel="email", **{"class": "marketing"}),
            "Not by email: the address is on the suppression list for what is marketing.",
        ),
        (
            check("route", "refused", "rejected", channel="email"),
            "Not by email: the provider refused it for good.",
        ),
        (
            check("quiet_hours", "held", "held_quiet_hours", channel="sms", until=ENDS),
            "Quiet hours last until 2027-03-02 07:00 Europe/Berlin; it waits for their end.",
        ),
        (
            check("quiet_hours", "passed", channel="sms", passes_as="critical", ends_at=ENDS),
            "Quiet hours last until 2027-03-02 07:00 Europe/Berlin; it passes them because it is critical.",
        ),
        (
            check("quiet_hours", "refused", "quiet_hours", channel="push", on_quiet="drop", ends_at=ENDS),
            "Not by push: quiet hours last until 2027-03-02 07:00 Europe/Berlin, when it would be too late; "
            "it is dropped.",
        ),
        (check("channel", "chosen", channel="inbox"), "It is told in the inbox."),
        (
            check("cap", "held", "held_capped", until=ENDS),
            "The recipient has had as many as the cap allows; there is room again at "
            "2027-03-02 07:00 Europe/Berlin.",
        ),
        (
            check("provider", "held", "held_breaker", until=ENDS),
            "The provider keeps failing or asked for a rest; it is tried again at 2027-03-02 07:00 Europe/Berlin.",
        ),
        (
            check("provider", "held", "held_rate", until=ENDS),
            "The provider's rate limit has room for it at about 2027-03-02 07:00 Europe/Berlin.",
        ),
        (
            check("provider", "held", "held_retry", until=ENDS),
            "The next attempt is made at 2027-03-02 07:00 Europe/Berlin.",
        ),
        (check("provider", "passed", "accepted", provider="resend", answer="sent"), "resend took it."),
        (
            check("provider", "passed", "demo", provider="log", answer="sent"),
            "log kept it, as demo mode has it; the outbox shows it.",
        ),
        (
            check("provider", "refused", "rejected", provider="smtp", answer="rejected", said="550 no"),
            "smtp refused it for good: 550 no.",
        ),
        (
            check("provider", "refused", "no_answer", provider="smtp", answer="uncertain", said="no_answer"),
            "smtp was called and did not answer, so it may or may not have been told.",
        ),
        (
            check("provider", "refused", "exhausted"),
            "It would expire before a provider can be tried again.",
        ),
        (
            check("uncertain", "passed", "crashed", provider="smtp", remedy="wait"),
            "Nobody knows whether smtp took the last attempt; its report is waited for.",
        ),
        (
            check("template", "refused", "template_incomplete", channel="email", names=["room", "host"]),
            "Not by email as it is: no value was given for room, host.",
        ),
        (
            check("report", "refused", provider="resend", kind="bounced", is_news=True),
            "resend reported that the address refused it.",
        ),
        (
            check("report", "passed", provider="resend", kind="sent"),
            "resend reported that it was sent on, which was no news.",
        ),
    ],
)
def test_a_check_in_words(considered: Check, told: str) -> None:
    assert sentence(considered, "Europe/Berlin") == told


def test_what_nobody_has_words_for_is_told_all_the_same() -> None:
    assert sentence(check("weather", "refused", "rain", channel="email")) == "Not by email: rain."
    assert sentence(check("weather", "held")) == "Held."


def test_each_thing_is_said_once() -> None:
    address = check("address", "refused", "no_address", channel="sms")
    rounds = [address, check("channel", "chosen", channel="email"), address]
    assert [text for text, _ in sentences(rounds)] == [
        "Not by SMS: the recipient has no address for the channel.",
        "It is told by email.",
    ]


@pytest.mark.parametrize("state", ["sent", "uncertain", "suppressed"])
def test_what_was_told_in_part_is_not_said_to_be_taken_back_before(state: NotificationState) -> None:
    told = summary(replace(NOTE, state=state, reason="withdrawn", settled_at=DUE))
    assert told.endswith(": what was still to be told was taken back.")


@pytest.mark.parametrize("state", get_args(NotificationState))
def test_every_state_has_a_summary(state: NotificationState) -> None:
    for reason in (None, "expired", "held_retry"):
        for held_until, settled_at in ((DUE, None), (DUE, DUE), (None, DUE), (None, None)):
            if state == "held" and held_until is None:
                continue
            note = replace(NOTE, state=state, reason=reason, held_until=held_until, settled_at=settled_at)
            told = summary(note, timezone="Europe/Berlin")
            assert (told[:3], told[-1]) == ("It ", ".")
            assert "None" not in told


def test_a_summary_names_the_channels_that_count() -> None:
    mail = Delivery(
        id=ID,
        tenant="default",
        notification_id=ID,
        recipient_id=ID,
        channel="email",
        provider="resend",
        address="ana@example.org",
        state="delivered",
    )
    sms = replace(mail, channel="sms", state="failed")
    note = replace(NOTE, state="delivered", settled_at=DUE)
    assert summary(note, [sms, mail]) == "It was delivered by email."
    assert "ana@example.org" not in summary(note, [sms, mail])


def test_what_lacks_a_value_waits_for_somebody() -> None:
    note = replace(NOTE, state="skipped", reason="template_incomplete", held_until=DUE)
    assert summary(note).startswith("It is held until 2027-03-01 20:30 UTC for somebody to mend it: ")
    assert summary(replace(note, settled_at=DUE)).startswith("It was not told: ")


def test_instants_are_told_by_the_recipients_clock() -> None:
    assert instant(DUE, "America/New_York") == "2027-03-01 15:30 America/New_York"
    assert instant(DUE + timedelta(seconds=5)) == "2027-03-01 20:30:05 UTC"


@pytest.mark.parametrize("module", [deciding, delivering, routing, sending])
def test_every_reason_that_is_written_in_the_code_is_explained(module: Any) -> None:
    """A reason is a word in the call that makes a check, a hold, a skip, or rules something out."""
    makers = {"Check", "Hold", "Skip", "RuledOut", "Standing", "_skipped", "_held", "_refused"}
    words = set()
    for call in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(call, ast.Call) and ast.unparse(call.func) in makers:
            given = [keyword.value for keyword in call.keywords if keyword.arg == "reason"]
            words |= {each.value for each in given if isinstance(each, ast.Constant) and each.value}
    # The account that is at fault is a word between two functions, and becomes `rejected`.
    assert words - {"account"} <= REASONS.keys()


def test_reports_are_told_for_every_kind() -> None:
    for kind in reporting._KINDS:
        told = sentence(check("report", "passed", provider="resend", kind=kind, is_news=True))
        assert told.startswith("resend reported that "), kind
