"""One request through a route: who calls, what was sent, the effect in one transaction, the answer."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final
from uuid import UUID

import orjson
from pydantic import BaseModel, ValidationError
from pydantic_core import SchemaValidator, to_jsonable_python
from starlette.requests import Request
from starlette.responses import Response

from timebell.db.walls import walled_to, within
from timebell.errors import TimebellError
from timebell.rules.localtime import show_instant
from timebell.web.access.access import Caller
from timebell.web.operation.bodies import check_json, media_type_of, read_bytes, read_text
from timebell.web.operation.calls import Call, etag_of
from timebell.web.operation.problems import FieldError, Problem, pointer_of
from timebell.web.operation.refusals import refusal
from timebell.web.operation.replies import KeptReply, ReplyScope, check_key
from timebell.web.operation.routes import Answer, Route
from timebell.web.operation.surface import Surface
from timebell.web.operation.unknown_fields import UNKNOWN, messages_of

# What was refused for good is answered again to whoever asks again; what was sent wrongly can be sent better.
_KEPT_REFUSALS: Final = frozenset({403, 404, 409, 410})
# Up to here a body is read within some ten milliseconds, whatever it says.
_LARGE_BYTES: Final = 30_000
_DRY_RUN: Final = {"true": True, "1": True, "false": False, "0": False}


class _DryRun(Exception):
    """Leaves the transaction with an answer, so that nothing of it is kept."""

    def __init__(self, answer: Response) -> None:
        super().__init__()
        self.answer = answer


class Operation:
    """Answers the requests of one route."""

    def __init__(self, route: Route, surface: Surface) -> None:
        self._route = route
        self._surface = surface
        self._bytes_max = max(surface.bell.settings.body_bytes_max, route.bytes_max)
        self._path_types = path_types(route)
        self._asked = _fields(route.query) - _fields(route.body)

    async def __call__(self, request: Request) -> Response:
        route, surface = self._route, self._surface
        assert route.scope is not None
        caller: Caller | None = None
        try:
            caller = await surface.access.caller(request, route.scope, is_stream=route.is_stream)
            with walled_to(caller.tenant):
                call = Call(
                    surface=surface,
                    caller=caller,
                    path=self._path(request.path_params),
                    headers=request.headers,
                    correlation_id=request.state.correlation_id,
                )
                call.actor = await self._actor(request, caller)
                given = self._query(request)
                if route.method == "GET":
                    with within(surface.read_seconds):
                        response = self._response(await route.run(call, **given))
                else:
                    response = await self._change(request, call, given)
        except TimebellError as error:
            problem = surface.problems.of(error, route.names, self._asked)
            if problem is None:
                raise
            response = refusal(request.scope, problem, request.state.correlation_id)
        response = _unless_known(request, response)
        if caller is not None:
            surface.access.note(caller, response)
        return response

    async def _actor(self, request: Request, caller: Caller) -> UUID | None:
        """Whom the call is made for. A person's token reaches what is that person's, and nothing beside it."""
        acts_for, access = self._route.acts_for, self._surface.access
        if acts_for in ("nobody", "noted") and caller.recipient is not None:
            raise Problem(
                403,
                "key_required",
                "this needs an API key; a recipient's token acts for that recipient alone",
            )
        if acts_for == "recipient" or (acts_for != "nobody" and access.names_person(request, caller)):
            return await access.actor(request, caller)
        return None

    async def _change(self, request: Request, call: Call, given: dict[str, Any]) -> Response:
        route = self._route
        raw = call.raw = await read_bytes(request, self._bytes_max)
        is_dry = call.is_dry_run = route.plans and _is_dry(request)
        key = None if route.idempotency == "none" else request.headers.get("idempotency-key")
        if key is None and route.idempotency == "required" and not is_dry:
            raise Problem(
                400, "idempotency_key_required", "send the header Idempotency-Key with a value of your own"
            )
        if route.body is not None:
            read = partial(_body, route, request, raw)
            # Of a large one it takes a while to find out what it says.
            is_large = len(raw) > _LARGE_BYTES
            given["body"] = (
                await call.bell.aside.short.run(call.tenant, "requests", read) if is_large else read()
            )
        if route.prepare is not None:
            given["prepared"] = await route.prepare(call, **given)
        await self._surface.quotas.look(call.tenant)
        if key is None and route.shared is not None and not is_dry:
            call.check_compared()
            return self._response(await route.shared(call, **given))
        try:
            async with call.bell.transaction(tenant=call.tenant) as tx:
                call.transaction = tx
                if is_dry:
                    raise _DryRun(await self._effect(call, given, is_dry=True))
                if key is None:
                    return await self._effect(call, given)
                scope = ReplyScope(
                    tenant=call.tenant,
                    caller=call.by,
                    operation=f"{route.method} {route.path}",
                    key=check_key(key),
                    # What is sent to an operation that takes no body is not minded.
                    fingerprint=_fingerprint(request, raw if route.body is not None else b""),
                )
                return await self._once(call, scope, given)
        except _DryRun as dry:
            return dry.answer

    async def _effect(self, call: Call, given: dict[str, Any], *, is_dry: bool = False) -> Response:
        response = self._response(await self._route.run(call, **given))
        call.check_compared()
        if call.tx.counted is not None:
            quotas = self._surface.quotas
            (quotas.check if is_dry else quotas.take)(call.tenant, call.tx.counted)
        return response

    async def _once(self, call: Call, scope: ReplyScope, given: dict[str, Any]) -> Response:
        """The effect and the reply to it, in one transaction; or the reply of the first time."""
        replies = self._surface.replies
        kept = await replies.begin(call.tx, scope)
        if kept is not None:
            return _replayed(kept, await self._again(call, kept))
        try:
            async with call.tx.all_or_nothing():
                response = await self._effect(call, given)
        except TimebellError as error:
            problem = self._surface.problems.of(error, self._route.names, self._asked)
            if problem is None or problem.status not in _KEPT_REFUSALS:
                raise
            response = problem.response(call.correlation_id)
        is_secret = self._route.again is not None and response.status_code < 400
        expires_at = await replies.keep(call.tx, scope, _kept(response, is_secret=is_secret))
        response.headers["idempotency-expires"] = show_instant(expires_at)
        return response

    async def _again(self, call: Call, kept: KeptReply) -> bytes:
        """What a repetition is answered: as the first time, or anew where that said a secret and was not kept."""
        again = self._route.again
        if again is None or kept.status >= 400:
            return kept.body
        return bytes(self._response(await again(call)).body)

    def _path(self, given: Mapping[str, str]) -> dict[str, Any]:
        """What the path names. An id that is none names nothing."""
        found: dict[str, Any] = {}
        for name, kind in self._path_types.items():
            text = given[name]
            if "\x00" in text or len(text) > 500:
                raise Problem(404, "not_found", f"there is no such {name}")
            found[name] = _id_of(name, text) if kind is UUID else text
        return found

    def _query(self, request: Request) -> dict[str, Any]:
        pairs: list[tuple[str, Any]] = request.query_params.multi_items()
        given = dict(pairs)
        if len(given) < len(pairs):
            [(twice, _)] = Counter(name for name, _ in pairs).most_common(1)
            raise _bad_query(twice, "stands twice; give it once")
        for name, value in pairs:
            if "\x00" in value:
                raise _bad_query(name, "has the character NUL")
        for name, is_read_apart in (("dry_run", self._route.plans), ("token", self._route.is_stream)):
            if is_read_apart:
                given.pop(name, None)
        if self._route.query is None:
            if given:
                raise _bad_query(next(iter(given)), "this operation takes no such parameter")
            return {}
        reader = _reader(self._route.query)
        return {"query": _validated(lambda: reader.validate_strings(given), "?", self._route.query)}

    def _response(self, answered: Any) -> Response:
        if isinstance(answered, Response):
            return answered
        answer = answered if isinstance(answered, Answer) else Answer(content=answered)
        status = answer.status or self._route.status
        headers = dict(answer.headers)
        if answer.revision is not None:
            headers["etag"] = etag_of(answer.revision)
        if status == 204:
            return Response(status_code=204, headers=headers)
        return Response(
            dump(answer.content), status_code=status, headers=headers, media_type="application/json"
        )


def dump(content: Any) -> bytes:
    if isinstance(content, BaseModel):
        return content.__pydantic_serializer__.to_json(content)
    return orjson.dumps(content, default=_jsonable, option=orjson.OPT_PASSTHROUGH_DATETIME)


def _jsonable(value: Any) -> Any:
    if hasattr(value, "astimezone"):
        return show_instant(value) if value.tzinfo is not None else value.isoformat()
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return to_jsonable_python(value)


def _body(route: Route, request: Request, raw: bytes) -> Any:
    reader = _reader(route.body)
    name = route.texts.get(media_type_of(request))
    if name is not None:
        text = read_text(raw)
        return _validated(lambda: reader.validate_python({name: text}), "", route.body)
    if raw or not may_be_empty(route):
        check_json(request, raw)
    # Of JSON a strict model takes ids and dates as the text that they are there, of Python values it would not.
    return _validated(lambda: reader.validate_json(raw or b"{}"), "", route.body)


def may_be_empty(route: Route) -> bool:
    """Whether a request may come without its body: there is a verb in the path, and the body needs to say nothing."""
    fields = () if route.body is None else route.body.model_fields.values()
    return route.method == "POST" and not any(field.is_required() for field in fields)


def path_types(route: Route) -> dict[str, type]:
    """What each name in a path stands for: ids are UUIDs, unless they are the callers' own."""
    kind = str if route.own_ids else UUID
    return {name: kind if name == "id" or name.endswith("_id") else str for name in path_names(route.path)}


