"""Calls that arrive together share one statement, and nobody bears the fault of another."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from timebell.db.together import Together


class Statement:
    """Answers with twice the number, notes what was asked at once, and breaks on what it is told to."""

    def __init__(self, *, broken: frozenset[int] = frozenset()) -> None:
        self.batches: list[list[int]] = []
        self._broken = broken

    async def run(self, asked: Sequence[int]) -> Sequence[int]:
        self.batches.append(list(asked))
        await asyncio.sleep(0)
        if self._broken & set(asked):
            raise ValueError(f"cannot double {asked}")
        return [2 * number for number in asked]


async def one_a_turn(double: Together[int, int], numbers: Sequence[int]) -> list[int]:
    """As the engine starts handlers: the next one begins when the one before it waits."""
    calls = []
    for number in numbers:
        calls.append(asyncio.create_task(double(number)))
        await asyncio.sleep(0)
    return list(await asyncio.gather(*calls))


async def test_those_who_come_one_a_turn_share_a_statement() -> None:
    statement = Statement()
    assert await one_a_turn(Together(statement.run), range(50)) == [2 * number for number in range(50)]
    assert statement.batches == [list(range(50))]


async def test_a_statement_takes_so_many_and_no_more() -> None:
    statement = Statement()
    assert await one_a_turn(Together(statement.run, most=20), range(50)) == [2 * n for n in range(50)]
    assert [len(batch) for batch in statement.batches] == [20, 20, 10]


async def test_who_comes_alone_waits_for_nobody() -> None:
    statement = Statement()
    double = Together(statement.run)
    assert [await double(1), await double(2)] == [2, 4]
    assert statement.batches == [[1], [2]]


async def test_nobody_bears_the_fault_of_another() -> None:
    double = Together(Statement(broken=frozenset({2})).run)
    first, second, third = await asyncio.gather(double(1), double(2), double(3), return_exceptions=True)
    assert (first, third) == (2, 6)
    assert isinstance(second, ValueError)


async def test_what_may_have_been_done_is_not_done_again() -> None:
    statement = Statement(broken=frozenset({2}))
    double = Together(statement.run, unsure=(ValueError,))
    answers = await asyncio.gather(double(1), double(2), return_exceptions=True)
    assert [type(answer) for answer in answers] == [ValueError, ValueError]
    assert statement.batches == [[1, 2]]


async def test_who_gave_up_is_not_asked_for() -> None:
    statement = Statement()
    double = Together(statement.run)
    calls = [asyncio.create_task(double(number)) for number in (1, 2)]
    await asyncio.sleep(0)
    calls[0].cancel()
    assert await calls[1] == 4
    with pytest.raises(asyncio.CancelledError):
        await calls[0]
    assert statement.batches == [[2]]


@pytest.mark.parametrize("is_broken", [False, True])
async def test_who_must_know_hears_that_it_was_cancelled_when_the_answer_is_there(is_broken: bool) -> None:
    """What is written down may be committed all the same, and then somebody has to know that it was."""
    statement = Statement(broken=frozenset({1} if is_broken else ()))
    double = Together(statement.run)
    answers: list[asyncio.Future[int]] = []

    async def wait() -> None:
        answers.append(double.ask(1))
        await answers[0]

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert statement.batches == [[1]]
    if is_broken:
        assert isinstance(answers[0].exception(), ValueError)
    else:
        assert answers[0].result() == 2


async def test_nobody_waits_for_a_batch_that_was_ended() -> None:
    async def run(asked: Sequence[int]) -> Sequence[int]:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await Together(run).ask(1)


@pytest.mark.parametrize("is_asked_singly", [False, True])
async def test_nobody_waits_for_what_was_never_asked(is_asked_singly: bool) -> None:
    """A process that ends cancels all of its tasks once, and then waits for each."""
    asking = asyncio.Event()

    async def run(asked: Sequence[int]) -> Sequence[int]:
        if is_asked_singly and len(asked) > 1:
            raise ValueError
        asking.set()
        await asyncio.Event().wait()
        return asked

    double = Together(run, most=2)
    answers = [double.ask(number) for number in range(4)]
    await asking.wait()
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    for answer in answers:
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(answer, 5)


async def test_nobody_waits_for_a_batch_that_was_ended_before_it_began() -> None:
    """A process that ends cancels all that goes on in it, and what has taken no step yet never takes one."""
    double = Together(Statement().run)
    answer = double.ask(1)
    current = double._gathering._current
    assert current is not None
    current.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(asyncio.shield(answer), 5)
    assert await double(2) == 4
