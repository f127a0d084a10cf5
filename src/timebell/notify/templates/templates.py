"""`notify.templates`: what is said, on which channel and in which language, in versions that never change.

Texts are strangers' programs. Those that are read and quick are rendered in turns of the loop, and the others in a
thread, tenant by tenant, so that nobody waits for all that another has to say.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from timebell.db.pool import Row
from timebell.db.together import Together
from timebell.errors import InvalidTemplate, NotFound
from timebell.kernel.bell import Timebell
from timebell.kernel.models import check_name, check_whole
from timebell.kernel.paging import Page, check_limit
from timebell.kernel.transaction import Transaction, check_transaction
from timebell.notify.models import MessageClass, Recipient
from timebell.notify.provider import CHANNELS, Channel
from timebell.notify.rules.intents import VERSION_MAX
from timebell.notify.rules.languages import checked_language
from timebell.notify.rules.recipient_checks import checked_timezone
from timebell.notify.rules.sms_length import sms_length
from timebell.notify.templates.checking import checked_draft, checked_key, key_of
from timebell.notify.templates.compiled import CompiledTemplate
from timebell.notify.templates.models import (
    Context,
    Preview,
    Reader,
    Rendered,
    Template,
    TemplateDraft,
    TemplateLine,
    Unrendered,
)
from timebell.notify.templates.rendering import NotBrief
from timebell.notify.templates.rows import (
    SHIPPED,
    as_template,
    columns_of,
    is_same,
    line_of,
    reader_of,
    template_of,
)
from timebell.notify.templates.store import Asked, TemplateStore

CACHED_CHARS_MAX = 20_000_000
CACHED_TEMPLATES_MAX = 2_000
# Of previews and drafts of one tenant, each of which may take half a second; the next has to wait for one to end.
CHECKS_AT_ONCE_MAX = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """The version of a template that a notification keeps, and what is decided by it.

    `move` is the number of the last decision that what is pending is told with another version; only a later one
    concerns it.
    """

    key: str
    version: int
    topic: str
    message_class: MessageClass
    move: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedDraft:
    """A draft that `Templates.check` has found to be good, in its usual spelling."""

    draft: TemplateDraft


class Templates:
    """The verbs about templates. Those that write take part in the transaction that they are given."""

    def __init__(self, bell: Timebell) -> None:
        self._bell = bell
        self._store = TemplateStore(bell.clock)
        self._cache = bell.shared.everywhere(_Cache)
        self._pins: Together[Asked, Pinned | None] = Together(self._read_pins)
        self._reads: Together[Asked, CompiledTemplate | None] = Together(self._read_many, most=50)

    async def check(self, draft: TemplateDraft, *, tenant: str) -> CheckedDraft:
        """A draft that can be saved. To read many texts takes a while, so it is better done before a transaction."""
        work = partial(checked_draft, draft)
        checked = await self._bell.aside.short.run(tenant, "templates", work, most=CHECKS_AT_ONCE_MAX)
        return CheckedDraft(draft=checked)

    async def save(
        self, tx: Transaction, draft: TemplateDraft | CheckedDraft, *, actor: str | None = None
    ) -> Template:
        """A new version with all its texts, current from now on; the same texts again are the same version.

        What was planned with an older version keeps it.
        """
        check_transaction(tx)
        check_name("actor", actor)
        return await self._save(tx, tx.tenant, draft, actor=actor)

    async def ship(self, tx: Transaction, draft: TemplateDraft, *, is_locked: bool = False) -> Template:
        """A version for every tenant that has none of its own; `is_locked`: and no tenant may have one."""
        check_transaction(tx)
        return await self._save(tx, SHIPPED, draft, is_locked=is_locked)

    async def ship_all(
        self, tx: Transaction, drafts: Sequence[TemplateDraft], *, is_locked: bool = False
    ) -> None:
        """The same for all that an app says. Most processes find all of it shipped, and ask that in two statements."""
        check_transaction(tx)
        shipped = await self._currents(tx, SHIPPED, [key_of(draft) for draft in drafts])
        # What is there word for word was checked when it came.
        changed = [
            draft
            for draft in drafts
            if draft.key not in shipped or not is_same(shipped[draft.key], draft, is_locked)
        ]
        work = partial(_checked_drafts, changed)
        checked = await self._bell.aside.short.run(SHIPPED, "templates", work) if changed else []
        for draft in checked:
            await self._save(tx, SHIPPED, CheckedDraft(draft=draft), is_locked=is_locked)

    async def use(self, tx: Transaction, key: str, version: int | None = None) -> Pinned:
        """Make an earlier version of the tenant's own the current one; None goes back to what is shipped."""
        check_transaction(tx)
        checked_key(key)
        check_whole("version", version, 1, VERSION_MAX)
        async with tx.all_or_nothing():
            await self._store.lock_template(tx.session, tenant=tx.tenant, key=key)
            await self._store.retire_template(tx.session, tenant=tx.tenant, key=key)
            if version is not None and not await self._store.restore_template(
                tx.session, tenant=tx.tenant, key=key, version=version
            ):
                raise _no_template(key, version)
            (pinned,) = await self.pin(tx, [(key, None)])
            data = {"key": key, "version": pinned.version}
            await self._bell.record(tx, "template.chosen", data, subject=f"template:{key}")
            return pinned

    async def pin(self, tx: Transaction, asked: Sequence[tuple[str, int | None]]) -> list[Pinned]:
        """The versions that notifications planned now will keep: the named ones, or else the current ones."""
        check_transaction(tx)
        if not asked:
            return []
        rows = await self._store.pin_templates(
            tx.session, [(tx.tenant, key, version) for key, version in asked]
        )
        found = {row["position"]: _pinned_of(row) for row in rows}
        for position, (key, version) in enumerate(asked, start=1):
            if position not in found:
                raise _no_template(key, version)
        return [found[position] for position in range(1, len(asked) + 1)]

    async def find(self, tenant: str, key: str, version: int | None = None) -> CompiledTemplate | None:
        """A template, ready to be rendered: the named version or the current one; None where there is none.

        Those who ask together share a statement, and a version is read once by a process that goes on using it. Behind
        the wall between tenants a statement sees one of them, and everybody asks alone.
        """
        is_walled = self._bell.database.is_walled
        if version is None:
            asked = (tenant, key, None)
            pinned = (await self._read_pins([asked]))[0] if is_walled else await self._pins(asked)
            if pinned is None:
                return None
            version = pinned.version
        compiled = self._cache.get(tenant, key, version)
        if compiled is not None:
            return compiled
        named = (tenant, key, version)
        return (await self._read_many([named]))[0] if is_walled else await self._reads(named)

    async def render(
        self,
        tenant: str,
        key: str,
        version: int | None,
        *,
        channel: Channel,
        recipient: Recipient,
        context: Context,
        default_language: str = "en",
        due_at: datetime | None = None,
        expires_at: datetime | None = None,
        unsubscribe_url: str | None = None,
    ) -> Rendered | Unrendered:
        """What a recipient is told on a channel, or why there is nothing to tell."""
        compiled = await self.find(tenant, key, version)
        if compiled is None:
            return Unrendered(reason="template_missing", detail=str(_no_template(key, version)))
        work = partial(
            compiled.render,
            channel,
            reader=reader_of(recipient),
            context=context,
            default_language=default_language,
            given={"due_at": due_at, "expires_at": expires_at, "unsubscribe_url": unsubscribe_url},
        )
        try:
            return await self._bell.aside.turns.run(tenant, "texts", partial(work, is_brief=True))
        except NotBrief:
            return await self._bell.aside.short.run(tenant, "texts", work)

    async def read(self, key: str, *, tenant: str, version: int | None = None) -> Template:
        check_name("tenant", tenant, required=True)
        check_whole("version", version, 1, VERSION_MAX)
        compiled = await self.find(tenant, checked_key(key), version)
        if compiled is None:
            raise _no_template(key, version)
        return compiled.template

    async def list(self, *, tenant: str, cursor: str | None = None, limit: int = 50) -> Page[TemplateLine]:
        """The templates that a tenant can use, by key."""
        check_name("tenant", tenant, required=True)
        check_name("cursor", cursor)
        check_limit(limit)
        async with self._bell.database.connection() as session:
            rows = await self._store.list_templates(session, tenant=tenant, after=cursor, limit=limit + 1)
        lines = tuple(map(line_of, rows[:limit]))
        return Page(lines=lines, next_cursor=lines[-1].key if len(rows) > limit else None)

    async def versions(
        self, key: str, *, tenant: str, before: int | None = None, limit: int = 50
    ) -> Sequence[TemplateLine]:
        """The versions of a template, the newest first, shipped ones among them."""
        check_name("tenant", tenant, required=True)
        checked_key(key)
        check_whole("before", before, 1, VERSION_MAX)
        check_limit(limit)
        async with self._bell.database.connection() as session:
            rows = await self._store.list_template_versions(
                session, tenant=tenant, key=key, before=before, limit=limit
            )
        return [line_of(row) for row in rows]

    async def preview(
        self,
        template: str | TemplateDraft,
        *,
        tenant: str,
        channel: Channel,
        context: Context,
        reader: Reader | None = None,
        default_language: str = "en",
        version: int | None = None,
        given: Mapping[str, Any] | None = None,
    ) -> Preview:
        """A saved template, or one that is not saved yet, as a reader would get it. Nothing is written or sent."""
        check_name("tenant", tenant, required=True)
        check_whole("version", version, 1, VERSION_MAX)
        if channel not in CHANNELS:
            raise InvalidTemplate(f"must be one of {', '.join(CHANNELS)}", field="channel")
        if not isinstance(context, Mapping):
            raise InvalidTemplate("must be a mapping of names to values", field="context")
        checked_language((reader or Reader()).language, "reader.language")
        checked_timezone((reader or Reader()).timezone, "reader.timezone")
        checked_language(default_language, "default_language")
        if isinstance(template, TemplateDraft):
            checked = await self.check(template, tenant=tenant)
            compiled: CompiledTemplate | None = CompiledTemplate(as_template(checked.draft))
        else:
            compiled = await self.find(tenant, checked_key(template), version)
        if compiled is None:
            raise _no_template(str(template), version)
        work = partial(
            compiled.render,
            channel,
            reader=reader or Reader(),
            context=context,
            default_language=default_language,
            given=given,
        )
        answer = await self._bell.aside.short.run(tenant, "previews", work, most=CHECKS_AT_ONCE_MAX)
        rendered = answer if isinstance(answer, Rendered) else None
        return Preview(
            channel=channel,
            rendered=rendered,
            unrendered=answer if isinstance(answer, Unrendered) else None,
            languages=compiled.languages(channel),
            variables=compiled.template.variables,
            sms=sms_length(rendered.content.text) if rendered and channel == "sms" else None,
        )

    async def _save(
        self,
        tx: Transaction,
        tenant: str,
        draft: TemplateDraft | CheckedDraft,
        *,
        is_locked: bool = False,
        actor: str | None = None,
    ) -> Template:
        if isinstance(draft, CheckedDraft):
            checked = draft.draft
        else:
            checked = await self._bell.aside.short.run(tenant, "templates", partial(checked_draft, draft))
        async with tx.all_or_nothing():
            await self._store.lock_template(tx.session, tenant=tenant, key=checked.key)
            current = (await self._currents(tx, tenant, [checked.key])).get(checked.key)
            if tenant != SHIPPED and current is not None and current.is_shipped and current.is_locked:
                raise InvalidTemplate("is shipped and locked; save your texts under another key", field="key")
            if (
                current is not None
                and current.is_shipped == (tenant == SHIPPED)
                and is_same(current, checked, is_locked)
            ):
                return current
            await self._store.retire_template(tx.session, tenant=tenant, key=checked.key)
            row = await self._store.insert_template(
                tx.session, tenant=tenant, is_locked=is_locked, actor=actor, **columns_of(checked)
            )
            if tenant != SHIPPED:
                data = {"key": checked.key, "version": row["version"]}
                await self._bell.record(
                    tx, "template.saved", data, subject=f"template:{checked.key}", actor=actor
                )
            return replace(
                as_template(checked),
                version=row["version"],
                is_shipped=tenant == SHIPPED,
                is_locked=is_locked,
                actor=actor,
                created_at=row["created_at"],
            )

    async def _currents(self, tx: Transaction, tenant: str, keys: Sequence[str]) -> dict[str, Template]:
        if not keys:
            return {}
        pins = await self._store.pin_templates(tx.session, [(tenant, key, None) for key in keys])
        if not pins:
            return {}
        asked: list[Asked] = [(tenant, pin["key"], pin["version"]) for pin in pins]
        return {row["key"]: template_of(row) for row in await self._store.read_templates(tx.session, asked)}

    async def _read_pins(self, asked: Sequence[Asked]) -> Sequence[Pinned | None]:
        async with self._bell.database.connection() as session:
            rows = await self._store.pin_templates(session, asked)
        found = {row["position"]: _pinned_of(row) for row in rows}
        return [found.get(position) for position in range(1, len(asked) + 1)]

    async def _read_many(self, asked: Sequence[Asked]) -> Sequence[CompiledTemplate | None]:
        each = list(dict.fromkeys(asked))
        async with self._bell.database.connection() as session:
            rows = await self._store.read_templates(session, each)
        found: dict[Asked, CompiledTemplate] = {}
        for row in rows:
            compiled = self._cache.get(row["tenant"], row["key"], row["version"])
            if compiled is None:
                compiled = CompiledTemplate(template_of(row))
                self._cache.put(row["tenant"], compiled)
            found[each[row["position"] - 1]] = compiled
        return [found.get(one) for one in asked]


