"""The id that every request has: the one that it brought, or a new one."""

from __future__ import annotations

import re
from secrets import token_hex
from typing import TYPE_CHECKING, Final

from starlette.types import Scope

from timebell.web.operation.problems import Problem
from timebell.web.operation.refusals import refusal

if TYPE_CHECKING:
    from starlette.responses import Response

CORRELATION: Final = "x-correlation-id"
_NAME: Final = CORRELATION.encode()
_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,100}")


def correlation_of(scope: Scope) -> str:
    given = next((value for name, value in scope["headers"] if name == _NAME), b"")
    text: str = given.decode("latin-1")
    return text if _ID.fullmatch(text) else token_hex(16)


def refused(scope: Scope, problem: Problem) -> Response:
    """A refusal where there is no API that would give its answers the header."""
    correlation_id = correlation_of(scope)
    response = refusal(scope, problem, correlation_id)
    response.headers[CORRELATION] = correlation_id
    return response
