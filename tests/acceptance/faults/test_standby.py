"""A synchronous standby takes over: by promotion after a kill, by a change of roles with the sockets left open."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest

from tests.acceptance.faults.conftest import MakeStage
from tests.acceptance.faults.load import Load, Owed, asking, feed
from tests.acceptance.faults.measures import longest_call, longest_wait
from tests.acceptance.faults.proxy import Proxy
from tests.acceptance.faults.servers import Server, served
from tests.acceptance.faults.stage import Stage
from tests.acceptance.faults.waiting import until
from tests.history import load as load_history
from timebell.db.provision import Role

LIMITS = {"connect_seconds": 2.0, "statement_seconds": 3.0}
VARIABLES = {f"TIMEBELL_{name.upper()}": str(seconds) for name, seconds in LIMITS.items()}


def two_hosts(*ports: int, server: Server, role: Role = "app") -> str:
    """A URL with several hosts, of which the primary is wanted."""
    url = server.url(role, port=ports[0])
    hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
    return url.replace(f"127.0.0.1:{ports[0]}", hosts) + "&target_session_attrs=primary"


async def follow(
    primary: Server, folder: Path, *, port: int | None = None, via_port: int | None = None
) -> Server:
    """A new standby of this server, started, and waited for by every commit from now on."""
    standby = await primary.standby(folder, port=port, via_port=via_port)
    await standby.start()
    await primary.configure(synchronous_standby_names=folder.name)
    asked = "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync' AND application_name = $1"

    async def is_in_step() -> bool:
        return bool(await primary.ask(asked, folder.name))

    await until(is_in_step, 20, "the standby to be in step")
    return standby


@asynccontextmanager
async def pair(place: Path) -> AsyncIterator[tuple[Server, Server]]:
    async with served(place / "first") as primary:
        standby = await follow(primary, place / "second")
        try:
            yield primary, standby
        finally:
            await standby.stop()


@pytest.mark.slow
@pytest.mark.req("U-1", "U-2")
async def test_twenty_promotions_in_a_row(make_stage: MakeStage, place: Path) -> None:
    """The primary is killed with -9 and its standby promoted; the dead one is replaced by a new standby."""
    times = 20
    async with AsyncExitStack() as stack, pair(place) as (primary, standby):
        ports = (primary.port, standby.port)
        stage = make_stage(
            seed=6,
            url=two_hosts(*ports, server=primary),
            owner_url=two_hosts(*ports, server=primary, role="owner"),
            admin_url=two_hosts(*ports, server=primary, role="admin"),
            **VARIABLES,
        )
        recoveries = []
        async with asking(stage.url, stage.owner_url, stage.history, **LIMITS) as load:
            await stage.start("ada", "bob")
            is_over = asyncio.Event()
            feeding = asyncio.create_task(_feed_until(load, stage, is_over))
            for number in range(times):
                await asyncio.sleep(0.5 + stage.chance.random())
                began, killed = datetime.now(UTC), time.monotonic()
                await primary.kill()
                await standby.promote()
                stage.fault("kill", "database", began, datetime.now(UTC))
                await _works(standby)
                recoveries.append(time.monotonic() - killed)
                # The data of the dead one is of no use any more, but its address is.
                successor = await follow(standby, place / f"standby{number}", port=primary.port)
                stack.push_async_callback(successor.stop)
                primary, standby = standby, successor
            is_over.set()
            count = await feeding
            await stage.drained()
        records = load_history(stage.file)
        stage.note(f"longest wait {longest_wait(records):.1f} s, longest call {longest_call(records):.1f} s")
        figures = await stage.verdict(
            "F6",
            "the primary dies and its synchronous standby is promoted",
            f"kill -9, pg_promote, URL with two hosts, {times} times",
            recovery_seconds=max(recoveries),
        )
        assert figures["jobs"] == count
        assert max(recoveries) <= 10


async def _feed_until(load: Load, stage: Stage, is_over: asyncio.Event) -> int:
    """About seventy jobs a second, however long it takes. Answers with how many they were."""
    count = 0
    while not is_over.is_set():
        await feed(load, stage.chance, 100, seconds=1.5, prefix=f"job-{count}")
        count += 100
    return count


async def _works(server: Server) -> None:
    """Until jobs are finished on this server."""
    finished = await server.ask("SELECT count(*) FROM timebell.job_log")

    async def has_more() -> bool:
        return bool(await server.ask("SELECT count(*) > $1 FROM timebell.job_log", finished))

    await until(has_more, 30, "work after the promotion")


@pytest.mark.slow
@pytest.mark.req("U-1", "U-2")
async def test_the_roles_change_and_the_sockets_stay_open(make_stage: MakeStage, place: Path) -> None:
    """Behind one address the primary becomes read-only (25006) and another server takes its place."""
    count = 1_500
    async with pair(place) as (old, new), Proxy("127.0.0.1", old.port) as proxy:
        stage = make_stage(
            seed=7,
            url=old.url(port=proxy.port),
            owner_url=old.url("owner", port=proxy.port),
            admin_url=old.url("admin", port=proxy.port),
            **VARIABLES,
        )
        async with asking(stage.url, stage.owner_url, stage.history, **LIMITS) as load:
            await stage.start("ada", "bob")
            feeding = asyncio.create_task(feed(load, stage.chance, count, seconds=15))
            await asyncio.sleep(4)
            began = datetime.now(UTC)
            await old.configure(default_transaction_read_only="on")
            await new.promote()
            proxy.aim(new.port)
            stage.fault("cut", "database", began, datetime.now(UTC))
            await feeding
            await stage.drained()
        wait = longest_wait(load_history(stage.file))
        figures = await stage.verdict(
            "F7",
            "the roles change and the sockets stay open",
            "the primary made read-only, its standby promoted behind the same address",
            recovery_seconds=wait,
        )
        assert figures["jobs"] == count
        assert wait <= 5
        talks = (
            "SELECT count(*) FROM pg_stat_activity WHERE usename = 'timebell' AND now() - state_change < $1"
        )
        assert await old.ask(talks, timedelta(seconds=2)) == 0, "somebody still talks to the old primary"


@pytest.mark.slow
@pytest.mark.req("U-1", "U-2")
async def test_commits_are_stuck_because_the_standby_is_gone(make_stage: MakeStage, place: Path) -> None:
    """Nothing is acknowledged that is not safe, no call hangs for ever, and all goes on when the standby is back."""
    count = 1_000
    async with (
        AsyncExitStack() as stack,
        served(place / "first") as primary,
        Proxy("127.0.0.1", primary.port) as proxy,
    ):
        standby = await follow(primary, place / "second", via_port=proxy.port)
        stack.push_async_callback(standby.stop)
        stage = make_stage(
            seed=8,
            url=primary.url(),
            owner_url=primary.url("owner"),
            admin_url=primary.url("admin"),
            **VARIABLES,
        )
        async with asking(stage.url, stage.owner_url, stage.history, **LIMITS) as load:
            await stage.start("ada", "bob")
            feeding = asyncio.create_task(feed(load, stage.chance, count, seconds=10))
            await asyncio.sleep(3)
            began = datetime.now(UTC)
            proxy.pause()
            await asyncio.sleep(15)
            acknowledged = {
                each.key
                for each in load_history(stage.file)
                if each.op == "enqueue" and each.answered_at and each.answered_at > began
            }
            assert acknowledged <= await _keys_of(standby), "acknowledged, and the standby does not have it"
            proxy.heal()
            stage.fault("cut", "database", began, datetime.now(UTC))
            await feeding
            await stage.drained()
        records = load_history(stage.file)
        call, wait = longest_call(records), longest_wait(records)
        stage.note(f"longest call {call:.1f} s, longest wait {wait:.1f} s")
        figures = await stage.verdict(
            "F8",
            "commits wait for a standby that is gone",
            "replication stalled for 15 s by a proxy",
            recovery_seconds=wait,
        )
        assert figures["jobs"] == count
        assert call <= 20
        assert wait <= 5


async def _keys_of(server: Server) -> set[str]:
    async with server.connection("admin") as admin:
        return {row["key"] for row in await admin.fetch("SELECT key FROM timebell.job_keys")}


@pytest.mark.slow
@pytest.mark.req("U-1", "U-5")
async def test_what_exists_already_is_acknowledged_only_once_it_is_safe(
    place: Path, make_stage: MakeStage
) -> None:
    """A commit that was given up is visible before it is safe. Asked again, its key must not be vouched for."""
    async with pair(place) as (primary, standby):
        stage = make_stage(
            seed=88, url=primary.url(), owner_url=primary.url("owner"), admin_url=primary.url("admin")
        )
        async with asking(stage.url, stage.owner_url, stage.history, **LIMITS) as load:
            await standby.kill()
            job = Owed(name="doubtful", mode="plain", due_at=datetime.now(UTC))
            bell = load.bell
            answers = []
            for _ in range(2):
                with pytest.raises((TimeoutError, asyncpg.PostgresError)):
                    async with bell.transaction() as tx:
                        answers.append(await bell.enqueue_many(tx, [job.enqueue()]))
            assert [each[0].created for each in answers] == [True, False], (
                "the second saw what the first wrote"
            )
            await standby.start()
            async with asyncio.timeout(30):
                await load.enqueue([job])
            assert await _keys_of(standby) == {"doubtful"}
