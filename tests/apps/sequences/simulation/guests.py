"""Who books what in a world: stays that are made, moved, given to others, confirmed and cancelled, often by several at
once, while sequences get other versions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID

import asyncpg
import orjson
import psycopg

from tests.apps.sequences.oracle import Contact
from tests.apps.sequences.simulation.stays import Stays, Turn, Verb, soon
from tests.history import Record, Violation
from tests.simulation.asking import Asking
from tests.simulation.callers import LOSSES, Caller
from tests.simulation.ending import Change, Ending
from tests.simulation.notes import email_of, phone_of
from tests.simulation.process import Process
from tests.simulation.scene import Scene
from timebell.apps.sequences.bookings import BookingChange, Bookings, NewBooking
from timebell.apps.sequences.models import By, NewSequence, SequenceChange, Subject, Terms, Transition
from timebell.apps.sequences.service import Sequences
from timebell.apps.sequences.terms import terms_of
from timebell.errors import TimebellError
from timebell.kernel import Transaction
from timebell.notify import Channel, TemplateDraft, Text, Variable

# None of them sleeps; the last one has a telephone.
GUESTS = ("jo", "kim", "lea", "mia")
ZONE = "Europe/Berlin"
TEMPLATE = "sim.stay"
_MINUTE = timedelta(minutes=1)
_DAY = timedelta(days=1)
# Of the bookings some take place as they were made, and everybody is told all about them.
_LEFT_ALONE = 0.5
# Instants around which the life of a booking turns: its messages, its start and its end.
_TURNS = (timedelta(hours=-3), timedelta(hours=-1), timedelta(0), timedelta(hours=2))
_JOBS = "SELECT id FROM timebell.jobs WHERE subject = %s AND step IS NOT NULL"


def _step(key: str, anchor: str, offset: str, **given: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {
        "at": None,
        "channel": "preferred",
        "templateId": TEMPLATE,
        "contacts": "primary",
        "conditions": {},
    }
    return {"key": key, "anchor": anchor, "offset": offset, **usual, **given}


def sequences(edition: int) -> Mapping[str, list[dict[str, Any]]]:
    """What each event starts. Another edition has other times, and the same steps."""
    hours = 3 + edition % 2
    return {
        "booking_created": [
            _step("welcome", "event_time", "PT0S"),
            _step("before", "booking_start", f"-PT{hours}H", contacts="all"),
            _step("phone", "booking_start", "-PT1H", channel="sms", conditions={"hasPhone": True}),
            _step("far", "booking_start", "-PT30M", conditions={"minDaysOut": 1}),
            _step("after", "booking_end", f"PT{hours}H", contacts="all"),
        ],
        "booking_confirmed": [
            _step("ready", "booking_start", "-PT2H", contacts="all", conditions={"status": "confirmed"}),
            _step("during", "booking_start", "PT1H"),
        ],
        "booking_completed": [_step("thanks", "event_time", f"PT{hours}H")],
        "booking_cancelled": [_step("sorry", "event_time", "PT10M", contacts="all")],
    }


class Guest(Caller):
    """A caller who does things about bookings, as a route of the app would."""

    def __init__(
        self,
        process: Process,
        record: Callable[[Record], None],
        people: dict[str, UUID],
        programs: dict[str, UUID],
        note: Callable[[Turn], None],
    ) -> None:
        super().__init__(process, record)
        self._people = people
        self._programs = programs
        self._note = note

    async def take(self, turn: Turn) -> Subject | None:
        """What the booking is by then; None where it was refused, or nobody knows."""
        turn = replace(turn, invoked_at=self._now())
        try:
            async with self.process.bell.transaction() as tx:
                booking = await self._do(tx, turn)
        except (TimebellError, asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError) as error:
            self._end(
                replace(turn, answered_at=self._now()), str(getattr(error, "code", type(error).__name__))
            )
            return None
        except LOSSES:
            self._end(turn, None)
            return None
        except asyncio.CancelledError:
            self._end(turn, None)
            raise
        if turn.verb == "book" and booking is not None:
            turn = replace(turn, booking_id=booking.id)
        self._end(replace(turn, answered_at=self._now()), "done")
        return booking

    def _end(self, turn: Turn, answer: str | None) -> None:
        wire = self.process.wire
        wire.counts[f"{turn.verb}_{answer or 'lost'}"] += 1
        wire.trace.add(wire.loop.now_us, self.process.name, turn.verb, f"{turn.name} {answer or 'lost'}")
        self._note(replace(turn, answer=answer))

    async def _do(self, tx: Transaction, turn: Turn) -> Subject | None:
        by = By(name=turn.name, correlation_id=turn.name)
        if turn.verb == "apply":
            await self._apply(tx, turn, by)
            return None
        bookings = Bookings(self.process.bell, self.process.notify)
        people = tuple((self._people[each], "guest") for each in turn.people)
        if turn.verb == "book":
            assert turn.starts_at is not None
            assert turn.ends_at_then is not None
            new = NewBooking(
                people=people,
                subtype="stay",
                event_name=turn.name,
                starts_at=turn.starts_at,
                ends_at=turn.ends_at_then,
                timezone=ZONE,
                status="confirmed" if turn.number % 2 else "created",
            )
            return (await bookings.add(tx, new, by=by)).subject
        assert turn.booking_id is not None
        if turn.verb in ("dates", "people"):
            held = await bookings.hold(tx, turn.booking_id)
            change = BookingChange(
                starts_at=turn.starts_at, ends_at=turn.ends_at_then, people=people or held.people
            )
            return (await bookings.change(tx, held, change, by=by)).subject
        transition: Transition = cast("Transition", turn.verb)
        held = await bookings.hold(tx, turn.booking_id, transition)
        return (await bookings.move(tx, held, transition, by=by)).subject

    async def _apply(self, tx: Transaction, turn: Turn, by: By) -> None:
        service = Sequences(self.process.bell, self.process.notify)
        event = sorted(self._programs)[turn.number % len(self._programs)]
        held = await service.hold(tx, self._programs[event])
        steps = terms_of("{}", orjson.dumps(sequences(held.version)[event]).decode()).steps
        changed = await service.change(tx, held, SequenceChange(steps=steps), by=by)
        await service.apply(tx, changed, by=by)

    async def settle_in(self) -> None:
        """Save the texts and the sequences, and add the guests. Bookings go on by themselves here."""
        bell, notify = self.process.bell, self.process.notify
        by = By(name="house")
        async with bell.transaction() as tx:
            await notify.templates.save(tx, _draft())
            for person in GUESTS:
                added = await notify.recipients.add(
                    tx, name=person, email=email_of(person), phone=phone_of(person), timezone=ZONE
                )
                self._people[person] = added.id
        async with bell.transaction() as tx:
            for event, steps in sequences(0).items():
                terms = Terms(steps=terms_of("{}", orjson.dumps(steps).decode()).steps)
                new = NewSequence(name=event, trigger_event=event, terms=terms)
                saved = await Sequences(bell, notify).save(tx, new, by=by)
                self._programs[event] = saved.id
            await Bookings(bell, notify).change_settings(tx, checks_in=True, completes=True, by=by)


def _draft() -> TemplateDraft:
    channels: tuple[Channel, ...] = ("email", "sms", "whatsapp")
    body = f"{TEMPLATE}: {{{{ booking.eventName }}}} for {{{{ contact.name }}}}"
    return TemplateDraft(
        key=TEMPLATE,
        variables=[Variable(name="booking.eventName"), Variable(name="contact.name")],
        texts=[
            Text(channel=each, language="en", body=body, subject=TEMPLATE if each == "email" else None)
            for each in channels
        ],
    )


class Guests(Asking):
    """Lets people book."""

    turning = frozenset({"start_jobs", "read_facts", "start_attempts", "lock_job", "lock_free_subject"})

    def __init__(
        self,
        seed: int,
        scene: Scene,
        record: Callable[[Record], None],
        monitor: psycopg.Connection[Any],
    ) -> None:
        super().__init__(seed, "guests", scene.rush, record)
        self._scene = scene
        self._monitor = monitor
        self.people: dict[str, UUID] = {}
        self.programs: dict[str, UUID] = {}
        self.contacts: dict[str, Contact] = {}
        self.turns: list[Turn] = []
        self.stays = Stays(monitor, self.contacts)
        self._going: dict[asyncio.Task[Any], None] = {}

    def _guest(self) -> Guest:
        return Guest(self._process(), self._record, self.people, self.programs, self._note)

    def _note(self, turn: Turn) -> None:
        """Whatever came of it, what is owed must be what is planned at this moment."""
        self.turns.append(turn)
        self.stays.look(self._now(), turn.name)

    async def settle_in(self) -> None:
        if self._scene.bookings_a_day:
            guest = self._guest()
            await guest.process.run(guest.settle_in())
            for name, id in self.people.items():
                self.contacts[str(id)] = Contact(language="en", has_phone=phone_of(name) is not None)

    async def live(self, days: float) -> None:
        await self._live(days, {self._book: self._scene.bookings_a_day})

    async def afterwards(self) -> None:
        """Each verb once more, when nothing explains a silence."""
        if not self._scene.bookings_a_day:
            return
        start = self._now() + timedelta(hours=8)
        one = await self._calmly("book", start, people=("jo", "mia"))
        await self._calmly("confirm", start, one)
        await self._calmly("people", start, one, people=("mia", "kim"))
        await self._calmly("dates", start + timedelta(hours=2), one)
        await self._calmly("apply", start, one)
        other = await self._calmly("book", start, people=("lea",))
        await self._calmly("cancel", start, other)
        third = await self._calmly("book", start, people=("kim", "lea"), number=1)
        await self._calmly("check-in", start, third)
        await self._calmly("complete", start, third)
        await self._calmly("book", start, people=("jo",), number=1)

    async def _calmly(
        self, verb: Verb, start: datetime, booking: Subject | None = None, **given: Any
    ) -> Subject | None:
        is_dated = verb in ("book", "dates")
        turn = Turn(
            name=self._name(f"calm_{verb}"),
            verb=verb,
            booking_id=None if booking is None else booking.id,
            starts_at=start if is_dated else None,
            ends_at_then=start + timedelta(hours=3) if is_dated else None,
            **given,
        )
        taken = await self._taken(turn)
        if self.turns[-1].answer != "done":
            raise RuntimeError(f"{verb} came to nothing although all was calm: {self.turns[-1]}")
        return taken

    def changes(self) -> Sequence[Change]:
        """A version that is applied may move what is owed about every booking."""
        ids = {turn.booking_id for turn in self.turns if turn.booking_id is not None}
        applied = [
            replace(turn, booking_id=id) for turn in self.turns if turn.verb == "apply" for id in sorted(ids)
        ]
        return [
            *(turn for turn in self.turns if turn.booking_id is not None and turn.verb != "apply"),
            *applied,
        ]

    def check(self, ending: Ending) -> Sequence[Violation]:
        return self.stays.check(self.turns, ending)

    def _book(self) -> None:
        self._let_go_on(self._stay())

    def _let_go_on(self, work: Coroutine[Any, Any, Any]) -> None:
        """People go on whatever becomes of the processes that they ask."""
        wire = self._callers[0].wire
        made = wire.loop.create_task(work, context=wire.nobody)
        self._going[made] = None
        made.add_done_callback(self._going.pop)
        made.add_done_callback(wire.loop.note_end)

    def leave(self) -> None:
        for each in list(self._going):
            each.cancel()

    async def _stay(self) -> None:
        """One is booked, and then things happen to it."""
        booking = await self._taken(self._turn("book", None))
        if self._chance.random() < _LEFT_ALONE:
            return
        for _ in range(self._chance.randint(1, 5)):
            if booking is None or self.is_over or booking.status in ("completed", "cancelled"):
                return
            await asyncio.sleep(self._wait(booking))
            count = 1 if self._chance.random() < 0.6 else self._chance.randint(2, 3)
            turns = [self._turn(self._verb(booking), booking) for _ in range(count)]
            taken = [each for each in await asyncio.gather(*map(self._taken, turns)) if each is not None]
            booking = (taken or [booking])[-1]

    def _verb(self, booking: Subject) -> Verb:
        verbs: dict[Verb, float] = {"dates": 3, "people": 2, "cancel": 1.5, "apply": 0.7}
        following: dict[str, Verb] = {
            "created": "confirm",
            "confirmed": "check-in",
            "checked_in": "complete",
        }
        verbs |= {following.get(str(booking.status), "confirm"): 2}
        (verb,) = self._chance.choices(list(verbs), list(verbs.values()))
        return verb

    def _turn(self, verb: Verb, booking: Subject | None) -> Turn:
        chance = self._chance
        start = ends = None
        if verb in ("book", "dates"):
            # Some are for a day that this world does not see: what is owed about them must be there in the end.
            days = 100 if chance.random() < 0.15 else 0
            hour = self._now().astimezone(UTC).replace(minute=0, second=0, microsecond=0)
            start = (
                hour + days * _DAY + timedelta(hours=chance.randint(1, 14), minutes=chance.choice([0, 0, 20]))
            )
            ends = start + timedelta(hours=chance.choice([1, 3]))
        people = tuple(chance.sample(GUESTS, chance.randint(1, 3))) if verb in ("book", "people") else ()
        return Turn(
            name=self._name(verb.replace("-", "_")),
            verb=verb,
            booking_id=None if booking is None or verb == "apply" else booking.id,
            people=people,
            starts_at=start,
            ends_at_then=ends,
            number=chance.randrange(20),
        )

    def _wait(self, booking: Subject) -> float:
        """Until somebody does the next thing: at some time, or at the very moment at which something is due."""
        start = booking.starts_at
        if start is None or not soon(start, self._now()) or self._chance.random() < 0.3:
            return self._chance.choice([0.001, 5, 700, self._chance.random() * 3 * 3_600])
        near = timedelta(milliseconds=self._chance.randint(-50, 1_500))
        ahead = [start + turn + near for turn in _TURNS if start + turn + near > self._now()]
        return self._until(self._chance.choice(ahead)) if ahead else 5.0

    async def _taken(self, turn: Turn) -> Subject | None:
        guest = self._guest()
        try:
            booking: Subject | None = await guest.process.run(guest.take(turn))
        except asyncio.CancelledError:
            return None
        if booking is not None:
            for row in self._monitor.execute(_JOBS, [booking.subject]).fetchall():
                self._wanted[row["id"]] = booking
        return booking

    def _regret(self, id: UUID) -> None:
        """The booking is changed just when a message about it is on its way, or it goes on by itself."""
        booking: Subject = self._wanted[id]
        verbs: list[Verb] = ["cancel", "dates", "people", "confirm", "check-in", "complete", "cancel"]
        verb = self._chance.choice(verbs)
        self._let_go_on(self._taken(self._turn(verb, booking)))
