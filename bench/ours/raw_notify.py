"""The raw deliveries: the statements of notify between those of the engine, with contents that are ready."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import UUID

import orjson

from timebell.bench.raw import RawLoop
from timebell.clock import Ids
from timebell.db.pool import Row, Session
from timebell.kernel import Timebell
from timebell.notify.delivery.delivery_store import Columns, DeliveryStore
from timebell.notify.inbox.inbox_store import InboxStore
from timebell.notify.planning.notes import content_json
from timebell.notify.provider import Content

_TEXT = "Dear Recipient, the meeting begins on 15 November 2026 at 09:30."
_CONTENT = content_json(Content(subject="Soon: Meeting", text=_TEXT))
_AT = datetime(2026, 11, 15, 9, 30, tzinfo=UTC)
# About what a delivery considers, as it is written down.
_DECISION = orjson.dumps(
    {
        "at": _AT.isoformat(),
        "checks": [
            {"name": name, "verdict": "passed", "detail": {"channel": "email", "address": "r…@e…"}}
            for name in ("route", "consent", "provider")
        ],
    }
).decode()


class RawDeliveries(RawLoop):
    """Tells as many at once as a process that gathers its statements does."""

    batch = 500

    def __init__(self, bell: Timebell, channel: Literal["inbox", "log"]) -> None:
        super().__init__(bell, "external")
        self._channel = channel
        self._ids = Ids(bell.chance)
        self._deliveries = DeliveryStore(bell.clock)
        self._inbox = InboxStore(bell.clock)

    async def work(self, session: Session, batch: Sequence[Row], version: int) -> None:
        tenants = [row["tenant"] for row in batch]
        ids = [row["id"] for row in batch]
        recipients = [UUID(orjson.loads(row["payload"])["recipient"]) for row in batch]
        facts: Columns = {"tenants": tenants, "ids": ids, "recipient_ids": recipients}
        await self._deliveries.read_facts(session, columns=facts)
        if self._channel == "inbox":
            await self._show(facts, version)
        else:
            await self._send(session, facts, version)
        await self._deliveries.note_progress(session, columns=_progress(facts))

    async def _show(self, facts: Columns, version: int) -> None:
        count = len(facts["ids"])
        columns: Columns = {
            **facts,
            "delivery_ids": list(self._ids.many(count)),
            "types": ["meetings"] * count,
            "titles": ["Soon: Meeting"] * count,
            "descriptions": [_TEXT] * count,
            "priorities": ["normal"] * count,
            "payloads": ["{}"] * count,
            "subjects": [None] * count,
            "due_ats": [_AT] * count,
            "expires_ats": [None] * count,
            "languages": ["en"] * count,
            "contents": [_CONTENT] * count,
        }
        async with self._bell.database.transaction() as session:
            await self._confirm(session, facts["ids"], version)
            await self._inbox.show_entries(session, columns=columns)

    async def _send(self, session: Session, facts: Columns, version: int) -> None:
        """What the provider itself would do takes no time."""
        count = len(facts["ids"])
        ids = list(self._ids.many(count))
        starts: Columns = {
            "tenants": facts["tenants"],
            "ids": ids,
            "notification_ids": facts["ids"],
            "recipient_ids": facts["recipient_ids"],
            "channels": ["email"] * count,
            "providers": ["log"] * count,
            "addresses": ["recipient@example.org"] * count,
            "languages": ["en"] * count,
            "contents": [_CONTENT] * count,
            "expires_ats": [None] * count,
        }
        async with self._bell.database.transaction() as writing:
            await self._confirm(writing, facts["ids"], version)
            await self._deliveries.start_attempts(writing, columns=starts)
        answers: Columns = {
            "tenants": facts["tenants"],
            "delivery_ids": ids,
            "numbers": [1] * count,
            "answers": ["sent"] * count,
            "states": ["sent"] * count,
            "reasons": ["accepted"] * count,
            "provider_ids": [str(id) for id in ids],
            "details": ["{}"] * count,
            "costs": ["nothing"] * count,
        }
        await self._deliveries.record_answers(session, columns=answers)

    async def _confirm(self, session: Session, ids: list[Any], version: int) -> None:
        await self._bell.store.confirm_jobs(session, ids=ids, versions=[version] * len(ids))


def _progress(facts: Columns) -> Columns:
    count = len(facts["ids"])
    return {
        "tenants": facts["tenants"],
        "ids": facts["ids"],
        "states": ["sent"] * count,
        "reasons": ["accepted"] * count,
        "held_untils": [None] * count,
        "digest_ids": [None] * count,
        "settled": [True] * count,
        "decisions": [_DECISION] * count,
    }
