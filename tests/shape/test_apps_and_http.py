"""Of an app only what serves speaks HTTP; what it decides, it decides as well for whoever calls its verbs."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.shape.tree import PACKAGE, python_files

APPS = PACKAGE / "apps"
# What serves, by the last word of a module's name: `problems` says how errors are told, `calls` who asks.
SERVES = re.compile(r"(?:\w+_)?(routes|bodies|pages|feeds|problems|calls)")
# Who knows, not of HTTP, but of what is sent and answered there, and why.
KNOWS_BODIES = {
    "sequences/commands.py": "It shows the same rows.",
    "sequences/starting/__init__.py": "The files of a starting set say what the routes take.",
    "marketplace/searches/service.py": "A search is kept as it was asked for, and read again.",
}


def complaints(folder: Path) -> list[str]:
    """The modules of apps that know of HTTP and have another name: by what they import themselves, or by one of
    those that serve."""
    found = []
    for path in python_files(folder):
        if SERVES.fullmatch(path.stem):
            continue
        module = path.relative_to(folder).as_posix()
        for name in imported(path):
            is_served = name.startswith("timebell.apps.") and SERVES.fullmatch(name.rpartition(".")[2])
            if name.startswith("timebell.web") or (is_served and module not in KNOWS_BODIES):
                found.append(f"{module} imports {name}")
    return found


def imported(path: Path) -> list[str]:
    """The modules that one imports. Of a package a module may be what is imported, so both names are there."""
    names = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names.append(node.module)
            names += [f"{node.module}.{alias.name}" for alias in node.names if alias.name.islower()]
    return sorted(set(names))


def test_only_what_serves_speaks_http() -> None:
    if APPS.is_dir():
        assert complaints(APPS) == []


def test_those_who_know_bodies_are_there() -> None:
    gone = {name for name in KNOWS_BODIES if (APPS / name.partition("/")[0]).is_dir()}
    assert [name for name in sorted(gone) if not (APPS / name).is_file()] == []


def test_whoever_speaks_http_elsewhere_is_found(tmp_path: Path) -> None:
    app = tmp_path / "bells"
    app.mkdir()
    for name in ("meeting_routes", "bodies", "pages"):
        (app / f"{name}.py").write_text("from timebell.web import Problem\n", encoding="utf-8")
    assert complaints(tmp_path) == []
    (app / "service.py").write_text("from timebell.web.operation.problems import Problem\n", encoding="utf-8")
    (app / "rules.py").write_text("from timebell.apps.bells import bodies\n", encoding="utf-8")
    assert complaints(tmp_path) == [
        "bells/rules.py imports timebell.apps.bells.bodies",
        "bells/service.py imports timebell.web.operation.problems",
    ]
