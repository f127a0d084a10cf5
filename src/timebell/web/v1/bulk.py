"""Many at once, each taken or refused by itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

from timebell.errors import TimebellError
from timebell.web.operation.calls import Call
from timebell.web.operation.problems import Problem, problem_of

Asked = TypeVar("Asked")
Made = TypeVar("Made")


async def each_by_itself(
    call: Call,
    asked: Sequence[tuple[int, Asked]],
    write: Callable[[Sequence[Asked]], Awaitable[Sequence[Made]]],
    names: Mapping[str, str] | None = None,
) -> dict[int, Made | Problem]:
    """By their places in the list, what was made or why not. All are written at once; where that is refused, each half
    by itself, so that what is wrong is found in few steps."""
    if not asked:
        return {}
    try:
        async with call.tx.all_or_nothing():
            made = await write([each for _, each in asked])
    except TimebellError as error:
        problem = refused(error, names)
        if len(asked) == 1:
            return {asked[0][0]: problem}
        middle = len(asked) // 2
        first = await each_by_itself(call, asked[:middle], write, names)
        return first | await each_by_itself(call, asked[middle:], write, names)
    return {index: each for (index, _), each in zip(asked, made, strict=True)}


def refused(error: TimebellError, names: Mapping[str, str] | None = None) -> Problem:
    """Only what was asked for is refused; a fault, or a database that is away, is everybody's."""
    problem = problem_of(error, names)
    if problem is None or problem.status >= 500:
        raise error
    return problem


def refusal(problem: Problem, prefix: str) -> dict[str, Any]:
    """Why one of several was refused; the pointers begin at the body of the request."""
    return {
        "status": problem.status,
        "code": problem.code,
        "detail": problem.detail,
        "errors": [{**asdict(error), "pointer": f"{prefix}{error.pointer}"} for error in problem.errors],
    }
