"""What tests need from Debian packages, each of which `make packages` installs.

This is the one place that may skip a test whose requirement counts as proven: `make test` installs the packages first,
so nothing is skipped where it may. Any other condition leaves the proof to chance.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NoReturn

import pytest

# The package that brings a program, or a library of this name.
PACKAGES: Mapping[str, str] = {
    "chromium": "chromium",
    "libfaketimeMT.so.1": "faketime",
    "pgbouncer": "pgbouncer",
    "promtool": "prometheus",
    "rabbitmq-server": "rabbitmq-server",
}
_LIBRARIES = ("/usr/lib", "/usr/local/lib", "/usr/lib64")


def need_program(name: str) -> str:
    """The path of a program, or a skip that says which package brings it."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    return found or _skip(name)


def need_library(name: str) -> Path:
    return _library(name) or _skip(name)


@cache
def _library(name: str) -> Path | None:
    return next((each for top in _LIBRARIES for each in Path(top).glob(f"**/{name}")), None)


def _skip(name: str) -> NoReturn:
    package = PACKAGES[name]
    pytest.skip(f"{name} is not installed; `make packages` as root installs it, or install {package}")
