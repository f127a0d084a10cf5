"""A seed is a whole run: played again, everything happens again, in the same order and at the same virtual instant."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.simulation import run
from tests.simulation.run import run_seed
from timebell.testing.database import TestDatabase

ROOT = Path(__file__).parents[2]
# One in whose world people meet, if there is the app for it.
SEED, DAYS = 4, 0.4


def _played(world: TestDatabase, hash_seed: str) -> tuple[str, dict[str, int]]:
    """The trace and the figures, in a process of its own: the order of a set of texts is another one in each."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.simulation", "--seed", str(SEED), "--days", str(DAYS)),
            *("--world", json.dumps(asdict(world))),
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    run, figures = done.stdout.splitlines()
    return json.loads(run)["hash"], json.loads(figures)


def test_a_seed_gives_the_same_trace_wherever_it_is_played(
    world_database: TestDatabase, other_world_database: TestDatabase
) -> None:
    """Here, on lines and tables that other worlds have left, and in another process on new ones."""
    run_seed(SEED + 1, database=world_database, days=0.1)
    here = run_seed(SEED, database=world_database, days=DAYS)
    there, figures = _played(other_world_database, "99")
    assert here.hash[:16] == there
    assert figures["faults"] >= 1, "a run without trouble is easily repeated"
    assert figures["blocked"] >= 1


def test_a_world_that_broke_harms_no_other(
    world_database: TestDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leaves its rows behind, which the next one must not take for its own."""
    before = run_seed(SEED, database=world_database, days=DAYS / 4)

    def broken(_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(run._Run, "check", broken)
        with pytest.raises(ZeroDivisionError):
            run_seed(SEED, database=world_database, days=DAYS / 4)
    assert run_seed(SEED, database=world_database, days=DAYS / 4).hash == before.hash
