"""Saved searches, and what a tenant decides about them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from timebell.apps.marketplace.models import By
from timebell.apps.marketplace.searches.bodies import (
    SavedSearchChange,
    SavedSearchInput,
    SavedSearchRow,
    SearchSettingsInput,
    SearchSettingsRow,
    search_row,
)
from timebell.apps.marketplace.searches.refusals import CODES
from timebell.apps.marketplace.searches.service import Searches
from timebell.apps.marketplace.searches.store import SearchStore
from timebell.web import Answer, Call, Listed, PageQuery, Route, listed

_TAG: Final = "marketplace"
_PATH: Final = "/api/marketplace/saved-searches"
_SETTINGS: Final = "/api/marketplace/search-settings"


async def save_search(call: Call, *, body: SavedSearchInput) -> SavedSearchRow:
    """For the person who acts. Whoever is listed from now on is looked at."""
    terms = body.model_dump(include={"instant", "digest", "channels", "send_empty_digest"})
    search = await _searches(call).add(call.tx, call.person, body.criteria, terms, by=_by(call))
    return search_row(search)


async def list_saved_searches(call: Call, *, query: PageQuery) -> object:
    """Those of the person who acts, the oldest first."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        page = await _searches(call).list(tx, call.person, limit=query.limit, cursor=query.cursor)
    return listed(page, search_row)


async def get_saved_search(call: Call) -> SavedSearchRow:
    """One of one's own."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        return search_row(await _searches(call).get(tx, call.path["id"], person=call.person))


async def change_saved_search(call: Call, *, body: SavedSearchChange) -> SavedSearchRow:
    """What is left out stays as it is. One that has ended goes on where it is made active."""
    terms = body.model_dump(include={"instant", "digest", "channels", "send_empty_digest", "is_active"})
    search = await _searches(call).change(
        call.tx, call.path["id"], body.criteria, terms, person=call.person, by=_by(call)
    )
    return search_row(search)


async def delete_saved_search(call: Call) -> Answer:
    """With what waits to be told for it."""
    await _searches(call).remove(call.tx, call.path["id"], person=call.person, by=_by(call))
    return Answer(content=None, status=204)


async def get_search_settings(call: Call) -> SearchSettingsRow:
    """What the tenant decided, or the defaults."""
    async with call.bell.transaction(tenant=call.tenant) as tx:
        settings = await SearchStore(call.bell.clock).read_search_settings(tx)
    return SearchSettingsRow.model_validate(settings)


async def change_search_settings(call: Call, *, body: SearchSettingsInput) -> SearchSettingsRow:
    """Changes what is named, for everything that happens from then on."""
    store = SearchStore(call.bell.clock)
    settings = replace(await store.read_search_settings(call.tx), **body.model_dump(exclude_unset=True))
    await store.write_search_settings(call.tx, settings)
    return SearchSettingsRow.model_validate(settings)


def _searches(call: Call) -> Searches:
    return Searches(call.bell, call.notify)


def _by(call: Call) -> By:
    return By(person=call.person, name=call.by, correlation_id=call.correlation_id)


_OWN: Final[dict[str, Any]] = {"tag": _TAG, "acts_for": "recipient"}
_CHANGING: Final[dict[str, Any]] = {**_OWN, "scope": "write", "idempotency": "optional"}

ROUTES: Final = (
    Route(
        method="POST",
        path=_PATH,
        run=save_search,
        summary="Save a search",
        status=201,
        body=SavedSearchInput,
        answer=SavedSearchRow,
        example={
            "criteria": {"trade": "carpenter", "zip_prefix": "101", "skills": ["roofs"], "rate_max": 3000},
            "instant": True,
            "digest": True,
            "channels": ["sms", "email"],
        },
        problems={409: "one has as many as one may have (`too_many_searches`)"},
        codes=CODES,
        **_CHANGING,
    ),
    Route(
        method="GET",
        path=_PATH,
        run=list_saved_searches,
        summary="List saved searches",
        query=PageQuery,
        answer=Listed[SavedSearchRow],
        **_OWN,
    ),
    Route(
        method="GET",
        path=f"{_PATH}/{{id}}",
        run=get_saved_search,
        summary="Read a saved search",
        answer=SavedSearchRow,
        **_OWN,
    ),
    Route(
        method="PATCH",
        path=f"{_PATH}/{{id}}",
        run=change_saved_search,
        summary="Change a saved search",
        body=SavedSearchChange,
        answer=SavedSearchRow,
        example={"instant": False},
        **_CHANGING,
    ),
    Route(
        method="DELETE",
        path=f"{_PATH}/{{id}}",
        run=delete_saved_search,
        summary="Delete a saved search",
        status=204,
        **_CHANGING,
    ),
    Route(
        method="GET",
        path=_SETTINGS,
        run=get_search_settings,
        summary="Read what was decided about saved searches",
        tag=_TAG,
        answer=SearchSettingsRow,
    ),
    Route(
        method="PATCH",
        path=_SETTINGS,
        run=change_search_settings,
        summary="Decide about saved searches",
        tag=_TAG,
        scope="admin",
        body=SearchSettingsInput,
        answer=SearchSettingsRow,
        idempotency="optional",
        example={"alerts_per_hour": 5},
    ),
)
