"""Every operation of the OpenAPI document, asked with what the document allows and with what it does not: no fault of
ours, no answer that the document does not tell of, and no content that is not as it says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.web.support import Site

CHECKS: list[Any] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
ADDRESS = "http://bell.test"
PARTS = ("method", "url", "headers", "params", "data", "json", "files", "cookies")
_ANSWER_SECONDS = 30.0

Case = schemathesis.Case[Any]
Ask = Callable[[Case], httpx2.Response]


def ask_every(document: dict[str, Any], ask: Ask, *, examples: int) -> int:
    """How many requests were made. A stream has no end, so those are asked elsewhere."""
    asked = 0
    schema: Any = schemathesis.openapi.from_dict(document).exclude(path_regex="stream$")
    for found in schema.get_all_operations():
        operation = found.ok()
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):

            @settings(
                max_examples=examples,
                deadline=None,
                database=None,
                derandomize=True,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=operation.as_strategy(generation_mode=mode))
            def one(case: Case) -> None:
                nonlocal asked
                asked += 1
                case.validate_response(ask(case), checks=CHECKS)

            try:
                one()
            except Unsatisfiable:
                # Nothing that is sent to this one can be wrong.
                assert mode is GenerationMode.NEGATIVE, operation.label
    return asked


async def ask_all(site: Site, *, examples: int, begin: tuple[str, ...] = ("/",)) -> int:
    """The operations whose paths begin so. Hypothesis is not async: it runs in a thread, and has this loop ask."""
    person = await site.post("/v1/recipients", {"name": "Ada"})
    document = (await site.get("/openapi.json", key=None)).json()
    document["paths"] = {path: each for path, each in document["paths"].items() if path.startswith(begin)}
    loop = asyncio.get_running_loop()

    def ask(case: Case) -> httpx2.Response:
        kwargs = case.as_transport_kwargs(base_url=ADDRESS)
        prepared = requests.Request(**{name: kwargs[name] for name in kwargs.keys() & {*PARTS}}).prepare()
        headers = {
            **prepared.headers,
            "authorization": f"Bearer {site.keys['admin']}",
            "timebell-actor": person.json()["id"],
        }
        assert isinstance(prepared.body, bytes | str | None)
        request = site.client.request(
            str(prepared.method), str(prepared.url), content=prepared.body, headers=headers
        )
        return asyncio.run_coroutine_threadsafe(request, loop).result(_ANSWER_SECONDS)

    return await asyncio.to_thread(ask_every, document, ask, examples=examples)


async def test_a_few_requests_to_each(site: Site) -> None:
    assert await ask_all(site, examples=2) > len(site.routes)


@pytest.mark.slow
async def test_many_requests_to_each(site: Site) -> None:
    assert await ask_all(site, examples=60) > 20 * len(site.routes)
