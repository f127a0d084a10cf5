"""A program of the user's own with Timebell inside it, whose handlers share its connections.

python -m tests.acceptance.faults.program URL HISTORY_FILE NAME
"""

from __future__ import annotations

import asyncio
import signal
import sys

from tests.acceptance.faults.node import configure


async def run() -> None:
    from tests.acceptance.faults import handlers
    from timebell import running

    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    async with running() as bell:
        handlers.bell = bell
        print("the program is at work", flush=True)
        await stopping.wait()


def main() -> None:
    configure(*sys.argv[1:4])
    asyncio.run(run())


if __name__ == "__main__":
    main()
