"""The conformance suite for providers: what every provider must do, ours and anybody's, whichever service it speaks to.

A test brings a `Counterpart`, the service's side of the conversation under the test's control, and runs each of the
`CHECKS` against it:

    @pytest.mark.parametrize("check", CHECKS, ids=name_of)
    async def test_mine_conforms(check: Check, mine: Counterpart) -> None:
        await check(mine)

A check that needs a behaviour which the counterpart does not have returns without asking for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final, Literal, Protocol
from uuid import UUID

from timebell.notify.provider import (
    CHANNELS,
    Answer,
    Content,
    Handover,
    Parcel,
    Provider,
    Rejected,
    Sent,
    Unavailable,
    Uncertain,
)

Behaviour = Literal[
    "accept",  # takes it
    "refuse",  # refuses it for good
    "gone",  # says that the address is no more
    "unauthorized",  # does not know the account
    "defer",  # cannot reach this one recipient for now
    "busy",  # asks to come back in RETRY_AFTER
    "fail",  # answers that it failed, as a server that has a bug does
    "garble",  # answers success with something that no client can read
    "hang",  # takes it and does not answer
    "close",  # takes it and hangs up
    "trickle",  # takes it and answers byte by byte, for longer than the deadline and PATIENCE together
    "down",  # nobody listens
    "untrusted",  # shows a certificate that nobody vouches for
]

RETRY_AFTER: Final = timedelta(seconds=7)
PARCELS_AT_ONCE: Final = 40
TIMEOUT_MAX: Final = timedelta(seconds=60)
# A call may take a little longer than its deadline on a machine that is busy, but not for ever.
PATIENCE: Final = timedelta(seconds=5)

HOSTILE: Final = (
    "Bcc: eve@example.com",
    "a\r\nBcc: eve@example.com\r\n\r\nsecond",
    "a\nX-Injected: 1",
    "a\rb\x00c\x0bd\u2028e\u2029f\x85g",
    '"}],"to":"eve@example.com',
    "=?utf-8?q?=0D=0ABcc:_eve@example.com?=",
    "\U0001d54cnicode ✓ \u202e reversed",
)


class Counterpart(Protocol):
    """The service's side. `behaviours` are those it can show; it shows `accept` until told otherwise."""

    @property
    def provider(self) -> Provider: ...

    @property
    def behaviours(self) -> frozenset[Behaviour]: ...

    def parcel(self) -> Parcel:
        """One that the service takes if it takes anything."""

    async def behave(self, behaviour: Behaviour) -> None: ...

    def taken(self) -> Sequence[tuple[str, str]]:
        """What the service acted on: the address, and the key or id by which it would know it again."""


Check = Callable[[Counterpart], Awaitable[None]]


async def its_traits_are_sound(side: Counterpart) -> None:
    traits = side.provider.traits
    assert side.provider.name
    assert traits.channels
    assert traits.channels <= set(CHANNELS)
    assert timedelta(0) < traits.timeout <= TIMEOUT_MAX
    assert traits.key_lifetime is None or traits.key_lifetime > timedelta(0)
    assert traits.rate_per_second is None or traits.rate_per_second > 0


async def what_is_taken_is_sent(side: Counterpart) -> None:
    parcel = side.parcel()
    assert isinstance(await _send(side, parcel), Sent)
    assert [address for address, _ in side.taken()] == [parcel.address]


async def what_is_refused_is_rejected(side: Counterpart) -> None:
    if await _shows(side, "refuse"):
        answer = await _send(side)
        assert isinstance(answer, Rejected)
        assert not answer.is_gone
        assert side.taken() == []


async def an_address_that_is_no_more_is_gone(side: Counterpart) -> None:
    if await _shows(side, "gone"):
        answer = await _send(side)
        assert isinstance(answer, Rejected)
        assert answer.is_gone
        assert answer.blame == "address"


async def a_wrong_account_is_nobody_elses_fault(side: Counterpart) -> None:
    """The recipient and the content are fine, so nothing may be given up for good, and no address be blamed."""
    if await _shows(side, "unauthorized"):
        answer = await _send(side)
        assert isinstance(answer, Unavailable)
        assert answer.error_class == "unavailable"
        assert answer.about == "provider"
        assert side.taken() == []


async def what_is_said_of_one_recipient_is_about_that_one(side: Counterpart) -> None:
    """The service is well, so nothing may be held up but this."""
    if await _shows(side, "defer"):
        answer = await _send(side)
        assert isinstance(answer, Unavailable)
        assert answer.about == "parcel"
        assert side.taken() == []


async def a_busy_service_says_when_to_return(side: Counterpart) -> None:
    if await _shows(side, "busy"):
        answer = await _send(side)
        assert isinstance(answer, Unavailable)
        assert answer.error_class == "rate_limited"
        assert answer.retry_after == RETRY_AFTER


async def a_failure_is_never_success(side: Counterpart) -> None:
    if await _shows(side, "fail"):
        assert isinstance(await _send(side), Unavailable | Uncertain)


async def what_cannot_be_read_is_uncertain(side: Counterpart) -> None:
    if await _shows(side, "garble"):
        assert isinstance(await _send(side), Uncertain)


async def no_answer_is_uncertain_in_time(side: Counterpart) -> None:
    for behaviour in ("hang", "trickle", "close"):
        if await _shows(side, behaviour):
            assert isinstance(await _send(side), Uncertain), behaviour


