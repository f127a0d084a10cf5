"""Where a delivery stands after reports in any order, and a notification after its deliveries."""

from __future__ import annotations

from random import Random
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from timebell.notify.provider import ReportKind
from timebell.notify.reasons import REASONS, DeliveryState, NotificationState
from timebell.notify.rules.standing import Standing, after_report, is_settled, together

KINDS: tuple[ReportKind, ...] = get_args(ReportKind)
STARTS = [
    Standing("pending"),
    Standing("uncertain", "no_answer"),
    Standing("uncertain", "crashed"),
    Standing("sent", "accepted"),
    Standing("sent", "shown"),
    Standing("delivered", "accepted"),
    Standing("failed", "exhausted"),
    Standing("failed", "rejected"),
    Standing("failed", "bounced"),
    Standing("failed", "complained"),
    Standing("failed", "template_failed"),
    Standing("skipped", "opted_out"),
    Standing("suppressed", "demo"),
]
KINDS_IN_ANY_ORDER = st.lists(st.sampled_from(KINDS), max_size=12)


def after_all(standing: Standing, kinds: list[ReportKind]) -> Standing:
    for kind in kinds:
        standing = after_report(standing, kind)
    return standing


def test_every_state_of_a_delivery_is_tried() -> None:
    assert {start.state for start in STARTS} == set(get_args(DeliveryState))


@pytest.mark.req("X-C6")
@given(start=st.sampled_from(STARTS), kinds=KINDS_IN_ANY_ORDER, chance=st.randoms(use_true_random=False))
def test_reports_in_any_order_and_any_number_end_the_same(
    start: Standing, kinds: list[ReportKind], chance: Random
) -> None:
    shuffled = kinds + [chance.choice(kinds) for _ in kinds]
    chance.shuffle(shuffled)
    assert after_all(start, shuffled) == after_all(start, kinds)


@pytest.mark.req("X-C6")
@given(start=st.sampled_from(STARTS), kinds=KINDS_IN_ANY_ORDER)
def test_nothing_leads_back(start: Standing, kinds: list[ReportKind]) -> None:
    been = [start]
    for kind in kinds:
        standing = after_report(been[-1], kind)
        if standing != been[-1]:
            assert standing not in been
            been.append(standing)


@pytest.mark.parametrize(
    ("start", "kinds", "end"),
    [
        (Standing("sent", "accepted"), ["delivered"], Standing("delivered")),
        (Standing("sent", "accepted"), ["delivered", "bounced"], Standing("failed", "bounced")),
        (Standing("sent", "accepted"), ["bounced", "delivered"], Standing("failed", "bounced")),
        (Standing("sent", "accepted"), ["complained", "delivered"], Standing("failed", "complained")),
        (Standing("sent", "accepted"), ["failed", "sent"], Standing("failed", "rejected")),
        (Standing("sent", "accepted"), ["delivered", "failed"], Standing("delivered")),
        (Standing("uncertain", "no_answer"), ["sent"], Standing("sent", "accepted")),
        (Standing("uncertain", "no_answer"), ["failed"], Standing("failed", "rejected")),
        (Standing("failed", "exhausted"), ["sent"], Standing("sent", "accepted")),
        (Standing("failed", "template_failed"), ["delivered"], Standing("delivered")),
        (Standing("delivered", "accepted"), ["sent", "delivered"], Standing("delivered", "accepted")),
        (Standing("sent", "shown"), ["sent"], Standing("sent", "shown")),
        (Standing("sent", "accepted"), ["unsubscribed"], Standing("sent", "accepted")),
        (Standing("skipped", "opted_out"), ["delivered"], Standing("skipped", "opted_out")),
        (Standing("suppressed", "demo"), ["bounced"], Standing("suppressed", "demo")),
    ],
)
def test_what_reports_come_to(start: Standing, kinds: list[ReportKind], end: Standing) -> None:
    assert after_all(start, kinds) == end


def test_every_reason_is_in_the_closed_list() -> None:
    reached = {after_report(start, kind) for start in STARTS for kind in KINDS}
    assert {standing.reason for standing in reached} - {None} <= set(REASONS)


@pytest.mark.parametrize(
    ("parts", "whole"),
    [
        ([], Standing("pending")),
        (
            [Standing("sent", "shown"), Standing("held", "held_quiet_hours")],
            Standing("held", "held_quiet_hours"),
        ),
        ([Standing("held", "held_retry"), Standing("pending")], Standing("pending")),
        ([Standing("failed", "rejected"), Standing("sent", "accepted")], Standing("sent", "accepted")),
        ([Standing("sent", "shown"), Standing("delivered")], Standing("delivered")),
        ([Standing("suppressed", "demo"), Standing("sent", "shown")], Standing("sent", "shown")),
        ([Standing("skipped", "opted_out"), Standing("suppressed", "demo")], Standing("suppressed", "demo")),
        (
            [Standing("failed", "exhausted"), Standing("uncertain", "crashed")],
            Standing("uncertain", "crashed"),
        ),
        ([Standing("skipped", "no_channel"), Standing("failed", "bounced")], Standing("failed", "bounced")),
        (
            [Standing("skipped", "opted_out"), Standing("skipped", "no_channel")],
            Standing("skipped", "opted_out"),
        ),
        ([Standing("uncertain", "crashed"), Standing("suppressed", "demo")], Standing("suppressed", "demo")),
        ([Standing("withdrawn", "withdrawn")], Standing("withdrawn", "withdrawn")),
    ],
)
def test_where_a_notification_stands(parts: list[Standing], whole: Standing) -> None:
    assert together(parts) == whole


STANDINGS = st.sampled_from([*STARTS, Standing("held", "held_rate"), Standing("withdrawn", "withdrawn")])


@given(st.lists(st.lists(STANDINGS, min_size=1, max_size=4), min_size=1, max_size=4))
def test_it_does_not_matter_whether_legs_are_settled_apart(legs: list[list[Standing]]) -> None:
    """So that nobody needs to know which delivery belonged to which leg."""
    apart = together(together(leg) for leg in legs)
    assert apart.state == together(part for leg in legs for part in leg).state


@given(st.lists(STANDINGS, min_size=1, max_size=6))
def test_it_is_settled_when_every_part_is(parts: list[Standing]) -> None:
    assert is_settled(together(parts)) is all(is_settled(part) for part in parts)


def test_every_state_of_a_notification_has_its_place() -> None:
    for state in get_args(NotificationState):
        assert together([Standing(state)]) == Standing(state)
