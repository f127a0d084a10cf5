"""Spans for whoever has set OpenTelemetry up. Without its SDK nothing is made and next to nothing is spent."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from opentelemetry import propagate, trace

from timebell.version import __version__

_NOTHING: Final[AbstractContextManager[Any]] = nullcontext()
_tracer = trace.get_tracer("timebell", __version__)


def is_traced() -> bool:
    """Whether somebody has set OpenTelemetry up."""
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


def traced(
    name: str,
    attributes: Mapping[str, str | int],
    *,
    is_outward: bool = False,
    caused_by: Mapping[str, str] | None = None,
) -> AbstractContextManager[Any]:
    """A span around what is done in the block; None where nobody traces. `is_outward`: it waits for somebody else's
    service. `caused_by` are the headers of a request, which may name the span that it came from."""
    if not is_traced():
        return _NOTHING
    kind = trace.SpanKind.CLIENT if is_outward else trace.SpanKind.INTERNAL
    context = None
    if caused_by is not None:
        kind, context = trace.SpanKind.SERVER, propagate.extract(caused_by)
    return _tracer.start_as_current_span(name, context=context, kind=kind, attributes=dict(attributes))
