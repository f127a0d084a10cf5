"""`timebell sequences`: install a starting set, and list what a tenant has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final, Literal
from uuid import UUID

from timebell.apps.sequences.answer_bodies import sequence_rows
from timebell.apps.sequences.models import By, MessageSequence, NewSequence, SequenceChange
from timebell.apps.sequences.reading import Reading
from timebell.apps.sequences.service import SEQUENCES_MAX, Sequences
from timebell.apps.sequences.starting import SETS, read_set
from timebell.apps.sequences.store import SequenceStore
from timebell.errors import NotFound
from timebell.kernel import Command, CommandAnswer, CommandArgument, CommandOption, Timebell, Transaction
from timebell.notify import Notify, Template, TemplateDraft

# `kept` is the same as the set has it; `different` was changed by somebody, and was left.
Outcome = Literal["written", "kept", "different", "replaced"]
_WORDS: Final = {"written": "written", "kept": "kept", "different": "kept, differs", "replaced": "replaced"}


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledTemplate:
    key: str
    version: int
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledSequence:
    id: UUID
    name: str
    version: int
    outcome: Outcome


async def install(bell: Timebell, *, name: str, replace: bool, tenant: str, actor: str) -> CommandAnswer:
    """What is not there is written. What is there may have been changed by somebody, and is left unless it is to be
    replaced: then it gets a new version, and whoever is enrolled keeps theirs."""
    notify, chosen = bell.shared.one(Notify), read_set(name)
    # First the templates, for good: a sequence is checked with those that everybody can see.
    async with bell.transaction(tenant=tenant) as tx:
        templates = [
            await _install_template(tx, notify, draft, is_replaced=replace, actor=actor)
            for draft in chosen.templates
        ]
    async with bell.transaction(tenant=tenant) as tx:
        await SequenceStore(bell.clock).lock_installing(tx)
        there = await _by_name(tx, Reading(bell, notify))
        sequences = [
            await _install_sequence(
                tx, Sequences(bell, notify), new, there.get(new.name), is_replaced=replace, by=By(name=actor)
            )
            for new in chosen.sequences
        ]
    value = {
        "set": name,
        "templates": [asdict(each) for each in templates],
        "sequences": [asdict(each) for each in sequences],
    }
    return CommandAnswer(lines=_lines(templates, sequences), value=value)


async def _by_name(tx: Transaction, reading: Reading) -> dict[str, MessageSequence]:
    """Of those of the same name the oldest."""
    found: dict[str, MessageSequence] = {}
    cursor: str | None = None
    for _ in range(SEQUENCES_MAX):
        page = await reading.sequences(tx, trigger_event=None, limit=SEQUENCES_MAX, cursor=cursor)
        for each in page.lines:
            found.setdefault(each.name, each)
        cursor = page.next_cursor
        if cursor is None:
            break
    return found


async def _install_template(
    tx: Transaction, notify: Notify, draft: TemplateDraft, *, is_replaced: bool, actor: str
) -> InstalledTemplate:
    checked = await notify.templates.check(draft, tenant=tx.tenant)
    try:
        there: Template | None = await notify.templates.read(draft.key, tenant=tx.tenant)
    except NotFound:
        there = None
    outcome: Outcome = "written"
    if there is not None:
        outcome = "kept" if _is_same(there, checked.draft) else "replaced" if is_replaced else "different"
        if outcome in ("kept", "different"):
            return InstalledTemplate(key=draft.key, version=there.version, outcome=outcome)
    saved = await notify.templates.save(tx, checked, actor=actor)
    return InstalledTemplate(key=draft.key, version=saved.version, outcome=outcome)


def _is_same(there: Template, draft: TemplateDraft) -> bool:
    return (there.topic, there.message_class) == (draft.topic, draft.message_class) and all(
        len(one) == len(other) and all(each in one for each in other)
        for one, other in ((there.texts, draft.texts), (there.variables, draft.variables))
    )


async def _install_sequence(
    tx: Transaction,
    sequences: Sequences,
    new: NewSequence,
    there: MessageSequence | None,
    *,
    is_replaced: bool,
    by: By,
) -> InstalledSequence:
    """Whether it is active is not compared: somebody who switched it off meant it."""
    outcome: Outcome = "written"
    if there is None:
        saved = await sequences.save(tx, new, by=by)
    elif (there.trigger_event, there.subtype, there.terms) == (new.trigger_event, new.subtype, new.terms):
        saved, outcome = there, "kept"
    elif not is_replaced:
        saved, outcome = there, "different"
    else:
        change = SequenceChange(
            trigger_event=new.trigger_event,
            subtype=new.subtype,
            conditions=new.terms.conditions,
            steps=new.terms.steps,
            named=frozenset({"subtype"}),
        )
        held = await sequences.hold(tx, there.id)
        saved, outcome = await sequences.change(tx, held, change, by=by), "replaced"
    return InstalledSequence(id=saved.id, name=saved.name, version=saved.version, outcome=outcome)


def _lines(templates: Sequence[InstalledTemplate], sequences: Sequence[InstalledSequence]) -> list[str]:
    lines = [f"template {each.key}, version {each.version}: {_WORDS[each.outcome]}" for each in templates]
    lines += [f"sequence {each.name}, version {each.version}: {_WORDS[each.outcome]}" for each in sequences]
    outcomes = [*(each.outcome for each in templates), *(each.outcome for each in sequences)]
    if "different" in outcomes:
        lines.append("What differs was left as it is; --replace gives it a new version.")
    return lines


async def list_them(bell: Timebell, *, limit: int, cursor: str | None, tenant: str) -> CommandAnswer:
    """The sequences of a tenant in the order of their making."""
    async with bell.transaction(tenant=tenant) as tx:
        page = await Reading(bell, bell.shared.one(Notify)).sequences(
            tx, trigger_event=None, limit=limit, cursor=cursor
        )
    lines = [
        f"{each.id}  {each.name}  at {each.trigger_event}, version {each.version}, "
        f"{len(each.terms.steps)} steps, {'active' if each.is_active else 'switched off'}"
        for each in page.lines
    ]
    if page.next_cursor is not None:
        lines.append(f"There are more: --cursor {page.next_cursor}")
    return CommandAnswer(lines=lines or ["There are none."], value=sequence_rows(page))


COMMANDS: Final = (
    Command(
        words=("sequences", "install"),
        help="Write a starting set of templates and sequences.",
        run=install,
        arguments=[CommandArgument(name="name", choices=SETS)],
        options=[
            CommandOption(name="replace", help="Give what differs from the set a new version.", sort="flag")
        ],
    ),
    Command(
        words=("sequences", "list"),
        help="List the sequences of a tenant.",
        run=list_them,
        options=[
            CommandOption(name="limit", help="How many lines.", sort="number", default=50, least=1, most=500),
            CommandOption(name="cursor", help="Where the page before ended."),
        ],
        shared=("tenant",),
    ),
)
