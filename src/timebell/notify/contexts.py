"""The context that is read when something is told, by the name under which an app brings it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

import orjson

from timebell.errors import InvalidInput
from timebell.kernel import Dead, Job, Retry
from timebell.kernel.enqueueing import encode_payload

# Somebody has to load an app. What waits for that costs no attempt, and is not to keep a node busy meanwhile.
_NOT_LOADED: Final = timedelta(minutes=1)


def not_registered(what: str, name: str) -> Retry:
    return Retry(
        f"no {what} is registered as {name!r}; load the app that brings it", "unavailable", _NOT_LOADED
    )


class Unread(Exception):
    """There is no context to tell with, and what becomes of the job instead: no app of this process brings it, or what
    it answered can be told by no template."""

    def __init__(self, outcome: Retry | Dead) -> None:
        super().__init__(outcome.error if isinstance(outcome, Retry) else outcome.reason)
        self.outcome = outcome


async def read_context(name: str, job: Job) -> dict[str, Any]:
    """As JSON has it, so that a text says the same of what was planned and of what was read."""
    read = job.bell.registry.contexts.get(name)
    if read is None:
        raise Unread(not_registered("context", name))
    answer: object = await read(job)
    if not isinstance(answer, Mapping):
        words = f"the context {name!r} is a {type(answer).__name__}; answer with a mapping of names to values"
        raise Unread(Dead(words))
    try:
        encoded = encode_payload(answer, job.bell.settings.payload_bytes_max, field=f"the context {name!r}")
    except InvalidInput as error:
        raise Unread(Dead(str(error))) from None
    found: dict[str, Any] = orjson.loads(encoded)
    return found