async def what_was_not_handed_over_is_certain(side: Counterpart) -> None:
    for behaviour in ("down", "untrusted"):
        if await _shows(side, behaviour):
            answer = await _send(side)
            assert isinstance(answer, Unavailable), behaviour
            assert answer.about == "provider", behaviour
            assert side.taken() == [], behaviour


async def the_handover_is_marked_where_it_begins(side: Counterpart) -> None:
    """Of what was cut off before that, it is known that it was not sent; so the mark must not come too late."""
    if not side.provider.traits.marks_handover:
        return
    taken = side.parcel()
    await _send(side, taken)
    assert taken.handover.has_begun
    for behaviour in ("hang", "down", "untrusted"):
        if await _shows(side, behaviour):
            parcel = _other(side.parcel(), 1)
            await _send(side, parcel)
            assert parcel.handover.has_begun == (behaviour == "hang"), behaviour


async def one_delivery_has_one_key(side: Counterpart) -> None:
    """At every attempt, the one whose answer was lost among them; and another delivery has another."""
    if side.provider.traits.key_lifetime is None and not side.provider.traits.can_look_up:
        return
    parcel = side.parcel()
    if await _shows(side, "close"):
        await _send(side, parcel)
    await side.behave("accept")
    assert isinstance(await _send(side, replace(parcel)), Sent | Uncertain)
    assert isinstance(await _send(side, _other(parcel, 1)), Sent)
    keys = [key for _, key in side.taken()]
    assert len(set(keys)) == 2
    assert len(set(keys[:-1])) == 1


async def a_look_up_finds_what_was_taken(side: Counterpart) -> None:
    if not side.provider.traits.can_look_up:
        return
    parcel = side.parcel()
    assert isinstance(await side.provider.look_up(parcel), Unavailable)
    if await _shows(side, "close"):
        assert isinstance(await _send(side, parcel), Uncertain)
        await side.behave("accept")
        assert isinstance(await side.provider.look_up(parcel), Sent)
    if await _shows(side, "hang"):
        assert not isinstance(await side.provider.look_up(_other(parcel, 1)), Unavailable)


async def hostile_text_stays_text(side: Counterpart) -> None:
    """Whatever stands in the content or a name, there is one recipient, and it is the one that was meant."""
    parcel = side.parcel()
    for position, text in enumerate(HOSTILE):
        content = Content(text=text, subject=text, html=parcel.content.html, data={**parcel.content.data})
        hostile = replace(
            _other(parcel, position),
            content=content,
            recipient_name=text,
            sender={"email": "office@example.com", **parcel.sender, "email_name": text},
        )
        assert isinstance(await _send(side, hostile), Sent), text
    assert [address for address, _ in side.taken()] == [parcel.address] * len(HOSTILE)


async def many_go_at_once(side: Counterpart) -> None:
    parcels = [_other(side.parcel(), position) for position in range(PARCELS_AT_ONCE)]
    answers = await asyncio.gather(*(_send(side, parcel) for parcel in parcels))
    assert all(isinstance(answer, Sent) for answer in answers)
    assert len(side.taken()) == PARCELS_AT_ONCE


async def it_recovers(side: Counterpart) -> None:
    """A service that was away is found again by the same provider."""
    away: tuple[Behaviour, ...] = ("down", "close", "hang")
    for position, behaviour in enumerate(away):
        if await _shows(side, behaviour):
            await _send(side, _other(side.parcel(), 2 * position))
            await side.behave("accept")
            assert isinstance(await _send(side, _other(side.parcel(), 2 * position + 1)), Sent), behaviour


async def closing_twice_does_no_harm(side: Counterpart) -> None:
    await side.provider.close()
    await side.provider.close()


CHECKS: Final[tuple[Check, ...]] = (
    its_traits_are_sound,
    what_is_taken_is_sent,
    what_is_refused_is_rejected,
    an_address_that_is_no_more_is_gone,
    a_wrong_account_is_nobody_elses_fault,
    what_is_said_of_one_recipient_is_about_that_one,
    a_busy_service_says_when_to_return,
    a_failure_is_never_success,
    what_cannot_be_read_is_uncertain,
    no_answer_is_uncertain_in_time,
    what_was_not_handed_over_is_certain,
    the_handover_is_marked_where_it_begins,
    one_delivery_has_one_key,
    a_look_up_finds_what_was_taken,
    hostile_text_stays_text,
    many_go_at_once,
    it_recovers,
    closing_twice_does_no_harm,
)


def name_of(check: Check) -> str:
    return str(getattr(check, "__name__", check))


async def _shows(side: Counterpart, behaviour: Behaviour) -> bool:
    if behaviour not in side.behaviours:
        return False
    await side.behave(behaviour)
    return True


async def _send(side: Counterpart, parcel: Parcel | None = None) -> Answer:
    """The provider's answer, which must come by its own deadline."""
    patience = side.provider.traits.timeout + PATIENCE
    async with asyncio.timeout(patience.total_seconds()):
        return await side.provider.send(parcel or side.parcel())


def _other(parcel: Parcel, number: int) -> Parcel:
    """Another delivery to the same address."""
    delivery_id = UUID(int=parcel.delivery_id.int ^ number + 1)
    return replace(parcel, delivery_id=delivery_id, key=str(delivery_id), handover=Handover())
