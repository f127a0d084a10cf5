"""Refusals over HTTP: every error becomes `application/problem+json` (RFC 9457), and one table says which."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import orjson

from timebell.errors import (
    ConfigurationError,
    DatabaseError,
    InvalidInput,
    KeyConflict,
    NotFound,
    OldTimezoneData,
    RevisionConflict,
    TimebellError,
    TooManyAtOnce,
    UnverifiedReport,
)

if TYPE_CHECKING:
    from starlette.responses import Response

    from timebell.kernel import App

MEDIA_TYPE: Final = "application/problem+json"
ERRORS_MAX: Final = 50
CHALLENGE: Final = {"www-authenticate": 'Bearer realm="timebell"'}


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldError:
    """What is wrong with one field: `pointer` (RFC 6901) is where it stands in the body, or `?name` in the query."""

    pointer: str
    code: str
    message: str


class Problem(TimebellError):
    """A request was refused. `detail` names what is wrong and the remedy; `more` are members that the code brings."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        errors: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.errors = tuple(errors[:ERRORS_MAX])
        self.headers = dict(headers or {})
        self.more = dict(more or {})

    def content(self, correlation_id: str) -> dict[str, Any]:
        return {
            "type": f"/problems/{self.code}",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
            "errors": [asdict(error) for error in self.errors],
            "correlation_id": correlation_id,
            **self.more,
        }

    def response(self, correlation_id: str) -> Response:
        # Refusals are made where nothing is served, too, and most of those who start there never need the framework.
        from starlette.responses import Response

        return Response(
            orjson.dumps(self.content(correlation_id), default=str),
            status_code=self.status,
            media_type=MEDIA_TYPE,
            headers=self.headers,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemForm:
    """How the errors of one class are told: with this status and code, and with what they say of themselves as the
    detail. Of an error `errors` answers with the fields that are wrong, and `more` with the members that the code
    brings."""

    status: int
    code: str
    errors: Callable[[Any], Sequence[FieldError]] | None = None
    more: Callable[[Any], Mapping[str, Any]] | None = None

    def problem(self, error: TimebellError) -> Problem:
        return Problem(
            self.status,
            self.code,
            str(error),
            errors=() if self.errors is None else self.errors(error),
            more=None if self.more is None else self.more(error),
        )


def in_field(code: str) -> Callable[[InvalidInput], Sequence[FieldError]]:
    """For errors that name the field that is wrong: it is told with this code, at its own place in the body."""

    def errors(error: InvalidInput) -> Sequence[FieldError]:
        assert error.field is not None, "the error names the field that is wrong"
        message = str(error).removeprefix(f"{error.field}: ")
        return [FieldError(pointer=pointer_of(error.field), code=code, message=message)]

    return errors


class Problems:
    """Which problem an error is, with what the apps of a process that serves say of their own."""

    def __init__(self, apps: Iterable[App]) -> None:
        self._forms = {kind: form for app in apps for kind, form in forms_of(app).items()}

    def of(
        self, error: TimebellError, names: Mapping[str, str] | None = None, asked: Container[str] = ()
    ) -> Problem | None:
        """As `problem_of`; the form of the class itself goes before those of the classes that it is made of."""
        form = next((self._forms[kind] for kind in type(error).__mro__ if kind in self._forms), None)
        return problem_of(error, names, asked) if form is None else form.problem(error)


def forms_of(app: App) -> Mapping[type[TimebellError], ProblemForm]:
    """Those that the app has, or that its module of problems has."""
    if not isinstance(app.problems, str):
        forms: Mapping[type[TimebellError], ProblemForm] = app.problems
        return forms
    forms = getattr(importlib.import_module(app.problems), "PROBLEMS", {})
    if not forms:
        raise ConfigurationError(
            f"app {app.name!r}: {app.problems} has no PROBLEMS; put a ProblemForm for each class of error there"
        )
    return forms


# The first class that fits decides, so that the special ones stand before the general.
_TABLE: Final[Sequence[tuple[type[TimebellError], HTTPStatus]]] = (
    (UnverifiedReport, HTTPStatus.UNAUTHORIZED),
    (InvalidInput, HTTPStatus.UNPROCESSABLE_ENTITY),
    (KeyConflict, HTTPStatus.CONFLICT),
    (RevisionConflict, HTTPStatus.PRECONDITION_FAILED),
    (NotFound, HTTPStatus.NOT_FOUND),
    (TooManyAtOnce, HTTPStatus.TOO_MANY_REQUESTS),
    (OldTimezoneData, HTTPStatus.SERVICE_UNAVAILABLE),
    (DatabaseError, HTTPStatus.SERVICE_UNAVAILABLE),
)


def problem_of(
    error: TimebellError, names: Mapping[str, str] | None = None, asked: Container[str] = ()
) -> Problem | None:
    """The problem that an error is, or None where it is a fault of ours. `names` are a route's own names of fields,
    `asked` those that stand in the query."""
    if isinstance(error, Problem):
        return error
    status = next((status for kind, status in _TABLE if isinstance(error, kind)), None)
    if status is None:
        return None
    code = _snake(type(error).__name__)
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        return unavailable()
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return Problem(status, code, str(error), headers={"retry-after": "1"})
    if not isinstance(error, InvalidInput) or error.field is None:
        return Problem(status, code, str(error))
    name = (names or {}).get(error.field, error.field)
    message = str(error).removeprefix(f"{error.field}: ")
    name, pointer = (f"?{name}", f"?{name}") if name in asked else (name, pointer_of(name))
    return Problem(
        status, code, f"{name}: {message}", errors=[FieldError(pointer=pointer, code=code, message=message)]
    )


def unavailable() -> Problem:
    """The same again may well be done. Where the commit was under way nobody knows whether it was; a key does."""
    return Problem(
        503, "unavailable", "the database does not answer; try again soon", headers={"retry-after": "2"}
    )


def too_slow() -> Problem:
    return Problem(
        503,
        "too_slow",
        "this took longer than a request may; ask for less, with a shorter page or a narrower filter",
        headers={"retry-after": "2"},
    )


def pointer_of(name: str) -> str:
    """A field's own name, such as `steps[0].key`, as a JSON pointer."""
    parts = name.replace("]", "").replace("[", ".").split(".")
    return "/" + "/".join(part.replace("~", "~0").replace("/", "~1") for part in parts)


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")
