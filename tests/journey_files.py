"""The files of the package that one accepted meeting goes through on its way to a mail.

`python -m tests.journey_files` plays it on a real PostgreSQL and against a real SMTP server. It prints each file whose
code ran between the request that accepts the meeting and the mail of its last reminder, and counts the statements.
What happens while things are put together is not counted.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from tests.apps.databases import template_for
from tests.apps.meetings.support import START, open_office, slot
from tests.contract.providers.mail_server import mail_server
from timebell.apps.meetings import APP
from timebell.db.pool import AsyncpgSession
from timebell.db.queries import Query
from timebell.providers.smtp import Smtp, SmtpServer
from timebell.testing.database import DatabaseFactory
from timebell.testing.run_folder import make_run_folder

PACKAGE = Path(sys.modules["timebell"].__file__ or "").parent


@contextmanager
def seen() -> Iterator[tuple[set[str], Counter[str]]]:
    """The files whose functions run meanwhile, in whatever thread, and the statements that are sent."""
    files: set[str] = set()
    statements: Counter[str] = Counter()
    run = AsyncpgSession.run

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            files.add(frame.f_code.co_filename)

    async def counted(self: AsyncpgSession, query: Query, /, **arguments: object) -> Any:
        statements[query.name] += 1
        return await run(self, query, **arguments)

    AsyncpgSession.run = counted  # type: ignore[method-assign]
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield files, statements
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        AsyncpgSession.run = run  # type: ignore[method-assign]


async def journey() -> tuple[list[str], Counter[str]]:
    """The files and statements of an acceptance and of everything that comes of it."""
    folder = make_run_folder()
    factory = await DatabaseFactory.start(folder / "journey")
    try:
        await factory.make_template()
        database = await factory.create(template=await template_for(factory, APP))
        async with mail_server() as server:
            to = SmtpServer(host="127.0.0.1", port=server.port, security="none", hello_name="bell.example")
            provider = Smtp(to, sender="bell@bell.example")
            people = {name: {"email": f"{name.lower()}@example.org"} for name in ("Ada", "Bob")}
            async with open_office(database, [provider], people=people, demo=False) as office:
                row = await office.propose(participants=[office.bob])
                await office.bench.run_due()
                with seen() as (files, statements):
                    answer = await office.transit(office.bob, row["id"], "accept", {"slot": slot(START)})
                    assert answer.status_code == 200, answer.text
                    before = len(server.mails)
                    await office.bench.advance(to=START)
                assert len(server.mails) > before, "nobody got a mail"
            await provider.close()
    finally:
        await factory.stop()
        shutil.rmtree(folder, ignore_errors=True)
    ours = sorted(name for name in files if name.startswith(str(PACKAGE)))
    return [str(Path(name).relative_to(PACKAGE)) for name in ours], statements


def main() -> None:
    files, statements = asyncio.run(journey())
    for name in files:
        print(name)
    print(f"{len(files)} files of code, {len(statements)} statements")


if __name__ == "__main__":
    main()
