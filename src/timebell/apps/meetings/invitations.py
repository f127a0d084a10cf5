"""Invitations: the calendar entry and the link to the page for an answer, which go with the mails about a meeting.

To calendar programs a lineage is one entry: its UID is that of the first meeting, and its SEQUENCE goes on counting, so
that a meeting which was moved three times is one entry that moved, and never four. Whose meeting it is stays the same
too, since programs take a message from another organizer for a stranger's (RFC 5546, 2.1.4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, Literal
from uuid import UUID

import orjson

from timebell.apps.meetings.calendars import uid_of
from timebell.apps.meetings.models import Meeting
from timebell.apps.meetings.store_calendars import CalendarStore
from timebell.kernel import Timebell, Transaction
from timebell.notify import Notify, Recipient, Tell
from timebell.rules.ics import CalendarEntry, CalendarPerson, calendar_file
from timebell.rules.signing import signer_of

PATH: Final = "/r/"
_PURPOSE: Final = "timebell meetings answer v1"
_TOKEN_MAX: Final = 1_000
# The notification carries all of it, once for each who is told, and has to stay within what a payload may be.
_TEXT_MAX: Final = 4_000
_NAME_MAX: Final = 60

Method = Literal["REQUEST", "CANCEL"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerLink:
    """What a link stands for: a person answers a proposal, until the last of the proposed times has come."""

    tenant: str
    meeting_id: UUID
    person: UUID
    expires_at: datetime


class AnswerLinks:
    """Makes the links and reads them. They are stateless: what became of the meeting says whether one is of use."""

    def __init__(self, bell: Timebell) -> None:
        settings = bell.settings
        self._signer = signer_of(settings, _PURPOSE, bell.tallies.previous_keys)
        self._public_url = settings.public_url
        # Without providers here, another process of the same database may still have some.
        is_alone = bool(settings.demo) or settings.database_url is None
        if self._public_url is None and settings.is_demo and is_alone:
            # Nothing leaves, so whoever reads the mails sits in front of the server.
            self._public_url = f"http://127.0.0.1:{settings.port}"

    @property
    def can_read(self) -> bool:
        return self._signer is not None

    def url(self, meeting: Meeting, person: UUID) -> str | None:
        """The link for a message, or None where the settings do not say how to sign it or where it leads."""
        if self._signer is None or self._public_url is None:
            return None
        expires_at = max(slot.start for slot in meeting.proposed_slots)
        body = [meeting.tenant, str(meeting.id), str(person), int(expires_at.timestamp())]
        return f"{self._public_url.rstrip('/')}{PATH}{self._signer.sign(orjson.dumps(body))}"

    def read(self, token: str) -> AnswerLink | None:
        """None where it is not one that we made."""
        body = None if self._signer is None or len(token) > _TOKEN_MAX else self._signer.read(token)
        if body is None:
            return None
        tenant, meeting_id, person, expires_at = orjson.loads(body)
        return AnswerLink(
            tenant=tenant,
            meeting_id=UUID(meeting_id),
            person=UUID(person),
            expires_at=datetime.fromtimestamp(expires_at, tz=UTC),
        )


class Invitations:
    """Encloses what belongs to a notice. It reads in the transaction that it is given, and writes nothing."""

    def __init__(self, bell: Timebell, notify: Notify) -> None:
        self._notify = notify
        self._store = CalendarStore(bell.clock)
        self._links = AnswerLinks(bell)

    async def enclose(
        self, tx: Transaction, tells: Sequence[Tell], meeting: Meeting, *, instead_of: Meeting | None = None
    ) -> list[Tell]:
        """The notices about a meeting with all that goes along, each for its recipient.

        While it is pending that is the link by which others than the requester answer. One that was accepted is entered
        in the calendars, and taken out of them when it was cancelled, for those who take no part any more, and where
        the meeting that it stands `instead_of` was in there.
        """
        if meeting.status == "pending":
            tells = [self._with_link(tell, meeting) for tell in tells]
        shown = instead_of or meeting
        if shown.accepted_slot is None or shown.status not in ("accepted", "cancelled", "rescheduled"):
            return list(tells)
        organizer = await self._store.read_organizer(tx, root_id=shown.root_id) or shown.requester_id
        told = [tell.recipient for tell in tells]
        people = await self._notify.recipients.get_many(tx, [*shown.participants, organizer, *told])
        return [self._with_entry(tell, shown, people, organizer) for tell in tells]

    def _with_link(self, tell: Tell, meeting: Meeting) -> Tell:
        url = None if tell.recipient == meeting.requester_id else self._links.url(meeting, tell.recipient)
        return tell if url is None else replace(tell, context={**tell.context, "answer_url": url})

    def _with_entry(
        self, tell: Tell, meeting: Meeting, people: Mapping[UUID, Recipient], organizer: UUID
    ) -> Tell:
        is_on = meeting.status == "accepted" and tell.recipient in meeting.participants
        text = invitation(
            meeting,
            people,
            method="REQUEST" if is_on else "CANCEL",
            organizer=organizer,
            attendees=meeting.participants if is_on else [tell.recipient],
        )
        return replace(tell, context={**tell.context, "calendar": text})


def invitation(
    meeting: Meeting,
    people: Mapping[UUID, Recipient],
    *,
    method: Method,
    organizer: UUID,
    attendees: Sequence[UUID],
) -> str:
    """The message to calendar programs that a meeting takes place, or that it does not."""
    slot = meeting.accepted_slot
    assert slot is not None, "a meeting that was never accepted is in no calendar"
    entry = CalendarEntry(
        uid=uid_of(meeting.root_id),
        at=slot.start,
        ends_at=slot.end,
        title=meeting.title,
        text=meeting.description[:_TEXT_MAX],
        location=meeting.location or "",
        status="CONFIRMED" if method == "REQUEST" else "CANCELLED",
        sequence=meeting.sequence,
        is_busy=method == "REQUEST",
        organizer=_person(organizer, people),
        attendees=[_person(one, people) for one in attendees],
    )
    return calendar_file([entry], made_at=meeting.updated_at, method=method)


def _person(id: UUID, people: Mapping[UUID, Recipient]) -> CalendarPerson:
    """By the address, which is how programs know their owner; whoever has none is known by the id."""
    person = people.get(id)
    if person is None:
        return CalendarPerson(uri=f"urn:uuid:{id}")
    mail = next((one.value for one in person.addresses if one.kind == "email" and not one.gone_at), None)
    uri = f"urn:uuid:{id}" if mail is None else f"mailto:{mail}"
    return CalendarPerson(uri=uri, name=person.name[:_NAME_MAX])
