"""The app that brokers bring to every process: the handler of `broker.publish`, which publishes a message later.

Any app, and any program that can speak SQL, enqueues one in its own transaction. It is published when it is due, and
done once the broker has confirmed that a queue has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any, Final

import orjson

from timebell.brokers.carrying import SHORT_BYTES_MAX, why_not_carried
from timebell.brokers.contract import Away, Broker, Confirmed, Header, Message
from timebell.brokers.holding import held_while_away
from timebell.kernel import App, Dead, Done, Handler, Job, Outcome, Queue, Retry, Snooze, Timebell
from timebell.rules.backoff import RetryPolicy

PUBLISH: Final = "broker.publish"
QUEUE: Final = "broker"
HEADERS_MAX: Final = 64
HEADERS_BYTES_MAX: Final = 16 * 1024

_FIELDS: Final = ("exchange", "routing_key", "body", "headers")
# A broker that is away takes no attempts. One that will not have a message, since a queue is full or not yet bound,
# may have it once somebody has seen to that: it is given up after about a day.
_FOR_A_DAY: Final = RetryPolicy.exponential(
    base=timedelta(seconds=1), ceiling=timedelta(minutes=15), max_attempts=100
)


def broker_app(broker: Broker | None, *, tenant: str, trusts_tenant: bool) -> App:
    """The app that publishes for this tenant, or for all where they are trusted.

    A process without a broker runs nothing of it, and leaves what is due to those that have one.
    """
    may = _May(tenant, trusts_tenant=trusts_tenant)
    if broker is None:
        return App(name="broker", queues=[Queue(name=QUEUE)], refuses={PUBLISH: may})
    return App(
        name="broker",
        handlers={
            PUBLISH: Handler(run=_Publishing(broker, may), mode="external", queue=QUEUE, retry=_FOR_A_DAY)
        },
        queues=[Queue(name=QUEUE)],
        refuses={PUBLISH: may},
        on_open=_Opening(broker),
    )


class _May:
    """Says why a tenant may not publish, if it may not. A broker has no walls: whoever publishes reaches everything."""

    def __init__(self, tenant: str, *, trusts_tenant: bool) -> None:
        self._tenant = tenant
        self._trusts_tenant = trusts_tenant

    def __call__(self, tenant: str) -> str | None:
        if self._trusts_tenant or tenant == self._tenant:
            return None
        return (
            f"{PUBLISH}: only the tenant {self._tenant!r} may publish; have it enqueue this, or set"
            " broker_trusts_tenant if every tenant may reach the whole broker"
        )


class _Opening:
    """Connects, and has the jobs wait whenever the broker is away."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def __call__(self, bell: Timebell) -> AbstractAsyncContextManager[None]:
        return held_while_away(bell, self._broker, QUEUE)


class _Publishing:
    """The handler. Runs that come together are published together: the broker sees to that."""

    def __init__(self, broker: Broker, may: _May) -> None:
        self._broker = broker
        self._may = may

    async def __call__(self, job: Job) -> Outcome:
        if (refusal := self._may(job.tenant)) is not None:
            return Dead(refusal)
        message = message_of(job)
        if isinstance(message, str):
            return Dead(message)
        (published,) = await self._broker.publish([message])
        match published:
            case Confirmed():
                return Done()
            case Away(reason):
                # However late it is by then, it costs no attempt.
                return Snooze(delay=timedelta(seconds=1), reason=reason)
            case _:
                return Retry(f"{type(published).__name__.lower()}: {published.reason}")


def message_of(job: Job) -> Message | str:
    """The message that a payload asks for, the same at every attempt; or why none can be made of it."""
    payload = job.payload
    if (wrong := _wrong_field(payload)) is not None:
        return wrong
    headers: dict[str, Header] = payload.get("headers") or {}
    if (wrong := _wrong_headers(headers)) is not None:
        return f"headers: {wrong}"
    try:
        body = orjson.dumps(payload["body"])
    except TypeError as error:
        return f"body: it cannot be written as JSON ({error}); give numbers of at most 64 bits"
    message = Message(
        exchange=payload["exchange"],
        routing_key=payload["routing_key"],
        body=body,
        message_id=str(job.id),
        correlation_id=_short(job.correlation_id),
        headers=headers,
    )
    return why_not_carried(message) or message


def _short(text: str | None) -> str | None:
    """It is there to help, so that one which is too long for a broker is left out."""
    return None if text is None or len(text.encode()) > SHORT_BYTES_MAX else text


def _wrong_field(payload: Mapping[str, Any]) -> str | None:
    unknown = next((name for name in payload if name not in _FIELDS), None)
    if unknown is not None:
        return f"{unknown:.100}: there is no such field; give {', '.join(_FIELDS)}"
    for name in ("exchange", "routing_key"):
        if not isinstance(payload.get(name), str):
            return f"{name}: it is not there, or no text; give a text of at most 255 bytes"
    if "body" not in payload:
        return "body: it is not there; give any JSON value, null for none"
    if not isinstance(payload.get("headers"), dict | None):
        return "headers: they are no object; give names and values, or leave them out"
    return None


def _wrong_headers(headers: Mapping[str, Any]) -> str | None:
    if len(headers) > HEADERS_MAX:
        return f"there are {len(headers)}; give at most {HEADERS_MAX}"
    for name, value in headers.items():
        if not isinstance(value, str | int | None):
            return f"{name!r:.100}: it is no text, whole number, boolean or null; give one of these"
    length = sum(len(name) + len(_text(value)) for name, value in headers.items())
    if length > HEADERS_BYTES_MAX:
        return f"they have {length} bytes; give at most {HEADERS_BYTES_MAX} in all, and put the rest into the body"
    return None


def _text(value: str | int | None) -> bytes:
    return value.encode(errors="replace") if isinstance(value, str) else str(value).encode()
