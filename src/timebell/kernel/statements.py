"""The base class of every store: a statement is run by the name of its file, and told what time it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from timebell.clock import Clock
from timebell.db.pool import Row, Session
from timebell.db.queries import Query, load_queries
from timebell.rules.localtime import TIMEZONE_VERSION

Columns = dict[str, list[Any]]


class Statements:
    """Runs the statements of one package. What a statement must be told by Timebell itself, no caller has to say."""

    queries: ClassVar[Mapping[str, Query]] = load_queries("timebell.kernel.sql")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def _run(self, session: Session, query_name: str, /, **arguments: object) -> Sequence[Row]:
        query = self.queries[query_name]
        if "now" in query.parameters:
            arguments["now"] = self._clock.sql_now()
        if "lease_now" in query.parameters:
            arguments["lease_now"] = self._clock.lease_now()
        if "timezone_version" in query.parameters:
            arguments["timezone_version"] = TIMEZONE_VERSION
        return await session.run(query, **arguments)
