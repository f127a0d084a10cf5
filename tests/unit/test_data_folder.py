"""What stands in the way of a data folder is named as it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from timebell.db.data_folder import DataFolder
from timebell.errors import EmbeddedServerError


@pytest.mark.parametrize("below", ["", "data"])
def test_a_file_in_the_place_of_a_folder_is_named_itself(tmp_path: Path, below: str) -> None:
    file = tmp_path / "file"
    file.touch()
    folder = DataFolder(file / below)
    words = rf"{re.escape(str(file))} is not a folder\. Move it away, or choose another with --data"
    with pytest.raises(EmbeddedServerError, match=words), folder.explained():
        folder.server_file.read_text()
    with pytest.raises(EmbeddedServerError, match=words), folder.explained():
        folder.make()
