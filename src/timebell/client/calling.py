"""One request, repeated until it is answered, with the same idempotency key each time, so that it is done once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import httpx2
import orjson

from timebell.clock import Chance, Clock, Ids
from timebell.errors import InvalidInput, TimebellError

# Nothing has reached the server when one of these comes, so nothing can have been done.
_NOT_SENT: Final = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
_PASSING: Final = frozenset({500, 502, 503, 504})
_IN_USE: Final = "idempotency_key_in_use"
_FIRST_DELAY: Final = 0.2
_LONGEST_DELAY: Final = 10.0
_LONGEST_TOLD_DELAY: Final = 60.0


class Refused(TimebellError):
    """The server refused. `code` says why in one word, `errors` which field, and the log has the `correlation_id`."""

    def __init__(self, status: int, content: Mapping[str, Any], retry_after: str = "") -> None:
        self.status = status
        self.retry_after = retry_after
        self.code = str(content.get("code", "unknown"))
        self.detail = str(content.get("detail", ""))
        self.errors: Sequence[Mapping[str, str]] = content.get("errors", [])
        self.correlation_id: str | None = content.get("correlation_id")
        self.content = content
        super().__init__(f"{status} {self.code}: {self.detail}")


class NoAnswer(TimebellError):
    """There was no answer, however often it was tried. What was asked for may have been done."""


class ReadAnew(TimebellError):
    """A stream cannot go on from where it was: read the list anew, and open the stream `after` this place."""

    def __init__(self, after: str) -> None:
        super().__init__(
            f"the stream cannot go on from where it was; read the list, then go on after {after}"
        )
        self.after = after


class Caller:
    """Sends requests. One that nobody answers, or that is answered with "not now", is sent again a little later."""

    def __init__(
        self, http: httpx2.AsyncClient, *, seconds: float, attempts: int, clock: Clock, chance: Chance
    ) -> None:
        self._http = http
        self._seconds = seconds
        self.attempts = attempts
        self._clock = clock
        self._chance = chance
        self._ids = Ids(chance)

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | None = None,
        actor: UUID | None = None,
        if_revision: int | None = None,
        idempotency_key: str | None = None,
        may_repeat: bool = True,
        seconds: float | None = None,
    ) -> Any:
        """The content of the answer; None where it has none. `may_repeat` False: what may have arrived is not sent
        again, for the few operations that take no idempotency key and do more when they are asked twice."""
        headers = _headers(actor, if_revision)
        if method != "GET":
            headers["idempotency-key"] = idempotency_key or self._ids.new().hex
        content = None
        if body is not None:
            content = _dump(body)
            headers["content-type"] = "application/json"
        patience = seconds or self._seconds
        request = self._http.build_request(
            method, path, content=content, params=_params(query), headers=headers, timeout=patience
        )
        for attempt in range(1, self.attempts + 1):
            is_last = attempt == self.attempts
            try:
                async with asyncio.timeout(patience):
                    response = await self._http.send(request)
            except (httpx2.TransportError, TimeoutError) as error:
                if is_last or not (may_repeat or isinstance(error, _NOT_SENT)):
                    raise _no_answer(request, attempt, error) from error
                await self.wait(attempt)
                continue
            if is_last or not _is_for_later(response, may_repeat):
                return content_of(response)
            await self.wait(attempt, _retry_after(response))
        raise AssertionError("the last attempt answers or raises")

    async def wait(self, attempt: int, retry_after: str = "") -> None:
        """As long as the server asks for, or a little longer each time, and never all callers equally long."""
        if retry_after.isascii() and retry_after.isdecimal():
            seconds = min(float(retry_after), _LONGEST_TOLD_DELAY)
        else:
            seconds = min(_FIRST_DELAY * 2 ** min(attempt - 1, 20), _LONGEST_DELAY)
        await self._clock.sleep(seconds * (1 + self._chance.fraction() / 4))

    @asynccontextmanager
    async def stream(
        self, path: str, *, actor: UUID | None, last_id: str | None
    ) -> AsyncIterator[httpx2.EventSource]:
        """One connection of a stream. A silence of twice the heartbeat means that nobody is there any more."""
        headers = _headers(actor, None)
        if last_id is not None:
            headers["last-event-id"] = last_id
        timeout = httpx2.Timeout(self._seconds, read=30.0)
        async with self._http.stream("GET", path, headers=headers, timeout=timeout) as response:
            if response.status_code != 200:
                await response.aread()
                content_of(response)
            yield httpx2.EventSource(response)


def content_of(response: httpx2.Response) -> Any:
    """What was answered, or the refusal raised."""
    content: Any = None
    try:
        content = orjson.loads(response.content) if response.content else None
    except orjson.JSONDecodeError:
        if response.headers.get("content-type", "").startswith("text/calendar"):
            content = response.text
    if not response.is_success:
        # What stands between here and the server has errors of its own, and other words for them.
        told = content if isinstance(content, dict) else {"detail": response.text[:200]}
        raise Refused(response.status_code, told, _retry_after(response))
    return content


def _retry_after(response: httpx2.Response) -> str:
    return response.headers.get("retry-after", "")


def is_for_later(error: Refused) -> bool:
    """Whether the same may well be answered soon."""
    return error.status == 429 or error.status in _PASSING


def _is_for_later(response: httpx2.Response, may_repeat: bool) -> bool:
    if response.status_code == 429:
        return True
    if response.status_code == 409 and may_repeat:
        return _IN_USE.encode() in response.content
    return may_repeat and response.status_code in _PASSING


def _headers(actor: UUID | None, if_revision: int | None) -> dict[str, str]:
    headers = {}
    if actor is not None:
        headers["timebell-actor"] = str(actor)
    if if_revision is not None:
        headers["if-match"] = f'"rev-{if_revision}"'
    return headers


def _params(query: Mapping[str, Any] | None) -> dict[str, str]:
    """What was left out is not sent."""
    return {name: _param(value) for name, value in (query or {}).items() if value is not None}


def _param(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(_jsonable(value) if isinstance(value, datetime | timedelta) else value)


def _dump(body: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(body, default=_jsonable, option=orjson.OPT_PASSTHROUGH_DATETIME)
    except TypeError as error:
        reason = error.__cause__ if isinstance(error.__cause__, InvalidInput) else InvalidInput(str(error))
        raise reason from None


def _jsonable(value: Any) -> Any:
    """Instants as RFC 3339 in UTC, wall times without an offset, durations as ISO 8601."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            return value.isoformat()
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        return shown_duration(value)
    raise TypeError(f"{type(value).__name__} cannot be sent")


def shown_duration(value: timedelta) -> str:
    seconds, fraction = divmod(abs(value), timedelta(seconds=1))
    if fraction:
        raise InvalidInput(f"{value} has a fraction of a second; give whole seconds", field="duration")
    hours, rest = divmod(seconds, 3_600)
    minutes, rest = divmod(rest, 60)
    text = "".join(
        f"{amount}{unit}" for amount, unit in ((hours, "H"), (minutes, "M"), (rest, "S")) if amount
    )
    return f"{'-' if value < timedelta(0) else ''}PT{text or '0S'}"


def _no_answer(request: httpx2.Request, attempts: int, error: Exception) -> NoAnswer:
    why = str(error) or type(error).__name__
    return NoAnswer(f"{request.method} {request.url.path} was not answered in {attempts} attempts: {why}")
