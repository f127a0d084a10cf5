"""The places in which jobs run, by tenant."""

from __future__ import annotations

from collections.abc import Iterable

from timebell.rules.fairness import room_for


class Places:
    """Counts who has how many of them, and says how many more each may have."""

    def __init__(self, capacity: int, share: float) -> None:
        self._capacity = capacity
        self.share = share
        self._taken = 0
        self._own: dict[str, int] = {}

    def room(self, tenant: str) -> int:
        return room_for(
            capacity=self._capacity, taken=self._taken, own=self._own.get(tenant, 0), share=self.share
        )

    def take(self, tenant: str, number: int = 1) -> None:
        self._taken += number
        self._own[tenant] = self._own.get(tenant, 0) + number

    def leave(self, tenant: str) -> None:
        self._taken -= 1
        left = self._own[tenant] - 1
        if left:
            self._own[tenant] = left
        else:
            del self._own[tenant]

    def leave_all(self, tenants: Iterable[str]) -> None:
        for tenant in tenants:
            self.leave(tenant)
