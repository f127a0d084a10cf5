"""The import contracts of pyproject.toml hold, and break when somebody crosses them."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from collections.abc import Collection
from pathlib import Path

import pytest

from tests.shape.tree import PACKAGE, ROOT

# The contracts that an app lives under are written with the first app, since they cannot name what is absent.
APP_CONTRACTS = {"apps_independent", "apps_public_only", "nobody_names_an_app"}


def contract_ids() -> set[str]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    return {contract["id"] for contract in settings["contracts"]}


def test_the_contracts_are_all_there() -> None:
    expected = {"layers", "rules_pure"} | (APP_CONTRACTS if (PACKAGE / "apps").exists() else set())
    assert expected <= contract_ids(), f"add {expected - contract_ids()} to pyproject.toml"


@pytest.fixture
def stub(tmp_path: Path) -> Path:
    """A package with one empty module for every place on the map that exists by now."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    package = tmp_path / "timebell"
    for name in ["", "rules", "db", "kernel", "engine", "engine/worker", "notify", "notify/rules", "testing"]:
        (package / name).mkdir(exist_ok=True)
        (package / name / "__init__.py").touch()
    for name in ["cli", "process", "server", "clock", "config", "errors"]:
        (package / f"{name}.py").touch()
    return package


@pytest.fixture
def stub_with_apps(stub: Path) -> Path:
    """The same with two apps, and every place that the contracts about apps name."""
    for name in [
        *("web", "web/server", "notify/delivery", "providers", "bench", "apps", "apps/bells", "apps/chimes")
    ]:
        (stub / name).mkdir(exist_ok=True)
        (stub / name / "__init__.py").touch()
    for name in [
        "loading.py",
        "kernel/store.py",
        "notify/delivery/desk.py",
        "web/server/api.py",
        "db/pool.py",
        "db/queries.py",
    ]:
        (stub / name).touch()
    allowed = "import timebell.kernel, timebell.notify, timebell.web, timebell.db.queries, timebell.errors\n"
    (stub / "apps" / "bells" / "app.py").write_text(allowed, encoding="utf-8")
    return stub


def lint(package: Path, contracts: Collection[str] = ("layers", "rules_pure")) -> str:
    """What import-linter says about the package, run where its source lies."""
    program = "import sys; from importlinter.cli import lint_imports_command; lint_imports_command()"
    chosen = [part for contract in sorted(contracts) for part in ("--contract", contract)]
    command = [sys.executable, "-c", program, "--no-cache", *chosen]
    done = subprocess.run(
        command, cwd=package.parent, capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout + done.stderr


def test_a_clean_package_keeps_the_contracts(stub: Path) -> None:
    (stub / "engine" / "worker.py").write_text("import timebell.kernel, timebell.clock\n", encoding="utf-8")
    (stub / "testing" / "database.py").write_text("import timebell.server\n", encoding="utf-8")
    assert "Contracts: 2 kept, 0 broken." in lint(stub)


@pytest.mark.parametrize(
    ("module", "imported", "broken"),
    [
        ("kernel/bell.py", "timebell.engine", "One direction, down only BROKEN"),
        ("engine/worker/worker.py", "timebell.notify", "One direction, down only BROKEN"),
        ("kernel/bell.py", "timebell.testing", "One direction, down only BROKEN"),
        ("rules/backoff.py", "time", "no database BROKEN"),
        ("stray.py", "timebell.errors", "One direction, down only BROKEN"),
    ],
)
def test_a_crossing_breaks_its_contract(stub: Path, module: str, imported: str, broken: str) -> None:
    (stub / module).write_text(f"import {imported}\n", encoding="utf-8")
    assert broken in lint(stub)


def test_an_app_may_use_the_public_faces(stub_with_apps: Path) -> None:
    assert "Contracts: 3 kept, 0 broken." in lint(stub_with_apps, APP_CONTRACTS)


@pytest.mark.parametrize(
    ("module", "imported", "broken"),
    [
        ("apps/chimes/app.py", "timebell.apps.bells.app", "Apps do not know each other BROKEN"),
        ("apps/chimes/app.py", "timebell.kernel.store", "never the insides BROKEN"),
        ("apps/chimes/app.py", "timebell.notify.delivery.desk", "never the insides BROKEN"),
        ("apps/chimes/app.py", "timebell.web.server.api", "never the insides BROKEN"),
        ("apps/chimes/app.py", "timebell.db.pool", "never the insides BROKEN"),
        ("apps/chimes/app.py", "timebell.engine", "never the insides BROKEN"),
        ("loading.py", "timebell.apps.bells", "nobody imports one BROKEN"),
        ("web/server/api.py", "timebell.apps.bells.app", "nobody imports one BROKEN"),
    ],
)
def test_an_app_that_reaches_too_far_breaks_its_contract(
    stub_with_apps: Path, module: str, imported: str, broken: str
) -> None:
    (stub_with_apps / module).write_text(f"import {imported}\n", encoding="utf-8")
    said = lint(stub_with_apps, APP_CONTRACTS)
    assert broken in said
    assert "Contracts: 2 kept, 1 broken." in said


@pytest.mark.parametrize(
    ("imported", "said"),
    [
        ("timebell.kernel.jobs", "through their faces KEPT"),
        ("timebell.kernel.bell", "through their faces KEPT"),
        ("timebell.kernel.jobs.enqueueing", "through their faces BROKEN"),
    ],
)
def test_a_room_of_the_kernel_is_reached_through_its_face(
    stub_with_apps: Path, imported: str, said: str
) -> None:
    for name in ["brokers", "kernel/jobs"]:
        (stub_with_apps / name).mkdir()
        (stub_with_apps / name / "__init__.py").touch()
    for name in ["kernel/jobs/enqueueing.py", "kernel/bell.py"]:
        (stub_with_apps / name).touch()
    (stub_with_apps / "notify" / "app.py").write_text(f"import {imported}\n", encoding="utf-8")
    assert said in lint(stub_with_apps, ["kernel_faces"])