class _Cache:
    """The versions that were used last. They never change, so none is out of date; only their number is bounded."""

    def __init__(self) -> None:
        self._compiled: OrderedDict[tuple[str, str, int], CompiledTemplate] = OrderedDict()
        self._chars = 0

    def get(self, tenant: str, key: str, version: int) -> CompiledTemplate | None:
        for name in ((tenant, key, version), (SHIPPED, key, version)):
            if name in self._compiled:
                self._compiled.move_to_end(name)
                return self._compiled[name]
        return None

    def put(self, tenant: str, compiled: CompiledTemplate) -> None:
        self._compiled[tenant, compiled.template.key, compiled.template.version] = compiled
        self._chars += compiled.chars
        while self._chars > CACHED_CHARS_MAX or len(self._compiled) > CACHED_TEMPLATES_MAX:
            _, oldest = self._compiled.popitem(last=False)
            self._chars -= oldest.chars


def _checked_drafts(drafts: Sequence[TemplateDraft]) -> list[TemplateDraft]:
    return [checked_draft(draft) for draft in drafts]


def _no_template(key: str, version: int | None) -> NotFound:
    which = "" if version is None else f" has no version {version}"
    return NotFound(f"template {key!r:.60}{which or ' does not exist'}; save it, or list what there is")


def _pinned_of(row: Row) -> Pinned:
    return Pinned(
        key=row["key"],
        version=row["version"],
        topic=row["topic"],
        message_class=row["class"],
        move=row["move"],
    )
