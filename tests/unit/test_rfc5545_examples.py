"""Every example of RFC 5545, section 3.8.5.3, with the dates that it lists and the offsets that it names.

A list is written as the RFC prints it: a year and a zone, then months and days. Where the RFC ends a list
with three dots, the first of the series are compared; elsewhere the whole of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.recurrence_model import dateutil_walls, stamp
from timebell.rules.recurrence import occurrences

ZONE = "America/New_York"
OFFSETS = {"EDT": timedelta(hours=-4), "EST": timedelta(hours=-5)}
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
WEEKDAYS = "BYDAY=SU,MO,TU,WE,TH,FR,SA"


@dataclass(frozen=True, slots=True)
class Example:
    """One rule of the RFC; `expected` ends with dots where the series goes on."""

    says: str
    rule: str
    expected: str
    start: str = "19970902T0900"
    exdate: str | None = None


WORKING_HOURS = " ".join(f"{hour:02}:{minute:02}" for hour in range(9, 17) for minute in (0, 20, 40))
TWENTY_MINUTES = f"1997 EDT: Sep 2,3 at {WORKING_HOURS} ..."
JANUARIES = "1998 EST: Jan 1-31 | 1999 EST: Jan 1-31 | 2000 EST: Jan 1-31"
TUESDAYS = "1997 EDT: Sep 2,9,16,23,30 Oct 7,14,21 | 1997 EST: Oct 28 Nov 4"
TUESDAYS_AND_THURSDAYS = "1997 EDT: Sep 2,4,9,11,16,18,23,25,30 Oct 2"
MONDAYS_WEDNESDAYS_FRIDAYS = (
    "1997 EDT: Sep 1,3,5,15,17,19,29 Oct 1,3,13,15,17"
    " | 1997 EST: Oct 27,29,31 Nov 10,12,14,24,26,28 Dec 8,10,12,22"
)
SUMMER_THURSDAYS = (
    "1997 EDT: Jun 5,12,19,26 Jul 3,10,17,24,31 Aug 7,14,21,28"
    " | 1998 EDT: Jun 4,11,18,25 Jul 2,9,16,23,30 Aug 6,13,20,27"
    " | 1999 EDT: Jun 3,10,17,24 Jul 1,8,15,22,29 Aug 5,12,19,26 ..."
)

EXAMPLES = [
    Example("daily for 10 occurrences", "FREQ=DAILY;COUNT=10", "1997 EDT: Sep 2-11"),
    Example(
        "daily until December 24, 1997",
        "FREQ=DAILY;UNTIL=19971224T000000Z",
        "1997 EDT: Sep 2-30 Oct 1-25 | 1997 EST: Oct 26-31 Nov 1-30 Dec 1-23",
    ),
    Example(
        "every other day, forever",
        "FREQ=DAILY;INTERVAL=2",
        "1997 EDT: Sep 2,4,6,8,10,12,14,16,18,20,22,24,26,28,30 Oct 2,4,6,8,10,12,14,16,18,20,22,24"
        " | 1997 EST: Oct 26,28,30 Nov 1,3,5,7,9,11,13,15,17,19,21,23,25,27,29 Dec 1,3 ...",
    ),
    Example(
        "every 10 days, 5 occurrences", "FREQ=DAILY;INTERVAL=10;COUNT=5", "1997 EDT: Sep 2,12,22 Oct 2,12"
    ),
    Example(
        "every day in January, for 3 years, yearly",
        f"FREQ=YEARLY;UNTIL=20000131T140000Z;BYMONTH=1;{WEEKDAYS}",
        JANUARIES,
        "19980101T0900",
    ),
    Example(
        "every day in January, for 3 years, daily",
        "FREQ=DAILY;UNTIL=20000131T140000Z;BYMONTH=1",
        JANUARIES,
        "19980101T0900",
    ),
    Example("weekly for 10 occurrences", "FREQ=WEEKLY;COUNT=10", TUESDAYS),
    Example(
        "weekly until December 24, 1997",
        "FREQ=WEEKLY;UNTIL=19971224T000000Z",
        TUESDAYS + ",11,18,25 Dec 2,9,16,23",
    ),
    Example(
        "every other week, forever",
        "FREQ=WEEKLY;INTERVAL=2;WKST=SU",
        "1997 EDT: Sep 2,16,30 Oct 14 | 1997 EST: Oct 28 Nov 11,25 Dec 9,23 | 1998 EST: Jan 6,20 Feb 3,17 ...",
    ),
    Example(
        "weekly on Tuesday and Thursday for five weeks, until",
        "FREQ=WEEKLY;UNTIL=19971007T000000Z;WKST=SU;BYDAY=TU,TH",
        TUESDAYS_AND_THURSDAYS,
    ),
    Example(
        "weekly on Tuesday and Thursday for five weeks, count",
        "FREQ=WEEKLY;COUNT=10;WKST=SU;BYDAY=TU,TH",
        TUESDAYS_AND_THURSDAYS,
    ),
    Example(
        "every other week on Monday, Wednesday and Friday until December 24, 1997",
        "FREQ=WEEKLY;INTERVAL=2;UNTIL=19971224T000000Z;WKST=SU;BYDAY=MO,WE,FR",
        MONDAYS_WEDNESDAYS_FRIDAYS,
        "19970901T0900",
    ),
    Example(
        "every other week on Tuesday and Thursday, for 8 occurrences",
        "FREQ=WEEKLY;INTERVAL=2;COUNT=8;WKST=SU;BYDAY=TU,TH",
        "1997 EDT: Sep 2,4,16,18,30 Oct 2,14,16",
    ),
    Example(
        "monthly on the first Friday for 10 occurrences",
        "FREQ=MONTHLY;COUNT=10;BYDAY=1FR",
        "1997 EDT: Sep 5 Oct 3 | 1997 EST: Nov 7 Dec 5 | 1998 EST: Jan 2 Feb 6 Mar 6 Apr 3 | 1998 EDT: May 1 Jun 5",
        "19970905T0900",
    ),
    Example(
        "monthly on the first Friday until December 24, 1997",
        "FREQ=MONTHLY;UNTIL=19971224T000000Z;BYDAY=1FR",
        "1997 EDT: Sep 5 Oct 3 | 1997 EST: Nov 7 Dec 5",
        "19970905T0900",
    ),
    Example(
        "every other month on the first and last Sunday for 10 occurrences",
        "FREQ=MONTHLY;INTERVAL=2;COUNT=10;BYDAY=1SU,-1SU",
        "1997 EDT: Sep 7,28 | 1997 EST: Nov 2,30 | 1998 EST: Jan 4,25 Mar 1,29 | 1998 EDT: May 3,31",
        "19970907T0900",
    ),
    Example(
        "monthly on the second-to-last Monday for 6 months",
        "FREQ=MONTHLY;COUNT=6;BYDAY=-2MO",
        "1997 EDT: Sep 22 Oct 20 | 1997 EST: Nov 17 Dec 22 | 1998 EST: Jan 19 Feb 16",
        "19970922T0900",
    ),
    Example(
        "monthly on the third-to-the-last day, forever",
        "FREQ=MONTHLY;BYMONTHDAY=-3",
        "1997 EDT: Sep 28 | 1997 EST: Oct 29 Nov 28 Dec 29 | 1998 EST: Jan 29 Feb 26 ...",
        "19970928T0900",
    ),
    Example(
        "monthly on the 2nd and 15th for 10 occurrences",
        "FREQ=MONTHLY;COUNT=10;BYMONTHDAY=2,15",
        "1997 EDT: Sep 2,15 Oct 2,15 | 1997 EST: Nov 2,15 Dec 2,15 | 1998 EST: Jan 2,15",
    ),
    Example(
        "monthly on the first and last day for 10 occurrences",
        "FREQ=MONTHLY;COUNT=10;BYMONTHDAY=1,-1",
        "1997 EDT: Sep 30 Oct 1 | 1997 EST: Oct 31 Nov 1,30 Dec 1,31 | 1998 EST: Jan 1,31 Feb 1",
        "19970930T0900",
    ),
    Example(
        "every 18 months on the 10th thru 15th for 10 occurrences",
        "FREQ=MONTHLY;INTERVAL=18;COUNT=10;BYMONTHDAY=10,11,12,13,14,15",
        "1997 EDT: Sep 10-15 | 1999 EST: Mar 10-13",
        "19970910T0900",
    ),
    Example(
        "every Tuesday, every other month",
        "FREQ=MONTHLY;INTERVAL=2;BYDAY=TU",
        "1997 EDT: Sep 2,9,16,23,30 | 1997 EST: Nov 4,11,18,25 | 1998 EST: Jan 6,13,20,27 Mar 3,10,17,24,31 ...",
    ),
    Example(
        "yearly in June and July for 10 occurrences",
        "FREQ=YEARLY;COUNT=10;BYMONTH=6,7",
        " | ".join(f"{year} EDT: Jun 10 Jul 10" for year in range(1997, 2002)),
        "19970610T0900",
    ),
    Example(
        "every other year in January, February and March for 10 occurrences",
        "FREQ=YEARLY;INTERVAL=2;COUNT=10;BYMONTH=1,2,3",
        "1997 EST: Mar 10 | "
        + " | ".join(f"{year} EST: Jan 10 Feb 10 Mar 10" for year in (1999, 2001, 2003)),
        "19970310T0900",
    ),
    Example(
        "every third year on the 1st, 100th and 200th day for 10 occurrences",
        "FREQ=YEARLY;INTERVAL=3;COUNT=10;BYYEARDAY=1,100,200",
        "1997 EST: Jan 1 | 1997 EDT: Apr 10 Jul 19 | 2000 EST: Jan 1 | 2000 EDT: Apr 9 Jul 18"
        " | 2003 EST: Jan 1 | 2003 EDT: Apr 10 Jul 19 | 2006 EST: Jan 1",
        "19970101T0900",
    ),
    Example(
        "every 20th Monday of the year, forever",
        "FREQ=YEARLY;BYDAY=20MO",
        "1997 EDT: May 19 | 1998 EDT: May 18 | 1999 EDT: May 17 ...",
        "19970519T0900",
    ),
    Example(
        "Monday of week number 20, forever",
        "FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO",
        "1997 EDT: May 12 | 1998 EDT: May 11 | 1999 EDT: May 17 ...",
        "19970512T0900",
    ),
    Example(
        "every Thursday in March, forever",
        "FREQ=YEARLY;BYMONTH=3;BYDAY=TH",
        "1997 EST: Mar 13,20,27 | 1998 EST: Mar 5,12,19,26 | 1999 EST: Mar 4,11,18,25 ...",
        "19970313T0900",
    ),
    Example(
        "every Thursday in June, July and August, forever",
        "FREQ=YEARLY;BYDAY=TH;BYMONTH=6,7,8",
        SUMMER_THURSDAYS,
        "19970605T0900",
    ),
    Example(
        "every Friday the 13th, forever",
        "FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13",
        "1998 EST: Feb 13 Mar 13 Nov 13 | 1999 EDT: Aug 13 | 2000 EDT: Oct 13 ...",
        exdate="19970902T0900",
    ),
    Example(
        "the first Saturday that follows the first Sunday of the month, forever",
        "FREQ=MONTHLY;BYDAY=SA;BYMONTHDAY=7,8,9,10,11,12,13",
        "1997 EDT: Sep 13 Oct 11 | 1997 EST: Nov 8 Dec 13 | 1998 EST: Jan 10 Feb 7 Mar 7"
        " | 1998 EDT: Apr 11 May 9 Jun 13 ...",
        "19970913T0900",
    ),
    Example(
        "every 4 years, the first Tuesday after a Monday in November, forever",
        "FREQ=YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8",
        "1996 EST: Nov 5 | 2000 EST: Nov 7 | 2004 EST: Nov 2 ...",
        "19961105T0900",
    ),
    Example(
        "the third instance into the month of a Tuesday, Wednesday or Thursday, for 3 months",
        "FREQ=MONTHLY;COUNT=3;BYDAY=TU,WE,TH;BYSETPOS=3",
        "1997 EDT: Sep 4 Oct 7 | 1997 EST: Nov 6",
        "19970904T0900",
    ),
    Example(
        "the second-to-last weekday of the month",
        "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-2",
        "1997 EDT: Sep 29 | 1997 EST: Oct 30 Nov 27 Dec 30 | 1998 EST: Jan 29 Feb 26 Mar 30 ...",
        "19970929T0900",
    ),
    # The RFC lists 15:00 too, which its own UNTIL, 13:00 in New York, does not reach; its errata say so.
    Example(
        "every 3 hours until 17:00 UTC",
        "FREQ=HOURLY;INTERVAL=3;UNTIL=19970902T170000Z",
        "1997 EDT: Sep 2 at 09:00 12:00",
    ),
    Example(
        "every 3 hours from 9:00 AM to 5:00 PM on a specific day",
        "FREQ=HOURLY;INTERVAL=3;UNTIL=19970902T210000Z",
        "1997 EDT: Sep 2 at 09:00 12:00 15:00",
    ),
    Example(
        "every 15 minutes for 6 occurrences",
        "FREQ=MINUTELY;INTERVAL=15;COUNT=6",
        "1997 EDT: Sep 2 at 09:00 09:15 09:30 09:45 10:00 10:15",
    ),
    Example(
        "every hour and a half for 4 occurrences",
        "FREQ=MINUTELY;INTERVAL=90;COUNT=4",
        "1997 EDT: Sep 2 at 09:00 10:30 12:00 13:30",
    ),
    Example(
        "every 20 minutes from 9:00 AM to 4:40 PM every day, daily",
        "FREQ=DAILY;BYHOUR=9,10,11,12,13,14,15,16;BYMINUTE=0,20,40",
        TWENTY_MINUTES,
    ),
    Example(
        "every 20 minutes from 9:00 AM to 4:40 PM every day, minutely",
        "FREQ=MINUTELY;INTERVAL=20;BYHOUR=9,10,11,12,13,14,15,16",
        TWENTY_MINUTES,
    ),
    Example(
        "the days selected change with WKST: Monday",
        "FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=MO",
        "1997 EDT: Aug 5,10,19,24",
        "19970805T0900",
    ),
    Example(
        "the days selected change with WKST: Sunday",
        "FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=SU",
        "1997 EDT: Aug 5,17,19,31",
        "19970805T0900",
    ),
    Example(
        "an invalid date, February 30, is ignored",
        "FREQ=MONTHLY;BYMONTHDAY=15,30;COUNT=5",
        "2007 EST: Jan 15,30 Feb 15 | 2007 EDT: Mar 15,30",
        "20070115T0900",
    ),
    # Section 3.3.10, which explains the parts, has two of its own.
    Example(
        "the last work day of the month",
        "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
        "1997 EDT: Sep 30 | 1997 EST: Oct 31 Nov 28 Dec 31 | 1998 EST: Jan 30 Feb 27 ...",
    ),
    Example(
        "every Sunday in January at 8:30 and 9:30, every other year",
        "FREQ=YEARLY;INTERVAL=2;BYMONTH=1;BYDAY=SU;BYHOUR=8,9;BYMINUTE=30",
        "1997 EST: Jan 5,12,19,26 at 08:30 09:30 | 1999 EST: Jan 3,10,17,24,31 at 08:30 09:30"
        " | 2001 EST: Jan 7 at 08:30 ...",
        "19970105T0830",
    ),
]


def listed(expected: str) -> list[tuple[datetime, datetime]]:
    """The wall times and instants of a list such as "1997 EDT: Sep 2-4 Oct 1,3 at 09:00 12:00 | 1998 EST: Jan 1"."""
    found = []
    for group in expected.removesuffix("...").strip(" |").split("|"):
        heading, _, dates = group.partition(":")
        year, zone = heading.split()
        calendar, _, times = dates.partition(" at ")
        words = calendar.split()
        for month, days in zip(words[::2], words[1::2], strict=True):
            for day in spread(days):
                for moment in times.split() or ["09:00"]:
                    hour, minute = map(int, moment.split(":"))
                    local = datetime(int(year), MONTHS.index(month) + 1, day, hour, minute)
                    found.append((local, (local - OFFSETS[zone]).replace(tzinfo=UTC)))
    return found


def spread(days: str) -> list[int]:
    first, dash, last = days.partition("-")
    return list(range(int(first), int(last) + 1)) if dash else [int(day) for day in days.split(",")]


@pytest.mark.req("U-9", "R-4.4", "X-R12")
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.says)
def test_an_example_of_the_rfc(example: Example) -> None:
    expected = listed(example.expected)
    goes_on = example.expected.endswith("...")
    found = occurrences(
        example.rule,
        start_local=stamp(example.start),
        timezone=ZONE,
        exdates=[stamp(example.exdate)] if example.exdate else [],
        limit=len(expected) if goes_on else len(expected) + 10,
    )
    assert [(occurrence.local, occurrence.at) for occurrence in found] == expected


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.says)
def test_dateutil_reads_the_example_so_too(example: Example) -> None:
    """A slip of the pen in the lists above would show here; dateutil expands wall times, so UNTIL is left out."""
    rule = ";".join(part for part in example.rule.split(";") if not part.startswith("UNTIL"))
    expected = [local for local, _ in listed(example.expected)]
    assert dateutil_walls(rule, stamp(example.start), len(expected)) == expected
