"""Roles that come later: what the files say of roles is said again, for those that are named now.

A grant is made when its file is applied. A role that is named for the first time on a database that is there already,
as that of the API may be, would have no rights for ever.
"""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg

from timebell.db.migration_files import QUOTED, Migration, Slice

ROLE_NAMES = ("app_role", "api_role", "read_role")

_LACKING = """
    SELECT EXISTS (SELECT FROM pg_catalog.unnest($1::text[]) AS role
        WHERE NOT pg_catalog.has_schema_privilege(role, $2, 'USAGE'))
"""
# A policy cannot be replaced, and one that spoke of a role which is named no longer has to go.
_TAKE_AWAY = """-- phase: expand
DO $$
DECLARE
    one record;
BEGIN
    FOR one IN SELECT p.polname AS name, p.polrelid::regclass AS place FROM pg_policy p
        JOIN pg_class c ON c.oid = p.polrelid WHERE c.relnamespace = '{schema}'::regnamespace LOOP
        EXECUTE format('DROP POLICY %I ON %s', one.name, one.place);
    END LOOP;
END $$;
"""


async def are_strangers(connection: asyncpg.Connection, slice: Slice, roles: Sequence[str]) -> bool:
    """Whether one of the roles was never told of the slice's schema, which is there."""
    found: bool = await connection.fetchval(_LACKING, list(roles), slice.schema)
    return found


def admission(slice: Slice, files: Sequence[Migration]) -> Migration:
    """What the slice's files say of roles, in one file of the number 0, which no ledger remembers."""
    said = [statement for file in files for statement in _about_roles(file.sql)]
    sql = _TAKE_AWAY.format(schema=slice.schema) + "".join(f"{statement};\n" for statement in said)
    return Migration(slice=slice.name, number=0, phase="expand", name="roles", sql=sql, checksum="")


def _about_roles(sql: str) -> list[str]:
    blanked = QUOTED.sub(lambda quoted: " " * len(quoted[0]), sql)
    ends = [position for position, letter in enumerate(blanked) if letter == ";"]
    starts = [0, *(end + 1 for end in ends)]
    statements = [sql[start:end].strip() for start, end in zip(starts, ends, strict=False)]
    return [one for one in statements if any(f"{{{name}}}" in one for name in ROLE_NAMES)]
