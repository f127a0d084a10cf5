"""The process under test: `timebell work`, or another command, with the app of these tests.

    python -m tests.acceptance.faults.node URL HISTORY_FILE NAME [COMMAND ...]

Settings come from the environment, as an operator gives them.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.acceptance.processes import SOURCE, Process, clean_environment

ROOT = SOURCE.parent
APP = "tests.acceptance.faults.handlers"
MIGRATIONS = "tests.acceptance.faults.migrations"

# For the handlers: where their records go, under which name, and whether the database is asked for the time.
HISTORY = "FAULTS_HISTORY"
NODE = "FAULTS_NODE"
CLOCK = "FAULTS_CLOCK"


def start_node(
    notes: Path,
    url: str,
    history: Path,
    name: str,
    *command: object,
    port: int | None = None,
    program: tuple[str, ...] = (sys.executable, "-m", "tests.acceptance.faults.node"),
    **variables: str,
) -> Process:
    """One more node. With a port it is asked there whether it is ready; without one it says so in words."""
    environment = clean_environment(PYTHONPATH=f"{SOURCE}:{ROOT}", **variables)
    return Process(
        notes, *(url, history, name, *command), program=program, port=port, environment=environment
    )


def configure(url: str, history: str, name: str) -> None:
    """Before the app is imported: it reads its part of the environment then."""
    os.environ |= {"DATABASE_URL": url, HISTORY: history, NODE: name}
    os.environ |= {"TIMEBELL_APPS": APP, "TIMEBELL_NODE_NAME": name}


def main() -> None:
    configure(*sys.argv[1:4])
    sys.argv[1:] = sys.argv[4:] or ["work"]
    from timebell.cli import main as run_command

    run_command()


if __name__ == "__main__":
    main()
