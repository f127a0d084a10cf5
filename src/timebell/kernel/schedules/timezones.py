"""Which timezone data the plans stand on.

Two processes may carry different versions of the data. The newest that anybody has brought counts: whoever has an
older one must not plan, or reminders would go back and forth with whoever planned last.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from importlib import resources

from timebell.db.pool import Row, Session
from timebell.errors import OldTimezoneData
from timebell.kernel.schedules.store import ScheduleStore
from timebell.rules.localtime import TIMEZONE_VERSION, timezone_names


@lru_cache(maxsize=1024)
def fingerprint(timezone: str) -> str:
    """What tells one version of a timezone's data from another; empty for one that our data do not have."""
    if timezone not in timezone_names():
        return ""
    data = resources.files("tzdata.zoneinfo").joinpath(*timezone.split("/")).read_bytes()
    return hashlib.sha256(data).hexdigest()


async def check_timezones(store: ScheduleStore, session: Session, names: Iterable[str]) -> dict[str, str]:
    """Refuse to plan in these timezones if somebody has newer data; until the transaction ends nobody brings any.

    Answers with the first version of the data that each timezone has now. What was planned with an older one may
    have moved.
    """
    timezones = sorted(set(names))
    rows = [*await store.share_timezones(session, timezones=timezones)]
    unseen = [name for name in timezones if name not in {row["timezone"] for row in rows}]
    if unseen:
        await store.add_timezones(
            session, timezones=unseen, sha256s=[fingerprint(timezone) for timezone in unseen]
        )
        rows += await store.share_timezones(session, timezones=unseen)
    if len(rows) < len(timezones) or any(row["version"] > TIMEZONE_VERSION for row in rows):
        raise OldTimezoneData(
            f"this process has the timezone data {TIMEZONE_VERSION}, and plans were made with newer ones; "
            "upgrade the package tzdata here"
        )
    return {row["timezone"]: _data_version(row) for row in rows}


def _data_version(row: Row) -> str:
    """Ours while the plans are still being brought to our data."""
    is_settled = row["sha256"] == fingerprint(row["timezone"])
    return str(row["data_version"]) if is_settled else TIMEZONE_VERSION
