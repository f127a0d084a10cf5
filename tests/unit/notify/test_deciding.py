"""Whether, when and on which channel to tell, and that everything considered is written down."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.notify.people import (
    BERLIN,
    EMAIL,
    NIGHT,
    NOON,
    PHONE,
    PUSH,
    berlin,
    intended,
    known,
    somebody,
)
from timebell.notify.models import Check, OnQuiet, OptOut, Policy, QuietHours, Route, Urgency
from timebell.notify.provider import CHANNELS, Channel
from timebell.notify.reasons import REASONS
from timebell.notify.rules.consent import Suppressed
from timebell.notify.rules.deciding import Facts, Hold, Send, Skip, Verdict, decide, decide_whole, plan, wait
from timebell.notify.rules.routing import FIRST

SLEEPER = somebody(quiet_hours=NIGHT, addresses=(EMAIL, PHONE, PUSH))
SECOND = timedelta(seconds=1)


def of_first(facts: Facts) -> Verdict:
    return decide(facts).legs[FIRST]


def channel_of(verdict: Verdict) -> Channel | None:
    return verdict.candidate.channel if isinstance(verdict, Send) else None


def last_check(verdict: Hold | Skip | Send | None) -> Check:
    assert verdict is not None
    return verdict.checks[-1]


def test_what_nothing_speaks_against_is_told_now() -> None:
    verdict = of_first(known())
    assert isinstance(verdict, Send)
    assert verdict.candidate.address == EMAIL
    assert verdict.checks == (
        Check(name="channel", verdict="chosen", detail={"channel": "email", "address_id": str(EMAIL.id)}),
    )


@pytest.mark.parametrize("recipient", [None, somebody(erased_at=NOON)])
def test_nobody_to_tell(recipient: Any) -> None:
    decision = decide(known(recipient=recipient))
    assert isinstance(decision.whole, Skip)
    assert (decision.whole.reason, decision.legs) == ("no_recipient", {})


@pytest.mark.parametrize(("left", "is_told"), [(SECOND, True), (timedelta(0), False), (-SECOND, False)])
def test_at_the_instant_it_expires_it_is_too_late(left: timedelta, is_told: bool) -> None:
    whole = decide_whole(known(intent=intended(expires_at=NOON + left)))
    if is_told:
        assert whole is None
    else:
        assert isinstance(whole, Skip)
        assert (whole.reason, last_check(whole).name) == ("expired", "expiry")


def test_nothing_is_told_before_it_is_due() -> None:
    whole = decide_whole(known(due_at=NOON + SECOND))
    assert isinstance(whole, Hold)
    assert (whole.until, whole.reason) == (NOON + SECOND, "held_due")
    assert decide_whole(known(due_at=NOON)) is None


@pytest.mark.req("U-12")
@pytest.mark.parametrize(
    ("now", "until"),
    [
        (berlin(14, 21, 59), None),
        (berlin(14, 22), berlin(15, 7)),
        (berlin(15, 6, 59), berlin(15, 7)),
        (berlin(15, 7), None),
        (datetime(2026, 3, 28, 21, 59, tzinfo=BERLIN), None),
        (datetime(2026, 3, 28, 22, tzinfo=BERLIN), datetime(2026, 3, 29, 5, tzinfo=UTC)),
        (datetime(2026, 3, 29, 6, 59, tzinfo=BERLIN), datetime(2026, 3, 29, 5, tzinfo=UTC)),
        (datetime(2026, 3, 29, 7, tzinfo=BERLIN), None),
        (datetime(2026, 10, 24, 21, 59, tzinfo=BERLIN), None),
        (datetime(2026, 10, 24, 22, tzinfo=BERLIN), datetime(2026, 10, 25, 6, tzinfo=UTC)),
        (datetime(2026, 10, 25, 6, 59, tzinfo=BERLIN), datetime(2026, 10, 25, 6, tzinfo=UTC)),
        (datetime(2026, 10, 25, 7, tzinfo=BERLIN), None),
    ],
)
def test_quiet_hours_hold_to_their_exact_end(now: datetime, until: datetime | None) -> None:
    verdict = of_first(known(now=now, recipient=SLEEPER))
    if until is None:
        assert channel_of(verdict) == "email"
    else:
        assert isinstance(verdict, Hold)
        assert (verdict.until, verdict.reason) == (until, "held_quiet_hours")
        assert channel_of(of_first(known(now=until, recipient=SLEEPER))) == "email"


@pytest.mark.req("U-12", "X-C15")
@pytest.mark.parametrize(
    ("urgency", "time_bound", "is_told"),
    [
        ("normal", "pass", False),
        ("time_bound", "pass", True),
        ("time_bound", "hold", False),
        ("critical", "pass", True),
        ("critical", "hold", True),
    ],
)
def test_who_passes_quiet_hours(urgency: Urgency, time_bound: Any, is_told: bool) -> None:
    recipient = somebody(quiet_hours=replace(NIGHT, time_bound=time_bound))
    verdict = of_first(known(now=berlin(14, 23), intent=intended(urgency=urgency), recipient=recipient))
    assert isinstance(verdict, Send) is is_told
    if is_told:
        passed = verdict.checks[0]
        assert (passed.name, passed.verdict, passed.detail["passes_as"]) == ("quiet_hours", "passed", urgency)


@pytest.mark.req("X-J61")
def test_a_digest_comes_when_it_was_wanted() -> None:
    facts = known(now=berlin(14, 5), recipient=SLEEPER)
    assert isinstance(of_first(facts), Hold)
    assert channel_of(of_first(replace(facts, is_digest=True))) == "email"


@pytest.mark.parametrize("channel", CHANNELS)
def test_only_channels_that_disturb_are_quiet(channel: Channel) -> None:
    everyone = somebody(
        quiet_hours=NIGHT,
        whatsapp_opt_in=True,
        addresses=(EMAIL, PHONE, PUSH, replace(PUSH, kind="webhook")),
    )
    facts = known(now=berlin(14, 23), intent=intended(route=Route(first=(channel,))), recipient=everyone)
    assert isinstance(of_first(facts), Send) is (channel in {"inbox", "webhook"})


def late_reminder(on_quiet: OnQuiet | None, **changes: Any) -> Facts:
    """Fifteen minutes before a meeting at 08:00 to which the recipient sleeps until then."""
    sleeper = somebody(quiet_hours=QuietHours(start=time(22), end=time(8)), addresses=(EMAIL, PHONE, PUSH))
    intent = intended(expires_at=berlin(15, 8), on_quiet=on_quiet)
    return replace(known(now=berlin(15, 7, 45), intent=intent, recipient=sleeper), **changes)


@pytest.mark.parametrize(
    ("on_quiet", "told", "skipped"),
    [
        (None, "inbox", None),
        ("inbox_only", "inbox", None),
        ("early", "inbox", None),
        ("drop", None, "quiet_hours"),
        ("other_channel", None, "quiet_hours"),
    ],
)
def test_what_would_be_too_late_after_quiet_hours(
    on_quiet: OnQuiet | None, told: Channel | None, skipped: str | None
) -> None:
    verdict = of_first(late_reminder(on_quiet))
    assert channel_of(verdict) == told
    if skipped is not None:
        assert isinstance(verdict, Skip)
        assert (verdict.state, verdict.reason) == ("skipped", skipped)
    refused = next(check for check in verdict.checks if check.name == "quiet_hours")
    assert refused.verdict == "refused"
    assert refused.detail["on_quiet"] == (on_quiet or "inbox_only")


@pytest.mark.parametrize(("spare", "is_held"), [(timedelta(0), False), (SECOND, True)])
def test_it_waits_only_if_it_still_has_a_use_afterwards(spare: timedelta, is_held: bool) -> None:
    facts = late_reminder("drop")
    facts = replace(facts, intent=replace(facts.intent, expires_at=berlin(15, 8) + spare))
    assert isinstance(of_first(facts), Hold) is is_held


def test_another_channel_is_one_that_may_disturb() -> None:
    facts = late_reminder("other_channel")
    assert facts.recipient is not None
    only_mail = replace(
        facts.recipient,
        quiet_hours=QuietHours(start=time(22), end=time(8), channels=frozenset({"email", "sms"})),
    )
    intent = replace(facts.intent, route=Route(first=("email", "sms", "push")))
    verdict = of_first(replace(facts, recipient=only_mail, intent=intent))
    assert channel_of(verdict) == "push"
    assert [check.detail["channel"] for check in verdict.checks] == ["email", "sms", "push"]


def test_what_is_dropped_goes_nowhere_else() -> None:
    facts = late_reminder("drop")
    intent = replace(facts.intent, route=Route(first=("email", "inbox")))
    verdict = of_first(replace(facts, intent=intent))
    assert isinstance(verdict, Skip)
    assert len(verdict.checks) == 1


def test_the_inbox_is_used_once_for_all_legs_that_quiet_hours_catch() -> None:
    facts = late_reminder("inbox_only")
    twice = replace(facts.intent, route=Route(first=("email",), also=("push",)))
    legs = decide(replace(facts, intent=twice)).legs
    assert channel_of(legs[FIRST]) == "inbox"
    assert isinstance(legs["push"], Skip)
    assert legs["push"].reason == "quiet_hours"
    besides = replace(facts.intent, route=Route(first=("email",), also=("inbox",)))
    legs = decide(replace(facts, intent=besides)).legs
    assert isinstance(legs[FIRST], Skip)
    assert channel_of(legs["inbox"]) == "inbox"
    assert isinstance(of_first(replace(facts, is_in_inbox=True)), Skip)


def test_an_inbox_that_was_stopped_is_not_used_instead() -> None:
    facts = late_reminder("inbox_only")
    assert facts.recipient is not None
    stopped = replace(facts.recipient, opt_outs=(OptOut(channel="inbox"),))
    verdict = of_first(replace(facts, recipient=stopped))
    assert isinstance(verdict, Skip)
    assert verdict.reason == "quiet_hours"


def test_each_leg_is_decided_for_itself() -> None:
    intent = intended(route=Route(first=("email",), also=("inbox", "webhook")))
    legs = decide(known(now=berlin(14, 23), intent=intent, recipient=SLEEPER)).legs
    assert isinstance(legs[FIRST], Hold)
    assert channel_of(legs["inbox"]) == "inbox"
    assert isinstance(legs["webhook"], Skip)


def early_reminder(now: datetime, **changes: Any) -> Facts:
    """Due at 06:45 for 07:00, while the recipient sleeps from 22:00 to 07:00 and lets nothing pass."""
    sleeper = somebody(quiet_hours=replace(NIGHT, time_bound="hold"), **changes.pop("recipient", {}))
    intent = intended(urgency="time_bound", expires_at=berlin(15, 7), **changes)
    return known(now=now, intent=intent, due_at=berlin(15, 6, 45), recipient=sleeper)


@pytest.mark.parametrize(
    ("now", "planned_at"),
    [
        (berlin(14, 12), berlin(14, 21, 59)),
        (berlin(14, 21, 59) + 30 * SECOND, berlin(14, 21, 59) + 30 * SECOND),
        (berlin(14, 22), berlin(15, 6, 45)),
        (berlin(15, 1), berlin(15, 6, 45)),
    ],
    ids=["the day before", "in the last minute", "as they begin", "at night"],
)
def test_what_cannot_wait_is_told_before_quiet_hours(now: datetime, planned_at: datetime) -> None:
    assert plan(early_reminder(now)) == planned_at


@pytest.mark.parametrize(
    "facts",
    [
        early_reminder(NOON, on_quiet="drop"),
        early_reminder(NOON, route=Route(first=("inbox",))),
        early_reminder(NOON, recipient={"opt_outs": (OptOut(channel="email"),)}),
        replace(early_reminder(NOON), due_at=berlin(15, 7)),
        replace(early_reminder(NOON), intent=intended(urgency="time_bound", expires_at=berlin(15, 7, 1))),
        replace(early_reminder(NOON), recipient=somebody(quiet_hours=NIGHT)),
        replace(early_reminder(NOON), recipient=somebody()),
        replace(early_reminder(NOON), recipient=None),
        replace(early_reminder(NOON), policy=Policy(on_quiet={})),
    ],
    ids=[
        "not asked to",
        "a quiet channel",
        "no channel",
        "due afterwards",
        "of use afterwards",
        "lets it pass",
        "no quiet hours",
        "nobody",
        "by policy",
    ],
)
def test_nothing_else_is_told_early(facts: Facts) -> None:
    assert plan(facts) == facts.due_at


def test_a_reminder_told_early_is_told_once_it_is_time_for_that_and_not_before() -> None:
    whole = decide_whole(early_reminder(berlin(14, 21, 58)))
    assert isinstance(whole, Hold)
    assert (whole.until, whole.reason) == (berlin(14, 21, 59), "held_due")
    assert channel_of(of_first(early_reminder(berlin(14, 21, 59)))) == "email"
    # Too late for that: it stays due when it is, and reaches the inbox then.
    whole = decide_whole(early_reminder(berlin(14, 22, 5)))
    assert isinstance(whole, Hold)
    assert whole.until == berlin(15, 6, 45)
    assert channel_of(of_first(early_reminder(berlin(15, 6, 45)))) == "inbox"


@pytest.mark.req("X-C12")
def test_consent_leads_to_the_next_channel_and_is_named_if_there_is_none() -> None:
    stopped = somebody(opt_outs=(OptOut(channel="sms"),))
    intent = intended(route=Route(first=("sms",)), urgency="critical")
    verdict = of_first(known(intent=intent, recipient=stopped))
    assert channel_of(verdict) == "email"
    assert verdict.checks[0] == Check(
        name="consent",
        verdict="refused",
        reason="opted_out",
        detail={
            "channel": "sms",
            "address_id": str(PHONE.id),
            "opt_out_topic": None,
            "opt_out_channel": "sms",
        },
    )
    alone = of_first(known(intent=intent, recipient=replace(stopped, addresses=(PHONE,))))
    assert isinstance(alone, Skip)
    assert (alone.state, alone.reason) == ("skipped", "opted_out")


def test_a_suppressed_address_leads_to_the_next_one() -> None:
    other = replace(EMAIL, value="ada@example.net")
    listed = (Suppressed(channel="email", address=EMAIL.value),)
    facts = known(recipient=somebody(addresses=(EMAIL, other)), suppressed=listed)
    verdict = of_first(facts)
    assert isinstance(verdict, Send)
    assert verdict.candidate.address == other
    alone = of_first(known(recipient=somebody(addresses=(EMAIL,)), suppressed=listed))
    assert isinstance(alone, Skip)
    assert alone.reason == "suppressed"


@pytest.mark.req("A-6.2")
def test_what_was_tried_leads_to_the_next_and_the_leg_failed_if_it_was_the_last() -> None:
    facts = known(intent=intended(route=Route(first=("sms",))))
    tried = replace(facts, ruled_out={("sms", PHONE.value): "rejected"})
    assert channel_of(of_first(tried)) == "email"
    verdict = of_first(replace(tried, ruled_out={**tried.ruled_out, ("email", None): "provider_missing"}))
    assert isinstance(verdict, Skip)
    assert (verdict.state, verdict.reason) == ("failed", "rejected")
    assert [check.reason for check in verdict.checks] == ["rejected", "provider_missing"]


@pytest.mark.parametrize(
    ("reasons", "state", "reason"),
    [
        (["template_missing", "provider_missing"], "skipped", "template_missing"),
        (["provider_missing", "exhausted"], "failed", "exhausted"),
        (["exhausted", "rejected"], "failed", "exhausted"),
    ],
)
def test_the_reason_is_that_of_the_channel_that_was_meant_unless_another_failed(
    reasons: list[str], state: str, reason: str
) -> None:
    ruled_out = {("sms", None): reasons[0], ("email", None): reasons[1]}
    verdict = of_first(known(intent=intended(route=Route(first=("sms",))), ruled_out=ruled_out))
    assert isinstance(verdict, Skip)
    assert (verdict.state, verdict.reason) == (state, reason)


def test_a_leg_that_failed_before_quiet_hours_stopped_it_has_failed() -> None:
    facts = late_reminder("drop", ruled_out={("sms", PHONE.value): "rejected"})
    verdict = of_first(replace(facts, intent=replace(facts.intent, route=Route(first=("sms",)))))
    assert isinstance(verdict, Skip)
    assert (verdict.state, verdict.reason) == ("failed", "rejected")


def test_a_channel_that_is_ruled_out_is_so_for_each_address() -> None:
    two = somebody(addresses=(EMAIL, replace(EMAIL, value="ada@example.net")))
    verdict = of_first(known(recipient=two, ruled_out={("email", None): "template_missing"}))
    assert isinstance(verdict, Skip)
    assert (verdict.state, verdict.reason, len(verdict.checks)) == ("skipped", "template_missing", 2)


@pytest.mark.parametrize(
    ("expires_at", "is_held"),
    [(None, True), (NOON + 2 * SECOND, True), (NOON + SECOND, False), (NOON, False)],
)
def test_waiting_knows_the_deadline(expires_at: datetime | None, is_held: bool) -> None:
    facts = known(intent=intended(expires_at=expires_at))
    answer = wait(facts, NOON + SECOND, name="cap", held="held_capped", skipped="capped")
    assert answer.reason == ("held_capped" if is_held else "capped")
    assert isinstance(answer, Hold) is is_held


OPT_OUTS = st.builds(
    OptOut, topic=st.sampled_from([None, "meetings", "news"]), channel=st.none() | st.sampled_from(CHANNELS)
)
ADDRESSES = st.lists(st.sampled_from([EMAIL, PHONE, PUSH]), unique_by=lambda address: address.kind)
QUIET = st.builds(
    QuietHours,
    start=st.integers(0, 23).map(time),
    end=st.integers(0, 23).map(time),
    days=st.frozensets(st.integers(0, 6)),
    time_bound=st.sampled_from(["pass", "hold"]),
)
ROUTES = st.builds(
    Route,
    first=st.just("preferred") | st.lists(st.sampled_from(CHANNELS), unique=True),
    also=st.lists(st.sampled_from(CHANNELS), unique=True),
)


@st.composite
def anything(draw: st.DrawFn) -> Facts:
    minutes = st.integers(-1500, 1500).map(lambda count: timedelta(minutes=count))
    due_at = NOON + draw(minutes)
    intent = intended(
        route=draw(ROUTES),
        urgency=draw(st.sampled_from(["normal", "time_bound", "critical"])),
        expires_at=draw(st.none() | minutes.map(lambda after: due_at + after)),
        on_quiet=draw(st.sampled_from([None, "early", "other_channel", "inbox_only", "drop"])),
    )
    recipient = somebody(
        channel_preference=draw(st.none() | st.sampled_from(CHANNELS)),
        whatsapp_opt_in=draw(st.booleans()),
        quiet_hours=draw(st.none() | QUIET),
        addresses=draw(ADDRESSES),
        opt_outs=draw(st.lists(OPT_OUTS, max_size=2)),
    )
    return known(now=NOON, intent=intent, due_at=due_at, recipient=recipient)


def is_asleep(recipient: Any, now: datetime) -> bool:
    """Whether the clock shows quiet hours, on a day when nobody changes it."""
    quiet, local = recipient.quiet_hours, now.astimezone(BERLIN)
    if quiet is None or quiet.start == quiet.end:
        return False
    if quiet.start < quiet.end:
        return quiet.start <= local.time() < quiet.end and local.weekday() in quiet.days
    if local.time() >= quiet.start:
        return local.weekday() in quiet.days
    return local.time() < quiet.end and (local.weekday() - 1) % 7 in quiet.days


@given(anything())
def test_what_always_holds(facts: Facts) -> None:
    decision = decide(facts)
    expires_at = facts.intent.expires_at
    verdicts = [decision.whole] if decision.whole is not None else [*decision.legs.values()]
    told = [verdict.candidate.channel for verdict in verdicts if isinstance(verdict, Send)]
    assert len(told) == len(set(told))
    assert not told or expires_at is None or facts.now < expires_at
    assert facts.recipient is not None
    urgent = facts.intent.urgency == "critical" or (
        facts.intent.urgency == "time_bound"
        and facts.recipient.quiet_hours is not None
        and facts.recipient.quiet_hours.time_bound == "pass"
    )
    if is_asleep(facts.recipient, facts.now) and not urgent:
        assert set(told) <= {"inbox", "webhook"}
    for verdict in verdicts:
        if isinstance(verdict, Hold):
            assert verdict.until > facts.now
        if isinstance(verdict, Hold) and verdict.reason == "held_quiet_hours":
            assert expires_at is None or verdict.until < expires_at
        if isinstance(verdict, Hold | Skip):
            assert verdict.reason in REASONS
        orjson.dumps([dict(check.detail) for check in verdict.checks])
        assert all(check.reason is None or check.reason in REASONS for check in verdict.checks)


@given(anything())
def test_what_is_held_gets_somewhere(facts: Facts) -> None:
    """Asking again at the instant that was named must not go round in circles."""
    for _ in range(4):
        decision = decide(facts)
        verdicts = [decision.whole] if decision.whole is not None else [*decision.legs.values()]
        held = [verdict.until for verdict in verdicts if isinstance(verdict, Hold)]
        if not held:
            return
        facts = replace(facts, now=min(held))
    raise AssertionError("it is still held")
