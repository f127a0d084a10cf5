"""The document and the pages: they tell everything, and only what is so."""

from __future__ import annotations

import ast
import re
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from typing import Any

import pytest
import pytest_asyncio

from tests.shape.tree import PACKAGE, python_files
from tests.web.bells import ROUTES
from tests.web.support import Site, open_site, problem
from timebell import errors
from timebell.testing.database import TestDatabase
from timebell.web.operation.codes import EXPLAINED
from timebell.web.operation.problems import problem_of

Document = dict[str, Any]


@pytest_asyncio.fixture
async def site(database_url: TestDatabase) -> AsyncIterator[Site]:
    async with open_site(database_url, routes=ROUTES) as opened:
        yield opened


@pytest_asyncio.fixture
async def document(site: Site) -> Document:
    answered = await site.get("/openapi.json", key=None)
    assert answered.status_code == 200
    found: Document = answered.json()
    return found


async def test_every_route_is_told(site: Site, document: Document) -> None:
    assert document["openapi"].startswith("3.1")
    told = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert told == {(route.method, route.path) for route in site.routes}
    ids = [each["operationId"] for methods in document["paths"].values() for each in methods.values()]
    assert len(ids) == len(set(ids))


async def test_what_is_shared_is_told_of_each(document: Document) -> None:
    operation = document["paths"]["/api/bells"]["post"]
    parameters = {each["name"]: each for each in operation["parameters"]}
    assert parameters["Idempotency-Key"]["required"] is False
    assert parameters["dry_run"]["in"] == "query"
    assert operation["requestBody"]["content"]["application/json"]["example"] == {"name": "church"}
    assert operation["responses"]["201"]["content"]["application/json"]["schema"]
    assert {"400", "401", "403", "409", "413", "415", "422", "429", "503"} <= operation["responses"].keys()
    refused = operation["responses"]["422"]["content"]
    assert refused == {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    ring = {each["name"]: each for each in document["paths"]["/api/bells/{id}/ring"]["post"]["parameters"]}
    assert ring["Idempotency-Key"]["required"] is True
    assert "Timebell-Actor" in ring
    assert ring["id"]["schema"]["format"] == "uuid"
    bell = document["paths"]["/api/bells/{id}"]["get"]
    assert "content" not in bell["responses"]["304"]
    assert "304" not in document["paths"]["/api/bells"]["get"]["responses"]
    assert "429" in document["paths"]["/u/{token}"]["get"]["responses"]
    assert document["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
    assert "HTTPValidationError" not in document["components"]["schemas"]


async def test_what_was_made_is_linked_with_what_can_be_asked_of_it(document: Document) -> None:
    def links(path: str) -> Any:
        return document["paths"][path]["post"]["responses"]["201"].get("links", {})

    assert links("/v1/jobs").keys() == {"get_job", "get_job_journey", "cancel_job"}
    assert links("/v1/jobs")["get_job"]["parameters"] == {"id": "$response.body#/id"}
    assert links("/v1/tenants")["get_tenant"]["parameters"] == {"tenant": "$response.body#/tenant"}
    assert links("/v1/recipients/{id}/addresses")["remove_address"]["parameters"] == {
        "id": "$request.path.id",
        "address_id": "$response.body#/id",
    }
    assert links("/v1/stream-tokens") == {}


async def test_every_reference_leads_somewhere(document: Document) -> None:
    schemas = document["components"]["schemas"]
    for name in re.findall(r"'\$ref': '#/components/schemas/([^']+)'", str(document)):
        assert name in schemas, name


async def test_every_body_has_an_example_that_is_taken(site: Site) -> None:
    for route in site.routes:
        if route.body is not None:
            assert route.example is not None, f"{route.method} {route.path} has a body and no example"
            route.body.model_validate_json(site_json(route.example))


def site_json(example: Any) -> bytes:
    import orjson

    return orjson.dumps(dict(example))


class Loads(HTMLParser):
    """Notes whatever a page would have a browser load."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "link", "img", "iframe", "object") or any(name == "src" for name, _ in attrs):
            self.found.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


async def test_the_page_tells_every_operation_and_loads_nothing(site: Site) -> None:
    answered = await site.get("/docs", key=None)
    assert answered.headers["content-type"].startswith("text/html")
    page = Loads()
    page.feed(answered.text)
    assert page.found == []
    assert "http://" not in answered.text
    for route in site.routes:
        assert f"{route.method} {route.path}" in page.text
    assert "default-src 'none'" in answered.headers["content-security-policy"]


async def test_every_code_has_a_page(site: Site) -> None:
    for code in [*EXPLAINED, "bell_refused"]:
        answered = await site.get(f"/problems/{code}", key=None)
        assert answered.status_code == 200
        assert code in answered.text
    problem(await site.get("/problems/<b>", key=None), 404, "not_found")


def test_every_code_that_is_used_is_explained() -> None:
    used = set()
    for path in python_files(PACKAGE / "web"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "Problem" and len(node.args) > 1:
                code = node.args[1]
                if isinstance(code, ast.Constant):
                    used.add(code.value)
    assert used - EXPLAINED.keys() == set()


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (errors.InvalidInput("wrong", field="steps[0].key"), 422, "invalid_input"),
        (errors.InvalidTemplate("wrong"), 422, "invalid_template"),
        (errors.NaiveInstant("wrong", field="due_at"), 422, "naive_instant"),
        (errors.PayloadTooLarge("wrong"), 422, "payload_too_large"),
        (errors.RecurrenceError(part="FREQ", reason="a", remedy="b"), 422, "recurrence_error"),
        (errors.UnknownKind("wrong"), 422, "unknown_kind"),
        (errors.UnknownQueue("wrong"), 422, "unknown_queue"),
        (errors.UnknownTimezone("wrong"), 422, "unknown_timezone"),
        (errors.UnsafeUrl("wrong"), 422, "unsafe_url"),
        (errors.UnverifiedReport("wrong"), 401, "unverified_report"),
        (errors.KeyConflict("wrong"), 409, "key_conflict"),
        (errors.RevisionConflict("wrong"), 412, "revision_conflict"),
        (errors.NotFound("wrong"), 404, "not_found"),
        (errors.OldTimezoneData("wrong"), 503, "unavailable"),
        (errors.DatabaseUnavailable("the address of the database"), 503, "unavailable"),
        (errors.NoTransaction("wrong"), None, None),
        (errors.ConfigurationError("wrong"), None, None),
        (errors.WrongTenant("wrong"), None, None),
    ],
)
def test_what_each_error_becomes(error: errors.TimebellError, status: int | None, code: str | None) -> None:
    found = problem_of(error)
    assert (None if found is None else found.status) == status
    if found is not None:
        assert found.code == code
        assert found.code in EXPLAINED
        assert "the address of" not in found.detail


def test_a_route_has_its_own_names_for_fields() -> None:
    found = problem_of(errors.InvalidInput("is wrong", field="timezone"), {"timezone": "tz"})
    assert found is not None
    assert (found.detail, found.errors[0].pointer, found.errors[0].message) == (
        "tz: is wrong",
        "/tz",
        "is wrong",
    )
    nested = problem_of(errors.InvalidInput("is wrong", field="steps[0].a/b~c"))
    assert nested is not None
    assert nested.errors[0].pointer == "/steps/0/a~1b~0c"
