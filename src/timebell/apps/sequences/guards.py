"""Guard and context, asked just before a message is sent: whether it is still wanted, and what it speaks of by then."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from timebell.apps.sequences.models import SequenceStep, Subject
from timebell.apps.sequences.rows import person_of, subject_of
from timebell.apps.sequences.rules import ENDS, REFUSALS, refusal
from timebell.apps.sequences.store import Row, SequenceStore
from timebell.apps.sequences.terms import terms_of
from timebell.kernel import Job, Refused, Transaction
from timebell.notify import Notify, Recipient
from timebell.rules.localtime import show_instant

IS_WANTED: Final = "sequences.is_wanted"
CONTEXT: Final = "sequences.context"


async def is_wanted(job: Job) -> bool | Refused:
    """Whether the subject goes on, still concerns the person, and its status and the person fit the conditions. How
    many days the dates are out was measured as it was planned."""
    async with job.bell.transaction(tenant=job.tenant) as tx:
        row = await _read(job, tx)
        if row is None:
            return Refused(ENDS["cancelled"])
        if row["ended_reason"] is not None:
            return Refused(ENDS.get(row["ended_reason"], ENDS["cancelled"]))
        subject, step = subject_of(row), _step_of(row)
        role = dict(subject.people).get(UUID(int=row["recipient_id"].int))
        if step is None or role is None:
            return Refused(ENDS["step_removed" if step is None else "contact_removed"])
        recipient = await _recipient(job, tx, row)
    if recipient is None:
        return Refused(ENDS["contact_removed"])
    terms = terms_of(row["conditions"], row["steps"])
    person = person_of(recipient, role)
    why = refusal(terms.conditions, subject, person, None) or refusal(step.conditions, subject, person, None)
    return True if why is None else Refused(REFUSALS[why])


async def context(job: Job) -> Mapping[str, Any]:
    """The contact and the subject as they are now."""
    async with job.bell.transaction(tenant=job.tenant) as tx:
        row = await _read(job, tx)
        recipient = None if row is None else await _recipient(job, tx, row)
    return {} if row is None else context_of(subject_of(row), recipient)


def context_of(subject: Subject, recipient: Recipient | None) -> dict[str, Any]:
    """What texts may speak of, under the source's names. What is not known is left out."""
    start, end = ("startAt", "endAt") if subject.is_booking else ("start", "end")
    about = {
        **subject.facts,
        "subtype": subject.subtype,
        "status": subject.status,
        "timezone": subject.timezone,
        start: None if subject.starts_at is None else show_instant(subject.starts_at),
        end: None if subject.ends_at is None else show_instant(subject.ends_at),
    }
    known = {name: value for name, value in about.items() if value is not None}
    contact = {} if recipient is None else {"contact": _contact(recipient)}
    return {**contact, "booking" if subject.is_booking else "facts": known}


def _contact(recipient: Recipient) -> dict[str, Any]:
    values = {
        "name": recipient.name,
        "language": recipient.language,
        "email": _address(recipient, "email"),
        "phone": _address(recipient, "phone"),
    }
    return {name: value for name, value in values.items() if value is not None}


def _address(recipient: Recipient, kind: str) -> str | None:
    return next(
        (each.value for each in recipient.addresses if each.kind == kind and each.gone_at is None), None
    )


async def _read(job: Job, tx: Transaction) -> Row | None:
    assert job.step is not None, "every message is a step of its subject"
    return await SequenceStore(job.bell.clock).read_wanted(tx, id=UUID(job.step))


async def _recipient(job: Job, tx: Transaction, row: Row) -> Recipient | None:
    id = UUID(int=row["recipient_id"].int)
    return (await job.bell.shared.one(Notify).recipients.get_many(tx, [id])).get(id)


def _step_of(row: Row) -> SequenceStep | None:
    steps = terms_of(row["conditions"], row["steps"]).steps
    return next((step for step in steps if step.key == row["step"]), None)
