"""Who asks over HTTP in a world: replies are lost, requests are sent again, and each key has one effect."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from tests.history import Violation
from tests.simulation.asking import Unhurried
from tests.simulation.callers import LOSSES
from tests.simulation.ending import Ending
from tests.simulation.process import Process
from timebell.web.operation.surface import Surface, surface_of
from timebell.web.server.api import api_of
from timebell.web.v1 import ALL

_PATH = "/v1/jobs"
# A key is good for a day.
_AGAIN_SECONDS = (0.0005, 0.01, 2, 900, 4 * 3600)
_TRIES_MAX = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    status: int
    body: bytes


@dataclass(slots=True, kw_only=True)
class Order:
    """A job that somebody wants over HTTP, under a key of theirs, and what they were answered."""

    name: str
    key: str
    body: bytes
    replies: list[Reply] = field(default_factory=list)
    refused: list[Reply] = field(default_factory=list)


async def _no_complaints() -> list[str]:
    return []


class Clients(Unhurried):
    """Those who ask over HTTP."""

    name = "clients"

    def _begin(self) -> None:
        self._secret = ""
        self._orders: list[Order] = []
        self._going: dict[asyncio.Task[Any], None] = {}

    async def settle_in(self) -> None:
        if self._scene.orders_a_day:
            process = self._process()
            await process.run(self._make_key(process))

    async def _make_key(self, process: Process) -> None:
        surface = await _surface(process)
        await surface.tenants.ensure_default()
        async with process.bell.transaction() as tx:
            self._secret = (await surface.keys.create(tx, name="clients", scope="write")).secret

    async def live(self, days: float) -> None:
        await self._live(days, {self._order: self._scene.orders_a_day})

    def leave(self) -> None:
        for each in list(self._going):
            each.cancel()

    def _order(self) -> None:
        name = self._name("order")
        due_at = self._now() + timedelta(minutes=self._chance.randint(0, 120))
        wanted = {
            "kind": f"sim.{self._chance.choice(self._scene.modes)}",
            "due_at": due_at.isoformat(),
            "correlation_id": name,
        }
        order = Order(name=name, key=f"key-{name}", body=json.dumps(wanted).encode())
        self._orders.append(order)
        for again in self._chance.sample(_AGAIN_SECONDS, self._chance.randint(1, 3)):
            self._go_on(self._send(order, again))
        if self._chance.random() < 0.3:
            self._go_on(self._send_another(order))

    def _go_on(self, work: Any) -> None:
        """A client lives elsewhere, and goes on whatever becomes of the processes that it asks."""
        wire = self._callers[0].wire
        made = wire.loop.create_task(work, context=wire.nobody)
        self._going[made] = None
        made.add_done_callback(self._going.pop)
        made.add_done_callback(wire.loop.note_end)

    async def _send(self, order: Order, wait: float) -> None:
        """The same request until it is answered, and not by something that passes."""
        await asyncio.sleep(wait)
        for _ in range(_TRIES_MAX):
            reply = await self._asked(order.key, order.body)
            if reply is not None and reply.status < 300:
                order.replies.append(reply)
                self._callers[0].wire.counts["orders_answered"] += 1
                return
            if reply is not None and reply.status not in (409, 500, 503, 504):
                order.refused.append(reply)
                return
            self._callers[0].wire.counts["orders_again"] += 1
            await asyncio.sleep(self._chance.choice([0.5, 30, 600]))

    async def _send_another(self, order: Order) -> None:
        """Another request under a key that was used: refused, whatever it asks for."""
        await asyncio.sleep(1_800)
        if order.replies:
            reply = await self._asked(order.key, order.body.replace(b"sim.", b"other."))
            if reply is not None and reply.status < 300:
                order.refused.append(reply)

    async def _asked(self, key: str, body: bytes) -> Reply | None:
        """None where the reply was lost, with the process or on its way."""
        process = self._process()
        asking = process.run(_ask(process, self._secret, key, body))
        try:
            reply: Reply | None = await asking
        except (*LOSSES, asyncio.CancelledError):
            return None
        return None if self._chance.random() < 0.25 else reply

    def _regret(self, id: UUID) -> None:
        raise NotImplementedError

    async def afterwards(self) -> None:
        """One more, and a world does not end before everybody is answered who still asks."""
        if self._scene.orders_a_day:
            self._order()
            await asyncio.gather(*self._going, return_exceptions=True)

    def check(self, ending: Ending) -> Sequence[Violation]:
        """A key has one effect and one answer, and none but what was answered."""
        found = []
        for order in self._orders:
            ids = {final.job_id for final in ending.finals.get(order.name, ())}
            answers = {(reply.status, reply.body) for reply in order.replies}
            told = {json.loads(reply.body)["id"] for reply in order.replies}
            if len(ids) > 1:
                text = f"{len(ids)} jobs came of one idempotency key"
                found.append(Violation(invariant="once", key=order.name, text=text))
            if len(answers) > 1:
                text = f"one request has {len(answers)} answers: {sorted(answers)}"
                found.append(Violation(invariant="answers", key=order.name, text=text))
            if told - ids:
                text = f"answered with {', '.join(told - ids)}, which there is not"
                found.append(Violation(invariant="answers", key=order.name, text=text))
            for reply in order.refused:
                text = f"answered {reply.status} {reply.body[:200]!r}"
                found.append(Violation(invariant="answers", key=order.name, text=text))
            if not order.replies and not order.refused:
                text = "asked for again and again, and never answered"
                found.append(Violation(invariant="answers", key=order.name, text=text))
        return found


async def _surface(process: Process) -> Surface:
    """That of a process, made when it is first asked."""
    if process.surface is None:
        process.surface = surface_of(await process.walled_bell(), _no_complaints)
        process.site = api_of(process.surface, ALL)
    surface: Surface = process.surface
    return surface


async def _ask(process: Process, secret: str, key: str, body: bytes) -> Reply:
    """One request, as a server hands it to the application."""
    await _surface(process)
    headers = {
        "authorization": f"Bearer {secret}",
        "content-type": "application/json",
        "content-length": str(len(body)),
        "idempotency-key": key,
        "host": "bell.test",
    }
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": _PATH,
        "raw_path": _PATH.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await process.site(scope, receive, send)
    return Reply(status=sent[0]["status"], body=b"".join(each.get("body", b"") for each in sent[1:]))
