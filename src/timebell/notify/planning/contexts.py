"""The context that is read when something is told, by the name under which an app brings it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from timebell.errors import InvalidInput
from timebell.kernel import Dead, Job, Retry
from timebell.kernel.guards import not_registered
from timebell.kernel.jobs import encode_payload


class Untold(Exception):
    """Nothing can be told, and what becomes of the job instead."""

    def __init__(self, outcome: Retry | Dead) -> None:
        super().__init__(outcome.error if isinstance(outcome, Retry) else outcome.reason)
        self.outcome = outcome


class Unread(Untold):
    """There is no context to tell with: no app of this process brings it, or its answer can be told by no template."""


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
