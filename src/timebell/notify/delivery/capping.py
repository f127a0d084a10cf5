"""How often one recipient may be reached: at most so many in any stretch of time, counted exactly."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from timebell.notify.models import Cap


def counted(sent_ats: Sequence[datetime], cap: Cap, now: datetime) -> list[datetime]:
    """Those sends that still count towards the cap."""
    return sorted(at for at in sent_ats if at > now - cap.per)


def room_at(sent_ats: Sequence[datetime], cap: Cap, now: datetime) -> datetime | None:
    """When there will be room for another; None where there is now."""
    recent = counted(sent_ats, cap, now)
    if len(recent) < cap.count:
        return None
    return recent[-cap.count] + cap.per
