"""A schema of another version than the code: an upgrade under load, and processes that come too early or too late."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from tests.acceptance.conftest import Work
from tests.acceptance.faults.conftest import MakeStage
from tests.acceptance.faults.load import asking, feed
from tests.acceptance.faults.measures import longest_wait
from tests.acceptance.processes import command
from tests.history import load as load_history
from tests.migration.made_up import write_package
from timebell.db.migrate import Slice, migrate
from timebell.kernel import migrations
from timebell.testing.database import TestDatabase

OURS = {path.name: path.read_text() for path in Path(str(migrations.__file__)).parent.glob("*.sql")}
NEXT = len(OURS) + 1

# What an additive change may look like: columns with a default, an index, a table.
LATER = """-- phase: expand
ALTER TABLE timebell.jobs ADD COLUMN made_up_weight integer NOT NULL DEFAULT 7;
ALTER TABLE timebell.job_log ADD COLUMN made_up_note text;
ALTER TABLE timebell.job_keys ADD COLUMN made_up_at timestamptz NOT NULL DEFAULT now();
ALTER TABLE timebell.nodes ADD COLUMN made_up_zone text NOT NULL DEFAULT 'a';
ALTER TABLE timebell.slots ADD COLUMN made_up_count bigint NOT NULL DEFAULT 0;
CREATE INDEX jobs_made_up ON timebell.jobs (made_up_weight) WHERE made_up_weight <> 7;
CREATE TABLE timebell.made_up (id uuid PRIMARY KEY);
"""
TIGHTER = "-- phase: contract\nALTER TABLE timebell.made_up ADD CHECK (id IS NOT NULL);\n"


@pytest.fixture
async def owner(empty_database: TestDatabase) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(empty_database.owner_url, timeout=10)
    yield connection
    await connection.close(timeout=10)


def kernel_of(place: Path, monkeypatch: pytest.MonkeyPatch, name: str, files: dict[str, str]) -> Slice:
    """The kernel as another version of it would bring it."""
    write_package(place, name, files)
    monkeypatch.syspath_prepend(str(place))
    sys.modules.pop(name, None)
    return Slice(name="kernel", schema="timebell", package=name)


@pytest.mark.slow
@pytest.mark.req("U-1", "U-2")
async def test_older_code_goes_on_while_the_schema_is_expanded(
    make_stage: MakeStage,
    place: Path,
    empty_database: TestDatabase,
    owner: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The version before runs under load, the next one's expand phase is applied, and new processes of the old come."""
    count = 1_200
    newer = kernel_of(place, monkeypatch, "later_kernel", {**OURS, f"{NEXT:04}_expand_made_up.sql": LATER})
    stage = make_stage(
        seed=26,
        url=empty_database.url,
        owner_url=empty_database.owner_url,
        admin_url=empty_database.admin_url,
    )
    async with asking(stage.url, stage.owner_url, stage.history) as load:
        await stage.start("ada", "bob")
        feeding = asyncio.create_task(feed(load, stage.chance, count, seconds=12))
        await asyncio.sleep(3)
        applied = await migrate(owner, [newer], phase="expand")
        assert [migration.number for migration in applied] == [NEXT]
        # Not written down as a fault, which would excuse whatever waited for it or began again.
        stage.note("the schema is expanded")
        await asyncio.sleep(2)
        await stage.stop("ada")
        await stage.start("cyd")
        await feeding
        await stage.drained()
    wait = longest_wait(load_history(stage.file))
    figures = await stage.verdict(
        "F26",
        "older code on a newer schema",
        "a later expand migration applied under load, then an old node stopped and another started",
        recovery_seconds=wait,
    )
    assert figures["jobs"] == count
    assert wait <= 5


@pytest.mark.slow
async def test_new_code_waits_for_its_schema(
    place: Path,
    empty_database: TestDatabase,
    owner: asyncpg.Connection,
    work: Work,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It does not touch the schema, says what is missing and what to do, and starts once that was done."""
    older = {name: text for name, text in OURS.items() if not name.startswith(f"{NEXT - 1:04}")}
    await migrate(owner, [kernel_of(place, monkeypatch, "older_kernel", older)])
    refused = command("work", DATABASE_URL=empty_database.url)
    assert refused.returncode == 1
    assert "timebell migrate" in refused.stderr
    assert f"{NEXT - 1:04}_" in refused.stderr
    done = command("migrate", DATABASE_URL=empty_database.url, TIMEBELL_OWNER_URL=empty_database.owner_url)
    assert done.returncode == 0, done.stderr
    assert work(DATABASE_URL=empty_database.url).stop() == 0


@pytest.mark.slow
async def test_old_code_refuses_a_schema_that_was_contracted(
    place: Path, empty_database: TestDatabase, owner: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {**OURS, f"{NEXT:04}_expand_made_up.sql": LATER, f"{NEXT + 1:04}_contract_made_up.sql": TIGHTER}
    await migrate(owner, [kernel_of(place, monkeypatch, "tighter_kernel", files)])
    refused = command("work", DATABASE_URL=empty_database.url)
    assert refused.returncode == 1
    assert f"{NEXT + 1:04}_contract" in refused.stderr
