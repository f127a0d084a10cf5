"""Notify: how many notifications a second one process tells, beside its own statements with nothing around them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, Literal
from uuid import UUID

import asyncpg

from bench.ours.raw_notify import RawDeliveries
from timebell.bench.cost import Cost, Meter, beside_raw, peak_memory_mb
from timebell.bench.ground import CHUNK, WARM_UP_JOBS, Ground, close, throwaway
from timebell.engine import Engine
from timebell.kernel import Timebell
from timebell.notify import Notify, Tell, TemplateDraft, Text, Variable, notify_app
from timebell.providers.log import Log

Told = Literal["inbox", "log"]
TOLD: Final[tuple[Told, ...]] = ("inbox", "log")

_RECIPIENTS = 1_000
_DEADLINE_SECONDS = 900.0
_LOOKS_MAX = 1_000_000
_TITLE = Variable(name="title")
_BODY = "Dear {{ recipient.name }}, {{ title }} begins on {{ due_at | date }} at {{ due_at | time }}."
_TEMPLATE = TemplateDraft(
    key="bench.reminder",
    topic="meetings",
    texts=(
        Text(channel="email", language="en", subject="Soon: {{ title }}", body=_BODY),
        Text(channel="inbox", language="en", subject="Soon: {{ title }}", body=_BODY),
    ),
    variables=(_TITLE,),
)


async def notify(*, jobs: int, channel: Told, data: Path | None = None) -> dict[str, Any]:
    """Both sides in one run on one server, the raw statements first and last, as for a drain."""
    async with throwaway(data) as ground:
        recipients = await _prepare(ground)
        await _measure(ground, recipients, min(jobs, WARM_UP_JOBS), channel, _engine)
        before = await _measure(ground, recipients, jobs, channel, _raw)
        ours = await _measure(ground, recipients, jobs, channel, _engine)
        after = await _measure(ground, recipients, jobs, channel, _raw)
        memory = peak_memory_mb()
    return {
        "bench": "notify",
        "channel": channel,
        "jobs": jobs,
        **beside_raw(ours, before, after, jobs),
        "peak_memory_mb": memory,
    }


async def _open(ground: Ground) -> Timebell:
    return await ground.open(notify_app([Log()]))


async def _prepare(ground: Ground) -> list[UUID]:
    bell = await _open(ground)
    try:
        asked = Notify(bell)
        async with bell.transaction() as tx:
            await asked.templates.save(tx, _TEMPLATE)
            added = [
                await asked.recipients.add(
                    tx, name=f"Recipient {n}", email=f"recipient{n}@example.org", timezone="Europe/Berlin"
                )
                for n in range(_RECIPIENTS)
            ]
        return [recipient.id for recipient in added]
    finally:
        await close(bell)


async def _measure(
    ground: Ground,
    recipients: list[UUID],
    jobs: int,
    channel: Told,
    pay: Callable[[Timebell, int, Told, Meter], Awaitable[Cost]],
) -> Cost:
    bell = await _open(ground)
    try:
        await _tell(bell, recipients, jobs, channel)
        told = await _told_count(ground)
        async with asyncio.timeout(_DEADLINE_SECONDS):
            cost = await pay(bell, jobs, channel, Meter(ground.server_pid))
        if (told := await _told_count(ground) - told) != jobs:
            raise RuntimeError(f"{told} of {jobs} notifications were told")
        return cost
    finally:
        await close(bell)


async def _tell(bell: Timebell, recipients: list[UUID], jobs: int, channel: Told) -> None:
    asked = Notify(bell)
    for begin in range(0, jobs, CHUNK):
        tells = [
            Tell(
                recipient=recipients[number % len(recipients)],
                template=_TEMPLATE.key,
                channels=("inbox",) if channel == "inbox" else ("email",),
                context={"title": f"Meeting {number}"},
            )
            for number in range(begin, min(begin + CHUNK, jobs))
        ]
        async with bell.transaction() as tx:
            await asked.tell_many(tx, tells)


async def _told_count(ground: Ground) -> int:
    """A notification counts when it is settled and its delivery was sent. The table is tidied for both sides alike."""
    connection = await asyncpg.connect(ground.admin_url)
    try:
        await connection.execute("VACUUM (ANALYZE)")
        count: int = await connection.fetchval(
            "SELECT count(*) FROM timebell_notify.notifications n JOIN timebell_notify.deliveries d"
            " ON d.tenant = n.tenant AND d.notification_id = n.id"
            " WHERE n.state = 'sent' AND n.settled_at IS NOT NULL AND d.state = 'sent'"
        )
        return count
    finally:
        await connection.close()


async def _engine(bell: Timebell, jobs: int, _: Told, meter: Meter) -> Cost:
    """From before the engine is started until the end of the last job is written."""
    engine = Engine(bell)
    await engine.start()
    try:
        for _look in range(_LOOKS_MAX):
            if engine.worker.counters.done >= jobs:
                break
            await asyncio.sleep(0.002)
        return meter.read()
    finally:
        await engine.stop()


async def _raw(bell: Timebell, _: int, channel: Told, meter: Meter) -> Cost:
    await RawDeliveries(bell, channel).run()
    return meter.read()
