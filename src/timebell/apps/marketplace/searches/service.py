"""`Searches`: what people look for. Each verb takes part in the transaction that it is given; whoever asks for what is
another's is told that there is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import orjson

from timebell.apps.marketplace.models import By
from timebell.apps.marketplace.searches.cycles import DigestCycles, zone_of
from timebell.apps.marketplace.searches.models import SavedSearch
from timebell.apps.marketplace.searches.refusals import no_search, too_many_searches
from timebell.apps.marketplace.searches.rules import SEARCHES_MAX, keys_of
from timebell.apps.marketplace.searches.store import SearchStore, search_of
from timebell.apps.marketplace.staffing.bodies import Criteria
from timebell.errors import NotFound
from timebell.kernel import Ids, Page, Timebell, Transaction, decode_cursor, page_of
from timebell.notify import Notify

_TERMS = ("instant", "digest", "send_empty_digest", "is_active")


class Searches:
    """Searches of one person at a time."""

    def __init__(self, bell: Timebell, notify: Notify) -> None:
        self._bell = bell
        self._notify = notify
        self._store = SearchStore(bell.clock)
        self._cycles = DigestCycles(bell)
        self._ids = Ids(bell.chance)

    async def add(
        self, tx: Transaction, person: UUID, criteria: Criteria, terms: Mapping[str, Any], *, by: By
    ) -> SavedSearch:
        await self._store.lock_user(tx, user_ids=[person])
        timezone = await self._timezone(tx, person)
        if await self._store.count_searches(tx, user_id=person) >= SEARCHES_MAX:
            raise too_many_searches(SEARCHES_MAX)
        id = self._ids.new()
        columns = {**criteria_columns(criteria), **terms, "timezone": timezone}
        await self._store.insert_search(tx, id=id, user_id=person, **columns)
        return await self._made(tx, id, "saved_search.added", terms, timezone, by)

    async def get(self, tx: Transaction, id: UUID, *, person: UUID) -> SavedSearch:
        search = await self._store.read_search(tx, id=id)
        if search is None or search.user_id != person:
            raise no_search(id)
        return search

    async def list(
        self, tx: Transaction, person: UUID, *, limit: int, cursor: str | None
    ) -> Page[SavedSearch]:
        after = decode_cursor("saved_searches", cursor).id
        rows = await self._store.list_searches(tx, user_id=person, after=after, limit=limit)
        return page_of("saved_searches", rows, limit, search_of)

    async def change(
        self,
        tx: Transaction,
        id: UUID,
        criteria: Criteria | None,
        terms: Mapping[str, Any],
        *,
        person: UUID,
        by: By,
    ) -> SavedSearch:
        """None leaves something as it is. One that had ended begins anew where it is made active."""
        await self._store.lock_user(tx, user_ids=[person])
        before = await self.get(tx, id, person=person)
        kept = {
            "instant": before.instant_enabled,
            "digest": before.digest_enabled,
            "send_empty_digest": before.send_empty_digest,
            "is_active": before.is_active,
            "channels": list(before.channels),
        }
        stated = {**kept, **{name: value for name, value in terms.items() if value is not None}}
        # What was saved was checked then, and may not be said again: a zone may be gone by now.
        asked = criteria or Criteria.model_validate_json(orjson.dumps(before.criteria))
        timezone = await self._timezone(tx, person)
        await self._store.update_search(tx, id=id, timezone=timezone, **criteria_columns(asked), **stated)
        return await self._made(tx, id, "saved_search.changed", stated, timezone, by)

    async def remove(self, tx: Transaction, id: UUID, *, person: UUID, by: By) -> None:
        """With what waits to be told for it."""
        await self._store.lock_user(tx, user_ids=[person])
        await self.get(tx, id, person=person)
        await self._store.delete_search(tx, id=id)
        await self._notify.withdraw(tx, subject=search_subject(id), reason="the search was deleted")
        await self._record(tx, "saved_search.removed", id, {}, by)

    async def _made(
        self, tx: Transaction, id: UUID, event: str, terms: Mapping[str, Any], timezone: str, by: By
    ) -> SavedSearch:
        if terms["digest"]:
            await self._cycles.ensure(tx, timezone, by=by)
        said = {name: terms[name] for name in _TERMS if name in terms}
        await self._record(tx, event, id, {"after": said}, by)
        search = await self._store.read_search(tx, id=id)
        assert search is not None, "it was written just now"
        return search

    async def _timezone(self, tx: Transaction, person: UUID) -> str:
        timezones = await self._notify.recipients.timezones(tx, [person])
        if person not in timezones:
            raise NotFound(f"there is no recipient {person}; add it first")
        return zone_of(timezones[person], person)

    async def _record(self, tx: Transaction, event: str, id: UUID, data: Mapping[str, Any], by: By) -> None:
        await self._bell.record(
            tx, event, data, subject=search_subject(id), actor=by.name, correlation_id=by.correlation_id
        )


def search_subject(id: UUID) -> str:
    return f"saved_search:{id}"


def criteria_columns(criteria: Criteria) -> dict[str, Any]:
    """What is asked for, as the statements compare it."""
    wanted = criteria.wanted()
    trade_key, zip_key, skill_key = keys_of(wanted, is_exact=criteria.zip is not None)
    return {
        "criteria": criteria.model_dump_json(exclude_defaults=True),
        "trade": wanted.trade,
        "zip_from": wanted.zip_from,
        "zip_to": wanted.zip_to,
        "skills": list(wanted.skills),
        "rate_max": wanted.rate_max,
        "since": wanted.since,
        "before": wanted.before,
        "trade_key": trade_key,
        "zip_key": zip_key,
        "skill_key": skill_key,
    }
