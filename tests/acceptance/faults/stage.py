"""One run: nodes on a database, what is done to them, and the verdict over what they wrote down."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg

from tests.acceptance.faults.node import start_node
from tests.acceptance.faults.results import Result, add_result
from tests.acceptance.faults.waiting import until
from tests.acceptance.processes import READY_SECONDS, Process
from tests.history import HistoryFile, Record, check, load, summarise

DRAINED_SECONDS = 120.0
_FINALS = """
SELECT key, id::text AS job_id, state, due_at, logged_at AS at FROM timebell.job_log WHERE state <> 'pending'
UNION ALL SELECT key, id::text, CASE WHEN started_by IS NULL THEN 'pending' ELSE 'running' END, due_at, NULL
FROM timebell.jobs
"""
_LEFT_OVER = """
SELECT count(*), min(key) AS one_of_them, kind, started_by, crash_count, attempt, version, min(run_at) AS run_at,
    s.owner, s.owner IN (SELECT incarnation FROM timebell.nodes) AS is_owned
FROM timebell.jobs JOIN timebell.slots s USING (slot)
GROUP BY kind, started_by, crash_count, attempt, version, s.owner ORDER BY run_at LIMIT 20
"""


def _said(figures: dict[str, Any]) -> str:
    """What was broken and has no column of its own."""
    names = ("after_cancel", "agenda", "order", "key", "truth", "buried")
    return ", ".join(f"{figures[name]} {name.replace('_', ' a ')}" for name in names if figures[name])


class Stage:
    """Starts nodes, does things to them, and judges the history in the end.

    Everything that it does is printed, with the seed, and so stands in the report of a test that fails.
    """

    def __init__(
        self,
        url: str,
        owner_url: str,
        admin_url: str,
        place: Path,
        *,
        seed: int,
        lease_seconds: float = 4.0,
        **variables: str,
    ) -> None:
        self.url = url
        self.owner_url = owner_url
        self.admin_url = admin_url
        self.chance = random.Random(seed)
        self.lease_seconds = lease_seconds
        self.history = HistoryFile(place / "history.jsonl")
        self.nodes: dict[str, Process] = {}
        self.started: list[Process] = []
        self._place = place
        self._seed = seed
        self._variables = {
            "TIMEBELL_LEASE_SECONDS": str(lease_seconds),
            "TIMEBELL_LEASE_MARGIN_SECONDS": str(lease_seconds / 4),
            "TIMEBELL_RETRY_DELAYS_SECONDS": "0.1",
            **variables,
        }
        self._began = time.monotonic()
        self.note(f"seed {seed}")

    def note(self, what: str) -> None:
        print(f"{time.monotonic() - self._began:8.3f}  {what}")

    async def start(self, *names: str, is_ready: bool = True, **variables: str) -> None:
        """Nodes beside each other, ready when this returns."""
        for name in names:
            self.launch(name, **variables)
        if is_ready:
            for name in names:
                await self.ready(name)

    def launch(self, name: str, *command: object, **options: Any) -> Process:
        """One more process of a name, `timebell work` where no other command is given; nobody waits for it."""
        notes = self._place / f"node{len(self.started)}-{name}"
        node = start_node(notes, self.url, self.file, name, *command, **{**self._variables, **options})
        self.nodes[name] = node
        self.started.append(node)
        self.note(f"start {name}, process {node.popen.pid}")
        return node

    async def ready(self, name: str) -> None:
        node = self.nodes[name]

        async def is_ready() -> bool:
            assert node.popen.poll() is None, node.words
            return "at work" in node.words

        await until(is_ready, READY_SECONDS, f"{name} to be ready")

    @property
    def file(self) -> Path:
        return self._place / "history.jsonl"

    def fault(self, kind: str, node: str, began: datetime, ended: datetime | None = None) -> None:
        """Write a fault down; one that is still going on has no end."""
        self.note(f"{kind} {node}")
        self.history.append(Record(op="fault", key=kind, node=node, invoked_at=began, answered_at=ended))

    def kill(self, name: str) -> None:
        began = datetime.now(UTC)
        self.nodes[name].signal(signal.SIGKILL)
        self.nodes[name].wait()
        self.fault("kill", name, began, datetime.now(UTC))

    async def pause(self, name: str, seconds: float) -> None:
        """Stop a process in its tracks and let it go on, so that it does not know of the time between."""
        began = datetime.now(UTC)
        self.nodes[name].signal(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        self.nodes[name].signal(signal.SIGCONT)
        self.fault("pause", name, began, datetime.now(UTC))

    async def stop(self, name: str, *, times: int = 1, seconds: float = 15.0) -> float:
        """End a node in order, with as many signals as asked for; answers how long it took."""
        node = self.nodes[name]
        self.note(f"SIGTERM x {times} to {name}")
        began = time.monotonic()
        for _ in range(times):
            with suppress(ProcessLookupError):
                node.signal(signal.SIGTERM)
            await asyncio.sleep(0.2 if times > 1 else 0)
        code = await asyncio.to_thread(node.wait, seconds)
        assert code == 0, node.words
        return time.monotonic() - began

    async def ask(self, query: str, *arguments: object) -> Any:
        async with asyncio.timeout(60):
            connection = await asyncpg.connect(self.admin_url, timeout=10, command_timeout=60)
            try:
                return await connection.fetch(query, *arguments)
            finally:
                await connection.close(timeout=10)

    async def count(self, query: str, *arguments: object) -> int:
        [row] = await self.ask(f"SELECT count(*) AS count FROM {query}", *arguments)
        return int(row["count"])

    async def drained(self, seconds: float = DRAINED_SECONDS) -> None:
        """Until nothing is owed any more."""

        async def is_empty() -> bool:
            return not await self.count("timebell.jobs")

        try:
            await until(is_empty, seconds, "the last job")
        except AssertionError:
            for row in await self.ask(_LEFT_OVER):
                self.note(f"left over: {dict(row)}")
            for name, node in self.nodes.items():
                self.note(f"{name} said: {node.words[-3000:]}")
            raise

    async def verdict(
        self,
        number: str,
        fault: str,
        injection: str,
        *,
        recovery_seconds: float | None = None,
        remark: str = "",
        measured: tuple[str, ...] = (),
        owed_until: datetime | None = None,
    ) -> dict[str, Any]:
        """Read how it ended, note the result and judge the whole history; answers with its figures.

        What breaks an invariant that is only `measured` is told in the figures, and fails nothing. What was due at
        `owed_until` or later need not be over, where the run was cut off.
        """
        ended = datetime.now(UTC)
        await self._read_ends(ended)
        records = load(self.file)
        lease = timedelta(seconds=self.lease_seconds)
        violations = check(records, until=owed_until or ended, grace=timedelta(0), lease=lease)
        figures: dict[str, Any] = dict(summarise(records, violations))
        self.note(f"{fault}: {figures}")
        if recovery_seconds is None:
            recovery_seconds = figures["recovery_seconds_max"]
        add_result(
            Result(
                number=number,
                fault=fault,
                injection=injection,
                jobs=figures["jobs"],
                lost=figures["lost"],
                early=figures["early"],
                duplicated=figures["duplicated"] + figures["repeated"],
                recovery_seconds=recovery_seconds,
                remark="; ".join(filter(None, [remark, _said(figures)])),
                seed=self._seed,
            )
        )
        # Noted before it is judged: a table that only passing runs get into would show nothing but zeros.
        broken = [each for each in violations if each.invariant not in measured]
        assert not broken, "\n".join(map(str, broken[:20]))
        return figures

    async def _read_ends(self, at: datetime) -> None:
        for row in await self.ask(_FINALS):
            self.history.append(
                Record(
                    op="final",
                    key=row["key"] or row["job_id"],
                    node="database",
                    invoked_at=at,
                    answered_at=row["at"],
                    job_id=row["job_id"],
                    state=row["state"],
                    due_at=row["due_at"],
                )
            )
        for row in await self.ask(
            "SELECT name, job_id::text, count(*) AS count FROM faults.effects GROUP BY name, job_id"
        ):
            self.history.append(
                Record(
                    op="effect",
                    key=row["name"],
                    node="database",
                    invoked_at=at,
                    answered_at=at,
                    job_id=row["job_id"],
                    count=row["count"],
                )
            )

    def end(self) -> None:
        """At the end of a test, whatever has become of its nodes; one that is stopped must go on to be ended."""
        for node in self.started:
            with suppress(ProcessLookupError):
                node.signal(signal.SIGCONT)
            node.end()
        self.history.close()
