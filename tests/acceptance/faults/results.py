"""One line of results for each run of a fault, and the table in the documentation that is made of them.

    python -m tests.acceptance.faults.results FILE

The tests append to the file that FAULTS_RESULTS names; without it they only judge.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import orjson

RESULTS = "FAULTS_RESULTS"
PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "faults.md"
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
    date: str = ""
    commit: str = ""


def add_result(result: Result) -> None:
    """One line, appended in one write, for several tests may run at once."""
    path = os.environ.get(RESULTS)
    if path is None:
        return
    today = datetime.now(UTC).date().isoformat()
    line = orjson.dumps(asdict(result) | {"date": today, "commit": _commit()}) + b"\n"
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(file, line)
    finally:
        os.close(file)


def _commit() -> str:
    """Empty where this is not a checkout, or nobody can tell."""
    try:
        asked = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--exclude=*"],
            cwd=PAGE.parent,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return asked.stdout.strip()


def load_results(path: Path) -> list[Result]:
    return [Result(**orjson.loads(line)) for line in path.read_bytes().splitlines() if line.strip()]


def table(results: Iterable[Result]) -> str:
    """A row for each fault and injection: counts are summed, the longest recovery and every remark kept."""
    rows: dict[tuple[str, str, str], list[Result]] = {}
    for result in results:
        rows.setdefault((result.number, result.fault, result.injection), []).append(result)
    lines = [_line(_COLUMNS), _line(["---"] * len(_COLUMNS))]
    lines += [_line(_cells(some)) for _, some in sorted(rows.items(), key=lambda row: _order(row[0]))]
    return "\n".join(lines)


def _order(names: tuple[str, str, str]) -> tuple[int, tuple[str, str, str]]:
    first = re.search(r"\d+", names[0])
    return int(first.group()) if first else 0, names


def _cells(some: Sequence[Result]) -> list[str]:
    last = max(some, key=lambda result: result.date)
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
        f"{last.date} {last.commit}".strip(),
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
    PAGE.write_text(filled(page, table(load_results(Path(named)))), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
