"""How much a tenant may have and ask for, so that none takes the room of the others.

Whatever a request writes is counted in its transaction, and compared before it commits. What the tenant has besides is
counted in the database now and then, more often when little is left, and what this process took since is added. So
only a tenant's first requests and those near its quota wait for a count, and a quota is kept to within what other
processes have taken since the last one.

The tenant `default` is that of whoever runs the server: it has the quotas that it gave itself, and no others.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import orjson

from timebell.clock import Clock
from timebell.config import Settings
from timebell.db.walls import walled_to
from timebell.errors import InvalidInput, NotFound
from timebell.kernel import Timebell, Transaction
from timebell.kernel.bell import DEFAULT_TENANT
from timebell.web.operation.problems import Problem
from timebell.web.operation.remembered import Shared
from timebell.web.store import WebStore

NAMES: Final = ("pending_jobs", "payload_bytes", "schedules", "recipients", "requests_per_minute")
# The word by which a transaction counts each.
_COUNTED: Final = {
    "pending_jobs": "enqueued",
    "payload_bytes": "payload_bytes",
    "schedules": "schedules",
    "recipients": "recipients",
}
_REMEDY: Final = {
    "pending_jobs": "wait until some are done, cancel what nobody needs",
    "payload_bytes": "keep the data yourself and send its id, wait until some jobs are done",
    "schedules": "end those that nobody needs",
    "recipients": "erase those that nobody needs",
}
LIMIT_MAX: Final = 10**15
_NONE: Final = LIMIT_MAX
# How far somebody who has no quota is counted.
COUNTED_MAX: Final = 1_000_000
# How long a count is good: with much left, and with little.
_SECONDS: Final = 30.0
_NEAR_SECONDS: Final = 1.0
_NEAR: Final = 0.9
_NEAR_LEFT: Final = 10_000
# At most one part in so many of the time is spent on counting for one tenant.
_SHARE: Final = 50
_LIMITS_SECONDS: Final = 5.0
_NEVER: Final = float("-inf")
_TENANTS_MAX: Final = 10_000
_RETRY_SECONDS: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """One quota of a tenant. `limit` is None where there is none; `is_own` where it was given to this tenant."""

    name: str
    limit: int | None
    used: int | None
    is_own: bool


@dataclass(slots=True)
class _Tenant:
    """What is known of one tenant here. Whoever comes while nothing is known waits for the first look."""

    read: Shared[None] = field(init=False)
    count: Shared[None] = field(init=False)
    limits: Mapping[str, int] = field(default_factory=dict)
    # Whether it has a quota of something that has to be counted.
    is_counted: bool = False
    read_at: float = _NEVER
    used: Counter[str] = field(default_factory=Counter)
    counted_at: float = _NEVER
    cost: float = 0.0

    def is_near(self) -> bool:
        for name in _COUNTED:
            limit = self.limits.get(name, _NONE)
            if self.used[name] >= limit * _NEAR or limit - self.used[name] < _NEAR_LEFT:
                return True
        return False


class Quotas:
    """The quotas of all tenants, as one process keeps them."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._store = WebStore(bell.clock)
        self.defaults = defaults_of(bell.settings)
        self._tenants: OrderedDict[str, _Tenant] = OrderedDict()
        self.refused: Counter[str] = Counter()

    async def requests_per_minute(self, tenant: str) -> int | None:
        """How often a tenant may call, all its keys together; None where there is no limit."""
        known = self._fresh(tenant) or await self._known(tenant)
        return known.limits.get("requests_per_minute")

    async def look(self, tenant: str) -> None:
        """Count again where the last count is old, and wait for it where little is left. Asked before a transaction
        opens, which may refuse by it, and after the quotas themselves were looked at for the rate of requests."""
        known = self._tenants.get(tenant)
        if known is None or known.read_at == _NEVER:
            known = await self._known(tenant)
        if not known.is_counted:
            return
        age, is_near = self._now() - known.counted_at, known.is_near()
        good = max(_NEAR_SECONDS if is_near else _SECONDS, known.cost * _SHARE)
        if known.counted_at == _NEVER or (age >= good and is_near and not known.count.is_under_way):
            await known.count()
        elif age >= good:
            known.count.begin()

    def check(self, tenant: str, written: Mapping[str, int]) -> None:
        """Refuse what would be more than the tenant may have."""
        known = self._tenants.get(tenant)
        if known is None or not known.is_counted:
            return
        for name, number in _wanted(written).items():
            limit = known.limits.get(name)
            if number and limit is not None and known.used[name] + number > limit:
                self.refused[name] += 1
                raise exceeded(name, limit, known.used[name], number)

    def take(self, tenant: str, written: Mapping[str, int]) -> None:
        """Compare what a transaction has written, before it commits; one that is refused writes nothing.

        What is taken counts at once, also if the transaction fails after all: the next count puts it right.
        """
        self.check(tenant, written)
        known = self._tenants.get(tenant)
        if known is not None and known.is_counted:
            known.used.update(_wanted(written))

    def near(self) -> Counter[str]:
        """How many tenants have more than nine tenths of each quota, as far as this process knows."""
        found: Counter[str] = Counter(dict.fromkeys(_COUNTED, 0))
        for known in self._tenants.values():
            for name in _COUNTED:
                if known.used[name] >= known.limits.get(name, _NONE) * _NEAR:
                    found[name] += 1
        return found

    async def usage(self, tenant: str) -> list[Quota]:
        """Every quota of a tenant with what it has now, counted for the purpose, up to the quota and one more."""
        with walled_to(tenant):
            async with self._bell.database.connection() as session:
                own = await self._store.read_quotas(session, tenant=tenant)
                limits = limits_of(tenant, self.defaults, own)
                row = await self._store.read_usage(session, tenant=tenant, **_bounds(limits))
        return [
            Quota(name=name, limit=limits.get(name), used=row.get(name), is_own=name in own) for name in NAMES
        ]

    async def own(self, tx: Transaction, tenant: str) -> list[Quota]:
        """The quotas of a tenant as a transaction has left them. What there is of them is not counted."""
        own = await self._store.read_quotas(tx.session, tenant=tenant)
        limits = limits_of(tenant, self.defaults, own)
        return [Quota(name=name, limit=limits.get(name), used=None, is_own=name in own) for name in NAMES]

    def _fresh(self, tenant: str) -> _Tenant | None:
        """What was read lately, which is so for nearly every request."""
        known = self._tenants.get(tenant)
        return known if known is not None and self._now() - known.read_at < _LIMITS_SECONDS else None

    async def _known(self, tenant: str) -> _Tenant:
        known = self._tenants.get(tenant)
        if known is None:
            known = self._tenants[tenant] = _Tenant()
            known.read = Shared(partial(self._read, tenant, known))
            known.count = Shared(partial(self._count, tenant, known))
            if len(self._tenants) > _TENANTS_MAX:
                self._tenants.popitem(last=False)
        self._tenants.move_to_end(tenant)
        is_old = self._now() - known.read_at >= _LIMITS_SECONDS
        if known.read_at == _NEVER or (is_old and not known.read.is_under_way):
            await known.read()
        return known

    async def _read(self, tenant: str, known: _Tenant) -> None:
        began = self._now()
        with walled_to(tenant):
            async with self._bell.database.connection() as session:
                own = await self._store.read_quotas(session, tenant=tenant)
        known.limits = limits_of(tenant, self.defaults, own)
        known.is_counted = not known.limits.keys().isdisjoint(_COUNTED)
        known.read_at = began

    async def _count(self, tenant: str, known: _Tenant) -> None:
        began = self._now()
        # What others take while it is being counted may be counted twice, and is not lost.
        before = Counter(known.used)
        with walled_to(tenant):
            async with self._bell.database.connection() as session:
                row = await self._store.read_usage(session, tenant=tenant, **_bounds(known.limits))
        since = known.used - before
        known.used = Counter({name: int(row[name]) for name in _COUNTED}) + since
        known.counted_at = self._now()
        known.cost = known.counted_at - began

    def _now(self) -> float:
        return self._bell.clock.monotonic()