def path_names(path: str) -> list[str]:
    return [part[1:-1] for part in path.split("/") if part.startswith("{")]


def _id_of(name: str, text: str) -> UUID:
    try:
        found = UUID(text)
    except ValueError:
        found = None
    if found is None or str(found) != text.lower():
        raise Problem(404, "not_found", f"{name}: {text[:100]} is no id")
    return found


def _is_dry(request: Request) -> bool:
    given = request.query_params.get("dry_run", "false").lower()
    if given not in _DRY_RUN:
        raise _bad_query("dry_run", "must be true or false")
    return _DRY_RUN[given]


def _reader(model: type[BaseModel] | None) -> SchemaValidator:
    assert model is not None
    reader = model.__pydantic_validator__
    assert isinstance(reader, SchemaValidator)
    return reader


def _fields(model: type[BaseModel] | None) -> frozenset[str]:
    return frozenset() if model is None else frozenset(model.model_fields)


def _validated(read: Callable[[], Any], prefix: str, model: type[BaseModel] | None) -> Any:
    try:
        return read()
    except ValidationError as error:
        raise refusal_of(error, prefix, model) from None


def refusal_of(error: ValidationError, prefix: str = "", model: type[BaseModel] | None = None) -> Problem:
    """What is wrong with each field, as callers are told."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    errors = [
        FieldError(pointer=_pointer(prefix, each["loc"]), code=each["type"], message=message)
        for each, message in zip(found, messages_of(found, model), strict=True)
    ]
    # A name that is spelled wrongly says more than that the right one is missing.
    first = next((each for each in errors if each.code == UNKNOWN), errors[0])
    detail = f"{first.pointer.lstrip('/') or 'the body'}: {first.message}"
    return Problem(422, "invalid_input", detail, errors=errors)


def _pointer(prefix: str, place: tuple[int | str, ...]) -> str:
    if prefix:
        return prefix + ".".join(str(part) for part in place)
    return "".join(pointer_of(str(part)) for part in place)


def _bad_query(name: str, message: str) -> Problem:
    error = FieldError(pointer=f"?{name[:100]}", code="invalid_parameter", message=message)
    return Problem(422, "invalid_input", f"?{name[:100]}: {message}", errors=[error])


def _fingerprint(request: Request, raw: bytes) -> bytes:
    """What the same request would have in common: the path, the query and the body as it reads."""
    try:
        body = orjson.dumps(orjson.loads(raw), option=orjson.OPT_SORT_KEYS) if raw else b""
    except orjson.JSONDecodeError:
        body = raw
    query = b"&".join(sorted(request.scope["query_string"].split(b"&")))
    return hashlib.sha256(b"\x00".join((request.scope["path"].encode(), query, body))).digest()


def _kept(response: Response, *, is_secret: bool) -> KeptReply:
    headers = {name: value for name, value in response.headers.items() if name in ("etag", "location")}
    return KeptReply(
        status=response.status_code,
        media_type=response.headers.get("content-type"),
        headers=headers,
        body=b"" if is_secret else bytes(response.body),
    )


def _replayed(kept: KeptReply, body: bytes) -> Response:
    headers = {**kept.headers, "idempotent-replayed": "true"}
    if kept.expires_at is not None:
        headers["idempotency-expires"] = show_instant(kept.expires_at)
    if kept.media_type is not None:
        headers["content-type"] = kept.media_type
    return Response(body, status_code=kept.status, headers=headers)


def _unless_known(request: Request, response: Response) -> Response:
    """304 where the caller has it already."""
    etag = response.headers.get("etag")
    known = request.headers.get("if-none-match")
    if request.method != "GET" or etag is None or known is None:
        return response
    if known.strip() == "*" or etag in [each.strip().removeprefix("W/") for each in known.split(",")]:
        return Response(status_code=304, headers={"etag": etag})
    return response
