"""A real SMTP server that does at each step what a test tells it to."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

OK = "250 2.0.0 queued as 42"


class MailServer:
    """Takes mail. `script` gives for a step (MAIL, RCPT, DATA, content) a reply of its own, `drop` or `hang`."""

    def __init__(self) -> None:
        self.script: dict[str, str] = {}
        self.mails: list[Envelope] = []
        self.peers: list[SMTP] = []
        self.logins: list[LoginPassword] = []
        self.port = 0
        self.is_encrypted: list[bool] = []
        self.quit_count = 0
        self.is_hanging = asyncio.Event()

    @property
    def connection_count(self) -> int:
        return len(self.peers)

    async def act(self, step: str, peer: SMTP, otherwise: str) -> str:
        match self.script.get(step):
            case None:
                return otherwise
            case "drop":
                assert isinstance(peer.transport, asyncio.Transport)
                peer.transport.abort()
                await asyncio.Event().wait()
            case "hang":
                self.is_hanging.set()
                await asyncio.Event().wait()
            case reply:
                return reply
        raise AssertionError("nothing waits for ever")

    async def handle_MAIL(  # noqa: N802
        self, peer: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        reply = await self.act("MAIL", peer, "250 OK")
        if reply.startswith("250"):
            envelope.mail_from, envelope.mail_options = address, list(options)
        return reply

    async def handle_RCPT(  # noqa: N802
        self, peer: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        reply = await self.act("RCPT", peer, "250 OK")
        if reply.startswith("250"):
            envelope.rcpt_tos.append(address)
        return reply

    async def handle_DATA(self, peer: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        self.mails.append(envelope)
        self.is_encrypted.append(session.ssl is not None)
        return await self.act("content", peer, OK)

    async def handle_QUIT(self, peer: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        self.quit_count += 1
        return "221 Bye"

    def authenticate(
        self, peer: SMTP, session: Session, envelope: Envelope, mechanism: str, login: Any
    ) -> AuthResult:
        self.logins.append(login)
        return AuthResult(success=login == LoginPassword(b"bell", b"right"), handled=False)


class _Peer(SMTP):
    """One connection of the server's; DATA itself can be refused, which the library leaves no hook for."""

    def __init__(self, server: MailServer, **options: Any) -> None:
        super().__init__(server, loop=asyncio.get_running_loop(), hostname="mail.example", **options)
        self._server = server
        server.peers.append(self)

    async def smtp_DATA(self, arg: str) -> None:  # noqa: N802
        reply = await self._server.act("DATA", self, "")
        if reply:
            await self.push(reply)
        else:
            await super().smtp_DATA(arg)


@asynccontextmanager
async def mail_server(
    *,
    port: int = 0,
    starttls: ssl.SSLContext | None = None,
    tls: ssl.SSLContext | None = None,
    server: MailServer | None = None,
    **options: Any,
) -> AsyncIterator[MailServer]:
    server = MailServer() if server is None else server
    listening = await asyncio.get_running_loop().create_server(
        lambda: _Peer(server, tls_context=starttls, authenticator=server.authenticate, **options),
        "127.0.0.1",
        port,
        ssl=tls,
    )
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        talks = [peer._handler_coroutine for peer in server.peers if peer._handler_coroutine is not None]
        for talk in talks:
            talk.cancel()
        for peer in server.peers:
            if isinstance(peer.transport, asyncio.Transport):
                peer.transport.abort()
        if talks:
            await asyncio.wait(talks, timeout=5)


@asynccontextmanager
async def raw_server(
    talk: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[int]:
    """A server that says exactly what a test writes; its port."""
    writers: list[asyncio.StreamWriter] = []
    talks: list[asyncio.Future[None]] = []

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        loop = asyncio.ensure_future(talk(reader, writer))
        talks.append(loop)
        await asyncio.wait([loop])

    server = await asyncio.start_server(meet, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for loop in talks:
            loop.cancel()
        await asyncio.gather(*talks, return_exceptions=True)
        for writer in writers:
            writer.transport.abort()
