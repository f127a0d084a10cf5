"""`/v1/providers/{provider}/reports`: what providers tell afterwards, by webhook."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from timebell.db.walls import walled_to
from timebell.kernel.bell import DEFAULT_TENANT
from timebell.web.operation.bodies import read_bytes
from timebell.web.operation.fields import Output
from timebell.web.operation.problems import Problem
from timebell.web.operation.routes import Route
from timebell.web.operation.surface import Surface

_BODY_BYTES_MAX: Final = 1_000_000


class TakenOutput(Output):
    """How many reports were kept, to be applied at once."""

    taken: int


async def take_reports(surface: Surface, request: Request) -> Response:
    """What a provider tells of the messages that it carried.

    The body is the provider's own, and so is the signature, which is checked on its bytes before anything is read. The
    reports are kept when the answer is given, each of them once, and applied by a node. A provider whose answer was
    lost may send the same again.
    """
    name = request.path_params["provider"]
    reporter = surface.reporters.get(name)
    if reporter is None:
        raise Problem(404, "not_found", f"no provider {name[:100]} is set up here that reports")
    body = await read_bytes(request, _BODY_BYTES_MAX)
    reports = reporter.read_reports(request.headers, body, _real_now())
    # Whose they are is not known yet, so what is to be done about them is owed by the tenant that runs the rest.
    with walled_to(DEFAULT_TENANT):
        async with surface.bell.transaction(tenant=DEFAULT_TENANT) as tx:
            await surface.notify.incoming.take(tx, name, reports)
    return Response(
        TakenOutput(taken=len(reports)).model_dump_json(), status_code=202, media_type="application/json"
    )


def _real_now() -> datetime:
    """A signature is of a real instant, also where a sandbox lives in another time."""
    return datetime.fromtimestamp(time.time(), UTC)  # noqa: TID251


ROUTES: Final[tuple[Route, ...]] = (
    Route(
        method="POST",
        path="/v1/providers/{provider}/reports",
        run=take_reports,
        summary="Take what a provider reports",
        tag="providers",
        status=202,
        scope=None,
        answer=TakenOutput,
        problems={
            401: "The signature, the time or the form of the report is wrong.",
            404: "No such provider is set up here, or it does not report.",
            408: "The body did not come in time.",
            413: "The body is too large.",
            422: "The reports are not as the provider documents them.",
        },
    ),
)
