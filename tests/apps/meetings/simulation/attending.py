"""Who meets whom in a world: meetings that are proposed, answered, moved and left, often by several at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import psycopg

from tests.apps.meetings.simulation.agreed import Agreed, Turn, Verb
from tests.apps.meetings.simulation.owed import check_owed
from tests.history import Record, Violation
from tests.simulation.asking import Asking
from tests.simulation.callers import LOSSES, Caller
from tests.simulation.ending import Change, Ending
from tests.simulation.notes import email_of
from tests.simulation.process import Process
from tests.simulation.scene import Scene
from timebell.apps.meetings import templates
from timebell.apps.meetings.holds import Holds
from timebell.apps.meetings.models import By, Meeting, NewMeeting, Slot
from timebell.apps.meetings.models import Change as Changed
from timebell.apps.meetings.service import Meetings as Service
from timebell.errors import TimebellError
from timebell.kernel import Transaction

# None of them sleeps, so that each reminder is due exactly when the slot says.
ATTENDEES = ("dora", "emil", "fay", "gus")
ZONE = "Europe/Berlin"
_LENGTH = timedelta(minutes=30)
_HELD = timedelta(minutes=10)
_DAY = timedelta(days=1)
# When people meet: four times a day, and a quarter of an hour later, which overlaps.
_TIMES = tuple(timedelta(hours=hour, minutes=minute) for hour in (3, 9, 15, 21) for minute in (0, 15))
_NEXT = 6
# Of the meetings that are on, some take place as it was agreed, and everybody is reminded of them.
_LEFT_ALONE = 0.5
# Instants around which a meeting's life turns: its reminders, its start and its end.
_TURNS = (timedelta(hours=-1), timedelta(minutes=-15), timedelta(0), _LENGTH)
_JOBS = "SELECT id FROM timebell.jobs WHERE subject = %s AND step IS NOT NULL"


class Attendee(Caller):
    """A caller who does things about meetings, as a route of the app would."""

    def __init__(
        self,
        process: Process,
        record: Callable[[Record], None],
        people: dict[str, UUID],
        note: Callable[[Turn], None],
    ) -> None:
        super().__init__(process, record)
        self._people = people
        self._note = note

    async def take(self, turn: Turn) -> Meeting | None:
        """What the meeting is by then; None where it was refused or nobody knows."""
        turn = replace(turn, invoked_at=self._now())
        try:
            async with self.process.bell.transaction() as tx:
                meeting, is_changing = await self._do(tx, turn)
            turn = replace(turn, is_changing=is_changing)
        except (TimebellError, asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError) as error:
            self._end(turn, str(getattr(error, "code", type(error).__name__)))
            return None
        except LOSSES:
            self._lose(turn)
            return None
        except asyncio.CancelledError:
            self._lose(turn)
            raise
        if turn.verb == "propose":
            turn = replace(turn, meeting_id=meeting.id)
        self._end(turn, "done")
        return meeting

    def _end(self, turn: Turn, answer: str) -> None:
        self._write_turn(replace(turn, answered_at=self._now(), answer=answer), answer)

    def _lose(self, turn: Turn) -> None:
        self._write_turn(turn, "lost")

    def _write_turn(self, turn: Turn, answer: str) -> None:
        wire = self.process.wire
        wire.counts[f"{turn.verb}_{answer}"] += 1
        wire.trace.add(wire.loop.now_us, self.process.name, turn.verb, f"{turn.name} {answer}")
        self._note(turn)

    async def _do(self, tx: Transaction, turn: Turn) -> tuple[Meeting, bool]:
        """The meeting afterwards, and whether others take part in it by then, or something else was done."""
        before: Meeting | None = None
        if turn.verb != "propose":
            assert turn.meeting_id is not None
            before = await Service(self.process.bell, self.process.notify).hold(
                tx, turn.meeting_id, by=self._by(turn)
            )
        after = (await self._act(tx, turn, before)).meeting
        is_about_people = turn.verb in ("add", "remove")
        return after, not (is_about_people and before and before.participants == after.participants)

    def _by(self, turn: Turn) -> By:
        return By(person=self._people[turn.person], name=turn.name, correlation_id=turn.name)

    async def _act(self, tx: Transaction, turn: Turn, meeting: Meeting | None) -> Changed:
        bell = self.process.bell
        meetings = Service(bell, self.process.notify)
        by = self._by(turn)
        if meeting is None:
            assert by.person is not None
            new = NewMeeting(
                title=turn.name,
                timezone=ZONE,
                participants=[self._people[each] for each in turn.others],
                proposed_slots=turn.slots,
            )
            return Changed(meeting=await meetings.propose(tx, by.person, new, by=by))
        slot = meeting.proposed_slots[turn.number % len(meeting.proposed_slots)]
        match turn.verb:
            case "accept":
                return await meetings.accept(tx, meeting, slot, by=by)
            case "deny":
                return await meetings.deny(tx, meeting, "no time", by=by)
            case "reschedule":
                return await meetings.reschedule(tx, meeting, turn.slots, "a strike", by=by)
            case "cancel":
                return await meetings.cancel(tx, meeting, None, by=by)
            case "complete":
                return await meetings.complete(tx, meeting, by=by)
            case "add":
                return await meetings.add_participant(tx, meeting, self._people[turn.others[0]], by=by)
            case "remove":
                return await meetings.remove_participant(tx, meeting, self._people[turn.others[0]], by=by)
            case "hold":
                assert by.person is not None
                await Holds(bell).add(tx, meeting, slot, lasts=_HELD, person=by.person, by=by)
        return Changed(meeting=meeting)

    async def settle_in(self) -> None:
        """Ship the texts, and add those who meet."""
        await templates.ship(self.process.bell)
        async with self.process.bell.transaction() as tx:
            for person in ATTENDEES:
                added = await self.process.notify.recipients.add(
                    tx, name=person, email=email_of(person), timezone=ZONE
                )
                self._people[person] = added.id


class Meetings(Asking):
    """Lets people meet."""

    turning = frozenset({"start_jobs", "read_facts", "start_attempts", "show_entries", "lock_job"})

    def __init__(
        self,
        seed: int,
        scene: Scene,
        record: Callable[[Record], None],
        monitor: psycopg.Connection[Any],
    ) -> None:
        super().__init__(seed, "meetings", scene.rush, record)
        self._scene = scene
        self._monitor = monitor
        self.people: dict[str, UUID] = {}
        self.turns: list[Turn] = []
        self.agreed = Agreed(monitor)
        self._going: dict[asyncio.Task[Any], None] = {}

    def _attendee(self) -> Attendee:
        return Attendee(self._process(), self._record, self.people, self._note)

    def _note(self, turn: Turn) -> None:
        """Whatever came of it, all that was agreed must fit together at this moment."""
        self.turns.append(turn)
        self.agreed.look(self._now(), turn.name)

    async def settle_in(self) -> None:
        if self._scene.meetings_a_day:
            attendee = self._attendee()
            await attendee.process.run(attendee.settle_in())

    async def live(self, days: float) -> None:
        await self._live(days, {self._meet: self._scene.meetings_a_day})

    async def afterwards(self) -> None:
        """Each verb once more. In between the times at which people meet here, so that nobody is in the way."""
        if not self._scene.meetings_a_day:
            return
        now = self._now().astimezone(UTC)
        start = now.replace(hour=0, minute=0, second=0, microsecond=0) + _DAY
        while start < now + timedelta(hours=25):
            start += timedelta(hours=6)
        self.is_over = False
        dora, emil, fay, gus = ATTENDEES
        one = await self._calmly("propose", dora, start, others=(emil, fay))
        one = await self._calmly("accept", emil, start, one)
        one = await self._calmly("add", dora, start, one, others=(gus,))
        await self._calmly("remove", dora, start, one, others=(fay,))
        other = await self._calmly("propose", fay, start + _LENGTH, others=(gus,))
        other = await self._calmly("hold", gus, start + _LENGTH, other)
        other = await self._calmly("accept", gus, start + _LENGTH, other)
        other = await self._calmly("reschedule", fay, start + 2 * _LENGTH, other)
        await self._calmly("cancel", fay, start + 2 * _LENGTH, other)
        third = await self._calmly("propose", emil, start + 3 * _LENGTH, others=(dora,))
        await self._calmly("deny", dora, start + 3 * _LENGTH, third)
        # Nobody answers this one, so that the hold has to end by itself.
        fourth = await self._calmly("propose", gus, start + 4 * _LENGTH, others=(emil,))
        await self._calmly("hold", emil, start + 4 * _LENGTH, fourth)
        self.is_over = True

    async def _calmly(
        self,
        verb: Verb,
        person: str,
        start: datetime,
        meeting: Meeting | None = None,
        others: tuple[str, ...] = (),
    ) -> Meeting:
        turn = Turn(
            name=self._name(f"calm_{verb}"),
            verb=verb,
            person=person,
            meeting_id=None if meeting is None else meeting.id,
            slots=(Slot(start, start + _LENGTH),) if verb in ("propose", "reschedule") else (),
            others=others,
        )
        taken = await self._taken(turn)
        if taken is None:
            raise RuntimeError(f"{verb} came to nothing although all was calm: {self.turns[-1]}")
        return taken

    def changes(self) -> Sequence[Change]:
        return [turn for turn in self.turns if turn.meeting_id is not None]

    def check(self, ending: Ending) -> Sequence[Violation]:
        agreed = self.agreed.check(self.turns, until=ending.until, grace=ending.grace)
        return [*agreed, *check_owed(ending, self.agreed.rows(), self.turns, self.people)]

    def _meet(self) -> None:
        self._let_meet(self._meeting())

    def _let_meet(self, work: Coroutine[Any, Any, Any]) -> None:
        """People go on whatever becomes of the processes that they ask."""
        wire = self._callers[0].wire
        made = wire.loop.create_task(work, context=wire.nobody)
        self._going[made] = None
        made.add_done_callback(self._going.pop)
        made.add_done_callback(wire.loop.note_end)

    def leave(self) -> None:
        """Nobody does anything any more."""
        for each in list(self._going):
            each.cancel()

    async def _meeting(self) -> None:
        """One is proposed, and then things happen to it and to what it is moved to."""
        requester, *others = self._chance.sample(ATTENDEES, self._chance.randint(2, 3))
        turn = Turn(
            name=self._name("talk"),
            verb="propose",
            person=requester,
            slots=self._slots(),
            others=tuple(others),
        )
        meeting = await self._taken(turn)
        for _ in range(self._chance.randint(2, 5)):
            if meeting is None or self.is_over:
                return
            if meeting.status == "accepted" and self._chance.random() < _LEFT_ALONE:
                return
            await asyncio.sleep(self._wait(meeting))
            meeting = await self._several(meeting)

    def _slots(self) -> tuple[Slot, ...]:
        """Of the next times at which people meet here, or far away; so that several want the same."""
        now = self._now().astimezone(UTC)
        days = 100 if self._chance.random() < 0.2 else 0
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        ahead = [
            midnight + day * _DAY + time
            for day in range(3)
            for time in _TIMES
            if midnight + day * _DAY + time > now
        ]
        starts = self._chance.sample(ahead[:_NEXT], self._chance.randint(1, 3))
        return tuple(Slot(start + days * _DAY, start + days * _DAY + _LENGTH) for start in starts)

    def _wait(self, meeting: Meeting) -> float:
        """Until somebody does the next thing: at some time, or at the very moment at which something else is due."""
        slot = meeting.accepted_slot
        if slot is None or slot.start > self._now() + timedelta(days=1) or self._chance.random() < 0.3:
            return self._chance.choice([0.001, 5, 700, self._chance.random() * 3 * 3_600])
        near = timedelta(milliseconds=self._chance.randint(-50, 1_500))
        ahead = [slot.start + turn + near for turn in _TURNS if slot.start + turn + near > self._now()]
        return self._until(self._chance.choice(ahead)) if ahead else 5.0

    async def _several(self, meeting: Meeting) -> Meeting | None:
        """One does something about it, or two or three do at once; what it is afterwards, or its child."""
        count = 1 if self._chance.random() < 0.6 else self._chance.randint(2, 3)
        turns = [self._turn(meeting) for _ in range(count)]
        taken = await asyncio.gather(*(self._taken(turn) for turn in turns))
        left = [each for each in taken if each is not None]
        moved = [each for each in left if each.parent_meeting_id == meeting.id]
        return (moved or left or [meeting])[-1]

    def _turn(self, meeting: Meeting) -> Turn:
        chance = self._chance
        verbs: dict[Verb, float] = {"reschedule": 3, "cancel": 1.5, "add": 1, "remove": 1}
        verbs |= {"complete": 1} if meeting.status == "accepted" else {"accept": 9, "deny": 1, "hold": 1.5}
        (verb,) = chance.choices(list(verbs), list(verbs.values()))
        inside = [name for name, id in self.people.items() if id in meeting.participants]
        person = chance.choice(inside if chance.random() < 0.9 else ATTENDEES)
        if verb == "accept" and self.people[person] == meeting.requester_id:
            # Refused, as it should be; but then little would ever take place.
            person = chance.choice(inside)
        other = chance.choice(ATTENDEES)
        return Turn(
            name=self._name(verb),
            verb=verb,
            person=person,
            meeting_id=meeting.id,
            slots=self._slots() if verb == "reschedule" else (),
            number=chance.randrange(20),
            others=(other,),
        )

    async def _taken(self, turn: Turn) -> Meeting | None:
        attendee = self._attendee()
        try:
            meeting: Meeting | None = await attendee.process.run(attendee.take(turn))
        except asyncio.CancelledError:
            return None
        if meeting is not None and meeting.status == "accepted":
            for row in self._monitor.execute(_JOBS, [meeting.subject]).fetchall():
                self._wanted[row["id"]] = meeting
        return meeting

    def _regret(self, id: UUID) -> None:
        """The meeting is changed just when a reminder of it is on its way, or its completion."""
        meeting = self._wanted[id]
        self._let_meet(self._taken(self._turn(meeting)))
