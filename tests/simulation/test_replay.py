"""A seed is a whole run: played again, everything happens again, in the same order and at the same virtual instant."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
# A seed with kills, pauses, cuts and waits for locks in it.
SEED = "7"


def _played(hash_seed: str) -> str:
    """In a process of its own: the order of a set of texts is another one in each."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation", "--seed", SEED, "--days", "1"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    trace: str = json.loads(done.stdout.splitlines()[0])["hash"]
    return trace


def test_a_seed_gives_the_same_trace_three_times() -> None:
    assert len({_played(hash_seed) for hash_seed in ("0", "1", "99")}) == 1
