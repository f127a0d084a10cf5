"""Conformance checks of a broker itself: that it is declared, goes away and comes back."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Final

from timebell.brokers.contract import Away, Broker, BrokerQueue, Confirmed, Exchange, Refused, Topology
from timebell.errors import ConfigurationError
from timebell.testing.broker_side import (
    EXCHANGE,
    OTHER_KEY,
    QUEUE,
    TOPOLOGY,
    BrokerSide,
    Check,
    Fault,
    in_time,
    message,
    messages,
    nothing_comes,
    numbers,
    opened,
    publish,
    publish_until_away,
    publish_until_confirmed,
    publish_well,
    receive,
    receive_all,
    taking,
    until_there,
)


async def what_is_declared_twice_is_fine(side: BrokerSide) -> None:
    """By another process, and with a key more, as after an upgrade: the queue is bound by all of them."""
    more = Topology(queues=(BrokerQueue(name=QUEUE, exchange=EXCHANGE, keys=("more", "one.#")),))
    async with opened(side) as broker:
        await publish_well(broker, [message(0)])
        async with opened(side, TOPOLOGY + more) as upgraded:
            await publish_well(upgraded, [message(1, key="more")])
            await publish_well(broker, [message(2, key="more")])
            await publish_well(broker, [message(3)])
    assert numbers(await receive_all(side)) == [0, 1, 2, 3]


async def each_who_opens_it_adds_what_they_need(side: BrokerSide) -> None:
    """Several parts of a process share one broker, and what one of them gets wrong harms no other."""
    more = Topology(queues=(BrokerQueue(name="suite.three", exchange=EXCHANGE, keys=("three",)),))
    async with opened(side) as broker:
        await in_time(broker.open(Topology()))
        await publish_well(broker, [message(0)])
        await in_time(broker.open(more))
        await publish_well(broker, [message(1, key="three"), message(2)])
        refusal = ""
        try:
            await in_time(broker.open(Topology(exchanges=(Exchange(name=EXCHANGE, sort="fanout"),))))
        except ConfigurationError as error:
            refusal = str(error)
        assert EXCHANGE in refusal
        await publish_well(broker, [message(3)])
        async with taking(broker, "suite.three") as intake:
            assert numbers(await receive(intake, 1)) == [1]
    assert numbers(await receive_all(side)) == [0, 2, 3]


async def what_is_declared_otherwise_is_refused(side: BrokerSide) -> None:
    """With the name of what it is about; and whoever declared it first goes on."""
    async with opened(side) as broker:
        await _refused(side, Topology(exchanges=(Exchange(name=EXCHANGE, sort="direct"),)), names=EXCHANGE)
        lost = BrokerQueue(name="suite.lost", exchange="suite.nowhere", keys=("key",))
        await _refused(side, Topology(queues=(lost,)), names="suite.nowhere")
        await publish_well(broker, [message(1)])
    assert numbers(await receive_all(side)) == [1]


async def a_queue_of_another_sort_is_refused(side: BrokerSide) -> None:
    if await _shows(side, "otherwise"):
        await _refused(side, TOPOLOGY, names=QUEUE)


async def _refused(side: BrokerSide, topology: Topology, *, names: str) -> None:
    broker = side.broker()
    refusal = ""
    try:
        await in_time(broker.open(topology))
    except ConfigurationError as error:
        refusal = str(error)
    finally:
        await in_time(broker.close())
    assert names in refusal
    assert not broker.is_there


async def watchers_hear_of_each_change(side: BrokerSide) -> None:
    broker = side.broker()
    heard: list[bool] = []
    also: list[bool] = []
    broker.watch(heard.append)
    broker.watch(also.append)
    seen = [broker.is_there]
    assert isinstance((await publish(broker, [message()]))[0], Away)
    await in_time(broker.open(TOPOLOGY))
    seen.append(broker.is_there)
    assert heard == also == [True]
    await in_time(broker.close())
    seen.append(broker.is_there)
    assert heard == also == [True, False]
    assert seen == [False, True, False]


async def closing_twice_does_no_harm(side: BrokerSide) -> None:
    """Nor closing what was never opened. Whoever publishes afterwards hears that it is away."""
    unopened = side.broker()
    await in_time(unopened.close())
    async with opened(side) as broker:
        await publish_well(broker, [message(1)])
        await in_time(broker.close())
        await in_time(broker.close())
        answers = await publish(broker, messages(3))
        assert [type(answer) for answer in answers] == [Away] * 3
    assert numbers(await receive_all(side)) == [1]


async def closing_answers_whoever_publishes(side: BrokerSide) -> None:
    async with opened(side) as broker:
        publishing = [asyncio.ensure_future(publish(broker, messages(20))) for _ in range(20)]
        await asyncio.sleep(0)
        await in_time(broker.close())
        answers = [answer for answers in await in_time(asyncio.gather(*publishing)) for answer in answers]
        assert {type(answer) for answer in answers} <= {Confirmed, Away}
        confirmed = sum(isinstance(answer, Confirmed) for answer in answers)
    assert len(await receive_all(side)) >= confirmed


async def one_that_is_away_comes_back(side: BrokerSide) -> None:
    """Whoever publishes hears at once that it is away, and what was confirmed before is still there."""
    async with opened(side) as broker:
        heard: list[bool] = []
        broker.watch(heard.append)
        await publish_well(broker, messages(10))
        if not await _shows(side, "stop"):
            return
        await publish_until_away(broker)
        await until_there(broker, False)
        answers = await publish(broker, messages(1_000, first=100))
        assert {type(answer) for answer in answers} == {Away}
        assert all(answer.reason for answer in answers if isinstance(answer, Away))
        await side.mend("stop")
        await until_there(broker)
        await publish_until_confirmed(broker, message(10))
        assert heard[0] is False
        assert heard[-1] is True
        assert all(one != other for one, other in pairwise(heard))
        await _arrive(broker, {*range(11)})


async def one_that_is_away_at_first_is_found(side: BrokerSide) -> None:
    if not await _shows(side, "stop"):
        return
    broker = side.broker()
    opening = asyncio.ensure_future(broker.open(TOPOLOGY))
    try:
        await asyncio.wait({opening}, timeout=side.settling.total_seconds())
        assert not broker.is_there
        assert isinstance((await publish(broker, [message()]))[0], Away)
        await side.mend("stop")
        await in_time(opening)
        await until_there(broker)
        await publish_until_confirmed(broker, message(1))
        await _arrive(broker, {1})
    finally:
        await in_time(broker.close())
        await in_time(asyncio.wait({opening}))


async def one_that_never_comes_can_be_closed(side: BrokerSide) -> None:
    """Whether opening waits for it or not, it is over then."""
    if not await _shows(side, "stop"):
        return
    broker = side.broker()
    opening = asyncio.ensure_future(broker.open(TOPOLOGY))
    await asyncio.wait({opening}, timeout=side.settling.total_seconds())
    await in_time(broker.close())
    await in_time(asyncio.wait({opening}))
    if not opening.cancelled():
        opening.exception()
    assert not broker.is_there
    await side.mend("stop")


async def takers_go_on_after_it_was_away(side: BrokerSide) -> None:
    await _takers_go_on(side, "stop")


async def takers_go_on_after_a_cut(side: BrokerSide) -> None:
    await _takers_go_on(side, "cut")


async def _takers_go_on(side: BrokerSide, fault: Fault) -> None:
    """What was not acknowledged comes again, and what is acknowledged too late is not taken for something else."""
    if fault not in side.faults:
        return
    async with opened(side) as broker:
        async with taking(broker, prefetch=4) as intake:
            await publish_well(broker, messages(5))
            taken = await receive(intake, 4)
            await in_time(intake.acknowledge(taken[:1]))
            # Nobody answers an acknowledgement. That there was room for one more says that it arrived.
            taken += await receive(intake, 1)
            waiting = asyncio.ensure_future(intake.take(1))
            await asyncio.sleep(0)
            await side.show(fault)
            await side.mend(fault)
            again = [*await in_time(waiting), *await receive(intake, 3)]
            assert numbers(again) == [1, 2, 3, 4]
            assert all(one.is_redelivered for one in again)
            await in_time(intake.acknowledge(taken))
            await in_time(intake.give_back(taken))
            await nothing_comes(side, intake)
        async with taking(broker, prefetch=4) as intake:
            last = await receive(intake, 4)
            assert numbers(last) == [1, 2, 3, 4]
            await in_time(intake.acknowledge(last))
            await publish_until_confirmed(broker, message(5))
            assert numbers(await receive(intake, 1)) == [5]


async def a_cut_while_publishing_loses_nothing(side: BrokerSide) -> None:
    """Each is answered for: what was confirmed is there, and what was not may be."""
    async with opened(side) as broker:
        publishing = [asyncio.ensure_future(publish(broker, messages(50, first=50 * n))) for n in range(20)]
        await asyncio.wait(publishing, return_when=asyncio.FIRST_COMPLETED)
        more = asyncio.ensure_future(publish(broker, messages(2_000, first=1_000)))
        await asyncio.sleep(0)
        if not await _shows(side, "cut"):
            await in_time(asyncio.gather(*publishing, more))
            return
        calls = await in_time(asyncio.gather(*publishing, more))
        answers = [answer for call in calls for answer in call]
        assert {type(answer) for answer in answers} <= {Confirmed, Away}
        confirmed = {number for number, answer in enumerate(answers) if isinstance(answer, Confirmed)}
        await side.mend("cut")
        await publish_until_confirmed(broker, message(3_000))
        await _arrive(broker, confirmed | {3_000}, maybe=set(range(3_000)))


async def one_that_is_blocked_is_away(side: BrokerSide) -> None:
    """Nothing waits for it without end, and whoever takes goes on taking."""
    async with opened(side) as broker, taking(broker) as intake:
        await publish_well(broker, messages(3))
        if not await _shows(side, "block"):
            return
        await publish_until_away(broker)
        await until_there(broker, False)
        assert numbers(await receive(intake, 3)) == [0, 1, 2]
        answers = await publish(broker, messages(1_000, first=100))
        assert {type(answer) for answer in answers} == {Away}
        await side.mend("block")
        await until_there(broker)
        await publish_until_confirmed(broker, message(3))


async def a_full_queue_refuses(side: BrokerSide) -> None:
    """That is a word about this queue alone."""
    async with opened(side) as broker:
        if not await _shows(side, "full"):
            return
        sent = [message(1), message(2, key=OTHER_KEY), message(3)]
        answers = await publish(broker, sent)
        assert [type(answer) for answer in answers] == [Refused, Confirmed, Refused]
        assert all(answer.reason for answer in answers if isinstance(answer, Refused))
        assert broker.is_there
        await side.mend("full")
        await publish_until_confirmed(broker, message(4))


async def a_deleted_queue_is_there_again(side: BrokerSide) -> None:
    """Whoever takes from it declares it anew, and what is published then arrives."""
    async with opened(side) as broker, taking(broker) as intake:
        await publish_well(broker, [message(1)])
        assert numbers(await receive(intake, 1)) == [1]
        if not await _shows(side, "delete"):
            return
        await publish_until_confirmed(broker, message(2))
        assert 2 in numbers(await receive(intake, 1))
        assert broker.is_there


async def _arrive(broker: Broker, expected: set[int], *, maybe: set[int] | None = None) -> None:
    """All of these are there, and nothing else but those that may be."""
    async with taking(broker) as intake:
        arrived: set[int] = set()
        while not expected <= arrived:
            batch = await receive(intake, 1)
            arrived.update(numbers(batch))
            await in_time(intake.acknowledge(batch))
    assert arrived <= expected | (maybe or set())


async def _shows(side: BrokerSide, fault: Fault) -> bool:
    if fault not in side.faults:
        return False
    await side.show(fault)
    return True


FAULT_CHECKS: Final[tuple[Check, ...]] = (
    what_is_declared_twice_is_fine,
    each_who_opens_it_adds_what_they_need,
    what_is_declared_otherwise_is_refused,
    a_queue_of_another_sort_is_refused,
    watchers_hear_of_each_change,
    closing_twice_does_no_harm,
    closing_answers_whoever_publishes,
    one_that_is_away_comes_back,
    one_that_is_away_at_first_is_found,
    one_that_never_comes_can_be_closed,
    takers_go_on_after_it_was_away,
    takers_go_on_after_a_cut,
    a_cut_while_publishing_loses_nothing,
    one_that_is_blocked_is_away,
    a_full_queue_refuses,
    a_deleted_queue_is_there_again,
)
