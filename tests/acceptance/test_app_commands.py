"""A command that an app brings, run as an operator runs it: the one that the reference shows."""

from __future__ import annotations

import json
from pathlib import Path

import asyncpg

from tests.acceptance.processes import SOURCE, answer, assert_refused, command
from tests.docs.markdown import blocks
from tests.shape.tree import ROOT
from timebell.testing.database import TestDatabase

# Beside what the page shows: one that finds something wrong, one that answers wrongly, and one that is refused inside.
MORE = """
from timebell.errors import NotFound

async def count(bell, *, book):
    if book == "none":
        raise NotFound("there is no book none; name another")
    kinds = sorted(bell.registry.handlers)
    return CommandAnswer(lines=["One is missing.", book], value={"kinds": kinds}, is_failure=True)

async def wrong(bell):
    return "wrong"

COMMANDS += (
    Command(
        words=("shop", "count"),
        help="Count the books.",
        run=count,
        arguments=[CommandArgument(name="book")],
        shared=(),
    ),
    Command(words=("shop", "wrong"), help="Answer wrongly.", run=wrong, shared=()),
)
app = App(name="shop", commands="shop", handlers={"shop.wrap": print})
"""


async def test_a_command_of_an_app(place: Path, database_url: TestDatabase) -> None:
    page = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    [shown] = [block.code for block in blocks(page) if "CommandAnswer(" in block.code]
    (place / "shop.py").write_text(shown + MORE)
    around = {
        "DATABASE_URL": database_url.url,
        "TIMEBELL_APPS": "shop",
        "PYTHONPATH": f"{SOURCE}:{place}",
    }
    done = command("shop", "sell", "Dune", "--price", 7, "--actor", "ada", "--tenant", "acme", **around)
    assert (done.returncode, done.stdout, done.stderr) == (0, "Dune is sold for 7.\n", "")
    assert answer("shop", "sell", "\x1b[2JEmma", **around) == {"book": "\x1b[2JEmma", "price": 5}
    connection = await asyncpg.connect(database_url.url)
    try:
        rows = await connection.fetch(
            "SELECT tenant, actor, subject, data FROM timebell.events WHERE name = 'book.sold' ORDER BY id"
        )
    finally:
        await connection.close()
    first, second = rows
    assert (first["tenant"], first["actor"], first["subject"]) == ("acme", "ada", "book:Dune")
    assert json.loads(first["data"]) == {"price": 7}
    assert second["tenant"] == "default"
    assert second["actor"].startswith("cli")
    found = command("shop", "count", "Dune", **around)
    assert (found.returncode, found.stdout, found.stderr) == (1, "One is missing.\nDune\n", "")
    found = command("shop", "count", "Dune", "--json", **around)
    assert found.returncode == 1
    assert "shop.wrap" in json.loads(found.stdout)["kinds"], "the bell knows what the apps bring"
    assert_refused(command("shop", "count", "none", **around), 1, "there is no book none; name another")
    assert_refused(command("shop", "wrong", **around), 2, "'shop wrong'", "let it return a CommandAnswer")
    assert_refused(
        command("shop", "sell", "Dune", **{**around, "TIMEBELL_APPS": "none"}), 2, "No such command"
    )
