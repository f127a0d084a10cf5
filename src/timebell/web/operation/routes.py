"""`Route`: one operation over HTTP as a value. Apps bring a list of them; what they have in common is done once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel

from timebell.errors import ConfigurationError
from timebell.web.operation.fields import has_secret

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Scope = Literal["read", "write", "admin"]
Run = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer that is more than its content: another status, headers, or a revision to compare with later."""

    content: Any
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    revision: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """What an operation takes, who may call it, and the function that answers.

    `run` is called with the call and, where there is a `body` or a `query`, with those by their names. What a route
    other than GET does, it does in `call.tx`, which commits when `run` has answered. `shared` takes the place of `run`
    where a request came without an idempotency key: it has no transaction of its own and shares one with those that
    come at the same time. `prepare` does before the transaction opens what takes long and writes nothing, such as
    reading a file; what it answers, `run` is given as `prepared`.
    `again` answers a repetition with the same idempotency key in the place of the first answer, of which nothing is
    kept since it says a secret; it changes nothing.

    `acts_for` "recipient": the call is made for a person, `call.actor`; "either": for a person where the request names
    one. A person's own token is good for these two and for no other. "noted": whoever has a key may say for whom, and
    that is recorded. `is_stream`: the answer is `text/event-stream` and
    has no end of its own; the token of a stream opens it. `media_type` is that of any other answer. `scope` None:
    anybody may call. `plans`: with `?dry_run=true` everything is computed and nothing kept. `names` are this route's
    own names for fields that are called otherwise inside. `example` is a body that can be sent; for a route without
    one, an answer. `texts` are media types, besides JSON, that a body may have, each with the field that it is the text
    of, so that a file can be sent as it is; `bytes_max` is how large that may be where it is more than the settings
    allow. `own_ids`: an id in the path is a text that callers chose, and no UUID of ours. `also` says of further
    statuses of the same answer when they come, of 204 without it; `problems` says so of refusals, and `codes` explains
    the codes of those that only this route has.
    """

    method: Method
    path: str
    run: Run
    summary: str
    tag: str
    status: int = 200
    scope: Scope | None = "read"
    acts_for: Literal["nobody", "recipient", "either", "noted"] = "nobody"
    body: type[BaseModel] | None = None
    query: type[BaseModel] | None = None
    answer: Any = None
    idempotency: Literal["none", "optional", "required"] = "none"
    shared: Run | None = None
    prepare: Run | None = None
    again: Run | None = None
    plans: bool = False
    is_stream: bool = False
    media_type: str = "application/json"
    names: Mapping[str, str] = field(default_factory=dict)
    example: Mapping[str, Any] | None = None
    texts: Mapping[str, str] = field(default_factory=dict)
    bytes_max: int = 0
    own_ids: bool = False
    also: Mapping[int, str] = field(default_factory=dict)
    problems: Mapping[int, str] = field(default_factory=dict)
    codes: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.idempotency != "none" and self.again is None and has_secret(self.answer):
            raise ConfigurationError(
                f"{self.method} {self.path}: the answer says a secret, which must not be kept for a repetition; "
                "give `again`, or take no idempotency key"
            )
