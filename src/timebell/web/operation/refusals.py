"""A refusal in the form that whoever asked can read.

A browser's EventSource takes every status but 200 as final and never asks again. What may well be answered soon is
therefore told to it as a stream: one that says why, when to come again, and ends.
"""

from __future__ import annotations

from secrets import randbelow
from typing import TYPE_CHECKING, Final

import orjson
from starlette.types import Scope

from timebell.web.operation.problems import Problem

if TYPE_CHECKING:
    from starlette.responses import Response

STREAM_TYPE: Final = "text/event-stream"
# Where a request keeps the status that its refusal would have had.
REFUSED: Final = "refused"
TOKEN_EXPIRED: Final = "token_expired"  # noqa: S105  (a code)
_RETRY_SECONDS: Final = 2
_HEADERS: Final = {
    "cache-control": "no-store",
    "x-accel-buffering": "no",
    # Nothing in it is anybody's, and a page that may not read it would never ask again.
    "access-control-allow-origin": "*",
}


def refusal(scope: Scope, problem: Problem, correlation_id: str) -> Response:
    """The problem, or for who reads streams alone, and may come again, the end of one."""
    if not (is_passing(problem) and reads_streams_alone(scope)):
        return problem.response(correlation_id)
    from starlette.responses import Response

    scope.setdefault("state", {})[REFUSED] = problem.status
    seconds = int(problem.headers.get("retry-after", _RETRY_SECONDS))
    end = farewell(problem.code, retry_seconds=seconds, detail=problem.detail)
    return Response(end, media_type=STREAM_TYPE, headers=_HEADERS)


def is_passing(problem: Problem) -> bool:
    """Whether the same client may be let in soon: as it is, or with another token."""
    return problem.status == 429 or problem.status >= 500 or problem.code == TOKEN_EXPIRED


def reads_streams_alone(scope: Scope) -> bool:
    """As an EventSource says of itself. Who reads other forms too is told by the status."""
    accepted = [value for name, value in scope["headers"] if name == b"accept"]
    return scope["method"] == "GET" and [value.strip().lower() for value in accepted] == [
        STREAM_TYPE.encode()
    ]


def farewell(reason: str, *, retry_seconds: int | None = None, detail: str | None = None) -> bytes:
    """The last message, so that a client knows whether to come again as it is. All who are sent away together are told
    different times, so that they do not come again together."""
    told = {"reason": reason} if detail is None else {"reason": reason, "detail": detail}
    message = b"event: end\ndata: " + orjson.dumps(told) + b"\n\n"
    if retry_seconds is None:
        return message
    at_least = 1_000 * max(1, retry_seconds)
    return f"retry: {at_least + randbelow(at_least)}\n".encode("ascii") + message
