"""Plant faults in copies of the tree and see that tests notice each: `python -m tests.mutants -k expiry`."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.mutants.planted import Planted, planted
from tests.mutants.trying import Copy, Notebook, Tried, faults, state_of, try_all
from tests.shape.tree import ROOT, kept_files
from timebell.testing.run_folder import roomy_folder

NOTEBOOK = ROOT / "build" / "mutants.jsonl"
_ALL_TESTS_SECONDS = 3_600.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("-k", metavar="TEXT", default="", help="only those with this in their name or file")
    parser.add_argument("--at-once", type=int, default=2, metavar="N", help="how many are tried at once")
    parser.add_argument(
        "--again", action="store_true", help="also those that this tree was tried with before"
    )
    parser.add_argument("--list", action="store_true", help="show them, and try none")
    options = parser.parse_args()
    changes = [each for each in planted() if options.k in each.name or options.k in each.file]
    if not changes:
        print(f"No planted change has {options.k!r} in its name or file.", file=sys.stderr)
        return 1
    if options.list:
        for change in changes:
            print(f"{change.name}  {change.file}: {change.why}")
        return 0
    return _try(changes, at_once=max(1, options.at_once), is_again=options.again)


def _try(changes: list[Planted], *, at_once: int, is_again: bool) -> int:
    files = kept_files()
    notebook = Notebook(NOTEBOOK, state_of(ROOT, files))
    known = {} if is_again else notebook.read()
    left = [change for change in changes if change.name not in known]
    place = Path(tempfile.mkdtemp(prefix="timebell-mutants-", dir=roomy_folder()))
    try:
        copies = [Copy(ROOT, files, place / str(number)) for number in range(at_once)]
        if left and not _passes_unchanged(copies[0], left):
            return 1

        def on_tried(tried: Tried) -> None:
            notebook.add(tried)
            print(f"{tried.outcome:9} {tried.seconds:5.1f} s  {tried.name}  {tried.words}", flush=True)

        new = try_all(left, copies, on_tried)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return _report(changes, [*(known[each.name] for each in changes if each.name in known), *new])


def _passes_unchanged(copy: Copy, changes: list[Planted]) -> bool:
    """A test that fails by itself would notice everything."""
    tests = sorted({test for change in changes for test in change.tests})
    print(f"{len(changes)} changes; first the {len(tests)} selections of tests without any", flush=True)
    outcome, words = copy.run(tests, _ALL_TESTS_SECONDS)
    if outcome == "survived":
        return True
    print(f"The tests fail without any change: {words}", file=sys.stderr)
    return False


def _report(changes: list[Planted], tried: list[Tried]) -> int:
    counts = Counter(each.outcome for each in tried)
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())))
    reasons = {change.name: change.survives for change in changes}
    for each in tried:
        if each.outcome == "survived" and reasons[each.name] is not None:
            print(f"survives: {each.name}: {reasons[each.name]}")
    found = faults(changes, tried)
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
