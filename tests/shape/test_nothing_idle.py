"""What is offered is used: every setting is read by something, and every error is raised by something."""

from __future__ import annotations

import inspect
import re

from tests.shape.tree import PACKAGE, python_files
from timebell import errors
from timebell.config import RULES

# A setting that strangers may already give, although nothing here asks for it yet.
PROMISED = {"api_key"}
# Errors that only gather others.
ROOTS = {"TimebellError"}


def text_without(name: str) -> str:
    """All code of the package but that of one module."""
    return "\n".join(
        path.read_text(encoding="utf-8") for path in python_files(PACKAGE) if path != PACKAGE / name
    )


def test_every_setting_is_read() -> None:
    code = text_without("config.py")
    idle = {name for name in RULES if not re.search(rf"settings\.{name}\b", code)}
    assert idle == PROMISED


def test_every_error_is_raised() -> None:
    code = text_without("errors.py")
    names = {name for name, value in vars(errors).items() if inspect.isclass(value)} - ROOTS
    assert {name for name in names if not re.search(rf"\b{name}\(", code)} == set()
