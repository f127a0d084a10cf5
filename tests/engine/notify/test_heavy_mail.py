"""Mail that takes long to render: many at once hold up neither the loop nor another tenant."""

from __future__ import annotations

import asyncio
import gc
import time
from asyncio.base_events import BaseEventLoop
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from tests.engine.notify.stage import stage
from timebell.notify import TemplateDraft, Text, Variable
from timebell.notify.templates.checking import checked_draft
from timebell.notify.templates.compiled import CompiledTemplate
from timebell.notify.templates.models import Preview, Reader
from timebell.notify.templates.rows import as_template
from timebell.testing import RecordingProvider
from timebell.testing.database import TestDatabase

ROWS = [{"name": f"Line {number}", "url": f"https://example.org/{number}"} for number in range(150)]
NEWS = TemplateDraft(
    key="news",
    texts=[
        Text(
            channel="email",
            language="en",
            format="html",
            subject="News",
            body=(
                "<style>p { color: red } a { padding: 1px }</style>"
                "{% for row in rows %}<p>{{ row.name }} <a href='{{ row.url }}'>more</a> {{ row.name }}</p>{% endfor %}"
            ),
        )
    ],
    variables=[Variable(name="rows")],
)
# One of these mails takes some ten milliseconds, on whatever machine; a turn may take as long as a few of them.
MAILS = 40


class Turns:
    """Processor time of the loop's own thread, turn by turn."""

    def __init__(self) -> None:
        self.longest = 0.0
        self.total = 0.0

    def note(self, seconds: float) -> None:
        self.longest = max(self.longest, seconds)
        self.total += seconds


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Turns]:
    """Waiting takes no processor time, and neither do other threads or processes."""
    turns, run = Turns(), BaseEventLoop._run_once  # type: ignore[attr-defined]

    def run_once(loop: BaseEventLoop) -> None:
        began = time.thread_time()
        run(loop)
        turns.note(time.thread_time() - began)

    with monkeypatch.context() as patch:
        patch.setattr(BaseEventLoop, "_run_once", run_once)
        # What a collection takes grows with all that the tests before have left.
        gc.disable()
        try:
            yield turns
        finally:
            gc.enable()


def seconds_of_one() -> float:
    """What one takes by itself, at its quickest."""
    compiled = CompiledTemplate(as_template(checked_draft(NEWS)))
    render = partial(compiled.render, "email", reader=Reader(), context={"rows": ROWS})
    render()
    taken = []
    for _ in range(5):
        began = time.thread_time()
        render()
        taken.append(time.thread_time() - began)
    return min(taken)


async def test_many_heavy_mails_leave_the_loop_its_turns(
    database_url: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = RecordingProvider()
    one = seconds_of_one()
    async with stage(database_url.url, [provider]) as s:
        async with s.harness.bell.transaction() as tx:
            await s.notify.templates.save(tx, NEWS)
        for _ in range(MAILS):
            await s.tell(template=NEWS.key, context={"rows": ROWS}, channels=["email"])
        with counted(monkeypatch) as turns:
            await s.harness.run_due()
    assert len(provider.parcels) == MAILS
    assert all(parcel.content.html for parcel in provider.parcels)
    # Rendered on the loop, all of them would be in one turn.
    assert turns.longest < one * MAILS / 4


async def test_previews_leave_the_loop_its_turns(
    database_url: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stage(database_url.url) as s:
        preview = partial(
            s.notify.templates.preview,
            NEWS,
            tenant="default",
            channel="email",
            context={"rows": ROWS},
        )
        first: Preview = await preview()
        assert first.rendered is not None
        one = seconds_of_one()
        with counted(monkeypatch) as turns:
            await asyncio.gather(*(preview() for _ in range(8)))
        assert turns.total < one * 4
