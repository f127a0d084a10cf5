"""How the errors of an app are told over HTTP: an example of each class, and what it becomes."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from timebell.errors import TimebellError
from timebell.kernel import App
from timebell.web.operation.codes import EXPLAINED
from timebell.web.operation.problems import FieldError, Problems, forms_of
from timebell.web.server.serving import routes_of

Told = tuple[int, str, Sequence[FieldError], Mapping[str, Any]]


def check_table(app: App, package: ModuleType, examples: Mapping[TimebellError, Told]) -> None:
    """Each class that the app refuses with is in its table, has an example, and is told as the example says."""
    forms = forms_of(app)
    assert forms.keys() == refusals_in(package)
    assert forms.keys() == {type(error) for error in examples}
    problems = Problems([app])
    for error, (status, code, errors, more) in examples.items():
        problem = problems.of(error)
        assert problem is not None
        said = {**problem.content("c"), "errors": problem.errors}
        assert said == {
            "type": f"/problems/{code}",
            "title": {403: "Forbidden", 409: "Conflict", 410: "Gone", 422: "Unprocessable Entity"}[status],
            "status": status,
            "detail": str(error),
            "code": code,
            "errors": tuple(errors),
            "correlation_id": "c",
            **more,
        }
    explained = {*EXPLAINED, *(code for route in routes_of(app) for code in route.codes)}
    assert {form.code for form in forms.values()} <= explained


def refusals_in(package: ModuleType) -> set[type[TimebellError]]:
    """The errors of an app that are raised as they are, and are no mere base of others."""
    names = [each.name for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    modules = [importlib.import_module(name) for name in names if name.endswith(".refusals")]
    found = {
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, TimebellError)
        and value.__module__ == module.__name__
    }
    bases = {base for one in found for base in one.__mro__[1:]}
    return found - bases
