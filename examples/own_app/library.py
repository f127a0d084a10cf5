"""A lending library: who borrows a book is reminded the day before it is due, and it is noted when it is overdue."""

from datetime import timedelta
from typing import Annotated, Any

from pydantic import Field

from timebell.kernel import App, Handler, Job, Step, Timebell
from timebell.notify import Notify, Tell, TemplateDraft, Text, Variable
from timebell.web import Call, Input, Instant, Route

REMINDER = TemplateDraft(
    key="library.reminder",
    topic="library",
    texts=(Text(channel="inbox", language="en", subject="{{ book }}", body="Due {{ until | datetime }}"),),
    variables=(Variable(name="book"), Variable(name="until")),
)
Plan = dict[str, list[str]]


class Loan(Input):
    book: Annotated[str, Field(min_length=1, max_length=100)]
    until: Instant


async def lend(call: Call, *, body: Loan) -> Plan:
    """Lends a book to the acting recipient; a book that they have already is due at the new instant."""
    context = body.model_dump(mode="json")
    told = Tell(recipient=call.person, template=REMINDER.key, context=context, channels=["inbox"])
    reminder = await call.notify.step(call.tx, told, key="reminder", offset=timedelta(days=-1))
    overdue = Step(key="overdue", kind="library.overdue", offset=timedelta(0), payload=context)
    return await plan(call, body.book, anchor=body.until, steps=[reminder, overdue])


async def take_back(call: Call) -> Plan:
    """The book is back, and nothing more is owed about it."""
    return await plan(call, call.path["book"], steps=[])


async def plan(call: Call, book: str, **agenda: Any) -> Plan:
    diff = await call.bell.set_agenda(call.tx, subject=f"loan:{call.person}:{book}", actor=call.by, **agenda)
    return {name: [step.key for step in getattr(diff, name)] for name in ("added", "moved", "withdrawn")}


async def note_overdue(job: Job) -> None:
    await job.bell.record(job.tx, "loan.overdue", {"book": job.payload["book"]}, subject=job.subject)


async def ship_reminder(bell: Timebell) -> None:
    async with bell.transaction() as tx:
        await Notify(bell).templates.ship(tx, REMINDER)


CHANGE: Any = {"method": "POST", "tag": "library", "scope": "write", "acts_for": "recipient", "answer": Plan}
LEND = Route(path="/api/loans", run=lend, body=Loan, summary="Lend a book", **CHANGE)
RETURN = Route(path="/api/loans/{book}/return", run=take_back, summary="Take a book back", **CHANGE)

handlers = {"library.overdue": Handler(run=note_overdue, mode="transactional")}
app = App(name="library", handlers=handlers, routes=[LEND, RETURN], on_declare=ship_reminder)
