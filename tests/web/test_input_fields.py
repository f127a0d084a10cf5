"""A field that is wrong is named as the caller knows it, whatever it may be instead."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, ValidationError

from timebell.config import Settings
from timebell.loading import apps_of, registry_of
from timebell.web.operation.routes import Route
from timebell.web.server.serving import routes_of
from timebell.web.v1 import ALL

ROUTES = [*ALL, *(route for app in registry_of(apps_of(Settings())).apps for route in routes_of(app))]


def models() -> list[type[BaseModel]]:
    given = [model for route in ROUTES for model in (route.body, route.query)]
    found = {model for model in given if isinstance(model, type) and issubclass(model, BaseModel)}
    return sorted(found, key=lambda model: model.__qualname__)


@pytest.mark.parametrize("model", models(), ids=lambda model: model.__name__)
def test_what_fits_nothing_is_one_error_of_its_field(model: type[BaseModel]) -> None:
    """Of a field that may be one of several things, each would say what it wants, at a place that is not there."""
    for name, field in model.model_fields.items():
        with pytest.raises(ValidationError) as caught:
            model.model_validate({field.alias or name: object()})
        places = [error["loc"] for error in caught.value.errors(include_input=False)]
        assert [place for place in places if place[0] in (name, field.alias)] in (
            [(field.alias or name,)],
            [],
        )


def test_there_are_models_to_look_at() -> None:
    assert len(ROUTES) > 100
    assert all(isinstance(route, Route) for route in ROUTES)
    assert len(models()) > 50
