"""The statements of templates: one method for each file in `sql/`, of the same name."""

from __future__ import annotations

from collections.abc import Sequence

from timebell.db.pool import Row, Session
from timebell.db.queries import load_queries
from timebell.notify.store import NotifyStore

Asked = tuple[str, str, int | None]


class TemplateStore(NotifyStore):
    """Templates and their texts. Tenant '' is the one whose templates are shipped."""

    queries = load_queries("timebell.notify.templates.sql")

    async def lock_template(self, session: Session, *, tenant: str, key: str) -> None:
        await self._run(session, "lock_template", tenant=tenant, key=key)

    async def pin_templates(self, session: Session, asked: Sequence[Asked]) -> Sequence[Row]:
        return await self._run(session, "pin_templates", **_columns(asked))

    async def read_templates(self, session: Session, asked: Sequence[Asked]) -> Sequence[Row]:
        return await self._run(session, "read_templates", **_columns(asked))

    async def retire_template(self, session: Session, *, tenant: str, key: str) -> bool:
        return bool(await self._run(session, "retire_template", tenant=tenant, key=key))

    async def restore_template(self, session: Session, *, tenant: str, key: str, version: int) -> bool:
        return bool(await self._run(session, "restore_template", tenant=tenant, key=key, version=version))

    async def insert_template(self, session: Session, **values: object) -> Row:
        return (await self._run(session, "insert_template", **values))[0]

    async def list_templates(
        self, session: Session, *, tenant: str, after: str | None, limit: int
    ) -> Sequence[Row]:
        return await self._run(session, "list_templates", tenant=tenant, after=after, limit=limit)

    async def list_template_versions(
        self, session: Session, *, tenant: str, key: str, before: int | None, limit: int
    ) -> Sequence[Row]:
        return await self._run(
            session, "list_template_versions", tenant=tenant, key=key, before=before, limit=limit
        )


def _columns(asked: Sequence[Asked]) -> dict[str, list[object]]:
    tenants, keys, versions = zip(*asked, strict=True)
    return {"tenants": list(tenants), "keys": list(keys), "versions": list(versions)}
