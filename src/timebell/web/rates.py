"""How often a key may call: a bucket of requests that fills up again, in real time, in each process."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from timebell.web.problems import Problem

if TYPE_CHECKING:
    from timebell.web.access import Caller

_WINDOW_SECONDS: Final = 60
_REMEMBERED_MAX: Final = 100_000


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float


class Rates:
    """As many requests a minute as the settings say, all at once or spread; more are refused until there is room."""

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._per_second = per_minute / _WINDOW_SECONDS
        self._buckets: OrderedDict[tuple[str, str], _Bucket] = OrderedDict()

    def take(self, caller: Caller) -> None:
        now = time.monotonic()
        bucket = self._bucket(caller, now)
        bucket.left = min(self._per_minute, bucket.left + (now - bucket.at) * self._per_second)
        bucket.at = now
        if bucket.left < 1:
            seconds = math.ceil((1 - bucket.left) / self._per_second)
            raise Problem(
                429,
                "rate_limited",
                f"this key has made {self._per_minute} requests in a minute; wait {seconds} s",
                headers={"retry-after": str(seconds), **self.headers(caller)},
            )
        bucket.left -= 1

    def headers(self, caller: Caller) -> dict[str, str]:
        bucket = self._buckets.get((caller.tenant, caller.name))
        left = self._per_minute if bucket is None else max(0, int(bucket.left))
        return {
            "ratelimit-policy": f'"key";q={self._per_minute};w={_WINDOW_SECONDS}',
            "ratelimit": f'"key";r={left};t={_WINDOW_SECONDS}',
        }

    def _bucket(self, caller: Caller, now: float) -> _Bucket:
        name = (caller.tenant, caller.name)
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = self._buckets[name] = _Bucket(self._per_minute, now)
            if len(self._buckets) > _REMEMBERED_MAX:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(name)
        return bucket
