from __future__ import annotations

import asyncpg
import pytest

from timebell.db.migrate import describe_schema

BEFORE = """
    CREATE SCHEMA demo;
    CREATE TYPE demo.mood AS ENUM ('calm', 'busy');
    CREATE DOMAIN demo.short AS text CHECK (length(VALUE) < 10);
    CREATE TYPE demo.pair AS (a integer, b text);
    CREATE SEQUENCE demo.counter;
    CREATE TABLE demo.thing (
        id      integer PRIMARY KEY,
        mood    demo.mood NOT NULL DEFAULT 'calm',
        note    text,
        twice   integer GENERATED ALWAYS AS (id * 2) STORED,
        CONSTRAINT positive CHECK (id > 0)
    );
    CREATE TABLE demo.log (at timestamptz NOT NULL, note text) PARTITION BY RANGE (at);
    CREATE TABLE demo.log_2030 PARTITION OF demo.log FOR VALUES FROM ('2030-01-01 UTC') TO ('2031-01-01 UTC');
    CREATE INDEX thing_note ON demo.thing (note) WHERE note IS NOT NULL;
    CREATE VIEW demo.calm AS SELECT id FROM demo.thing WHERE mood = 'calm';
    CREATE FUNCTION demo.twice(n integer) RETURNS integer LANGUAGE sql AS 'SELECT n * 2';
    CREATE FUNCTION demo.touch() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
    CREATE TRIGGER touched BEFORE UPDATE ON demo.thing FOR EACH ROW EXECUTE FUNCTION demo.touch();
    CREATE POLICY mine ON demo.thing USING (id > 1);
"""

CHANGES = [
    "GRANT USAGE ON SCHEMA demo TO timebell",
    "CREATE TABLE demo.other (id integer)",
    "DROP VIEW demo.calm",
    "ALTER TABLE demo.thing SET (fillfactor = 70)",
    "ALTER TABLE demo.thing SET UNLOGGED",
    "ALTER TABLE demo.thing ENABLE ROW LEVEL SECURITY",
    "ALTER TABLE demo.thing FORCE ROW LEVEL SECURITY",
    "ALTER TABLE demo.thing REPLICA IDENTITY FULL",
    "ALTER TABLE demo.log DETACH PARTITION demo.log_2030",
    "GRANT SELECT ON demo.thing TO timebell",
    "GRANT SELECT (note) ON demo.thing TO timebell",
    "GRANT USAGE ON SEQUENCE demo.counter TO timebell",
    "ALTER SEQUENCE demo.counter INCREMENT BY 2",
    "ALTER TABLE demo.thing ADD COLUMN more text",
    "ALTER TABLE demo.thing DROP COLUMN note",
    "ALTER TABLE demo.thing RENAME COLUMN note TO remark",
    "ALTER TABLE demo.thing ALTER COLUMN note TYPE varchar(20)",
    'ALTER TABLE demo.thing ALTER COLUMN note TYPE text COLLATE "POSIX"',
    "ALTER TABLE demo.thing ALTER COLUMN note SET NOT NULL",
    "ALTER TABLE demo.thing ALTER COLUMN note SET STORAGE EXTERNAL",
    "ALTER TABLE demo.thing ALTER COLUMN note SET STATISTICS 500",
    "ALTER TABLE demo.thing ALTER COLUMN mood SET DEFAULT 'busy'",
    "ALTER TABLE demo.thing ALTER COLUMN mood DROP DEFAULT",
    "ALTER TABLE demo.thing ALTER COLUMN twice DROP EXPRESSION",
    "ALTER TABLE demo.thing ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY",
    "ALTER TABLE demo.thing DROP CONSTRAINT positive",
    "ALTER TABLE demo.thing ADD CHECK (id < 100) NOT VALID",
    "ALTER TABLE demo.thing ADD UNIQUE (note)",
    "CREATE INDEX thing_mood ON demo.thing (mood)",
    "DROP INDEX demo.thing_note",
    "ALTER TABLE demo.thing CLUSTER ON thing_pkey",
    "ALTER TYPE demo.mood ADD VALUE 'asleep'",
    "ALTER DOMAIN demo.short SET NOT NULL",
    "ALTER DOMAIN demo.short ADD CHECK (length(VALUE) > 1)",
    "ALTER TYPE demo.pair ADD ATTRIBUTE c text",
    "REVOKE USAGE ON TYPE demo.mood FROM PUBLIC",
    "CREATE OR REPLACE VIEW demo.calm AS SELECT id FROM demo.thing WHERE mood = 'busy'",
    "CREATE OR REPLACE FUNCTION demo.twice(n integer) RETURNS integer LANGUAGE sql AS 'SELECT n + n'",
    "CREATE FUNCTION demo.twice(n bigint) RETURNS bigint LANGUAGE sql AS 'SELECT n * 2'",
    "ALTER FUNCTION demo.twice(integer) SECURITY DEFINER",
    "ALTER FUNCTION demo.twice(integer) IMMUTABLE",
    "ALTER FUNCTION demo.twice(integer) SET search_path = pg_catalog",
    "REVOKE EXECUTE ON FUNCTION demo.twice(integer) FROM PUBLIC",
    "CREATE AGGREGATE demo.total(integer) (sfunc = int4pl, stype = integer)",
    "ALTER TABLE demo.thing DISABLE TRIGGER touched",
    "DROP TRIGGER touched ON demo.thing",
    "ALTER POLICY mine ON demo.thing USING (id > 2)",
    "ALTER POLICY mine ON demo.thing TO timebell",
    "CREATE RULE quiet AS ON DELETE TO demo.thing DO INSTEAD NOTHING",
    "CREATE STATISTICS demo.together (ndistinct) ON id, note FROM demo.thing",
    "ALTER DEFAULT PRIVILEGES IN SCHEMA demo GRANT SELECT ON TABLES TO timebell",
    "COMMENT ON COLUMN demo.thing.note IS 'a remark'",
    "COMMENT ON SCHEMA demo IS 'a demonstration'",
]


