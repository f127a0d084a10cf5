"""A pytest plugin that leads the pools of a test run through PgBouncer in transaction mode.

    python -m pytest -p tests.acceptance.faults.through_pooler tests/engine tests/store

What the tests do by themselves, outside of Timebell's pools, still goes straight to the server.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.acceptance.faults.pooler import Bouncer
from timebell.db.embedded import EmbeddedServer
from timebell.db.pool import Database
from timebell.db.provision import ROLES

# Larger than a test's nodes and transactions together: a test that holds many open is not about the pool.
POOL_SIZE = 20

# What these tests prove belongs to connections of one's own, which a pooler takes away by design.
_LISTENS = "listens where the pool connects; behind a pooler listen_url leads to the server"
NOT_THROUGH_A_POOLER = {
    "test_wakeups.py": _LISTENS,
    "test_who_stays_hears_at_once_that_a_node_has_come_or_gone": _LISTENS,
    "test_a_transaction_that_the_server_ends_for_being_idle_is_a_failed_attempt": "sets a limit on its connections",
    "test_every_read_works_where_nothing_can_be_written": "gives a role a setting that a connection reads once",
    "test_plans_are_made_again_when_they_are_old": "counts the plans of one connection",
    "test_connecting.py": "looks at the connections themselves",
    "test_a_database_is_made_in_a_tenth_of_a_second": "is about the server's speed",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for each in items:
        name = each.name.partition("[")[0]
        reason = NOT_THROUGH_A_POOLER.get(each.path.name) or NOT_THROUGH_A_POOLER.get(name)
        if reason is not None:
            each.add_marker(pytest.mark.skip(reason=reason))


@pytest_asyncio.fixture(scope="session", loop_scope="session", autouse=True)
async def pooler(server: EmbeddedServer) -> AsyncIterator[Bouncer]:
    # Imported late: pytest wants to see this module itself first.
    from timebell.testing.fixtures import RUN_FOLDER

    folder = Path(tempfile.mkdtemp(prefix="timebell-pooler-", dir=os.environ[RUN_FOLDER]))
    folder.chmod(0o755)
    passwords = {name: server._passwords[role] for role, name in ROLES.items()}
    bouncer = await Bouncer(folder, server.port, passwords, pool_size=POOL_SIZE).start()
    led_count = 0
    open_directly = Database.open.__func__  # type: ignore[attr-defined]

    async def open_through(
        cls: type[Database], /, url: str, *, pooled: bool = True, **options: Any
    ) -> Database:
        nonlocal led_count
        through, count = re.subn(r"(@127\.0\.0\.1):\d+/", rf"\1:{bouncer.port}/", url)
        led_count += count
        opened: Database = await open_directly(cls, through, pooled=True, **options)
        return opened

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Database, "open", classmethod(open_through))
        yield bouncer
    await bouncer.stop()
    assert led_count, "no pool went through the pooler; nothing is proven"
