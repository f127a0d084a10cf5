"""Play a seed: `python -m tests.simulation --seed 17 --days 2`."""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
from pathlib import Path

from tests.simulation.database import make_world
from tests.simulation.ground import leave
from tests.simulation.parts import parts
from tests.simulation.run import run_seed
from timebell.testing.database import DatabaseFactory, TestDatabase
from timebell.testing.run_folder import make_run_folder


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1, help="how many, counted from --seed on")
    parser.add_argument("--days", type=float, default=2)
    parser.add_argument("--trace", action="store_true", help="print everything that happened, in order")
    parser.add_argument("--world", help="a database that was made for it, as JSON, instead of one of its own")
    options = parser.parse_args()
    if options.world is not None:
        database = TestDatabase(**json.loads(options.world))
        return _play(options, database)
    folder = Path(make_run_folder())
    try:
        with asyncio.Runner() as runner:
            factory = runner.run(DatabaseFactory.start(folder / "main"))
            try:
                runner.run(factory.make_template())
                database = runner.run(make_world(factory, [part.app for part in parts()]))
                return _play(options, database)
            finally:
                runner.run(factory.stop())
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _play(options: argparse.Namespace, database: TestDatabase) -> int:
    broken = 0
    for seed in range(options.seed, options.seed + options.seeds):
        result = run_seed(seed, database=database, days=options.days, is_traced=options.trace)
        print(*result.trace, sep="\n", end="\n" if result.trace else "")
        print(json.dumps({"seed": seed, "hash": result.hash[:16], "seconds": round(result.seconds, 2)}))
        print(json.dumps(result.figures()))
        print(*result.violations, sep="\n", end="\n" if result.violations else "")
        broken += bool(result.violations)
    leave(database)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
