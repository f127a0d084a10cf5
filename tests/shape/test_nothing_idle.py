"""What is offered is used: every setting is read by something, and every error is raised by something."""

from __future__ import annotations

import inspect
import re

from tests.shape.tree import PACKAGE, python_files
from timebell import errors
from timebell.config import KINDS, RETIRED, RULES, rules_of

# Settings that an app alone reads, and with which it may be taken away.
OF_APPS = {
    "broker_due_queue": "scheduler",
    "payment_provider": "marketplace",
    "stripe_secret_key": "marketplace",
    "stripe_webhook_secret": "marketplace",
    "stripe_url": "marketplace",
}
# Errors that only gather others.
ROOTS = {"TimebellError"}


def text_without(name: str) -> str:
    """All code of the package but that of one module, or of one folder."""
    left_out = PACKAGE / name
    return "\n".join(
        path.read_text(encoding="utf-8")
        for path in python_files(PACKAGE)
        if path != left_out and left_out not in path.parents
    )


def test_every_setting_is_read() -> None:
    code = text_without("config")
    idle = {name for name in RULES if not re.search(rf"settings\.{name}\b", code)}
    gone = {name for name, app in OF_APPS.items() if not (PACKAGE / "apps" / app).is_dir()}
    assert idle == gone


def test_everything_that_timebell_chooses_is_read() -> None:
    code = text_without("config")
    assert {name for name in RETIRED if not re.search(rf"tuning\.{name}\b", code)} == set()


def test_every_field_of_a_provider_is_read() -> None:
    code = (PACKAGE / "providers" / "building.py").read_text(encoding="utf-8")
    parts = {
        match[1]: match[0] for match in re.finditer(r"def _\w+\(terms: (\w+)\).*?\n\n\n", code, re.DOTALL)
    }
    for record in KINDS.values():
        idle = [name for name in rules_of(record) if f"terms.{name}" not in parts[record.__name__]]
        assert not idle, f"{record.kind}: nothing reads {idle}"


def test_every_error_is_raised() -> None:
    code = text_without("errors.py")
    names = {name for name, value in vars(errors).items() if inspect.isclass(value)} - ROOTS
    assert {name for name in names if not re.search(rf"\b{name}\(", code)} == set()
