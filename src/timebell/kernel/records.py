"""Frozen records that are made by the thousand."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from typing import Any, TypeVar

Record = TypeVar("Record")


def quickly_made(record: type[Record]) -> type[Record]:
    """A frozen dataclass with slots, all of its fields by keyword, that takes half the time to make.

    The `__init__` that dataclass writes sets each field through `object.__setattr__`, which looks the field up by its
    name each time. This one is the same but for that: it calls what sets each slot.
    """
    known = fields(record)  # type: ignore[arg-type]
    names = {f"set_{field.name}": getattr(record, field.name).__set__ for field in known}
    parameters = ", ".join(_parameter(field, names) for field in known)
    body = "".join(f"    set_{field.name}(self, {_value(field)})\n" for field in known)
    if hasattr(record, "__post_init__"):
        body += "    self.__post_init__()\n"
    exec(f"def __init__(self, *, {parameters}):\n{body}", names)  # noqa: S102
    names["__init__"].__qualname__ = f"{record.__qualname__}.__init__"
    record.__init__ = names["__init__"]  # type: ignore[method-assign]
    return record


def _parameter(field: Field[Any], names: dict[str, Any]) -> str:
    if field.default is not MISSING:
        names[f"default_{field.name}"] = field.default
    elif field.default_factory is not MISSING:
        names[f"default_{field.name}"] = MISSING
        names[f"make_{field.name}"] = field.default_factory
        names["MISSING"] = MISSING
    else:
        return field.name
    return f"{field.name}=default_{field.name}"


def _value(field: Field[Any]) -> str:
    if field.default_factory is MISSING:
        return field.name
    return f"make_{field.name}() if {field.name} is MISSING else {field.name}"