async def save_quotas(clock: Clock, tx: Transaction, tenant: str, changes: Mapping[str, int | None]) -> None:
    """Give a tenant quotas of its own, in a transaction of the one that administers it; None takes one back."""
    store = WebStore(clock)
    for name, limit in changes.items():
        if name not in NAMES:
            raise InvalidInput(f"is no quota; give one of {', '.join(NAMES)}", field=name)
        if limit is not None and not 0 <= limit <= LIMIT_MAX:
            raise InvalidInput(
                f"give a whole number from 0 to {LIMIT_MAX}, or null for the default", field=name
            )
    own = {**await store.read_quotas(tx.session, tenant=tenant), **changes}
    kept = {name: limit for name, limit in own.items() if limit is not None}
    if not await store.save_quotas(tx.session, tenant=tenant, quotas=orjson.dumps(kept).decode()):
        raise NotFound(f"there is no tenant {tenant[:100]}; `timebell tenants create` makes one")


def defaults_of(settings: Settings) -> dict[str, int]:
    return {
        "pending_jobs": settings.tenant_jobs_max,
        "payload_bytes": settings.tenant_payload_bytes_max,
        "schedules": settings.tenant_schedules_max,
        "recipients": settings.tenant_recipients_max,
        "requests_per_minute": settings.tenant_requests_per_minute,
    }


def limits_of(tenant: str, defaults: Mapping[str, int], own: Mapping[str, int]) -> dict[str, int]:
    """The quotas that a tenant has: its own before the defaults, which the tenant `default` has not."""
    return {**({} if tenant == DEFAULT_TENANT else defaults), **own}


def exceeded(name: str, limit: int, used: int, wanted: int) -> Problem:
    return Problem(
        429,
        "quota_exceeded",
        f"{name}: this tenant may have {limit}, has about {used} and asks for {wanted} more; {_REMEDY[name]}, "
        "or ask whoever runs the server for a larger quota",
        headers={"retry-after": str(_RETRY_SECONDS)},
        more={"quota": name, "limit": limit, "used": used},
    )


def _wanted(written: Mapping[str, int]) -> dict[str, int]:
    return {name: written.get(word, 0) for name, word in _COUNTED.items()}


def _bounds(limits: Mapping[str, int]) -> dict[str, int]:
    return {
        f"{of}_max": limits.get(name, COUNTED_MAX)
        for of, name in (("jobs", "pending_jobs"), ("schedules", "schedules"), ("recipients", "recipients"))
    }
