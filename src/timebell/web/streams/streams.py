"""Server-Sent Events: each connection reads the table from its own place, and is woken when there is more.

Nothing is kept for a client but its place. One look at the ends of the tables, for all connections of a tenant
together, finds out whom to wake, whose key was revoked, and who is a recipient no more.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import Context
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from timebell.db.failures import PASSING_ERRORS
from timebell.db.walls import walled_to
from timebell.errors import DatabaseError, TooManyAtOnce
from timebell.kernel import Timebell
from timebell.kernel.events import Following
from timebell.logs import Logger
from timebell.notify.inbox.inbox import Inbox
from timebell.web.access.access import Access, Caller
from timebell.web.operation.problems import Problem
from timebell.web.operation.refusals import farewell
from timebell.web.server.heads import HANG_UP
from timebell.web.streams.feeds import BEAT, Ends, Feed, Page

log = Logger("timebell.web")

CROWDED: Final = "too_many_streams"
STREAMS_MAX: Final = 10_000
STREAMS_OF_ONE_MAX: Final = 20
_EVENT_STREAMS_MAX: Final = 100
_READS_AT_ONCE: Final = 3
_LOOK_SHARE: Final = 3
_LOOK_SECONDS_MAX: Final = 2.0
_HANG_UP_SECONDS: Final = 1.0
# When those come again who are sent away, at the soonest.
_RETRY_SECONDS: Final = {"stopping": 1, CROWDED: 30}
_FAILURES = (*PASSING_ERRORS, DatabaseError, TooManyAtOnce)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often a table's end is looked at and keys are checked, how long nothing may be said, how long a client may
    take for a message, and may stay before it has to show its key again. All of it in real time."""

    look_seconds: float = 0.5
    check_seconds: float = 4.0
    beat_seconds: float = 15.0
    send_seconds: float = 30.0
    life_seconds: float = 600.0


class Streams:
    """The open streams of this process."""

    def __init__(self, bell: Timebell, inbox: Inbox, access: Access, stopping: asyncio.Event) -> None:
        self.pace = Pace()
        self.inbox = inbox
        self.following = Following(bell.database, bell.clock)
        self.access = access
        self.stopping = stopping
        self._chance = bell.chance
        self._watches: dict[str, _Watch] = {}
        self._reads = asyncio.Semaphore(_READS_AT_ONCE)

    @property
    def count(self) -> int:
        return sum(len(watch.streams) for watch in self._watches.values())

    def check_room(self, tenant: str, person: UUID | None) -> None:
        watch = self._watches.get(tenant)
        alike = 0 if watch is None else watch.counts[person]
        most = _EVENT_STREAMS_MAX if person is None else STREAMS_OF_ONE_MAX
        if alike >= most or (self.count >= STREAMS_MAX and self._crowd(tenant) is None):
            raise Problem(
                429,
                CROWDED,
                f"{alike} streams like this one are open here; close one, or try again later",
                headers={"retry-after": str(_RETRY_SECONDS[CROWDED])},
            )

    def make_room(self, tenant: str, person: UUID | None) -> None:
        """Room for one more. A node that is full lets one go of the tenant that has most, unless that is no more than
        this one would have: a tenant alone has the whole node, and of many each has its share."""
        self.check_room(tenant, person)
        if self.count >= STREAMS_MAX:
            crowd = self._crowd(tenant)
            assert crowd is not None
            crowd.let_one_go()

    def _crowd(self, tenant: str) -> _Watch | None:
        own = self._watches.get(tenant)
        largest = max(self._watches.values(), key=lambda watch: len(watch.streams))
        return largest if len(largest.streams) > (0 if own is None else len(own.streams)) + 1 else None

    @contextmanager
    def watched(self, stream: Stream) -> Iterator[None]:
        """Somebody looks for more on behalf of the stream, as long as the block lasts."""
        tenant = stream.caller.tenant
        watch = self._watches.get(tenant)
        if watch is None:
            watch = self._watches[tenant] = _Watch(self, tenant)
            # What this request is about is none of the watch's business, which outlives it.
            watch.loop = asyncio.create_task(self._watch(watch), context=Context())
        watch.add(stream)
        try:
            yield
        finally:
            watch.remove(stream)

    async def _watch(self, watch: _Watch) -> None:
        try:
            await watch.run()
        except Exception:
            log.exception("streams are no longer watched, and end", tenant=watch.tenant)
        finally:
            del self._watches[watch.tenant]
            for stream in watch.streams:
                stream.end("stopping")

    @asynccontextmanager
    async def reading(self, tenant: str) -> AsyncIterator[None]:
        """A turn to read. However many were woken, most connections of the pool are left to requests."""
        async with self._reads:
            with walled_to(tenant):
                yield

    def lifetime(self) -> float:
        """A little less for some than for others, so that those who came together do not all come again together."""
        return self.pace.life_seconds * (1 - 0.1 * self._chance.fraction())


