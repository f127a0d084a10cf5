"""Where the data of a sandbox lie: where the settings say, or in a folder that ends with it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from timebell.config import Settings

_PREFIX = "timebell-sandbox-"


@contextmanager
def sandbox_folder(settings: Settings) -> Iterator[Path | None]:
    """Not the folder that is meant where none is named: in that one time is real."""
    if settings.data is not None or settings.database_url is not None:
        yield settings.data
        return
    home = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        yield home / "data"
    finally:
        shutil.rmtree(home, ignore_errors=True)
