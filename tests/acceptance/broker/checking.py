"""What must hold of everything that came out of a broker, judged from records alone.

A record is what the test itself saw: what it asked for and had confirmed, what it received, whom it killed, and how
each request stands in the end. All instants are those of one machine, which the database shares.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final, Literal

Part = Literal["producer", "intake", "broker"]
Status = Literal["pending", "done", "cancelled"]
Misfire = Literal["fire_once", "fire_all", "skip"]
Name = tuple[str, str]

# A cancel is dated when its transaction begins, and is in force when that ends.
_COMMITTING: Final = timedelta(seconds=2)
# How far apart two readings of one clock may be, made in different processes.
_CLOCKS: Final = timedelta(milliseconds=50)
# A queue of three may be without a leader for so long after its broker is back.
_SETTLING: Final = timedelta(seconds=20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One request, and every instant that it names. `misfire` is None of one that is due once."""

    id: str
    dues: tuple[datetime, ...]
    tenant: str = "default"
    misfire: Misfire | None = None

    @property
    def name(self) -> Name:
        return self.tenant, self.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Fired:
    """One message that was received. The broker hands out the same message again where an acknowledgement was lost."""

    id: str
    scheduled_for: str
    fired_at: datetime
    message_id: str | None
    received_at: datetime
    tenant: str = "default"
    is_redelivered: bool = False

    @property
    def name(self) -> Name:
        return self.tenant, self.id

    @property
    def due_at(self) -> datetime:
        return datetime.fromisoformat(self.scheduled_for)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a request stands in the end, when it was taken, and when it was cancelled, if it was."""

    status: Status
    created_at: datetime
    changed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """A part was away: from before it was killed until its successor was ready."""

    part: Part
    name: str
    began: datetime
    ended: datetime

    @property
    def explains_until(self) -> datetime:
        return self.ended + (_SETTLING if self.part == "broker" else timedelta(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """All of one run."""

    wanted: Sequence[Wanted]
    fired: Sequence[Fired]
    standings: Mapping[Name, Standing]
    cancelled: frozenset[Name] = frozenset()
    # Of these the cancel was sent so long before they were due that nothing may come of them.
    cancelled_early: frozenset[Name] = frozenset()
    outages: Sequence[Outage] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    rule: str
    name: Name
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: {'/'.join(self.name)}: {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a run came to. `repeated` were published more than once, `redelivered` handed out again by the broker."""

    wanted: int
    owed: int
    fired: int
    received: int
    repeated: int
    redelivered: int
    cancelled: int
    cancelled_and_fired: int


def written(instant: datetime) -> str:
    """As the messages have it: UTC, six digits."""
    return f"{instant.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def check(seen: Seen) -> list[Violation]:
    """Everything that must not be, in the order of the rules."""
    by_name: dict[Name, list[Fired]] = defaultdict(list)
    for each in seen.fired:
        by_name[each.name].append(each)
    found = [
        *_strange(seen, by_name),
        *(
            violation
            for each in seen.wanted
            for violation in _of_one(each, sorted(by_name[each.name], key=lambda one: one.fired_at), seen)
        ),
    ]
    return sorted(found, key=lambda each: (each.rule, each.name, each.text))


def figures(seen: Seen) -> Figures:
    publishes = {(each.name, each.scheduled_for, each.fired_at) for each in seen.fired}
    pairs = {(name, due) for name, due, _ in publishes}
    ended = [name for name in seen.cancelled if seen.standings[name].status == "cancelled"]
    fired = {name for name, _ in pairs}
    return Figures(
        wanted=len(seen.wanted),
        owed=sum(len(owed(each, seen)) for each in seen.wanted),
        fired=len(pairs),
        received=len(seen.fired),
        repeated=len(publishes) - len(pairs),
        redelivered=len(seen.fired) - len(publishes),
        cancelled=len(ended),
        cancelled_and_fired=sum(name in fired for name in ended),
    )


def owed(wanted: Wanted, seen: Seen) -> tuple[datetime, ...]:
    """The instants that must have been fired, if nobody wanted it cancelled or that came too late."""
    standing = seen.standings.get(wanted.name)
    if wanted.name in seen.cancelled and (standing is None or standing.status == "cancelled"):
        return ()
    if wanted.misfire is None:
        return wanted.dues
    # A recurrence that was asked for too late begins with what is to come.
    dues = tuple(due for due in wanted.dues if standing is None or due > standing.created_at)
    if wanted.misfire == "skip":
        return ()
    return dues[-1:] if wanted.misfire == "fire_once" else dues


