"""The OpenAPI document: FastAPI writes what the models say, and what all operations share is added here, once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final

import orjson
from fastapi import FastAPI, Query
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route as Page

from timebell.version import __version__
from timebell.web.docs.manual import operations_page, problem_page
from timebell.web.operation.codes import EXPLAINED
from timebell.web.operation.operations import may_be_empty, path_names, path_types
from timebell.web.operation.problems import MEDIA_TYPE, Problem
from timebell.web.operation.routes import Route

Document = dict[str, Any]

_ABOUT = """Durable time for applications: what is owed, to whom and when.

Every request carries `Authorization: Bearer <key>`. `/v1` is the engine's, `/api` the apps'; what acts for a person
needs `Timebell-Actor: <recipient id>` too, or a token of that recipient instead of the key.

Errors are `application/problem+json` (RFC 9457); `type` leads to a page about the `code`. Lists are
`{"data": […], "next_cursor": …, "has_more": …}`. Instants are RFC 3339 and need an offset, except in fields that end in
`_local`. `ETag` is the revision of what was read: send it back as `If-Match` to change no other, or as `If-None-Match`
to be told with 304 that nothing has changed. Every answer has `X-Correlation-Id`, and takes over the one that was sent.
"""
_PROBLEM_REF: Final = {"$ref": "#/components/schemas/Problem"}
_SCHEMAS: Final[Document] = {
    "FieldError": {
        "title": "FieldError",
        "type": "object",
        "required": ["pointer", "code", "message"],
        "properties": {
            "pointer": {
                "type": "string",
                "description": "Where it stands: a JSON pointer, or ?name in the query.",
            },
            "code": {"type": "string"},
            "message": {"type": "string"},
        },
    },
    "Problem": {
        "title": "Problem",
        "type": "object",
        "required": ["type", "title", "status", "detail", "code", "errors", "correlation_id"],
        "properties": {
            "type": {"type": "string", "format": "uri-reference"},
            "title": {"type": "string"},
            "status": {"type": "integer", "minimum": 400, "maximum": 599},
            "detail": {"type": "string"},
            "code": {"type": "string"},
            "errors": {"type": "array", "items": {"$ref": "#/components/schemas/FieldError"}},
            "correlation_id": {"type": "string"},
        },
    },
}
_KEY_SCHEME: Final = {
    "type": "http",
    "scheme": "bearer",
    "description": "An API key, or the token of a recipient.",
}
_STREAM_SCHEME: Final = {
    "type": "apiKey",
    "in": "query",
    "name": "token",
    "description": "A token of `POST /v1/stream-tokens`, for an EventSource, which cannot send a header.",
}
_STREAM: Final[Document] = {
    "schema": {"type": "string"},
    "example": 'retry: 1000\nid: 6\n\nid: 7\ndata: {"seq": 7, "title": "Submit report"}\n\n:\n\n',
}
_LAST_EVENT_ID: Final[Document] = {
    "name": "Last-Event-ID",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "maxLength": 100},
    "description": "The id of the last message that was seen, as an EventSource sends it; it outweighs `after`.",
}
_ACTOR: Final[Document] = {
    "name": "Timebell-Actor",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "format": "uuid"},
    "description": "The recipient that a service key acts for; a recipient's own token needs none.",
}
_IDEMPOTENCY_KEY: Final[Document] = {
    "name": "Idempotency-Key",
    "in": "header",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
    "description": "The same request with the same key is answered again for a day, and not done again.",
}
_IF_MATCH: Final[Document] = {
    "name": "If-Match",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "pattern": '^(\\*|"rev-[0-9]{1,9}")$'},
    "description": "The ETag of what was read; 412 where it was changed meanwhile.",
}
_DRY_RUN: Final[Document] = {
    "name": "dry_run",
    "in": "query",
    "required": False,
    "schema": {"type": "boolean", "default": False},
    "description": "Compute everything, answer it, and keep nothing.",
}
_WHEN: Final[Mapping[int, str]] = {
    400: "The request cannot be read, or a header is missing.",
    401: "No key, or one that is not known.",
    403: "The key may not do this, or the actor is not known.",
    404: "There is no such thing for this tenant and person.",
    408: "The body did not come in time.",
    409: "Something else is in the way.",
    412: "It was changed since it was read.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    422: "A field or a parameter was refused.",
    429: "Too many requests with this key, or from this address.",
    503: "The database does not answer, or the server is starting or stopping.",
}


def documentation(routes: Sequence[Route]) -> list[Page]:
    """The document at `/openapi.json`, a page for people at `/docs`, and one about each code of a refusal."""
    codes = {**EXPLAINED, **{code: text for route in routes for code, text in route.codes.items()}}
    made: list[Document] = []

    def document() -> Document:
        """Made when it is first asked for: most processes never are."""
        if not made:
            made.append(_completed(_described(routes), routes))
        return made[0]

    async def openapi(request: Request) -> Response:
        return Response(orjson.dumps(document()), media_type="application/json", headers=_FRESH)

    async def docs(request: Request) -> Response:
        return HTMLResponse(operations_page(document(), codes), headers=_PAGE_HEADERS)

    async def about_code(request: Request) -> Response:
        code = request.path_params["code"]
        if code not in codes:
            problem = Problem(404, "not_found", f"there is no code {code[:100]}")
            return problem.response(request.state.correlation_id)
        return HTMLResponse(problem_page(code, codes[code]), headers=_PAGE_HEADERS)

    answers = {"/openapi.json": openapi, "/docs": docs, "/problems/{code}": about_code}
    return [Page(path, answer, methods=["GET"]) for path, answer in answers.items()]


_FRESH: Final = {"cache-control": "no-cache"}
_PAGE_HEADERS: Final = {
    **_FRESH,
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}


def _described(routes: Sequence[Route]) -> Document:
    """As FastAPI writes it from what the routes say of themselves; it is never asked for an answer."""
    app = FastAPI(title="Timebell", version=__version__)
    for route in routes:
        app.router.add_api_route(
            route.path,
            _signature_of(route),
            methods=[route.method],
            status_code=route.status,
            response_model=route.answer,
            summary=route.summary,
            description=inspect.getdoc(route.run),
            tags=[route.tag],
            operation_id=route.run.__name__,
        )
    return app.openapi()


def _signature_of(route: Route) -> Callable[..., Any]:
    """A function that FastAPI can read: what stands in the path, the query and the body, and nothing else."""

    async def documented() -> None:
        """Never called."""

    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind)
        for name, kind in path_types(route).items()
    ]
    if route.query is not None:
        annotation: Any = Annotated[route.query, Query()]
        parameters.append(inspect.Parameter("query", inspect.Parameter.KEYWORD_ONLY, annotation=annotation))
    if route.body is not None:
        parameters.append(inspect.Parameter("body", inspect.Parameter.KEYWORD_ONLY, annotation=route.body))
    documented.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    documented.__name__ = route.run.__name__
    return documented


def _completed(document: Document, routes: Sequence[Route]) -> Document:
    document["info"]["description"] = _ABOUT
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    # FastAPI's own form of a refused field is never answered.
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas.update(_SCHEMAS)
    components["securitySchemes"] = {"key": _KEY_SCHEME, "stream_token": _STREAM_SCHEME}
    document["security"] = [{"key": []}]
    changed = {route.path for route in routes if route.method == "PATCH"}
    for route in routes:
        operation = document["paths"][route.path][route.method.lower()]
        _complete(operation, route)
        links = _links(route, routes)
        if links:
            operation["responses"][str(route.status)]["links"] = links
        # What can be changed has a revision, and who knows it already is told so.
        if route.method == "GET" and route.path in changed:
            operation["responses"]["304"] = {"description": "Nothing has changed since `If-None-Match`."}
    return document


def _complete(operation: Document, route: Route) -> None:
    parameters = operation.setdefault("parameters", [])
    if route.acts_for != "nobody":
        parameters.append(_ACTOR)
    if route.idempotency != "none":
        # A dry run keeps nothing, and so needs no key.
        is_required = route.idempotency == "required" and not route.plans
        parameters.append({**_IDEMPOTENCY_KEY, "required": is_required})
    is_compared = route.method in ("PATCH", "PUT", "DELETE") or 412 in route.problems
    if is_compared and route.scope is not None:
        parameters.append(_IF_MATCH)
    if route.plans:
        parameters.append(_DRY_RUN)
    if route.scope is None:
        operation["security"] = []
    else:
        about = operation.get("description", "")
        operation["description"] = f"{about}\n\nNeeds a key of the scope `{route.scope}`.".strip()
    if route.body is not None and may_be_empty(route):
        operation["requestBody"]["required"] = False
    for media_type in route.texts:
        operation["requestBody"]["content"][media_type] = {"schema": {"type": "string"}}
    responses = operation["responses"]
    responses.pop("422", None)
    if route.is_stream:
        parameters.append(_LAST_EVENT_ID)
        operation["security"] = [{"key": []}, {"stream_token": []}]
        responses["200"]["content"] = {"text/event-stream": _STREAM}
    elif route.media_type != "application/json":
        responses[str(route.status)]["content"] = {route.media_type: {"schema": {"type": "string"}}}
    for status, when in route.also.items():
        same = {} if status == 204 else {"content": responses[str(route.status)]["content"]}
        responses[str(status)] = {"description": when, **same}
    for status, when in sorted(_refusals(route).items()):
        responses[str(status)] = {"description": when, "content": {MEDIA_TYPE: {"schema": _PROBLEM_REF}}}
    if route.example is not None:
        place = operation["requestBody"] if route.body is not None else responses[str(route.status)]
        place["content"]["application/json"]["example"] = dict(route.example)


def _links(route: Route, routes: Sequence[Route]) -> Document:
    """What can be asked about that which was made: every operation that has it in its path."""
    if route.method != "POST" or route.status != 201:
        return {}
    answered = getattr(route.answer, "model_fields", {})
    above = {name: f"$request.path.{name}" for name in path_names(route.path)}
    links = {}
    for other in routes:
        below = other.path.removeprefix(f"{route.path}/")
        names = path_names(below)
        if below == other.path or len(names) != 1 or not below.startswith("{"):
            continue
        [name] = names
        field = name if name in answered else "id"
        if field in answered:
            links[other.run.__name__] = {
                "operationId": other.run.__name__,
                "parameters": {**above, name: f"$response.body#/{field}"},
            }
    return links


def _refusals(route: Route) -> dict[int, str]:
    """Every status with which a route may refuse, and when. 500 is not among them: it is always a fault."""
    statuses = {429, 503}
    if route.scope is not None:
        statuses |= {401, 403, 422}
        if route.acts_for != "nobody":
            statuses.add(400)
        if route.method != "GET":
            statuses |= {408, 413}
        if route.body is not None:
            statuses |= {400, 415}
        if route.idempotency != "none":
            statuses |= {400, 409}
        if route.method in ("PATCH", "PUT", "DELETE"):
            statuses |= {400, 412}
    if "{" in route.path:
        statuses.add(404)
    return {**{status: _WHEN[status] for status in statuses}, **route.problems}
