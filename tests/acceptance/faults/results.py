"""One line of results for each run of a fault, and the table in the documentation that is made of them.

    python -m tests.acceptance.faults.results FILE

The tests append to the file that FAULTS_RESULTS names; without it they only judge. A line also tells when a test begins
and ends, so that a run which was cut off goes on where it was, and the last run of each test is the one that counts.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import orjson

RESULTS = "FAULTS_RESULTS"
ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "explanation" / "faults.md"
DIRTY = "-dirty"
OLDER = "†"
BEGIN, END = "<!-- results begin -->", "<!-- results end -->"
_COLUMNS = (
    "fault",
    "injection",
    "runs",
    "jobs",
    "lost",
    "early",
    "duplicated",
    "recovery",
    "load",
    "date and commit",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one run of one fault came to. `number` orders the table and names the fault in the catalogue."""

    number: str
    fault: str
    injection: str
    jobs: int
    lost: int
    early: int
    duplicated: int
    recovery_seconds: float | None = None
    remark: str = ""
    runs: int = 1
    seed: int | None = None
    load: float | None = None
    date: str = ""
    commit: str = ""


@dataclass(slots=True, kw_only=True)
class Run:
    """The last run of one test: what it left, and how it ended. `outcome` is empty where it was cut off."""

    commit: str
    outcome: str = ""
    results: list[Result] = field(default_factory=list)


def add_result(result: Result) -> None:
    now = {"date": datetime.now(UTC).date().isoformat(), "commit": commit(), "load": os.getloadavg()[0]}
    # pytest says which test is going on, and in which part of it.
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    _append({"test": test, "result": asdict(result) | now})


def add_tests(tests: Iterable[str]) -> None:
    """All that there are by now; what is not among them any more has no row."""
    _append({"tests": list(tests)})


def add_begin(test: str) -> None:
    _append({"test": test, "begin": commit()})


def add_end(test: str, outcome: str) -> None:
    _append({"test": test, "end": outcome})


def _append(content: Mapping[str, object]) -> None:
    """One line, appended in one write, for several tests may run at once."""
    path = os.environ.get(RESULTS)
    if path is None:
        return
    line = orjson.dumps(content) + b"\n"
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(file, line)
    finally:
        os.close(file)


@cache
def commit() -> str:
    """Empty where this is not a checkout, or nobody can tell. The page that is written here makes nothing dirty."""
    head = _git("rev-parse", "--short", "HEAD").strip()
    page = PAGE.relative_to(ROOT).as_posix()
    is_dirty = bool(_git("status", "--porcelain", "--", ".", f":(exclude){page}").strip())
    return f"{head}{DIRTY}" if head and is_dirty else head


def _git(*arguments: str) -> str:
    try:
        asked = subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return asked.stdout


def load_runs(path: Path) -> dict[str, Run]:
    """The last run of each test that there is, in the order in which they began; those that never ran come first."""
    runs: dict[str, Run] = {}
    for line in path.read_bytes().splitlines() if path.exists() else ():
        content = orjson.loads(line)
        if "tests" in content:
            tests = content["tests"]
            never = {test: Run(commit="") for test in tests if test not in runs}
            runs = never | {test: run for test, run in runs.items() if test in tests}
        elif "begin" in content:
            runs.pop(content["test"], None)
            runs[content["test"]] = Run(commit=content["begin"])
        elif (run := runs.get(content["test"])) is None:
            continue
        elif "end" in content:
            run.outcome = content["end"]
        else:
            run.results.append(Result(**content["result"]))
    return runs


def is_done(run: Run | None, here: str) -> bool:
    """Whether there is no need to run a test again: it passed, on just what is checked out here."""
    return run is not None and run.outcome == "passed" and run.commit == here and not here.endswith(DIRTY)


def table(runs: Iterable[Run]) -> str:
    """A row for each fault and injection: counts are summed, the longest recovery and every remark kept.

    What was cut off is left out. The last line says of which commit the rows are; those of another are marked.
    """
    runs = list(runs)
    ended = [run for run in runs if run.outcome in ("passed", "failed")]
    newest = ended[-1].commit if ended else ""
    rows: dict[tuple[str, str, str], list[Result]] = {}
    for result in (result for run in ended for result in run.results):
        rows.setdefault((result.number, result.fault, result.injection), []).append(result)
    lines = [_line(_COLUMNS), _line(["---"] * len(_COLUMNS))]
    lines += [_line(_cells(some, newest)) for _, some in sorted(rows.items(), key=lambda row: _order(row[0]))]
    older = sum(any(result.commit != newest for result in some) for some in rows.values())
    failed = sum(run.outcome == "failed" for run in ended)
    return "\n".join(
        [*lines, "", _said(newest, older, f"{len(ended)} of {len(runs)} tests ran, {failed} failed")]
    )


def _said(newest: str, older: int, tests: str) -> str:
    rows = "Every row is" if not older else "The rows are"
    marked = f", but for {older} that are of another commit and marked with {OLDER}" if older else ""
    return f"{rows} of commit {newest or 'unknown'}{marked}; {tests}."


def _order(names: tuple[str, str, str]) -> tuple[int, tuple[str, str, str]]:
    first = re.search(r"\d+", names[0])
    return int(first.group()) if first else 0, names


def _cells(some: Sequence[Result], newest: str) -> list[str]:
    last = max(some, key=lambda result: result.date)
    loads = [each.load for each in some if each.load is not None]
    mark = f" {OLDER}" if any(each.commit != newest for each in some) else ""
    sums = {
        name: sum(getattr(result, name) for result in some)
        for name in ("runs", "jobs", "lost", "early", "duplicated")
    }
    longest = max((each.recovery_seconds for each in some if each.recovery_seconds is not None), default=None)
    recovery = "–" if longest is None else f"{longest:.1f} s"
    remarks = " / ".join(dict.fromkeys(each.remark for each in some if each.remark))
    return [
        f"{last.number} {last.fault}",
        last.injection,
        *(f"{sums[name]:,}" for name in sums),
        f"{recovery} ({remarks})" if remarks else recovery,
        f"{max(loads):.0f}" if loads else "–",
        f"{last.date} {last.commit}".strip() + mark,
    ]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def filled(page: str, rows: str) -> str:
    """The page with what stands between the two marks replaced."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    if not rest or END not in rest:
        raise SystemExit(f"the page needs a line {BEGIN} and, after it, a line {END}")
    return f"{before}{BEGIN}\n\n{rows}\n\n{END}{after}"


def main(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> None:
    named = arguments[0] if arguments else environment.get(RESULTS)
    if named is None:
        raise SystemExit(f"name the file of results, or set {RESULTS}")
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(filled(page, table(load_runs(Path(named)).values())), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
