"""`/r/{token}`: the page on which somebody answers a proposal from a mail. Reading it changes nothing; its buttons do.

Robots follow every link in a mail, so only a POST acts. Whoever has the mail has the link, and needs neither a script
nor to log in. It works until somebody has answered, or until the last of the proposed times has come.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from html import escape
from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response

from timebell.apps.meetings.invitations import AnswerLink, AnswerLinks
from timebell.apps.meetings.models import By, Meeting, Slot
from timebell.apps.meetings.page_texts import PageTexts, shown_slot, texts_for
from timebell.apps.meetings.refusals import MeetingRefused
from timebell.apps.meetings.service import Meetings
from timebell.apps.meetings.store import MeetingStore
from timebell.kernel import Transaction
from timebell.notify import Recipient
from timebell.web import Problem, Surface, page, read_bytes, walled_to

_FORM_BYTES_MAX: Final = 10_000
_REASON_MAX: Final = 1_000
_LANGUAGES_MAX: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """A proposal as one reader sees it."""

    meeting: Meeting
    reader: Recipient
    requester: str
    now: datetime

    @property
    def texts(self) -> PageTexts:
        return texts_for(self.reader.language)

    def shown(self, slot: Slot) -> str:
        return shown_slot(slot, timezone=self.reader.timezone, language=self.reader.language)

    def answered(self, template: str) -> str:
        slot = self.meeting.accepted_slot
        return template.format(when="" if slot is None else f"{self.shown(slot)} ({self.reader.timezone})")


async def show_proposal(surface: Surface, request: Request) -> Response:
    """The proposal, and how to answer it. It only asks: robots follow every link in a mail."""
    link = _link_of(surface, request)
    if link is None:
        return _broken(request)
    with walled_to(link.tenant):
        async with surface.bell.transaction(tenant=link.tenant) as tx:
            asked = await _read(surface, tx, link)
    if asked is None:
        return _broken(request)
    if link.expires_at <= asked.now:
        return _expired(request, asked.texts)
    return _shown(asked)


async def answer_proposal(surface: Surface, request: Request) -> Response:
    """Accept one of the times, or decline, as the form says. Once somebody has answered, it says what became of it."""
    link = _link_of(surface, request)
    if link is None:
        return _broken(request)
    form = dict(parse_qsl((await read_bytes(request, _FORM_BYTES_MAX)).decode("utf-8", "replace")))
    by = By(
        person=link.person,
        name=f"recipient:{link.person}",
        correlation_id=request.state.correlation_id,
    )
    with walled_to(link.tenant):
        async with surface.bell.transaction(tenant=link.tenant) as tx:
            asked = await _read(surface, tx, link)
        if asked is None:
            return _broken(request)
        if link.expires_at <= asked.now:
            return _expired(request, asked.texts)
        try:
            async with surface.bell.transaction(tenant=link.tenant) as tx:
                moved = await _act(surface, tx, link, form, by)
        except (MeetingRefused, Problem) as error:
            problem = surface.problems.of(error)
            assert problem is not None, "the app says how it is told"
            async with surface.bell.transaction(tenant=link.tenant) as tx:
                asked = await _read(surface, tx, link)
            return _refused(request, asked, problem)
    done = _Question(meeting=moved, reader=asked.reader, requester=asked.requester, now=asked.now)
    texts = done.texts
    text = texts.denied if moved.status == "denied" else done.answered(texts.accepted)
    return page(moved.title, text, language=texts.language)


async def _act(surface: Surface, tx: Transaction, link: AnswerLink, form: dict[str, str], by: By) -> Meeting:
    meetings = Meetings(surface.bell, surface.notify)
    meeting = await meetings.hold(tx, link.meeting_id, by=by)
    if form.get("answer") == "deny":
        reason = form.get("reason", "").replace("\0", "").strip()[:_REASON_MAX]
        return (await meetings.deny(tx, meeting, reason or None, by=by)).meeting
    slot = _slot_of(form.get("slot", ""))
    if form.get("answer") != "accept" or slot is None:
        raise Problem(422, "invalid_input", "slot: choose one of the times")
    return (await meetings.accept(tx, meeting, slot, by=by)).meeting


async def _read(surface: Surface, tx: Transaction, link: AnswerLink) -> _Question | None:
    """None where there is no such meeting for that person, or not any more."""
    store = MeetingStore(surface.bell.clock)
    meeting = await store.read_meeting(tx, id=link.meeting_id)
    if meeting is None or link.person not in meeting.participants:
        return None
    people = await surface.notify.recipients.get_many(tx, [link.person, meeting.requester_id])
    if link.person not in people:
        return None
    requester = people.get(meeting.requester_id)
    return _Question(
        meeting=meeting,
        reader=people[link.person],
        requester="?" if requester is None else requester.name,
        now=await store.read_clock(tx),
    )


def _shown(asked: _Question, *, note: str | None = None, status: int = 200) -> Response:
    meeting, texts = asked.meeting, asked.texts
    if meeting.status != "pending":
        text = asked.answered(texts.became[meeting.status])
        return page(meeting.title, text, status=status, language=texts.language)
    if meeting.requester_id == asked.reader.id:
        return page(meeting.title, texts.own, status=status, language=texts.language)
    text = texts.proposal.format(who=asked.requester, zone=asked.reader.timezone)
    parts = [f"<p><strong>{escape(note)}</strong></p>"] if note else []
    if meeting.location:
        parts.append(f"<p>{escape(texts.where.format(location=meeting.location))}</p>")
    if meeting.description:
        parts.append(f"<p>{escape(meeting.description)}</p>")
    more = "".join([*parts, _accepting(asked), _denying(texts)])
    return page(meeting.title, text, more, status=status, language=texts.language)


def _accepting(asked: _Question) -> str:
    texts = asked.texts
    choices = []
    for slot in asked.meeting.proposed_slots:
        is_past = slot.start <= asked.now
        value = f"{slot.start.isoformat()}/{slot.end.isoformat()}"
        shown = escape(asked.shown(slot)) + (f" ({escape(texts.past)})" if is_past else "")
        choices.append(
            f'<label><input type="radio" name="slot" value="{escape(value)}" required'
            f"{' disabled' if is_past else ''}> {shown}</label>"
        )
    return (
        '<form method="post"><input type="hidden" name="answer" value="accept">'
        f"<fieldset><legend>{escape(texts.choose)}</legend>{''.join(choices)}</fieldset>"
        f"<button>{escape(texts.accept)}</button></form>"
    )


def _denying(texts: PageTexts) -> str:
    return (
        '<form method="post"><input type="hidden" name="answer" value="deny">'
        f'<fieldset><label>{escape(texts.reason)}<textarea name="reason" rows="2" maxlength="{_REASON_MAX}">'
        f"</textarea></label></fieldset><button>{escape(texts.deny)}</button></form>"
    )


def _slot_of(text: str) -> Slot | None:
    start, _, end = text.partition("/")
    try:
        slot = Slot(datetime.fromisoformat(start), datetime.fromisoformat(end))
    except ValueError:
        return None
    return None if slot.start.tzinfo is None or slot.end.tzinfo is None else slot


def _refused(request: Request, asked: _Question | None, problem: Problem) -> Response:
    """The page again, with what was wrong; whoever is no browser is told as everywhere else."""
    if asked is None:
        return _broken(request)
    if not _wants_page(request):
        raise problem
    texts = asked.texts
    notes = {"slot_conflict": texts.taken, "invalid_input": texts.wrong}
    return _shown(asked, note=notes.get(problem.code), status=problem.status)


def _link_of(surface: Surface, request: Request) -> AnswerLink | None:
    links = AnswerLinks(surface.bell)
    if not links.can_read:
        raise Problem(503, "secret_key_missing", "secret_key is not set on this server; links cannot be read")
    return links.read(request.path_params["token"])


def _wants_page(request: Request) -> bool:
    return "text/html" in request.headers.get("accept", "")


def _broken(request: Request) -> Response:
    if not _wants_page(request):
        raise Problem(404, "not_found", "the link is not one of ours, was cut, or is of no use any more")
    texts = texts_for(request.headers.get("accept-language", "")[:_LANGUAGES_MAX].partition(",")[0])
    return page(texts.broken_title, texts.broken, status=404, language=texts.language)


def _expired(request: Request, texts: PageTexts) -> Response:
    if not _wants_page(request):
        raise Problem(410, "link_expired", "all the times that were proposed have passed; ask for new ones")
    return page(texts.expired_title, texts.expired, status=410, language=texts.language)
