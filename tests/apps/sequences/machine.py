"""A house whose bookings, sequences and guests change by chance, beside a model of what everybody is owed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

from tests.apps.sequences.oracle import BY_PLAN, Contact, Entered, Known, Name, Owed, expected, refusals
from tests.apps.sequences.support import House, Json, done
from timebell.apps.sequences import APP
from timebell.notify import Parcel, Rejected, Unavailable
from timebell.notify.provider import Answer
from timebell.testing import RecordingProvider

ZONE = "Europe/Berlin"
# Those of, and what the plan alone decided and may decide otherwise.
EDGES = {
    (None, "scheduled"),
    (None, "skipped"),
    ("scheduled", "sending"),
    ("scheduled", "cancelled"),
    ("scheduled", "skipped"),
    ("sending", "sent"),
    ("sending", "failed"),
    ("sending", "scheduled"),
    ("sending", "skipped"),
}
TAKEN_BACK = {("skipped", "scheduled"), ("cancelled", "scheduled"), ("cancelled", "skipped")}
# Why a message that was cancelled may be owed again: whom, or which step, somebody took away and brought back.
_REMOVED = ("contact_removed", "step_removed")
_MESSAGES = """
SELECT id, subject, sequence_id::text AS sequence, entry, step, recipient_id::text AS contact, status, reason, due_at
FROM sequences.standings WHERE subject = ANY ($1)
"""
_OWED = "SELECT subject, step, due_at FROM timebell.jobs WHERE subject = ANY ($1) AND step IS NOT NULL"
_TOLD = """
SELECT j.step, count(*) AS count FROM timebell_notify.deliveries d
JOIN (SELECT id, step FROM timebell.jobs UNION SELECT id, step FROM timebell.job_log) j ON j.id = d.notification_id
JOIN unnest($1::uuid[]) AS taken(id) ON taken.id = d.id GROUP BY j.step
"""


class Watched(RecordingProvider):
    """Notes what arrived, fails the first try of each or all, and has messages looked at while one is on its way."""

    def __init__(self) -> None:
        super().__init__("watched")
        self.mood = "takes"
        self.arrived: list[UUID] = []
        self.look: Any = None
        self._tried: set[UUID] = set()

    async def send(self, parcel: Parcel) -> Answer:
        if self.look is not None:
            await self.look()
        is_first = parcel.delivery_id not in self._tried
        self._tried.add(parcel.delivery_id)
        if self.mood == "fails once" and is_first:
            return Unavailable(reason="not now", about="parcel")
        if self.mood == "refuses":
            return Rejected(reason="not like this")
        self.arrived.append(parcel.delivery_id)
        return await super().send(parcel)


@dataclass(slots=True, kw_only=True)
class Program:
    """A sequence as the test knows it: each version that it has had."""

    id: str
    event: str
    subtype: str | None
    versions: list[tuple[Json, list[Json]]]
    is_deleted: bool = False


@dataclass(slots=True, kw_only=True)
class Life:
    """A subject as the test knows it. `ends` is what became of messages for good."""

    subject: str
    known: Known
    entered: dict[tuple[str, int], tuple[int, Entered]] = field(default_factory=dict)
    slips: dict[Name, Owed] = field(default_factory=dict)
    pending: dict[Name, Owed] = field(default_factory=dict)
    ends: dict[Name, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return self.subject.partition(":")[2]


class World:
    """One house for all examples; each has sequences, subjects and guests of its own."""

    def __init__(self, runner: asyncio.Runner, house: House, mail: Watched) -> None:
        self.runner = runner
        self.house = house
        self.mail = mail
        self.example = 0
        self.seen: set[tuple[str | None, str]] = set()
        self._line: Any = None
        self._turn = asyncio.Lock()

    async def rows(self, sql: str, *arguments: object) -> Sequence[Any]:
        """As those of the house, over one line for all that is asked."""
        async with self._turn:
            if self._line is None:
                self._line = await asyncpg.connect(self.house.database.admin_url, timeout=10)
            found: Sequence[Any] = await self._line.fetch(sql, *arguments)
        return found

    async def begin(self) -> None:
        """Whatever an example that broke has left starts nothing in the next."""
        await self.rows("UPDATE sequences.sequences SET is_active = false")

    async def close(self) -> None:
        if self._line is not None:
            await self._line.close(timeout=10)


class Model:
    """What is done, and what must come of it."""

    def __init__(self, world: World) -> None:
        world.example += 1
        self.world = world
        self.house = world.house
        self.contacts: dict[str, Contact] = {}
        self.programs: list[Program] = []
        self.lives: list[Life] = []
        self.ids: dict[Name, UUID] = {}
        self.stood: dict[Name, tuple[str, str | None]] = {}
        self.wrong: list[str] = []
        # Every example begins on a morning, so that what is found once is found again.
        self.house.clock.move_to((self.now + timedelta(days=2)).replace(hour=8, minute=0))
        world.runner.run(world.begin())
        world.mail.look = self._watch
        world.mail.mood = "takes"

    def run(self, work: Coroutine[Any, Any, Any]) -> None:
        self.world.runner.run(work)
        self.world.runner.run(self.look())
        self.world.runner.run(self._run_due())
        self.world.runner.run(self.look())

    @property
    def now(self) -> datetime:
        return self.house.clock.now

    # What is done.

    async def meet(self, language: str, has_phone: bool) -> None:
        number = len(self.contacts)
        async with self.house.bench.bell.transaction() as tx:
            added = await self.house.notify.recipients.add(
                tx,
                name=f"Guest {number}",
                email=f"guest{number}@example.org",
                phone=f"+49151123{number:05}" if has_phone else None,
                timezone=ZONE,
                language=language,
            )
        self.contacts[str(added.id)] = Contact(language=language, has_phone=has_phone)

    async def become(self, id: str, language: str, has_phone: bool) -> None:
        """It is asked at sending, and the next time that something is planned."""
        phone = "+4915112399999" if has_phone else None
        async with self.house.bench.bell.transaction() as tx:
            await self.house.notify.recipients.change(tx, UUID(id), language=language, phone=phone)
        self.contacts[id] = Contact(language=language, has_phone=has_phone)

    async def erase(self, id: str) -> None:
        async with self.house.bench.bell.transaction() as tx:
            await self.house.notify.recipients.erase(tx, UUID(id))
        del self.contacts[id]
        for life in self.lives:
            if id in life.known.people:
                life.known = replace(life.known, people=[each for each in life.known.people if each != id])
                self._plan(life)

    async def save(self, event: str, subtype: str | None, conditions: Json, steps: list[Json]) -> None:
        given: Json = {} if subtype is None else {"bookingSubtype": subtype}
        row = await self.house.save(*steps, event=event, conditions=conditions, **given)
        self.programs.append(
            Program(id=row["id"], event=event, subtype=subtype, versions=[(conditions, steps)])
        )

    async def change(self, program: Program, conditions: Json, steps: list[Json], is_applied: bool) -> None:
        said = {"conditions": conditions, "steps": steps}
        path = f"/api/sequences/{program.id}" + ("?apply=true" if is_applied else "")
        row = done(await self.house.ask("PATCH", path, said))
        if (conditions, steps) != program.versions[-1]:
            program.versions.append((conditions, steps))
        assert row["version"] == len(program.versions)
        for life in self.lives if is_applied else ():
            older = [
                key
                for key, (version, one) in life.entered.items()
                if key[0] == program.id and not one.is_ended and version < len(program.versions)
            ]
            for key in older:
                _, one = life.entered[key]
                life.entered[key] = (
                    len(program.versions),
                    replace(one, conditions=conditions, steps=steps),
                )
            if older:
                self._plan(life)

    async def delete(self, program: Program) -> None:
        done_with = await self.house.ask("DELETE", f"/api/sequences/{program.id}")
        assert done_with.status_code == 204, done_with.text
        program.is_deleted = True
        for life in self.lives:
            ended = [
                key for key, (_, one) in life.entered.items() if key[0] == program.id and not one.is_ended
            ]
            self._end(life, ended)
            if ended:
                self._plan(life)

    async def book(
        self, people: Sequence[str], start: datetime, end: datetime, subtype: str, status: str
    ) -> None:
        row = await self.house.book(
            contactId=people[0],
            contacts=list(people[1:]),
            startAt=start.isoformat(),
            endAt=end.isoformat(),
            subtype=subtype,
            status=status,
        )
        life = Life(
            subject=f"booking:{row['id']}",
            known=Known(
                timezone=ZONE,
                start=start,
                end=end,
                subtype=subtype,
                status=status,
                dates_at=self.now,
                people=list(people),
            ),
        )
        self.lives.append(life)
        fresh = self._enter(life, ["booking_created", f"booking_{status}"], 1)
        assert row["enrolled"] == self._plan(life, fresh)

    async def move(self, life: Life, transition: str) -> None:
        edges = {
            "confirm": ("created", "confirmed"),
            "check-in": ("confirmed", "checked_in"),
            "complete": ("checked_in", "completed"),
            "cancel": (life.known.status if life.known.status != "completed" else "", "cancelled"),
        }
        before, after = edges[transition]
        response = await self.house.ask("POST", f"/api/bookings/{life.id}/{transition}")
        if before != life.known.status or before == after:
            assert response.status_code == 409, response.text
            return
        row = done(response)
        life.known = replace(life.known, status=after)
        if transition == "cancel":
            self._end(life, list(life.entered))
        fresh = self._enter(life, [f"booking_{after}"], 1)
        assert row["enrolled"] == self._plan(life, fresh)

    async def rearrange(
        self, life: Life, start: datetime, end: datetime, people: Sequence[str] | None
    ) -> None:
        who: Json = {} if people is None else {"contactId": people[0], "contacts": list(people[1:])}
        await self.house.change(life.id, startAt=start.isoformat(), endAt=end.isoformat(), **who)
        self._redate(life, start, end)
        if people is not None:
            life.known = replace(life.known, people=list(people))
        self._plan(life)

    async def tell(
        self, name: str, event: str, start: datetime | None, people: Sequence[str], entry: int, cancels: bool
    ) -> None:
        """An event of a stranger's subject, which may be new, with all that is known of it."""
        said = {
            "event": event,
            "subject": name,
            "entry": entry,
            "cancels": cancels,
            "facts": {
                "start": None if start is None else start.isoformat(),
                "timezone": ZONE,
                "contacts": list(people),
            },
        }
        row = done(await self.house.ask("POST", "/api/sequences/events", said))
        subject = f"sequence:{name}"
        life = next((each for each in self.lives if each.subject == subject), None)
        if life is None:
            known = Known(
                timezone=ZONE, start=start, end=None, subtype=None, status=None, dates_at=self.now, people=[]
            )
            life = Life(subject=subject, known=known)
            self.lives.append(life)
        self._redate(life, start, None)
        life.known = replace(life.known, people=list(people))
        if cancels:
            self._end(life, list(life.entered))
        fresh = self._enter(life, [event], entry)
        assert row["enrolled"] == self._plan(life, fresh)

    async def pass_until(self, until: datetime, mood: str) -> None:
        """A node works all the while; what fails is tried again within seconds."""
        await self._run_due()
        self.world.mail.mood = mood
        await self.house.pass_until(until)
        self._pay(until, "failed" if mood == "refuses" else "sent", is_in_time=True)
        await self.house.pass_until(until + timedelta(minutes=2))
        self._pay(self.now, "failed" if mood == "refuses" else "sent", is_in_time=True)
        self.world.mail.mood = "takes"

    async def sleep_until(self, until: datetime) -> None:
        """No node works until then."""
        self.house.clock.move_to(until)

    async def settle(self) -> None:
        """What is known for good is written down, and nothing looks different for it."""
        assert APP.on_prune is not None
        for _ in range(3):
            await APP.on_prune(self.house.bench.bell, 500)

    # What must come of it.

    def _redate(self, life: Life, start: datetime | None, end: datetime | None) -> None:
        if (life.known.start, life.known.end) != (start, end):
            life.known = replace(life.known, start=start, end=end, dates_at=self.now)

    def _end(self, life: Life, keys: Sequence[tuple[str, int]]) -> None:
        for key in keys:
            version, one = life.entered[key]
            life.entered[key] = (version, replace(one, is_ended=True))

    def _enter(self, life: Life, events: Sequence[str], entry: int) -> set[tuple[str, int]]:
        fresh = set()
        for program in self.programs:
            is_for_it = program.subtype in (None, life.known.subtype)
            key = (program.id, entry)
            if program.event in events and is_for_it and not program.is_deleted and key not in life.entered:
                conditions, steps = program.versions[-1]
                one = Entered(
                    sequence=program.id, entry=entry, event_at=self.now, conditions=conditions, steps=steps
                )
                life.entered[key] = (len(program.versions), one)
                fresh.add(key)
        return fresh

    def _plan(self, life: Life, fresh: set[tuple[str, int]] | None = None) -> int:
        """State anew what is owed; answers with how many messages of what was entered just now are."""
        life.slips = expected(life.known, self.contacts, [one for _, one in life.entered.values()])
        before, life.pending = life.pending, {}
        for name, slip in life.slips.items():
            if name in life.ends or slip.reasons:
                continue
            is_kept = name in before and before[name].due_at == slip.due_at
            if is_kept or not slip.is_late(self.now):
                life.pending[name] = slip
        return sum(name[:2] in (fresh or set()) for name in life.pending)

    def _pay(self, until: datetime, end: str, *, is_in_time: bool) -> None:
        for life in self.lives:
            for name, slip in list(life.pending.items()):
                assert slip.due_at is not None
                if slip.due_at <= until:
                    del life.pending[name]
                    is_useless = not is_in_time and slip.useless_at is not None and slip.useless_at <= until
                    is_refused = is_useless or self._is_refused(life, name)
                    life.ends[name] = "skipped" if is_refused else end

    def _is_refused(self, life: Life, name: Name) -> bool:
        _, one = life.entered[name[:2]]
        (step,) = [each for each in one.steps if each["key"] == name[2]]
        return any(
            refused
            for conditions in (one.conditions, step.get("conditions") or {})
            for refused in refusals(conditions, life.known, self.contacts[name[3]])
        )

    async def _run_due(self) -> None:
        await self.house.bench.run_due()
        self._pay(self.now, "sent", is_in_time=False)

    async def _rows(self) -> dict[Name, Any]:
        subjects = [life.subject for life in self.lives]
        return {
            (f"{row['subject']} {row['sequence']}", row["entry"], row["step"], row["contact"]): row
            for row in await self.world.rows(_MESSAGES, subjects)
        }

    async def _watch(self) -> None:
        """While something is on its way. What is wrong then must not be taken for an answer of the provider."""
        for name, row in (await self._rows()).items():
            self._step(name, row)

    def _step(self, name: Name, row: Any) -> None:
        """Statuses go along edges that there are, whenever they are looked at."""
        before, why = self.stood.get(name, (None, None))
        after = row["status"]
        if before != after:
            edge = (before, after)
            is_again = edge in TAKEN_BACK and (why in BY_PLAN if before == "skipped" else why in _REMOVED)
            # Between two looks it may have been on its way.
            is_through = before in (None, "scheduled") and after in ("sent", "failed")
            if not (edge in EDGES or is_again or is_through):
                self.wrong.append(f"{name} went from {before} ({why}) to {after} ({row['reason']})")
            self.world.seen.add(edge)
        self.stood[name] = (after, row["reason"])

    async def look(self) -> None:
        """Everything that there is, compared with everything that there must be."""
        rows = await self._rows()
        assert not self.wrong, self.wrong
        subjects = [life.subject for life in self.lives]
        owed = {
            (row["subject"], row["step"]): row["due_at"] for row in await self.world.rows(_OWED, subjects)
        }
        told = Counter(
            {row["step"]: row["count"] for row in await self.world.rows(_TOLD, self.world.mail.arrived)}
        )
        for life in self.lives:
            mine = {
                (name[0].split()[1], *name[1:]): row
                for name, row in rows.items()
                if row["subject"] == life.subject
            }
            self._look_at(life, mine, told)
            pending = {
                (life.subject, str(mine[name]["id"])): slip.due_at for name, slip in life.pending.items()
            }
            assert {key: due for key, due in owed.items() if key[0] == life.subject} == pending

    def _look_at(self, life: Life, rows: dict[Name, Any], told: Counter[str]) -> None:
        assert life.slips.keys() <= rows.keys()
        for name, row in rows.items():
            key = (f"{life.subject} {name[0]}", *name[1:])
            assert self.ids.setdefault(key, row["id"]) == row["id"], "re-timing keeps the id"
            self._step(key, row)
            status, reason = row["status"], row["reason"]
            if name in life.pending:
                assert (status, row["due_at"]) == ("scheduled", life.pending[name].due_at), (row, life)
            elif name in life.ends:
                assert status == life.ends[name], (row, life)
            elif name in life.slips:
                assert status == "skipped", (row, life)
                assert reason in {*life.slips[name].reasons, "past"}, (row, life)
            else:
                assert status in ("cancelled", "skipped"), (row, life)
            assert told[str(row["id"])] == (life.ends.get(name) == "sent"), (row, life)
