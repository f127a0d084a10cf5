"""Who is told what in a world, and who takes it back: at once, later, by night, as steps of an agenda."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Any
from uuid import UUID

from tests.history import Mode, Record
from tests.simulation.asking import Asking
from tests.simulation.callers import Caller, Wanted
from tests.simulation.process import Process
from tests.simulation.scene import Scene
from timebell.kernel import Cancelled, Step, Transaction
from timebell.notify import Channel, Digest, QuietHours, Route, Tell, TemplateDraft, Text, Told, Variable
from timebell.notify.models import OnQuiet, Urgency

TEMPLATE = "sim.note"
QUIET_ZONE = "Europe/Berlin"
QUIET_HOURS = QuietHours(start=time(22), end=time(7))
# One who never sleeps, one who does, and one who has no telephone.
PEOPLE = ("ada", "ben", "cleo")
QUIET = "ben"
_PHONES = {
    "ada": "+4915112345000",
    "ben": "+4915112345001",
    "hedy": "+4915112345003",
    "ivan": "+4915112345004",
    "mia": "+4915112345005",
    **{
        name: f"+49151123451{number:02}"
        for number, name in enumerate(
            (
                *("bill", "sara", "lily", "wade", "walt", "will", "wren"),
                *("wynn", "wilma", "wanja", "wulf", "waris", "willa", "bob", "lotte"),
            )
        )
    },
}
_ROUTES: Sequence[Route] = (
    Route(first=("email",)),
    Route(first=("email",), also=("inbox",)),
    Route(first=("sms",)),
    Route(first=("sms", "email")),
    Route(first=("whatsapp",)),
    Route(first=("inbox",)),
    Route(first=("inbox",)),
)
_SUBJECTS: Mapping[Channel, str | None] = {
    "email": "{{ name }}",
    "sms": None,
    "whatsapp": None,
    "inbox": "{{ name }}",
}
_ON_QUIET: Sequence[OnQuiet] = ("inbox_only", "other_channel", "drop")


def email_of(person: str) -> str:
    return f"{person}@example.org"


def addresses_of(person: str) -> tuple[str, ...]:
    """Where something for that person may arrive."""
    return (email_of(person), *([_PHONES[person]] if person in _PHONES else []))


def phone_of(person: str) -> str | None:
    return _PHONES.get(person)


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedNote(Wanted):
    """Something that somebody wants to be told."""

    mode: Mode = "external"
    person: str
    route: Route
    urgency: Urgency = "normal"
    on_quiet: OnQuiet | None = None
    digest: Digest | None = None

    def tell(self, people: dict[str, UUID], **options: Any) -> Tell:
        return Tell(
            recipient=people[self.person],
            template=TEMPLATE,
            context={"name": self.name, "person": self.person},
            channels=self.route,
            urgency=self.urgency,
            on_quiet=self.on_quiet,
            expires_at=self.expires_at,
            digest=self.digest,
            **options,
        )


class Teller(Caller):
    """A caller who has somebody told something."""

    def __init__(
        self,
        process: Process,
        record: Callable[[Record], None],
        people: dict[str, UUID],
        noted: Callable[[str, str], WantedNote],
    ) -> None:
        super().__init__(process, record)
        self._people = people
        self._noted = noted

    async def _ask(self, tx: Transaction, wanted: WantedNote, is_replacing: bool) -> Told:
        options = {
            "due_at": wanted.due_at,
            "subject": wanted.subject,
            "key": wanted.key,
            "correlation_id": wanted.name,
        }
        return (await self.process.notify.tell_many(tx, [wanted.tell(self._people, **options)]))[0]

    async def _take_back(self, tx: Transaction, **which: Any) -> Sequence[Cancelled]:
        return await self.process.notify.withdraw(tx, **which)

    async def _step(self, tx: Transaction, subject: str, name: str, mode: Mode, **options: Any) -> Step:
        tell = self._noted(subject, name).tell(self._people)
        return await self.process.notify.step(tx, tell, key=name, **options)

    async def settle_in(self) -> None:
        """Add the people and the texts that all of it is about."""
        notify = self.process.notify
        texts = [
            Text(channel=channel, language="en", subject=subject, body="{{ name }}")
            for channel, subject in _SUBJECTS.items()
        ]
        variables = (Variable(name="name"), Variable(name="person"))
        draft = TemplateDraft(key=TEMPLATE, texts=texts, variables=variables)
        async with self.process.bell.transaction() as tx:
            await notify.templates.save(tx, draft)
            for person in PEOPLE:
                added = await notify.recipients.add(
                    tx,
                    name=person,
                    email=email_of(person),
                    phone=phone_of(person),
                    whatsapp_opt_in=True,
                    timezone=QUIET_ZONE,
                    quiet_hours=QUIET_HOURS if person == QUIET else None,
                )
                self._people[person] = added.id


class Notes(Asking):
    """Lets callers tell people things."""

    turning = frozenset(
        {
            "start_jobs",
            "read_facts",
            "start_attempts",
            "record_answers",
            "show_entries",
            "note_progress",
            "retry_jobs",
            "finish_jobs",
            "recover_jobs",
        }
    )

    def __init__(self, seed: int, scene: Scene, record: Callable[[Record], None]) -> None:
        super().__init__(seed, "notes", scene.rush, record)
        self._scene = scene
        self.people: dict[str, UUID] = {}

    def _teller(self) -> Teller:
        return Teller(self._process(), self._record, self.people, self._noted)

    async def settle_in(self) -> None:
        if self._scene.has_notes:
            teller = self._teller()
            await teller.process.run(teller.settle_in())

    async def live(self, days: float) -> None:
        scene = self._scene
        await self._live(days, {self._tell: scene.tells_a_day, self._visit: scene.visits_a_day})

    async def afterwards(self) -> None:
        """Somebody by each route once more, at whatever hour."""
        if not self._scene.has_notes:
            return
        teller = self._teller()
        for number, route in enumerate(_ROUTES):
            person = PEOPLE[number % len(PEOPLE)]
            wanted = WantedNote(name=self._name("calm_note"), person=person, route=route, urgency="critical")
            await teller.process.run(self._told(teller, wanted))

    def _noted(self, subject: str, name: str) -> WantedNote:
        """What a step says; nothing chosen here changes what is chosen elsewhere."""
        number = sum(map(ord, f"{subject}/{name}"))
        person = PEOPLE[number % len(PEOPLE)]
        return WantedNote(name=f"{subject}/{name}", person=person, route=_ROUTES[number % len(_ROUTES)])

    def _due_at(self) -> datetime | None:
        sort = self._chance.random()
        if sort < 0.15:
            return None
        if sort < 0.3:
            return self._now() + timedelta(milliseconds=self._chance.randint(0, 2_000))
        return self._now() + timedelta(milliseconds=self._chance.randint(5_000, 5 * 3_600_000))

    def _tell(self) -> None:
        chance = self._chance
        due_at, name = self._due_at(), self._name("note")
        expires_at = due_at + timedelta(hours=3) if due_at and chance.random() < 0.25 else None
        wanted = WantedNote(
            name=name,
            person=chance.choice(PEOPLE),
            route=chance.choice(_ROUTES),
            urgency="critical" if chance.random() < 0.15 else "normal",
            due_at=due_at,
            expires_at=expires_at,
            on_quiet=chance.choice(_ON_QUIET) if expires_at else None,
            subject=f"case{chance.randrange(self._scene.subjects)}" if chance.random() < 0.4 else None,
            key=name if chance.random() < 0.4 else None,
        )
        teller = self._teller()
        self._let(teller.process, self._tell_and_regret(teller, wanted))
        if wanted.key is not None and chance.random() < 0.5:
            other = self._teller()
            delay = chance.choice([0, 0.001, 5, 900])
            self._let(other.process, self._tell_again(other, wanted, delay))

    async def _told(self, teller: Teller, wanted: WantedNote) -> UUID | None:
        id = await teller.enqueue(wanted)
        if id is not None:
            self._wanted[id] = wanted
        return id

    async def _tell_again(self, teller: Teller, wanted: WantedNote, delay: float) -> None:
        """Under the same key, at the same time or when the first may be under way or over."""
        await asyncio.sleep(delay and self._until(wanted.due_at) + delay)
        await self._told(teller, wanted)

    async def _tell_and_regret(self, teller: Teller, wanted: WantedNote) -> None:
        id = await self._told(teller, wanted)
        sort = self._chance.random()
        if id is None or sort > 0.4:
            return
        # Just when it is due, or later, when it may wait for the morning, for an answer or for the next attempt.
        near = (
            self._chance.randint(-50, 50) / 1000 if sort < 0.25 else self._chance.choice([2, 40, 70, 1_800])
        )
        await asyncio.sleep(max(0.0, self._until(wanted.due_at) + near))
        self._regret(id)

    def _regret(self, id: UUID) -> None:
        teller, wanted = self._teller(), self._wanted[id]
        is_whole = wanted.subject is not None and self._chance.random() < 0.3
        which: dict[str, Any] = {"subject": wanted.subject} if is_whole else {"id": id}
        self._let(teller.process, teller.cancel(self._wanted, **which))

    def _visit(self) -> None:
        """An agenda whose steps tell, and that is changed when one of them is about to."""
        subject = f"visit{self._chance.randrange(self._scene.subjects)}"
        teller = self._teller()
        self._let(teller.process, self._plan_and_change(teller, subject, self._steps()))

    def _steps(self) -> dict[str, tuple[datetime, Mode]]:
        if self._chance.random() < 0.2:
            return {}
        anchor = self._now() + timedelta(milliseconds=self._chance.randint(100, 4 * 3_600_000))
        spacing = self._chance.choice([0.02, 3, 900])
        names = ["before", "after"][: self._chance.randint(1, 2)]
        return {
            name: (anchor + timedelta(seconds=spacing * number), "external")
            for number, name in enumerate(names)
        }

    async def _plan_and_change(
        self, teller: Teller, subject: str, steps: dict[str, tuple[datetime, Mode]]
    ) -> None:
        await teller.plan(subject, steps, is_ordered=False)
        if steps and self._chance.random() < 0.5:
            due_at, _ = self._chance.choice(list(steps.values()))
            wait = self._until(due_at) + self._chance.choice([-0.02, 0.001, 0.02, 1, 60, 3_600])
            await asyncio.sleep(max(0.0, wait))
            if not self.is_over:
                other = self._teller()
                self._let(other.process, other.plan(subject, self._steps(), is_ordered=False))