class _Watch:
    """The one look at the tables of a tenant for everybody who follows them in this process."""

    def __init__(self, streams: Streams, tenant: str) -> None:
        self.tenant = tenant
        self.streams: dict[Stream, None] = {}
        self.counts: Counter[UUID | None] = Counter()
        self.loop: asyncio.Task[None] | None = None
        self._shared = streams
        self._check_at = 0.0

    def add(self, stream: Stream) -> None:
        self.streams[stream] = None
        self.counts[stream.feed.person] += 1

    def let_one_go(self) -> None:
        """The newest of the key that has most."""
        [(key_id, _)] = Counter(stream.caller.key_id for stream in self.streams).most_common(1)
        newest = next(stream for stream in reversed(self.streams) if stream.caller.key_id == key_id)
        self.remove(newest)
        newest.end(CROWDED)

    def remove(self, stream: Stream) -> None:
        if stream not in self.streams:
            return
        del self.streams[stream]
        self.counts[stream.feed.person] -= 1
        if not self.counts[stream.feed.person]:
            del self.counts[stream.feed.person]

    async def run(self) -> None:
        clock = asyncio.get_running_loop().time
        seconds = self._shared.pace.look_seconds
        while not await _is_set_within(self._shared.stopping, seconds) and self.streams:
            began = clock()
            try:
                await self._look()
                if began >= self._check_at:
                    self._check_at = began + self._shared.pace.check_seconds
                    await self._check_keys()
            except _FAILURES as error:
                log.info("streams wait for the database", tenant=self.tenant, error=str(error)[:200])
            # Many clients make a look slow, and then it is taken less often, though often enough to feel alive.
            slower = min(_LOOK_SHARE * (clock() - began), _LOOK_SECONDS_MAX)
            seconds = max(self._shared.pace.look_seconds, slower)

    async def _look(self) -> None:
        people = set(self.counts)
        named = [person for person in people if person is not None]
        with walled_to(self.tenant):
            inboxes = await self._shared.inbox.read_ends(named, tenant=self.tenant) if named else {}
            events = (await self._shared.following.end(self.tenant)).last if None in people else None
        ends = Ends(inboxes=inboxes, events=events)
        for stream in list(self.streams):
            # One that came meanwhile was not asked about.
            if stream.feed.person not in people:
                continue
            standing = stream.feed.standing(ends)
            if standing == "gone":
                stream.end("revoked")
            elif standing == "more":
                stream.wake()

    async def _check_keys(self) -> None:
        callers = {stream.caller.key_id: stream.caller for stream in self.streams}
        for key_id, caller in callers.items():
            if not await self._shared.access.is_current(caller):
                for stream in list(self.streams):
                    if stream.caller.key_id == key_id:
                        stream.end("revoked")


class Stream(Response):
    """An answer that goes on until the client leaves, is too slow, is no longer allowed, or has to come anew."""

    media_type = "text/event-stream"

    def __init__(
        self, streams: Streams, feed: Feed, caller: Caller, opening: bytes, headers: Mapping[str, str]
    ) -> None:
        self.status_code = 200
        self.background = None
        self.feed = feed
        self.caller = caller
        self._streams = streams
        self._opening = opening
        self._waked = asyncio.Event()
        self._reason: str | None = None
        self.init_headers({"cache-control": "no-store", "x-accel-buffering": "no", **headers})

    def wake(self) -> None:
        self._waked.set()

    def end(self, reason: str) -> None:
        self._reason = self._reason or reason
        self._waked.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        leaving = asyncio.create_task(self._notice_leaving(receive))
        renewal = asyncio.get_running_loop().call_later(self._streams.lifetime(), self.end, "renew")
        try:
            with self._streams.watched(self):
                await self._tell(send)
        except TimeoutError:
            log.info(
                "a client of a stream does not read, and is dropped",
                path=scope["path"],
                caller=self.caller.name,
            )
            await _hang_up(scope, leaving)
        finally:
            renewal.cancel()
            leaving.cancel()

    async def _notice_leaving(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.end("left")

    async def _tell(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        await self._send(send, start)
        await self._say(send, self._opening)
        while self._reason is None:
            self._waked.clear()
            page = await self._read()
            for message in page.messages:
                await self._say(send, message)
            if not page.has_more and self._reason is None:
                is_waked = await _is_set_within(self._waked, self._streams.pace.beat_seconds)
                if not is_waked:
                    await self._say(send, BEAT)
        if self._reason != "left":
            await self._say(send, self._farewell(self._reason), is_last=True)

    def _farewell(self, reason: str) -> bytes:
        return farewell(reason, retry_seconds=_RETRY_SECONDS.get(reason))

    async def _read(self) -> Page:
        try:
            async with self._streams.reading(self.caller.tenant):
                return await self.feed.read()
        except _FAILURES:
            # The client need not know: it misses nothing, and is told when the database is there again.
            asyncio.get_running_loop().call_later(1.0, self.wake)
            return Page([])

    async def _say(self, send: Send, message: bytes, *, is_last: bool = False) -> None:
        await self._send(send, {"type": "http.response.body", "body": message, "more_body": not is_last})

    async def _send(self, send: Send, message: dict[str, object]) -> None:
        async with asyncio.timeout(self._streams.pace.send_seconds):
            await send(message)


async def _is_set_within(event: asyncio.Event, seconds: float) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()


async def _hang_up(scope: Scope, leaving: asyncio.Task[None]) -> None:
    """Cut the connection where the server offers it, and wait until the server has noticed."""
    offered = scope.get("extensions", {}).get(HANG_UP)
    if offered is not None:
        offered["now"]()
        await asyncio.wait([leaving], timeout=_HANG_UP_SECONDS)
