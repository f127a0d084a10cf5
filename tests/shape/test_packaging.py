"""What is installed is what is locked, and a wheel carries the SQL that its code reads."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

from tests.shape.tree import PACKAGE, ROOT

LOCK = ROOT / "requirements.lock"


def _project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def unlocked(requirements: list[str], lock: str) -> list[str]:
    """The requirements that the lock does not pin to a version that satisfies them."""
    pins = re.findall(r"^([\w.-]+)(?:\[[\w,-]+\])?==([^\s;\\]+)", lock, re.MULTILINE)
    versions = {canonicalize_name(name): version for name, version in pins}
    return [text for text in requirements if not _satisfied(Requirement(text), versions)]


def _satisfied(requirement: Requirement, versions: Mapping[NormalizedName, str]) -> bool:
    version = versions.get(canonicalize_name(requirement.name))
    return version is not None and requirement.specifier.contains(version)


def without_hash(lock: str) -> list[str]:
    return [
        entry.split("==")[0]
        for entry in re.split(r"\n(?=\w)", lock)
        if "==" in entry and "--hash=" not in entry
    ]


def test_the_lock_pins_every_dependency() -> None:
    project = _project()
    wanted = project["project"]["dependencies"] + project["project"]["optional-dependencies"]["dev"]
    missing = unlocked(wanted + project["build-system"]["requires"], LOCK.read_text(encoding="utf-8"))
    assert not missing, f"run `make lock`; requirements.lock does not pin {missing}"


def test_every_pin_has_a_hash() -> None:
    assert without_hash(LOCK.read_text(encoding="utf-8")) == []


def test_the_lock_does_not_say_where_packages_come_from() -> None:
    assert "://" not in LOCK.read_text(encoding="utf-8")


def test_the_lock_checks_themselves() -> None:
    lock = "asyncpg==0.32.0 \\\n    --hash=sha256:00\nclick==8.5.1\n    # via timebell\n"
    assert unlocked(["asyncpg>=0.32", "Click>=8.6", "rich"], lock) == ["Click>=8.6", "rich"]
    assert without_hash(lock) == ["click"]


def test_the_wheel_carries_every_file_of_the_package(tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(PACKAGE, source / "src" / "timebell", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ["pyproject.toml", "LICENSE", ".gitignore"]:
        shutil.copy(ROOT / name, source)
    (source / "README.md").write_text("# Timebell\n", encoding="utf-8")
    planted = source / "src" / "timebell" / "kernel" / "sql" / "planted_query.sql"
    planted.parent.mkdir(parents=True, exist_ok=True)
    planted.write_text("SELECT 1\n", encoding="utf-8")

    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=source, check=True, capture_output=True, timeout=60)

    [wheel] = tmp_path.glob("timebell-*.whl")
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("timebell/")}
    written = {
        path.relative_to(source / "src").as_posix() for path in (source / "src").rglob("*") if path.is_file()
    }
    assert packed == written
    assert {"timebell/kernel/sql/planted_query.sql", "timebell/py.typed"} <= packed