def _strange(seen: Seen, by_name: Mapping[Name, Sequence[Fired]]) -> Iterator[Violation]:
    """What nobody asked for, or two things under one name."""
    asked = Counter(each.name for each in seen.wanted)
    for name, count in asked.items():
        if count > 1:
            raise ValueError(f"the test itself asked for {name} {count} times with different content")
    for name in by_name.keys() - asked.keys():
        yield Violation(rule="strange", name=name, text="nobody asked for it")
    for name in seen.standings.keys() - asked.keys():
        yield Violation(rule="strange", name=name, text="there is a row that nobody asked for")
    pairs: dict[str, tuple[Name, str]] = {}
    for each in seen.fired:
        pair = each.name, each.scheduled_for
        if each.message_id is not None and pairs.setdefault(each.message_id, pair) != pair:
            yield Violation(rule="message_id", name=each.name, text=f"{each.message_id} names another, too")


def _of_one(wanted: Wanted, fired: Sequence[Fired], seen: Seen) -> Iterator[Violation]:
    def broken(rule: str, text: str) -> Violation:
        return Violation(rule=rule, name=wanted.name, text=text)

    came = {each.due_at for each in fired}
    for due_at in owed(wanted, seen):
        if due_at not in came:
            yield broken("lost", f"{written(due_at)} never came")
    for due_at in sorted(came - {*wanted.dues}):
        yield broken("strange", f"nobody asked for {written(due_at)}")
    for each in fired:
        if each.fired_at < each.due_at or each.received_at + _CLOCKS < each.due_at:
            yield broken("early", f"{each.scheduled_for} was fired at {each.fired_at.isoformat()}")
        expected = f"{wanted.tenant}/{wanted.id}/{each.scheduled_for}"
        if each.message_id != expected:
            yield broken("message_id", f"{each.message_id} instead of {expected}")
    standing = seen.standings.get(wanted.name)
    if standing is None:
        yield broken("row", "it has no row")
        return
    yield from _standing(wanted, fired, standing, seen)
    for due_at in sorted(came):
        yield from _repeated(wanted, [each for each in fired if each.due_at == due_at], seen)


def _standing(wanted: Wanted, fired: Sequence[Fired], standing: Standing, seen: Seen) -> Iterator[Violation]:
    def broken(rule: str, text: str) -> Violation:
        return Violation(rule=rule, name=wanted.name, text=text)

    if standing.status == "pending":
        yield broken("row", "it is pending still")
    if wanted.name not in seen.cancelled:
        if standing.status == "cancelled":
            yield broken("row", "it is cancelled, and nobody wanted that")
        return
    if wanted.name in seen.cancelled_early:
        if standing.status != "cancelled":
            yield broken("row", f"cancelled long before it was due, and it is {standing.status}")
        for each in fired[:1]:
            yield broken("after_cancel", f"cancelled long before, and fired at {each.fired_at.isoformat()}")
    if standing.status != "cancelled":
        return
    for each in fired:
        if each.fired_at > standing.changed_at + _COMMITTING:
            yield broken(
                "after_cancel",
                f"fired at {each.fired_at.isoformat()}, cancelled at {standing.changed_at.isoformat()}",
            )
        elif wanted.misfire is None and not _explained(
            each.fired_at, standing.changed_at, seen.outages, ("producer", "broker")
        ):
            yield broken("row", f"it is cancelled, and was fired before at {each.fired_at.isoformat()}")


def _repeated(wanted: Wanted, fired: Sequence[Fired], seen: Seen) -> Iterator[Violation]:
    """Of one instant of one request: a second publish, and a second copy of one publish."""
    firsts: dict[datetime, Fired] = {}
    for each in sorted(fired, key=lambda each: each.received_at):
        first = firsts.setdefault(each.fired_at, each)
        if first is not each and not _explained(first.fired_at, each.received_at, seen.outages, ("broker",)):
            yield Violation(
                rule="redelivered",
                name=wanted.name,
                text=f"{each.scheduled_for} of {each.fired_at.isoformat()} came twice, and the broker was there",
            )
    for before, after in pairwise(sorted(firsts)):
        if not _explained(before, after, seen.outages, ("producer", "broker")):
            yield Violation(
                rule="repeated",
                name=wanted.name,
                text=f"{fired[0].scheduled_for} was published at {before.isoformat()} and at {after.isoformat()}, "
                "and nobody was killed between",
            )


def _explained(since: datetime, until: datetime, outages: Iterable[Outage], parts: tuple[Part, ...]) -> bool:
    """Whether one of these parts was away at some instant between."""
    return any(
        each.part in parts and each.began <= until + _CLOCKS and since - _CLOCKS <= each.explains_until
        for each in outages
    )
