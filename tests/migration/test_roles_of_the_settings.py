"""The roles that the settings name are those that the files speak of, and each is a role of its own."""

from __future__ import annotations

import re
from dataclasses import replace

import asyncpg
import pytest

from tests.migration.conftest import Connect
from timebell.config import Settings
from timebell.db.migrate import describe_schema
from timebell.db.probe import wall_of
from timebell.errors import ConfigurationError
from timebell.kernel import Registry
from timebell.server import Place, apply_migrations
from timebell.testing.database import TestDatabase


def place_of(database: TestDatabase, *, api_url: str | None = None, read_url: str | None = None) -> Place:
    return Place(url=database.url, owner_url=database.owner_url, api_url=api_url, read_url=read_url)


async def policies_and_rights(connection: asyncpg.Connection) -> set[str]:
    """Every policy, and what the two roles may do. What another role got while it stood for them, it keeps."""
    entries = await describe_schema(connection, ["timebell", "timebell_notify", "timebell_web"])
    found = {entry for entry in entries if entry.startswith("policy ")}
    for entry in entries:
        for right in re.findall(r"timebell_(?:api|read)=\S+", entry) if entry.startswith("grants ") else ():
            found.add(f"{' '.join(entry.split()[:4])} {right}")
    return found


async def test_each_role_gets_what_is_for_it(empty_database: TestDatabase) -> None:
    place = place_of(empty_database, api_url=empty_database.api_url, read_url=empty_database.read_url)
    await apply_migrations(place, Settings(), Registry())
    found = [
        await wall_of(url, "timebell_notify.recipients")
        for url in (empty_database.url, empty_database.api_url, empty_database.read_url)
    ]
    assert [(each.may_read, each.is_walled) for each in found] == [(True, False), (True, True), (True, False)]


async def test_without_roles_of_their_own_there_is_one_for_all(empty_database: TestDatabase) -> None:
    await apply_migrations(place_of(empty_database), Settings(), Registry())
    assert (await wall_of(empty_database.url, "timebell.jobs")).may_read
    assert not (await wall_of(empty_database.api_url, "timebell.jobs")).may_read


async def test_one_role_that_owns_and_works_sees_what_it_needs(empty_database: TestDatabase) -> None:
    place = Place(url=empty_database.owner_url, owner_url=empty_database.owner_url)
    await apply_migrations(place, Settings(), Registry())
    facts = await wall_of(empty_database.owner_url, "timebell.jobs")
    assert (facts.may_read, facts.is_walled) == (True, False)


@pytest.mark.parametrize("setting", ["api_url", "read_url"])
@pytest.mark.parametrize("whose", ["owner_url", "url"])
async def test_a_role_that_is_another_one_is_refused(
    empty_database: TestDatabase, setting: str, whose: str
) -> None:
    """As the owner a request would see nothing, and as a node everything."""
    place = place_of(empty_database, **{setting: getattr(empty_database, whose)})
    with pytest.raises(ConfigurationError, match=f"{setting}: leads to timebell.*a role of its own"):
        await apply_migrations(place, Settings(), Registry())


async def test_roles_that_come_later_get_what_they_would_have_had(
    empty_database: TestDatabase, database_url: TestDatabase, connect: Connect
) -> None:
    """The database of the tests was made with all roles at once; this one learns of two of them afterwards."""
    later = place_of(empty_database, api_url=empty_database.api_url, read_url=empty_database.read_url)
    await apply_migrations(place_of(empty_database), Settings(), Registry())
    announced = await apply_migrations(later, Settings(), Registry(), dry_run=True)
    applied = await apply_migrations(later, Settings(), Registry())
    assert [str(one) for one in applied] == [str(one) for one in announced]
    assert [one.file for one in applied] == ["0000_expand_roles.sql"] * 3
    assert await apply_migrations(later, Settings(), Registry()) == []
    for url in ("url", "api_url", "read_url"):
        found, wanted = [
            await wall_of(getattr(database, url), "timebell_web.api_keys")
            for database in (empty_database, database_url)
        ]
        assert found == wanted
    made, grown = [
        await policies_and_rights(await connect(database.admin_url))
        for database in (database_url, empty_database)
    ]
    assert made == grown
    assert len(made) > 150


async def test_a_role_in_the_place_of_another(empty_database: TestDatabase) -> None:
    """The one that is named no longer is behind no policy, and so sees nothing."""
    place = place_of(empty_database, api_url=empty_database.api_url)
    await apply_migrations(place, Settings(), Registry())
    await apply_migrations(replace(place, api_url=empty_database.read_url), Settings(), Registry())
    assert (await wall_of(empty_database.read_url, "timebell.jobs")).is_walled
    assert not (await wall_of(empty_database.api_url, "timebell.jobs")).is_walled
