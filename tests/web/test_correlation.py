"""One id from the request to the provider: on the answer, the job, what its handler logs, and the spans."""

from __future__ import annotations

import io
import json
import logging
from typing import Any
from uuid import UUID

import pytest
import structlog
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, TraceFlags

from tests.web.support import open_site
from timebell.cli import logs
from timebell.kernel import App, Done, Handler, Job, Outcome
from timebell.kernel.tracing import traced
from timebell.notify import Notify, TemplateDraft, Text, notify_app
from timebell.testing import RecordingProvider, harness
from timebell.testing.database import TestDatabase
from timebell.web import Call, Output, Route


class Made(Output):
    id: str


async def make_act(call: Call) -> Made:
    """Enqueue something with the id of the request."""
    made = await call.bell.enqueue(call.tx, "office.ring", correlation_id=call.correlation_id)
    return Made(id=str(made.id))


MAKE = Route(
    method="POST",
    path="/api/acts",
    run=make_act,
    scope="write",
    answer=Made,
    status=201,
    summary="Act",
    tag="acts",
)


@pytest.mark.req("U-16", "J-13.4")
async def test_the_id_of_a_request_stands_on_its_job(database_url: TestDatabase) -> None:
    async with open_site(database_url, routes=[MAKE]) as site:
        answer = await site.post("/api/acts", headers={"x-correlation-id": "order-7"})
        assert answer.status_code == 201, answer.text
        assert answer.headers["x-correlation-id"] == "order-7"
        assert await site.tables.value("SELECT correlation_id FROM timebell.jobs") == "order-7"


@pytest.mark.req("U-16", "J-13.4")
async def test_every_line_of_an_attempt_and_of_what_it_causes_has_the_id(
    database_url: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = io.StringIO()
    monkeypatch.setattr("sys.stderr", written)
    before, root = structlog.get_config(), logging.getLogger()
    level, handlers = root.level, root.handlers.copy()
    logs.set_up_logs("debug", "json")
    # The loggers of modules would keep this set-up for the tests that follow.
    structlog.configure(cache_logger_on_first_use=False)
    try:
        await _tell_through_a_job(database_url)
    finally:
        structlog.configure(**before)
        root.setLevel(level)
        root.handlers[:] = handlers
    lines = [json.loads(line) for line in written.getvalue().splitlines() if line.startswith("{")]
    acting = next(line for line in lines if line["event"] == "acting")
    answered = next(line for line in lines if line["event"] == "a provider answered")
    assert acting["correlation_id"] == answered["correlation_id"] == "order-7"
    assert (acting["kind"], answered["kind"]) == ("office.act", "notify.deliver")
    assert {"job_id", "level", "timestamp"} <= acting.keys()
    assert "ada@example.org" not in written.getvalue()


async def _tell_through_a_job(database_url: TestDatabase) -> None:
    provider = RecordingProvider("mail", channels=["email"])
    app = App(name="office", handlers={"office.act": _transactional()})
    async with harness(database_url.url, [app, notify_app([provider])]) as h:
        notify = Notify(h.bell)
        async with h.bell.transaction() as tx:
            ada = await notify.recipients.add(tx, name="Ada", email="ada@example.org")
            text = Text(channel="email", language="en", subject="Soon", body="Soon.")
            await notify.templates.save(tx, TemplateDraft(key="office.soon", topic="office", texts=(text,)))
            tell = {"recipient": str(ada.id), "template": "office.soon"}
            await h.bell.enqueue(tx, "office.act", {"tell": tell}, correlation_id="order-7")
        await h.run_due()
    assert len(provider.parcels) == 1


def _transactional() -> Handler:
    async def run(job: Job) -> Outcome:
        structlog.get_logger("office").info("acting")
        tell = job.payload["tell"]
        await Notify(job.bell).tell(
            job.tx, UUID(tell["recipient"]), tell["template"], correlation_id=job.correlation_id
        )
        return Done()

    return Handler(run=run, mode="transactional")


class Noted(NonRecordingSpan):
    def __init__(self, name: str, attributes: dict[str, Any]) -> None:
        super().__init__(SpanContext(1, 1, is_remote=False, trace_flags=TraceFlags(1)))
        self.name = name
        self.attributes = attributes

    def set_attribute(self, key: str, value: Any) -> None:
        self.attributes[key] = value

    def update_name(self, name: str) -> None:
        self.name = name


class NotingTracer(trace.NoOpTracer):
    def __init__(self) -> None:
        self.spans: list[Noted] = []

    def start_as_current_span(self, name: str, *_: Any, **options: Any) -> Any:
        span = Noted(name, dict(options.get("attributes") or {}))
        self.spans.append(span)
        return trace.use_span(span, end_on_exit=False)


@pytest.fixture
def tracer(monkeypatch: pytest.MonkeyPatch) -> NotingTracer:
    noting = NotingTracer()
    monkeypatch.setattr("timebell.kernel.tracing._tracer", noting)
    monkeypatch.setattr("opentelemetry.trace.get_tracer_provider", trace.NoOpTracerProvider)
    return noting


class TestSpans:
    async def test_a_request_is_a_span_by_its_route(
        self, database_url: TestDatabase, tracer: NotingTracer
    ) -> None:
        async with open_site(database_url, routes=[MAKE]) as site:
            await site.post("/api/acts", headers={"x-correlation-id": "order-7"})
        span = next(each for each in tracer.spans if each.name == "POST /api/acts")
        assert span.attributes["http.response.status_code"] == 201
        assert span.attributes["timebell.correlation_id"] == "order-7"

    async def test_an_attempt_and_what_it_sends_are_spans(
        self, database_url: TestDatabase, tracer: NotingTracer
    ) -> None:
        await _tell_through_a_job(database_url)
        names = [each.name for each in tracer.spans]
        assert names == ["timebell.run office.act", "timebell.run notify.deliver", "timebell.send"]
        assert tracer.spans[0].attributes["timebell.correlation_id"] == "order-7"
        assert tracer.spans[2].attributes["timebell.provider"] == "mail"


def test_without_a_set_up_nothing_is_made() -> None:
    with traced("nothing", {}) as span:
        assert span is None
    assert isinstance(trace.get_current_span(), Span)
