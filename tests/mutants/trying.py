"""Try planted changes: each alone, in a copy of the tree, with the tests that have to notice it."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Final, Literal

from tests.mutants.planted import Planted, Stale

Outcome = Literal["killed", "survived", "stale", "broken"]

# A change after which the tests do not end is noticed by that.
_SECONDS: Final = 300.0
_PASSED, _FAILED = 0, 1
# Those that are needed: to load all that are installed takes longer than many a test.
_PLUGINS: Final = (
    "-p",
    "no:cacheprovider",
    "-p",
    "pytest_asyncio.plugin",
    "-p",
    "_hypothesis_pytestplugin",
)
_NOTICED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What became of a change. `words` is the test that noticed it, or why it could not be tried."""

    name: str
    outcome: Outcome
    words: str
    seconds: float


class Copy:
    """A copy of the tree that is changed in one place at a time and put back."""

    _stamps = itertools.count(int(time.time()))

    def __init__(self, root: Path, files: Iterable[Path], place: Path) -> None:
        self.place = place
        for file in files:
            to = place / file.relative_to(root)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, to)

    def try_out(self, change: Planted) -> Tried:
        began = time.monotonic()
        path = self.place / "src" / "timebell" / change.file
        text = path.read_text(encoding="utf-8")
        try:
            self._write(path, change.applied_to(text))
        except Stale as error:
            return Tried(name=change.name, outcome="stale", words=str(error), seconds=0)
        try:
            outcome, words = self.run(change.tests)
        finally:
            self._write(path, text)
        return Tried(
            name=change.name, outcome=outcome, words=words, seconds=round(time.monotonic() - began, 1)
        )

    def run(self, tests: Sequence[str], seconds: float = _SECONDS) -> tuple[Outcome, str]:
        """The tests in the copy, up to the first that fails."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=line", *_PLUGINS, *tests]
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.place / "src"),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONDONTWRITEBYTECODE": "",
        }
        try:
            done = subprocess.run(
                command,
                cwd=self.place,
                env=environment,
                capture_output=True,
                text=True,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "killed", f"did not end in {seconds:.0f} seconds"
        if done.returncode == _PASSED:
            return "survived", ""
        noticed = _NOTICED.search(done.stdout)
        if done.returncode == _FAILED and noticed is not None:
            return "killed", noticed[1]
        return "broken", (done.stdout + done.stderr)[-2_000:]

    def _write(self, path: Path, text: str) -> None:
        """With a time of its own, so that no compiled file of another state is taken for this one's."""
        path.write_text(text, encoding="utf-8")
        stamp = next(self._stamps)
        os.utime(path, (stamp, stamp))


class Notebook:
    """What was found out about one state of the tree, a line for each change, so that a run can be taken up again."""

    def __init__(self, path: Path, state: str) -> None:
        self._path = path
        self._state = state

    def read(self) -> dict[str, Tried]:
        lines = self._path.read_text(encoding="utf-8").splitlines() if self._path.exists() else []
        entries = [json.loads(line) for line in lines]
        return {
            entry["tried"]["name"]: Tried(**entry["tried"])
            for entry in entries
            if entry["state"] == self._state
        }

    def add(self, tried: Tried) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"state": self._state, "tried": asdict(tried)}) + "\n")


def state_of(root: Path, files: Iterable[Path]) -> str:
    """A name for all that the files say."""
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(f"{file.relative_to(root)}\0".encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def try_all(
    changes: Sequence[Planted], copies: Sequence[Copy], on_tried: Callable[[Tried], None]
) -> list[Tried]:
    """All of them, in as many copies at once as there are."""
    free: SimpleQueue[Copy] = SimpleQueue()
    for copy in copies:
        free.put(copy)

    def one(change: Planted) -> Tried:
        copy = free.get()
        try:
            tried = copy.try_out(change)
        finally:
            free.put(copy)
        on_tried(tried)
        return tried

    with ThreadPoolExecutor(len(copies)) as pool:
        return list(pool.map(one, changes))


def faults(changes: Sequence[Planted], tried: Iterable[Tried]) -> list[str]:
    """What has to be mended: a test that is missing, or an entry of the list that is not true any more."""
    explained = {change.name: change.survives for change in changes}
    found = []
    for each in tried:
        if each.outcome in ("stale", "broken"):
            found.append(f"{each.name}: {each.outcome}: {each.words}")
        elif each.outcome == "survived" and explained[each.name] is None:
            found.append(f"{each.name}: no test noticed it")
        elif each.outcome == "killed" and explained[each.name] is not None:
            found.append(
                f"{each.name}: {each.words} noticed it, so that it survives is explained without need"
            )
    return found
