"""What is gathered or held back in a world: notifications that are told together, and people who get few of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg

from tests.history import Record, Violation
from tests.simulation.asking import Asking
from tests.simulation.ending import Ending
from tests.simulation.notes import TEMPLATE, Teller, WantedNote, email_of, phone_of
from tests.simulation.process import Process
from tests.simulation.scene import Scene
from timebell.notify import Digest, Route, TemplateDraft, Text, Variable
from timebell.notify.models import Cap

GATHERED = "sim.gathered"
READER = "hedy"
BUSY = "ivan"
CAP = Cap(count=2, per=timedelta(hours=4), channel="sms")
_DIGEST = Digest(key="bits", closes="FREQ=HOURLY;INTERVAL=2;BYMINUTE=30", template=GATHERED)
_SHOWN = """
SELECT i.description, i.created_at FROM timebell_notify.inbox i
JOIN timebell_notify.notifications n ON (n.tenant, n.id) = (i.tenant, i.id)
WHERE n.template = %s ORDER BY i.seq
"""
_TEXTED = """
SELECT n.id::text AS job_id, n.context->>'name' AS name, r.name AS person, min(t.started_at) AS at
FROM timebell_notify.notifications n
JOIN timebell_notify.recipients r ON (r.tenant, r.id) = (n.tenant, n.recipient_id)
JOIN timebell_notify.deliveries d ON (d.tenant, d.notification_id) = (n.tenant, n.id) AND d.channel = 'sms'
JOIN timebell_notify.attempts t ON (t.tenant, t.delivery_id) = (d.tenant, d.id)
WHERE n.urgency <> 'critical' GROUP BY 1, 2, 3 ORDER BY 4
"""
# From its being counted until it is sent a text may take a moment.
_MOMENT = timedelta(minutes=1)


class Gathering(Asking):
    """Those who are told little by little."""

    turning = frozenset({"join_digest", "close_digest", "finish_waiting", "read_facts"})

    def __init__(
        self,
        seed: int,
        scene: Scene,
        record: Callable[[Record], None],
        monitor: psycopg.Connection[Any],
    ) -> None:
        super().__init__(seed, "gathering", scene.rush, record)
        self._scene = scene
        self._bits: dict[str, str] = {}
        self.people: dict[str, UUID] = {}

    def _teller(self) -> Teller:
        return Teller(self._process(), self._record, self.people, _never)

    async def settle_in(self) -> None:
        if self._scene.digests_a_day:
            process = self._process()
            await process.run(self._prepare(process))

    async def _prepare(self, process: Process) -> None:
        body = "{% for each in entries %}[{{ each.name }}]{% endfor %}"
        gathered = TemplateDraft(
            key=GATHERED,
            texts=[Text(channel="inbox", language="en", subject="Bits", body=body)],
            variables=(Variable(name="entries"),),
        )
        channels: Sequence[tuple[Any, str | None]] = (("sms", None), ("inbox", "{{ name }}"))
        texts = [
            Text(channel=channel, language="en", subject=subject, body="{{ name }}")
            for channel, subject in channels
        ]
        variables = (Variable(name="name"), Variable(name="person"))
        async with process.bell.transaction() as tx:
            await process.notify.templates.save(tx, gathered)
            if not self._scene.has_notes:
                await process.notify.templates.save(
                    tx, TemplateDraft(key=TEMPLATE, texts=texts, variables=variables)
                )
            await process.notify.policies.change(tx, caps=[CAP])
            for person in (READER, BUSY):
                added = await process.notify.recipients.add(
                    tx, name=person, email=email_of(person), phone=phone_of(person), timezone="UTC"
                )
                self.people[person] = added.id

    async def live(self, days: float) -> None:
        a_day = self._scene.digests_a_day
        await self._live(days, {self._bit: a_day, self._text: a_day})

    async def afterwards(self) -> None:
        if self._scene.digests_a_day:
            self._bit()
            self._text()

    def _bit(self) -> None:
        self._tell(READER, Route(first=("inbox",)), digest=_DIGEST)

    def _text(self) -> None:
        self._tell(BUSY, Route(first=("sms",)))

    def _tell(self, person: str, route: Route, digest: Digest | None = None) -> None:
        wanted = WantedNote(
            name=self._name("bit" if digest else "text"),
            person=person,
            route=route,
            due_at=self._now() + timedelta(minutes=self._chance.randint(0, 200)),
            digest=digest,
        )
        teller = self._teller()
        self._let(teller.process, self._told(teller, wanted))

    async def _told(self, teller: Teller, wanted: WantedNote) -> None:
        id = await teller.enqueue(wanted)
        if id is not None:
            self._wanted[id] = wanted
            if wanted.digest is not None:
                self._bits[str(id)] = wanted.name

    def _regret(self, id: UUID) -> None:
        teller = self._teller()
        self._let(teller.process, teller.cancel(self._wanted, id=id))

    def check(self, ending: Ending) -> Sequence[Violation]:
        return [*self._ungathered(ending), *_over_the_cap(ending)] if self._scene.digests_a_day else []

    def _ungathered(self, ending: Ending) -> Iterator[Violation]:
        """Each is in one digest, unless somebody took it back before."""
        rows = ending.monitor.execute(_SHOWN, [GATHERED]).fetchall()
        shown: dict[str, list[datetime]] = {}
        for row in rows:
            for name in row["description"].strip("[]").split("]["):
                shown.setdefault(name, []).append(row["created_at"])
        cancels = {record.job_id: record for record in ending.history if record.op == "cancel"}
        finals = {final.job_id: final for finals in ending.finals.values() for final in finals}
        for id, name in self._bits.items():
            ats, cancel, final = shown.get(name, []), cancels.get(id), finals.get(id)
            text = None
            if len(ats) > 1:
                text = f"in {len(ats)} digests"
            elif not ats and cancel is None:
                text = f"in no digest, and its job is {final and final.state}"
            elif ats and cancel is not None and cancel.answer == "cancelled" and ats[0] > cancel.ends_at:
                text = f"told at {ats[0].isoformat()}, and withdrawn at {cancel.ends_at.isoformat()}"
            if text is not None:
                yield Violation(invariant="digest", key=name, text=text)


def _over_the_cap(ending: Ending) -> Iterator[Violation]:
    """However many wait, no more are sent to one person than the cap allows in its time."""
    sent: dict[str, list[datetime]] = {}
    for row in ending.monitor.execute(_TEXTED).fetchall():
        before = sent.setdefault(row["person"], [])
        if len(before) >= CAP.count and row["at"] - before[-CAP.count] < CAP.per - _MOMENT:
            text = f"sent at {row['at'].isoformat()}, as number {CAP.count + 1} since {before[-CAP.count].isoformat()}"
            yield Violation(invariant="cap", key=row["name"], text=text)
        before.append(row["at"])


def _never(subject: str, name: str) -> WantedNote:
    raise NotImplementedError
