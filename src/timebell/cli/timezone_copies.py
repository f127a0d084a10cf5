"""The copies of the timezone data that a machine has, compared by what clocks will show.

Timebell uses the copy that is installed with it and no other. The operating system and PostgreSQL have their own,
which other programs and an operator's queries use; where they differ, people see different times for one instant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from timebell.rules.localtime import timezone_names, zone

SYSTEM_FOLDER = Path("/usr/share/zoneinfo")

_WEEKS_LOOKED_AT = 104
_NAMED_MAX = 5

Offsets = Mapping[str, Sequence[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCopy:
    """What Timebell's own data say: by how many seconds clocks are ahead of UTC at each of some moments."""

    moments: tuple[datetime, ...]
    offsets: Offsets

    def differing(self, theirs: Offsets) -> list[str]:
        """The timezones whose clocks differ at one of the moments. One that the other does not know cannot differ."""
        return sorted(name for name, offsets in theirs.items() if list(offsets) != list(self.offsets[name]))


def own_copy(now: datetime) -> OwnCopy:
    """A moment in each week of the next two years: a change of clocks that is a week off does not escape.

    PostgreSQL reads names without a region, such as CET, as abbreviations with a fixed offset, so they are left out.
    """
    moments = tuple(now + timedelta(weeks=week) for week in range(_WEEKS_LOOKED_AT))
    names = sorted(name for name in timezone_names() if "/" in name)
    return OwnCopy(moments=moments, offsets={name: _offsets(zone(name), moments) for name in names})


def system_offsets(ours: OwnCopy, folder: Path = SYSTEM_FOLDER) -> Offsets | None:
    """What the operating system has; None where it has no such folder."""
    if not folder.is_dir():
        return None
    offsets = {}
    for name in ours.offsets:
        try:
            with (folder / name).open("rb") as file:
                offsets[name] = _offsets(ZoneInfo.from_file(file, key=name), ours.moments)
        except (OSError, ValueError):
            continue
    return offsets


def system_version(folder: Path = SYSTEM_FOLDER) -> str | None:
    try:
        with (folder / "tzdata.zi").open(encoding="ascii", errors="replace") as file:
            return file.readline(100).removeprefix("# version ").strip() or None
    except OSError:
        return None


def told(names: Sequence[str]) -> str:
    """A few of them by name, and how many more there are."""
    more = len(names) - _NAMED_MAX
    return ", ".join(names[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def _offsets(timezone: ZoneInfo, moments: Sequence[datetime]) -> list[int]:
    second = timedelta(seconds=1)
    shown = (moment.astimezone(timezone).utcoffset() or timedelta(0) for moment in moments)
    return [offset // second for offset in shown]
