"""Each message gets the answer that is its own, in whatever order a broker may give them."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pika import BasicProperties, frame, spec

from timebell.brokers.contract import Away, Confirmed, Header, Message, Published, Refused, Returned
from timebell.brokers.rabbitmq.outlets import Call, Outlet, Window
from timebell.brokers.rabbitmq.refusals import Closed, Unreachable
from timebell.brokers.rabbitmq.wire import Channel, TakeFrame


class FakeChannel:
    """Speaks as the broker does, when it is told to."""

    number = 1
    frame_bytes_max = 4096
    is_open = True

    def __init__(self) -> None:
        self.taker: TakeFrame | None = None

    def look(self, taker: TakeFrame) -> None:
        self.taker = taker

    def write(self, data: bytes, frames: int = 1) -> None:
        pass

    def answer(self, tag: int, *, multiple: bool = False, is_taken: bool = True) -> None:
        self._say(frame.Method(1, (spec.Basic.Ack if is_taken else spec.Basic.Nack)(tag, multiple)))

    def give_back(self, message: Message, **changed: Any) -> None:
        self._say(frame.Method(1, spec.Basic.Return(312, "NO_ROUTE", message.exchange, message.routing_key)))
        properties = {
            "content_type": message.content_type,
            "headers": dict(message.headers) or None,
            "delivery_mode": 2,
            "message_id": message.message_id,
        }
        self._say(frame.Header(1, len(message.body), BasicProperties(**(properties | changed))))
        if message.body:
            self._say(frame.Body(1, message.body))

    def _say(self, said: Any) -> None:
        assert self.taker is not None
        assert self.taker(said.frame_type, said.marshal()[7:-1])


class Scene:
    """One outlet, and all that was handed to it in one call."""

    def __init__(self, messages: list[Message]) -> None:
        self.window = Window()
        self.lacking: list[str] = []
        self.channel = FakeChannel()
        self.outlet = Outlet("e", self.window, self.lacking.append)
        self.outlet.start(cast(Channel, self.channel))
        self.call = Call(len(messages))
        for place, message in enumerate(messages):
            self.outlet.send(message, self.call, place)

    @property
    def answers(self) -> list[Published | None]:
        return self.call.answers


def message(body: str = "", *, key: str = "k", message_id: str = "same", **headers: Header) -> Message:
    return Message(exchange="e", routing_key=key, body=body.encode(), message_id=message_id, headers=headers)


sent_and_bound = st.lists(
    st.tuples(
        st.builds(message, st.sampled_from("xy"), key=st.sampled_from("kl"), name=st.sampled_from([1, 2])),
        st.booleans(),
    ),
    min_size=1,
    max_size=12,
)


@given(sent_and_bound, st.data())
async def test_returned_and_confirmed_are_told_apart(
    sent: list[tuple[Message, bool]], data: st.DataObject
) -> None:
    """All have one id. Whether a queue is bound may change from one to the next, so the key alone says nothing."""
    scene = Scene([each for each, _ in sent])
    left = dict(enumerate(sent, start=1))
    for tag, (each, is_bound) in enumerate(sent, start=1):
        if not is_bound:
            scene.channel.give_back(each)
        # Only now may it be confirmed; and those before it too, in any order.
        for _ in range(data.draw(st.integers(0, 3))):
            confirmed = data.draw(st.sampled_from([one for one in left if one <= tag] or [0]))
            if not confirmed:
                break
            multiple = data.draw(st.booleans())
            scene.channel.answer(confirmed, multiple=multiple)
            for one in [one for one in left if one == confirmed or (multiple and one < confirmed)]:
                del left[one]
    scene.channel.answer(0, multiple=True)
    assert None not in scene.answers
    told = Counter(
        (each.body, each.routing_key, each.headers["name"], type(answer))
        for (each, _), answer in zip(sent, scene.answers, strict=True)
    )
    true = Counter(
        (each.body, each.routing_key, each.headers["name"], Confirmed if is_bound else Returned)
        for each, is_bound in sent
    )
    assert told == true
    assert scene.call.done.done()
    assert (scene.window.count, scene.window.size) == (0, 0)
    assert len(scene.lacking) == sum(not is_bound for _, is_bound in sent)


async def test_a_broker_that_changes_what_passes_is_understood() -> None:
    """It may set headers or the instant of every message; what it sends back is told by what it left."""
    messages = [message("one"), message("two"), message("three"), message("two", message_id="other")]
    scene = Scene(messages)
    scene.channel.give_back(messages[1], headers={"added": 1})
    scene.channel.give_back(messages[3], message_id="changed")
    scene.channel.answer(4, multiple=True)
    assert [type(each) for each in scene.answers] == [Confirmed, Returned, Confirmed, Returned]


async def test_a_body_that_was_changed_leaves_the_key() -> None:
    messages = [message("one", key="k"), message("two", key="l")]
    scene = Scene(messages)
    scene.channel.give_back(message("changed", key="l"))
    scene.channel.answer(2, multiple=True)
    assert [type(each) for each in scene.answers] == [Confirmed, Returned]


async def test_what_is_refused_is_refused_alone() -> None:
    scene = Scene([message("one"), message("two"), message("three")])
    scene.channel.answer(2, is_taken=False)
    assert not scene.outlet.is_worn
    scene.channel.answer(3, multiple=True)
    assert [type(each) for each in scene.answers] == [Confirmed, Refused, Confirmed]
    assert scene.outlet.is_worn


@pytest.mark.parametrize(
    ("why", "answers"),
    [
        (Unreachable("gone"), [Confirmed(), Away("gone"), Away("gone")]),
        (Closed(541, "INTERNAL_ERROR"), [Confirmed(), Away("INTERNAL_ERROR"), Away("INTERNAL_ERROR")]),
        (Closed(404, "NOT_FOUND"), [Confirmed, Refused, Refused]),
        (Closed(403, "access to exchange 'e' refused"), [Confirmed, Refused, Refused]),
        (Closed(403, "access to topic 'l' in exchange 'e' refused"), [Confirmed, Away, Refused]),
    ],
)
async def test_a_closed_channel_answers_for_all_that_was_on_its_way(
    why: Closed | Unreachable, answers: list[Any]
) -> None:
    scene = Scene([message("one"), message("two"), message("three", key="l")])
    scene.channel.answer(1)
    scene.outlet.end(why)
    told = [
        each if isinstance(wanted, Confirmed | Away) else type(each)
        for each, wanted in zip(scene.answers, answers, strict=True)
    ]
    assert told == answers
    assert (scene.window.count, scene.window.size) == (0, 0)


async def test_an_answer_that_comes_too_late_frees_its_place() -> None:
    scene = Scene([message("one"), message("two")])
    scene.channel.answer(1)
    scene.call.expire(Away("late"))
    assert scene.answers == [Confirmed(), Away("late")]
    assert scene.window.count == 1
    scene.channel.answer(2)
    assert scene.answers == [Confirmed(), Away("late")]
    assert scene.window.count == 0


async def test_a_closed_channel_takes_nothing() -> None:
    scene = Scene([])
    scene.channel.is_open = False
    call = Call(1)
    scene.outlet.send(message(), call, 0)
    await asyncio.wait_for(call.done, 1)
    assert call.answers == [Away("the channel was closed")]
    assert scene.outlet.is_idle
