"""`Surface`: everything behind the HTTP surface of one process, put together once and handed to each call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from timebell.kernel import Timebell
from timebell.kernel.insights import Insights
from timebell.notify import Notify, Reporter
from timebell.web.access.access import Access
from timebell.web.access.keys import ApiKeys
from timebell.web.access.quotas import Quotas
from timebell.web.access.rates import Rates
from timebell.web.access.tenants import Tenants
from timebell.web.access.tokens import Tokens
from timebell.web.operation.problems import Problems
from timebell.web.operation.replies import Replies
from timebell.web.operation.together import JobsTogether
from timebell.web.server.watching import RequestTally
from timebell.web.streams.streams import Streams

if TYPE_CHECKING:
    from timebell.web.sandbox import Sandbox

Complaints = Callable[[], Awaitable[Sequence[str]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Surface:
    """What calls are answered with. `bell` connects as the role of the API, behind the wall between tenants.
    `strangers` limits those who come without a key. `stopping` is set when the process is about to end, so that answers
    without an end of their own find one."""

    bell: Timebell
    notify: Notify
    insights: Insights
    access: Access
    strangers: Rates
    keys: ApiKeys
    tenants: Tenants
    quotas: Quotas
    tokens: Tokens
    replies: Replies
    jobs: JobsTogether
    complaints: Complaints
    problems: Problems
    streams: Streams
    stopping: asyncio.Event
    reporters: Mapping[str, Reporter] = field(default_factory=dict)
    sandbox: Sandbox | None = None
    requests: RequestTally = field(default_factory=RequestTally)

    @property
    def read_seconds(self) -> float:
        """How long a statement of a request that only reads may take."""
        settings = self.bell.settings
        return min(settings.read_seconds, settings.statement_seconds)


def surface_of(
    bell: Timebell,
    complaints: Complaints,
    *,
    reporters: Mapping[str, Reporter] | None = None,
    sandbox: Sandbox | None = None,
) -> Surface:
    """The surface on a bell that connects as the role of the API."""
    notify = bell.shared.one(Notify)
    keys, tokens = ApiKeys(bell), Tokens(bell.settings, bell.tallies.previous_keys)
    per_minute = bell.settings.requests_per_minute
    quotas = Quotas(bell)
    monotonic = bell.clock.monotonic
    rates = Rates(per_minute, "key", monotonic=monotonic)
    access = Access(keys, tokens, notify, rates, quotas, monotonic=monotonic)
    stopping = asyncio.Event()
    return Surface(
        bell=bell,
        notify=notify,
        insights=Insights(bell.database, bell.clock),
        access=access,
        strangers=Rates(per_minute, "address", monotonic=monotonic),
        keys=keys,
        tenants=Tenants(bell),
        quotas=quotas,
        tokens=tokens,
        replies=Replies(bell.clock),
        jobs=JobsTogether(bell, quotas),
        complaints=complaints,
        problems=Problems(bell.registry.apps),
        reporters=reporters or {},
        sandbox=sandbox,
        streams=Streams(bell, notify.inbox, access, stopping),
        stopping=stopping,
    )
