"""Under which keys a search lies, who is told and who waits, and what becomes of what failed. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, time, timedelta
from itertools import groupby, product
from typing import Any, Final
from uuid import UUID

from timebell.apps.marketplace.searches.models import Cause, Digested, Match, Shared, Sort
from timebell.apps.marketplace.staffing.models import WorkerFilter

SEARCHES_MAX: Final = 50
BATCH: Final = 50
ENTRIES_MAX: Final = 100
DIGEST_AT: Final = time(5)
TRIES_MAX: Final = 4
EMPTY: Final = "No new workers match your saved search criteria"
# Without a digest before; and the longest that one looks back.
LOOKS_BACK: Final = timedelta(hours=24)
LOOKS_BACK_MAX: Final = timedelta(hours=48)
# No transaction that lists somebody takes longer, so that nobody is between two digests.
LAG: Final = timedelta(minutes=1)
_SOONEST: Final = timedelta(seconds=30)
_LATEST: Final = timedelta(minutes=15)
_ANY: Final = ""
_EXACTLY: Final = "="
# What PostgreSQL says when something that was installed is not there: a function, a type, the file of a library.
_MISSING: Final = frozenset({"42883", "42704", "58P01", "0A000"})
# A connection that is gone, a server that goes or does not let anybody in, one that has no room. Not a statement that
# took too long, which is the statement's own doing.
_AWAY: Final = ("08", "53", "57P", "25006")

Keys = tuple[str, str, str]


def keys_of(wanted: WorkerFilter, *, is_exact: bool) -> Keys:
    """Under which trade, zip and skill a search is found. Of several skills one is enough: whoever has all has it."""
    zip_key = _ANY if wanted.zip_from is None else wanted.zip_from
    return (
        wanted.trade or _ANY,
        _EXACTLY + zip_key if zip_key and is_exact else zip_key,
        min(wanted.skills, default=_ANY),
    )


def probes_of(trade: str, zip: str, skills: Collection[str]) -> list[Keys]:
    """All keys under which a search may lie that finds such a worker."""
    zips = [_ANY, _EXACTLY + zip, *(zip[:length] for length in range(1, len(zip) + 1))]
    return list(product((_ANY, trade), zips, (_ANY, *sorted(set(skills)))))


def shared(
    matches: Sequence[Match], *, recent: Collection[UUID], counts: Mapping[UUID, int], most: int
) -> Shared:
    """A search tells of a worker once a day, and a person is told so many an hour at once."""
    told: list[Match] = []
    overflow: list[Match] = []
    left = {user: most - count for user, count in counts.items()}
    for match in matches:
        if match.id in recent:
            continue
        is_told = left.get(match.user_id, most) > 0
        left[match.user_id] = left.get(match.user_id, most) - is_told
        (told if is_told else overflow).append(match)
    return Shared(told=told, overflow=overflow)


def cause_of(error: BaseException) -> Cause:
    """Why something could not be asked. Without a state of PostgreSQL it did not even answer."""
    state = getattr(error, "sqlstate", None)
    if state is None:
        return "database" if isinstance(error, OSError | TimeoutError) else "query"
    if state in _MISSING:
        return "extension"
    return "database" if state.startswith(_AWAY) else "query"


def try_again_after(
    cause: Cause,
    sort: Sort,
    *,
    tries: int,
    elapsed: timedelta,
    windows: Mapping[Cause, timedelta],
    fraction: float,
) -> timedelta | None:
    """How long to wait before something is asked again; None where it is left out.

    A query is asked three times more. A database that is away, and for a digest something that is not installed, is
    waited for as long as its window, and at the end of that tried a last time; an alert does not wait for somebody to
    install something.
    """
    if cause == "query":
        return None if tries >= TRIES_MAX else _spread(_SOONEST * 2 ** (tries - 1), fraction)
    if cause == "extension" and sort == "instant":
        return None
    left = windows[cause] - elapsed
    return None if left <= timedelta(0) else min(_spread(max(elapsed, _SOONEST), fraction), left)


def _spread(delay: timedelta, fraction: float) -> timedelta:
    return min(delay, _LATEST) * (0.5 + fraction)


def digest_batches(rows: Sequence[tuple[UUID, UUID]], *, is_last: bool) -> list[list[UUID]]:
    """The people of each batch, whose searches are at most `BATCH` together. Of a page that is not the last the last
    person may have more, and stays for the next."""
    people = [(user, sum(1 for _ in theirs)) for user, theirs in groupby(rows, key=lambda row: row[0])]
    if not is_last:
        people = people[:-1]
    batches: list[list[UUID]] = []
    room = 0
    for user, count in people:
        if count > room:
            batches.append([])
            room = BATCH
        batches[-1].append(user)
        room -= count
    return batches


def first_digest(local_now: datetime) -> datetime:
    """The wall time of the first digest that is to come somewhere."""
    today = datetime.combine(local_now.date(), DIGEST_AT)
    return today if today > local_now else today + timedelta(days=1)


def is_told(searches: Sequence[Digested]) -> list[Digested]:
    """What of the searches of a person is in their digest: those with somebody new, and of the others those that say
    so."""
    return [one for one in searches if one.workers or (one.digest_enabled and one.send_empty_digest)]


def title_of(criteria: Mapping[str, Any]) -> str:
    """What a search asks for, in one line."""
    parts = [criteria.get("trade"), criteria.get("zip")]
    if criteria.get("zip_prefix"):
        parts.append(f"{criteria['zip_prefix']}…")
    parts += criteria.get("skills") or ()
    if criteria.get("rate_max") is not None:
        parts.append(f"up to {rate_of(criteria['rate_max'])}")
    if criteria.get("available_from"):
        parts.append(f"{criteria['available_from']} to {criteria['available_to']}")
    return ", ".join(part for part in parts if part) or "anybody"


def rate_of(minor: int) -> str:
    """An hour's rate, as people read it."""
    return f"{minor // 100}.{minor % 100:02}"
