"""What replies mean, without a server: the finer codes, and those that no server should send."""

from __future__ import annotations

import pytest

from timebell.notify.provider import Blame, Rejected, Unavailable, Uncertain
from timebell.providers.smtp_replies import (
    TEXT_CHARS_MAX,
    Stage,
    answer_to_reply,
    answer_to_silence,
    without_addresses,
)


@pytest.mark.parametrize(
    ("stage", "code", "text", "blame", "is_gone"),
    [
        ("recipient", 550, "5.1.1 unknown", "address", True),
        ("recipient", 550, "5.1.10 null MX", "address", True),
        ("recipient", 550, "5.2.1 disabled", "address", True),
        ("recipient", 552, "5.2.2 full", "address", False),
        ("recipient", 550, "5.1.8 bad sender", "account", False),
        ("recipient", 550, "5.7.1 relay denied", "account", False),
        ("recipient", 550, "5.4.4 no route", "address", False),
        ("recipient", 553, "5.1.3 bad syntax", "address", False),
        ("recipient", 550, "5.1.1", "address", True),
        ("recipient", 550, "user 5.1.1 unknown", "address", False),
        ("sender", 550, "5.1.1 never seen you", "account", False),
        ("sender", 552, "5.3.4 too big", "content", False),
        ("content", 554, "5.7.1 spam", "content", False),
        ("content", 550, "5.6.0 malformed", "content", False),
        ("content", 550, "5.2.1 disabled", "address", True),
        ("content", 554, "no", "content", False),
    ],
)
def test_whose_fault_a_refusal_is(stage: Stage, code: int, text: str, blame: Blame, is_gone: bool) -> None:
    answer = answer_to_reply(stage, code, text)
    assert isinstance(answer, Rejected)
    assert (answer.blame, answer.is_gone) == (blame, is_gone)
    assert answer.reason == f"{stage}_refused"


@pytest.mark.parametrize("stage", ["connect", "sender", "recipient", "data", "content"])
@pytest.mark.parametrize("code", [421, 450, 451, 452, 454])
def test_what_may_be_tried_again(stage: Stage, code: int) -> None:
    answer = answer_to_reply(stage, code, "4.0.0 later")
    assert isinstance(answer, Unavailable)
    expected = "unavailable" if stage == "connect" or code == 421 else "transient"
    assert answer.error_class == expected


@pytest.mark.parametrize(
    ("stage", "code", "text", "about"),
    [
        ("connect", 450, "later", "provider"),
        ("connect", 554, "no service", "provider"),
        ("sender", 421, "closing", "provider"),
        ("sender", 451, "local error", "provider"),
        ("sender", 452, "4.3.1 no room", "provider"),
        ("sender", 450, "4.1.8 your domain is not found", "parcel"),
        ("sender", 451, "4.7.1 not from there", "parcel"),
        ("recipient", 421, "4.3.2 closing", "provider"),
        ("recipient", 450, "4.2.0 greylisted", "parcel"),
        ("recipient", 450, "greylisted", "parcel"),
        ("recipient", 451, "4.7.1 greylisted", "parcel"),
        ("recipient", 451, "4.3.0 its domain cannot be looked up", "parcel"),
        ("recipient", 452, "4.2.2 mailbox full", "parcel"),
        ("data", 451, "greylisted", "parcel"),
        ("data", 452, "no room", "provider"),
        ("content", 451, "4.7.1 greylisted", "parcel"),
        ("content", 451, "4.3.0 out of order", "provider"),
        ("content", 452, "no room", "provider"),
    ],
)
def test_whom_a_refusal_for_now_is_about(stage: Stage, code: int, text: str, about: str) -> None:
    answer = answer_to_reply(stage, code, text)
    assert isinstance(answer, Unavailable)
    assert answer.about == about


@pytest.mark.parametrize("code", [500, 530, 535, 554])
def test_nothing_is_lost_over_a_password(code: int) -> None:
    answer = answer_to_reply("connect", code, "5.7.8 no")
    assert isinstance(answer, Unavailable)
    assert answer.error_class == "unavailable"
    if code in {530, 535}:
        assert answer_to_reply("sender", code, "5.7.8 no").reason == "server_refused"


@pytest.mark.parametrize("code", [-1, 0, 199, 220, 251, 354, 399, 600, 999])
def test_codes_that_say_nothing(code: int) -> None:
    assert isinstance(answer_to_reply("content", code, "?"), Uncertain)
    for stage in ("connect", "sender", "recipient", "data"):
        assert isinstance(answer_to_reply(stage, code, "?"), Unavailable)


def test_silence_after_the_content_may_have_been_a_yes() -> None:
    assert isinstance(answer_to_silence("content", "timeout"), Uncertain)
    for stage in ("connect", "sender", "recipient", "data"):
        assert isinstance(answer_to_silence(stage, "timeout"), Unavailable)


def test_a_text_is_short_and_names_nobody() -> None:
    assert without_addresses("no\r\n such <ann.o'hara+x@bücher.example>, sorry\x00") == (
        "no such <<address>>, sorry"
    )
    assert len(without_addresses("x" * 5_000)) == TEXT_CHARS_MAX