@pytest.fixture
async def described(owner: asyncpg.Connection) -> tuple[str, ...]:
    await owner.execute(BEFORE)
    return await describe_schema(owner, ["demo"])


async def _described_after(owner: asyncpg.Connection, change: str) -> tuple[str, ...]:
    """How the schema would look, without leaving it so."""
    transaction = owner.transaction()
    await transaction.start()
    try:
        await owner.execute(change)
        return await describe_schema(owner, ["demo"])
    finally:
        await transaction.rollback()


async def test_every_change_shows(owner: asyncpg.Connection, described: tuple[str, ...]) -> None:
    unseen = [change for change in CHANGES if await _described_after(owner, change) == described]
    assert unseen == []
    assert await describe_schema(owner, ["demo"]) == described


async def test_a_setting_of_the_database_shows(owner: asyncpg.Connection, described: tuple[str, ...]) -> None:
    database = await owner.fetchval("SELECT quote_ident(current_database())")
    await owner.execute(f"ALTER DATABASE {database} SET lock_timeout = '7s'")
    assert set(await describe_schema(owner, ["demo"])) - set(described) == {
        "setting of every role lock_timeout=7s"
    }


async def test_detours_and_rows_do_not_show(owner: asyncpg.Connection, described: tuple[str, ...]) -> None:
    await owner.execute(
        """
        ALTER TABLE demo.thing ADD COLUMN detour text;
        ALTER TABLE demo.thing DROP COLUMN detour;
        GRANT SELECT ON demo.thing TO timebell;
        REVOKE SELECT ON demo.thing FROM timebell;
        DROP INDEX demo.thing_note;
        CREATE INDEX thing_note ON demo.thing (note) WHERE note IS NOT NULL;
        INSERT INTO demo.thing (id) VALUES (nextval('demo.counter'));
        """
    )
    assert await describe_schema(owner, ["demo"]) == described


async def test_the_gap_that_a_dropped_column_leaves_does_not_show(
    owner: asyncpg.Connection, described: tuple[str, ...]
) -> None:
    straight = await _described_after(owner, "ALTER TABLE demo.thing ADD COLUMN kept text")
    roundabout = await _described_after(
        owner,
        """
        ALTER TABLE demo.thing ADD COLUMN detour text;
        ALTER TABLE demo.thing ADD COLUMN kept text;
        ALTER TABLE demo.thing DROP COLUMN detour;
        """,
    )
    assert straight == roundabout != described


async def test_other_schemas_do_not_show(owner: asyncpg.Connection, described: tuple[str, ...]) -> None:
    await owner.execute("CREATE SCHEMA elsewhere; CREATE TABLE elsewhere.thing (id integer PRIMARY KEY)")
    assert await describe_schema(owner, ["demo"]) == described
    both = await describe_schema(owner, ["demo", "elsewhere"])
    assert set(both) > set(described)


async def test_the_session_does_not_show_and_is_left_as_it_was(
    owner: asyncpg.Connection, described: tuple[str, ...]
) -> None:
    async with owner.transaction():
        await owner.execute("SET LOCAL search_path = demo; SET LOCAL timezone = 'Asia/Tokyo'")
        assert await describe_schema(owner, ["demo"]) == described
        assert await owner.fetchval("SHOW search_path") == "demo"
        assert await owner.fetchval("SHOW timezone") == "Asia/Tokyo"


async def test_entries_read_well(described: tuple[str, ...]) -> None:
    assert "schema demo owner timebell_owner" in described
    assert "column demo.thing 002 mood demo.mood not null default 'calm'::demo.mood" in described
    assert described == tuple(sorted(described))
