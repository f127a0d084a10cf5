"""Conformance checks of a broker for whoever takes messages from it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from timebell.brokers.contract import Message, Received
from timebell.testing.broker_side import (
    EXCHANGE,
    KEY,
    BrokerSide,
    Check,
    in_time,
    message,
    messages,
    nothing_comes,
    numbers,
    opened,
    publish_well,
    receive,
    receive_all,
    taking,
)


async def no_more_than_the_prefetch_is_handed_out(side: BrokerSide) -> None:
    """And what is acknowledged makes room for as many."""
    async with opened(side) as broker, taking(broker, prefetch=5) as intake:
        await publish_well(broker, messages(20))
        first = await receive(intake, 5)
        await nothing_comes(side, intake)
        await in_time(intake.acknowledge(first[:2]))
        assert numbers(first + await receive(intake, 2)) == list(range(7))
        await nothing_comes(side, intake)


async def no_more_is_taken_than_was_asked_for(side: BrokerSide) -> None:
    async with opened(side) as broker, taking(broker) as intake:
        await publish_well(broker, messages(10))
        for expected in range(10):
            assert numbers(await in_time(intake.take(1))) == [expected]


async def taking_waits_for_the_first(side: BrokerSide) -> None:
    async with opened(side) as broker, taking(broker) as intake:
        waiting = asyncio.ensure_future(intake.take(10))
        await _nothing_happens_to(side, waiting)
        await publish_well(broker, [message(7)])
        assert numbers(await in_time(waiting)) == [7]


async def giving_up_the_wait_loses_nothing(side: BrokerSide) -> None:
    """Whoever stops waiting for a batch has not got one, so what comes meanwhile is there for the next."""
    async with opened(side) as broker, taking(broker) as intake:
        for number in range(20):
            waiting = asyncio.ensure_future(intake.take(10))
            await asyncio.sleep(0)
            publishing = asyncio.ensure_future(publish_well(broker, [message(number)]))
            for _ in range(number):
                await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait({waiting})
            await publishing
            if not waiting.cancelled():
                assert numbers(waiting.result()) == [number]
            else:
                assert numbers(await receive(intake, 1)) == [number]


async def what_was_not_acknowledged_comes_again(side: BrokerSide) -> None:
    """In order, marked, and whole; what was acknowledged does not."""
    async with opened(side) as broker:
        await publish_well(broker, messages(10))
        async with taking(broker) as intake:
            first = await receive(intake, 10)
            assert not any(one.is_redelivered for one in first)
            await in_time(intake.acknowledge(first[:4]))
        async with taking(broker) as intake:
            again = await receive(intake, 6)
            assert numbers(again) == [4, 5, 6, 7, 8, 9]
            assert all(one.is_redelivered for one in again)
            assert [one.message_id for one in again] == [one.message_id for one in first[4:]]
            await in_time(intake.acknowledge(again))
    assert await receive_all(side) == []


async def what_was_never_taken_comes_to_the_next(side: BrokerSide) -> None:
    """The broker may have handed over more than was taken; that belongs to the next one too."""
    async with opened(side) as broker:
        await publish_well(broker, messages(30))
        async with taking(broker, prefetch=20) as intake:
            await in_time(intake.acknowledge(await receive(intake, 3)))
        assert sorted(numbers(await receive_all(side))) == list(range(3, 30))


async def one_may_be_acknowledged_before_another(side: BrokerSide) -> None:
    async with opened(side) as broker:
        await publish_well(broker, messages(6))
        async with taking(broker) as intake:
            taken = await receive(intake, 6)
            await in_time(intake.acknowledge([taken[3], taken[1]]))
            await in_time(intake.acknowledge([taken[5]]))
            await in_time(intake.acknowledge([]))
    assert numbers(await receive_all(side)) == [0, 2, 4]


async def acknowledging_twice_does_no_harm(side: BrokerSide) -> None:
    async with opened(side) as broker, taking(broker) as intake:
        await publish_well(broker, messages(4))
        taken = await receive(intake, 4)
        await in_time(intake.acknowledge(taken[:2]))
        await in_time(intake.acknowledge(taken[:3]))
        await in_time(intake.give_back(taken[:3]))
        await publish_well(broker, [message(4)])
        assert numbers(await receive(intake, 1)) == [4]
        await nothing_comes(side, intake)


async def what_is_given_back_comes_again(side: BrokerSide) -> None:
    async with opened(side) as broker, taking(broker, prefetch=3) as intake:
        await publish_well(broker, messages(3))
        taken = await receive(intake, 3)
        await in_time(intake.give_back(taken[:2]))
        again = await receive(intake, 2)
        assert sorted(numbers(again)) == [0, 1]
        assert all(one.is_redelivered for one in again)
        await in_time(intake.acknowledge([*again, taken[2]]))
        await nothing_comes(side, intake)
    assert await receive_all(side) == []


async def what_one_gives_back_another_gets(side: BrokerSide) -> None:
    async with opened(side) as broker:
        await publish_well(broker, [message(1)])
        async with taking(broker, prefetch=1) as intake:
            (taken,) = await receive(intake, 1)
            async with taking(broker, prefetch=1) as other:
                await publish_well(broker, [message(2)])
                assert numbers(await receive(other, 1)) == [2]
                await in_time(intake.give_back([taken]))
        assert sorted(numbers(await receive_all(side))) == [1, 2]


async def two_share_a_queue(side: BrokerSide) -> None:
    """Two of one process, and one of another: each has its part, and nothing is had by two."""
    async with opened(side) as broker, opened(side) as elsewhere:
        async with (
            taking(broker, prefetch=5) as one,
            taking(broker, prefetch=5) as two,
            taking(elsewhere, prefetch=5) as three,
        ):
            await publish_well(broker, messages(60))
            held = [await receive(intake, 5) for intake in (one, two, three)]
            assert len({number for part in held for number in numbers(part)}) == 15
            for intake in (one, two, three):
                await nothing_comes(side, intake)
            done = numbers([received for part in held for received in part])
            for intake, part in zip((one, two, three), held, strict=True):
                await in_time(intake.acknowledge(part))
                rest = await receive(intake, 5)
                done += numbers(rest)
                await in_time(intake.acknowledge(rest))
            assert len(set(done)) == len(done) == 30
        assert sorted(done + numbers(await receive_all(side))) == list(range(60))


async def a_body_over_the_limit_is_cut(side: BrokerSide) -> None:
    """Whoever sends ever larger ones fills nobody's memory; and it is acknowledged like any other."""
    async with opened(side) as broker:
        bodies = [b"x" * 1_000, b"y" * 1_001, b"z" * 3_000_000, b"w"]
        await publish_well(
            broker, [Message(exchange=EXCHANGE, routing_key=KEY, body=body) for body in bodies]
        )
        async with taking(broker, body_bytes_max=1_000) as intake:
            taken = await receive(intake, 4)
            assert [one.body for one in taken] == [body[:1_000] for body in bodies]
            assert [one.body_bytes for one in taken] == [len(body) for body in bodies]
            await in_time(intake.acknowledge(taken))
    assert await receive_all(side) == []


