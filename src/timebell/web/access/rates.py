"""How often somebody may call: a bucket of requests that fills up again, in real time, in each process."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from timebell.web.operation.problems import Problem

_WINDOW_SECONDS: Final = 60
_REMEMBERED_MAX: Final = 100_000

Who = tuple[str, str]


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float


class Rates:
    """As many requests a minute as the settings say, all at once or spread; more are refused until there is room.

    `of` is the word for what callers are told apart by: a key, a tenant, or an address.
    """

    def __init__(self, per_minute: int, of: str, *, monotonic: Callable[[], float]) -> None:
        self._per_minute = per_minute
        self._of = of
        self._monotonic = monotonic
        self._buckets: OrderedDict[Who, _Bucket] = OrderedDict()

    def take(self, who: Who, per_minute: int | None = None) -> None:
        """One request of somebody, who may have another rate than the rest."""
        now = self._monotonic()
        most = self._per_minute if per_minute is None else per_minute
        per_second = max(most, 0.001) / _WINDOW_SECONDS
        bucket = self._bucket(who, now, most)
        bucket.left = min(most, bucket.left + (now - bucket.at) * per_second)
        bucket.at = now
        if bucket.left < 1:
            seconds = math.ceil((1 - bucket.left) / per_second)
            raise Problem(
                429,
                "rate_limited",
                f"this {self._of} has made {most} requests in a minute; wait {seconds} s",
                headers={"retry-after": str(seconds), **self.headers(who, most)},
            )
        bucket.left -= 1

    def headers(self, who: Who, per_minute: int | None = None) -> dict[str, str]:
        bucket = self._buckets.get(who)
        most = self._per_minute if per_minute is None else per_minute
        left = most if bucket is None else max(0, int(bucket.left))
        return {
            "ratelimit-policy": f'"{self._of}";q={most};w={_WINDOW_SECONDS}',
            "ratelimit": f'"{self._of}";r={left};t={_WINDOW_SECONDS}',
        }

    def _bucket(self, who: Who, now: float, most: float) -> _Bucket:
        bucket = self._buckets.get(who)
        if bucket is None:
            bucket = self._buckets[who] = _Bucket(most, now)
            if len(self._buckets) > _REMEMBERED_MAX:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(who)
        return bucket
