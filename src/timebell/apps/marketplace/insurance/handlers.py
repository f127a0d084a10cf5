"""The handlers of insurances: the jobs that the engine runs where one has ended, or is valid again. They wait for
whoever changes insurances of the company, who waits for no job. They do not wait for whoever changes a booking: they
come back in a second."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from timebell.apps.marketplace.insurance.models import Policy, Told
from timebell.apps.marketplace.insurance.stop_store import NIL, StopStore
from timebell.apps.marketplace.insurance.stopping import BATCH, Passed, Stopping
from timebell.apps.marketplace.insurance.store import PolicyStore
from timebell.apps.marketplace.models import By, id_of
from timebell.apps.marketplace.texts import INSURANCE_ENDED, INSURANCE_INVALID, tells
from timebell.kernel import Done, Job, Outcome, Snooze
from timebell.notify import Notify, Tell

TELL_STOPPED: Final = "marketplace.tell_stopped"
IS_INVALID: Final = "marketplace.is_invalid"
PEOPLE_MAX: Final = 100
LEADERS_MAX: Final = 500
# So many bookings a mail names; of the others it says how many they are.
SHOWN_MAX: Final = 20
_SOON: Final = timedelta(seconds=1)


async def stop_work(job: Job) -> Outcome:
    """Some bookings in each transaction. People are told when the first pass is over, and those of bookings that
    somebody had until then when these are stopped."""
    policy = await _ended(job)
    if policy is None:
        return Done()
    await PolicyStore(job.bell.clock).lock_company(job.tx, id=policy.company_id)
    policy = await _ended(job)
    if policy is None:
        return Done()
    stopping, by = Stopping(job.bell), _by(job)
    cursor: dict[str, Any] = {
        "after": str(NIL),
        "is_busy": False,
        "is_noted": bool(job.payload.get("is_noted")),
        **(job.cursor or {}),
    }
    passed = await stopping.stop(job.tx, policy, by=by, after=UUID(cursor["after"]), limit=job.batch(BATCH))
    if passed.count and not cursor["is_noted"]:
        await stopping.note(job.tx, policy, by=by)
        cursor["is_noted"] = True
    if passed.after is None:
        await _tell_later(job, policy)
    return _on(cursor, passed)


async def resume_work(job: Job) -> Outcome:
    company_id = UUID(job.payload["company_id"])
    await PolicyStore(job.bell.clock).lock_company(job.tx, id=company_id)
    cursor: dict[str, Any] = {"after": str(NIL), "is_busy": False, **(job.cursor or {})}
    passed = await Stopping(job.bell).resume(
        job.tx,
        company_id,
        job.payload["type"],
        by=_by(job),
        after=UUID(cursor["after"]),
        limit=job.batch(BATCH),
    )
    return _on(cursor, passed)


async def tell_stopped(job: Job) -> Outcome:
    """Everybody whom the stop concerns, each once on each channel, whatever they are to how many bookings. Where it has
    stopped nothing, the admins and managers of the company are told that it is not valid."""
    policy = await _ended(job)
    if policy is None:
        return Done()
    store = StopStore(job.bell.clock)
    after = NIL if job.cursor is None else UUID(job.cursor["after"])
    limit = job.batch(PEOPLE_MAX)
    people = await store.list_told_of_stop(
        job.tx, policy_id=policy.id, after=after, shown_max=SHOWN_MAX, limit=limit
    )
    told = [
        tell for one in people for tell in _tells(job, policy, INSURANCE_INVALID, [one.recipient_id], one)
    ]
    if not people and job.cursor is None:
        leaders = await store.list_leaders(job.tx, company_id=policy.company_id, limit=LEADERS_MAX)
        told = _tells(job, policy, INSURANCE_ENDED, leaders)
    await job.bell.shared.one(Notify).tell_many(job.tx, told)
    if len(people) < limit:
        return Done()
    return Snooze(delay=timedelta(0), reason="more to come", cursor={"after": str(people[-1].recipient_id)})


async def is_invalid(job: Job) -> bool:
    """Whether nobody has renewed or replaced it since."""
    assert job.subject is not None, "whoever is told so is told about an insurance"
    async with job.bell.transaction(tenant=job.tenant) as tx:
        policy = await PolicyStore(job.bell.clock).read_policy(tx, id=id_of(job.subject))
    return policy is not None and not policy.is_active and policy.replaced_by is None


async def _ended(job: Job) -> Policy | None:
    """The insurance, as long as it is that ending of it which the job is about."""
    policy = await PolicyStore(job.bell.clock).read_policy(job.tx, id=UUID(job.payload["policy_id"]))
    is_same = policy is not None and policy.revision == job.payload["revision"]
    return policy if is_same else None


async def _tell_later(job: Job, policy: Policy) -> None:
    """By a job of its own, so that nothing is stopped later for it."""
    await job.bell.enqueue(
        job.tx,
        TELL_STOPPED,
        {"policy_id": str(policy.id), "revision": policy.revision},
        subject=policy.subject,
        urgency="critical",
        correlation_id=job.correlation_id,
    )


def _on(cursor: dict[str, Any], passed: Passed) -> Outcome:
    """The next of a pass; and after it another, as long as somebody had one of its bookings."""
    is_busy = cursor["is_busy"] or passed.is_busy
    if passed.after is not None:
        at = {**cursor, "after": str(passed.after), "is_busy": is_busy}
        return Snooze(delay=timedelta(0), reason="more to come", cursor=at)
    if is_busy:
        at = {**cursor, "after": str(NIL), "is_busy": False}
        return Snooze(delay=_SOON, reason="a booking is being changed", cursor=at)
    return Done()


def _tells(
    job: Job, policy: Policy, template: str, people: Sequence[UUID], of: Told | None = None
) -> list[Tell]:
    named = {"type": policy.type, "company": policy.company_name}
    return tells(
        template,
        people,
        subject=policy.subject,
        context=named if of is None else {"bookings": _named(of)},
        urgency="critical",
        key=f"{template}:{policy.id}:{policy.revision}",
        guard=IS_INVALID,
        correlation_id=job.correlation_id,
    )


def _named(of: Told) -> str:
    shown = ", ".join(str(id) for id in of.booking_ids)
    more = of.booking_count - len(of.booking_ids)
    return f"{shown} and {more} more" if more > 0 else shown


def _by(job: Job) -> By:
    return By(correlation_id=job.correlation_id)