async def closing_ends_what_is_taken(side: BrokerSide) -> None:
    """Nobody waits for ever, and what was not acknowledged comes again."""
    async with opened(side) as broker:
        await publish_well(broker, messages(2))
        async with taking(broker) as intake:
            taken = await receive(intake, 2)
            waiting = asyncio.ensure_future(intake.take(1))
            await _nothing_happens_to(side, waiting)
            await in_time(broker.close())
            await in_time(asyncio.wait({waiting}))
            assert waiting.cancelled() or waiting.exception() is not None or not waiting.result()
            await in_time(intake.acknowledge(taken))
            await in_time(intake.give_back(taken))
    again = await receive_all(side)
    assert numbers(again) == [0, 1]
    assert all(one.is_redelivered for one in again)


async def an_error_in_the_block_gives_everything_back(side: BrokerSide) -> None:
    async with opened(side) as broker:
        await publish_well(broker, messages(3))
        try:
            async with taking(broker) as intake:
                await receive(intake, 3)
                raise KeyError("of whoever takes")
        except KeyError:
            pass
        assert numbers(await receive_all(side)) == [0, 1, 2]


async def _nothing_happens_to(side: BrokerSide, waiting: asyncio.Future[Sequence[Received]]) -> None:
    await asyncio.wait({waiting}, timeout=side.settling.total_seconds())
    assert not waiting.done()


INTAKE_CHECKS: Final[tuple[Check, ...]] = (
    no_more_than_the_prefetch_is_handed_out,
    no_more_is_taken_than_was_asked_for,
    taking_waits_for_the_first,
    giving_up_the_wait_loses_nothing,
    what_was_not_acknowledged_comes_again,
    what_was_never_taken_comes_to_the_next,
    one_may_be_acknowledged_before_another,
    acknowledging_twice_does_no_harm,
    what_is_given_back_comes_again,
    what_one_gives_back_another_gets,
    two_share_a_queue,
    a_body_over_the_limit_is_cut,
    closing_ends_what_is_taken,
    an_error_in_the_block_gives_everything_back,
)
