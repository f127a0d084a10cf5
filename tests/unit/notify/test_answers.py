"""What the answers of the providers that are shipped use up, and how long is waited after them."""

from __future__ import annotations

from datetime import timedelta
from typing import get_args

import pytest

from timebell.notify.delivery.answers import (
    NOT_SENT,
    RATE_LIMITED_MAX,
    Cost,
    Costs,
    cost_of,
    delay_after,
    is_spent,
)
from timebell.notify.models import Policy
from timebell.notify.provider import Rejected, Sent, Unavailable, Uncertain
from timebell.providers.http import NoReply, Reply, answer_to_garbage, answer_to_refusal, answer_to_silence
from timebell.providers.smtp import _NO_CONNECTION_FREE
from timebell.providers.smtp_replies import Stage, answer_to_reply
from timebell.providers.smtp_replies import answer_to_silence as answer_to_silent_server
from timebell.providers.webhook import _answer as answer_of_webhook
from timebell.providers.webpush import _answer as answer_of_push

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)
POLICY = Policy()


@pytest.mark.req("A-6.1", "A-6.4")
@pytest.mark.parametrize("answer_to", [answer_to_refusal, answer_of_webhook, answer_of_push])
@pytest.mark.parametrize("headers", [{}, {"retry-after": "7"}])
def test_every_status_but_success_costs_an_attempt(answer_to: object, headers: dict[str, str]) -> None:
    """Only a rate limit that comes with an instant is counted apart."""
    assert callable(answer_to)
    for status in range(300, 600):
        answer = answer_to(Reply(status=status, headers=headers, body=b""))
        expected = "limit" if status == 429 and headers else "attempt"
        assert cost_of(answer) == expected, status


@pytest.mark.req("A-6.1")
def test_every_reply_of_a_mail_server_but_success_costs_an_attempt() -> None:
    for stage in get_args(Stage):
        assert cost_of(answer_to_silent_server(stage, "timed_out")) == "attempt"
        for code in range(200, 600):
            assert cost_of(answer_to_reply(stage, code, "no")) == "attempt", (stage, code)


@pytest.mark.parametrize(
    ("answer", "cost"),
    [
        (Sent(), "nothing"),
        (NOT_SENT, "nothing"),
        (_NO_CONNECTION_FREE, "nothing"),
        (Uncertain(reason="crashed"), "nothing"),
        (Uncertain(reason="no_answer"), "attempt"),
        (Rejected(reason="no", blame="account"), "attempt"),
        (answer_to_silence(NoReply(reason="unreachable")), "attempt"),
        (answer_to_silence(NoReply(reason="timed_out")), "attempt"),
        (answer_to_silence(NoReply(reason="closed", was_handed_over=True)), "attempt"),
        (answer_to_garbage(Reply(status=200, headers={}, body=b"")), "attempt"),
    ],
)
def test_what_was_asked_of_nobody_costs_nothing(
    answer: Sent | Rejected | Unavailable | Uncertain, cost: Cost
) -> None:
    assert cost_of(answer) == cost


def test_the_two_are_counted_apart_and_either_ends_it() -> None:
    assert Costs().plus("attempt").plus("limit").plus("nothing") == Costs(1, 1)
    assert not is_spent(Costs(POLICY.attempts_max - 1, RATE_LIMITED_MAX - 1), POLICY)
    assert is_spent(Costs(POLICY.attempts_max, 0), POLICY)
    assert is_spent(Costs(0, RATE_LIMITED_MAX), POLICY)


@pytest.mark.req("M-5.5", "A-6.4")
@pytest.mark.parametrize(
    ("costs", "error_class", "asked", "delay"),
    [
        (Costs(1, 0), "transient", None, MINUTE),
        (Costs(2, 0), "unavailable", None, 5 * MINUTE),
        (Costs(9, 0), "rate_limited", None, 15 * MINUTE),
        (Costs(1, 9), "unavailable", None, MINUTE),
        (Costs(1, 0), "unavailable", 7 * SECOND, MINUTE),
        (Costs(1, 0), "unavailable", 7 * MINUTE, 7 * MINUTE),
        (Costs(1, 0), "transient", 40 * DAY, DAY),
        (Costs(0, 1), "rate_limited", 7 * SECOND, 7 * SECOND),
        (Costs(3, 1), "rate_limited", -7 * SECOND, SECOND),
        (Costs(0, 2), "rate_limited", 7 * SECOND, MINUTE),
        (Costs(0, 3), "rate_limited", 7 * MINUTE, 7 * MINUTE),
        (Costs(0, 4), "rate_limited", 7 * MINUTE, 15 * MINUTE),
        (Costs(0, 1), "rate_limited", 40 * DAY, DAY),
    ],
)
def test_how_long_is_waited(
    costs: Costs, error_class: str, asked: timedelta | None, delay: timedelta
) -> None:
    answer = Unavailable(reason="no", error_class=error_class, retry_after=asked)  # type: ignore[arg-type]
    assert delay_after(POLICY, costs, answer) == delay


def test_what_costs_nothing_costs_time() -> None:
    eager = Policy(retry_delays_seconds=(0.0,))
    assert delay_after(eager, Costs(1, 0), Unavailable(reason="no")) == timedelta(0)
    assert delay_after(eager, Costs(1, 0), NOT_SENT) == SECOND
