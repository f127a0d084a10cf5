"""From a path to its operation."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from timebell.errors import ConfigurationError
from timebell.web.operation.routes import Route
from timebell.web.server.switch import Switch

PATHS = [
    ("GET", "/v1/jobs"),
    ("POST", "/v1/jobs"),
    ("GET", "/v1/jobs/{id}"),
    ("POST", "/v1/jobs/bulk"),
    ("GET", "/v1/jobs/{id}/journey"),
    ("GET", "/v1/{noun}/{id}/journey/{step}"),
    ("GET", "/"),
]


async def operation(call: Any) -> None:
    """Never run."""


@pytest.fixture
def switch() -> Switch:
    made = Switch(PlainTextResponse("framework"))
    for method, path in PATHS:

        async def endpoint(request: Request) -> Response:
            return PlainTextResponse(f"{request.scope['route'].path} {sorted(request.path_params.items())}")

        route = Route(method=method, path=path, run=operation, summary="", tag="")  # type: ignore[arg-type]
        made.add(route, endpoint)
    return made


async def ask(switch: Switch, method: str, path: str, raw_path: bytes | None = None) -> str:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("nothing is read")

    scope = {"type": "http", "method": method, "path": path, "headers": [], "query_string": b""}
    if raw_path is not None:
        scope["raw_path"] = raw_path
    await switch(scope, receive, send)
    body: bytes = sent[1]["body"]
    return body.decode()


@pytest.mark.parametrize(
    ("method", "path", "found"),
    [
        ("GET", "/", "/ []"),
        ("GET", "/v1/jobs", "/v1/jobs []"),
        ("POST", "/v1/jobs", "/v1/jobs []"),
        ("GET", "/v1/jobs/7", "/v1/jobs/{id} [('id', '7')]"),
        ("POST", "/v1/jobs/bulk", "/v1/jobs/bulk []"),
        ("GET", "/v1/jobs/bulk", "/v1/jobs/{id} [('id', 'bulk')]"),
        ("GET", "/v1/jobs/7/journey", "/v1/jobs/{id}/journey [('id', '7')]"),
        (
            "GET",
            "/v1/jobs/7/journey/3",
            "/v1/{noun}/{id}/journey/{step} [('id', '7'), ('noun', 'jobs'), ('step', '3')]",
        ),
    ],
)
async def test_a_path_leads_to_its_operation(switch: Switch, method: str, path: str, found: str) -> None:
    assert await ask(switch, method, path) == found


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "/v1/jobs"),
        ("GET", "/v1/jobs/"),
        ("GET", "//v1/jobs"),
        ("GET", "/v1/jobs//journey"),
        ("GET", "/v1"),
        ("GET", "/v1/jobs/7/journey/3/4"),
        ("GET", "/V1/jobs"),
        ("GET", ""),
        ("GET", "/" * 5_000),
    ],
)
async def test_what_it_does_not_know_goes_to_the_framework(switch: Switch, method: str, path: str) -> None:
    assert await ask(switch, method, path) == "framework"


@pytest.mark.parametrize(
    ("raw_path", "found"),
    [
        (b"/v1/jobs/a%2Fb", "/v1/jobs/{id} [('id', 'a/b')]"),
        (b"/v1/jobs/a%2fjourney", "/v1/jobs/{id} [('id', 'a/journey')]"),
        (b"/v1/jobs/%2F/journey", "/v1/jobs/{id}/journey [('id', '/')]"),
        (b"/v1/jobs/%252F", "/v1/jobs/{id} [('id', '%2F')]"),
        (b"/v1/jobs/100%", "/v1/jobs/{id} [('id', '100%')]"),
        (b"/v1/jobs/%C3%A9", "/v1/jobs/{id} [('id', '\u00e9')]"),
        (b"/v1/job%73", "/v1/jobs []"),
        (b"/v1%2Fjobs", "framework"),
        # Not UTF-8, so not the name of anything, and above all not of what it would be shown as.
        (b"/v1/jobs/%FF", "framework"),
        (b"/%FF", "framework"),
    ],
)
async def test_a_slash_that_is_written_otherwise_divides_nothing(
    switch: Switch, raw_path: bytes, found: str
) -> None:
    path = unquote(raw_path.decode())
    assert await ask(switch, "GET", path, raw_path) == found


def test_nobody_takes_the_place_of_another(switch: Switch) -> None:
    async def endpoint(request: Request) -> Response:
        return Response()

    again = Route(method="GET", path="/v1/jobs/{number}", run=operation, summary="", tag="")
    with pytest.raises(ConfigurationError, match=r"GET /v1/jobs/\{number\} is answered twice"):
        switch.add(again, endpoint)
