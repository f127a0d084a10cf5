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


def test_roles_of_a_newer_version_get_their_passwords_from_who_holds_the_folder(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "data")
    folder.make()
    before = folder.credentials(["owner", "app"])
    folder.postgres.mkdir()
    assert folder.credentials(["owner", "app", "api"], is_holder=False) == before
    after = folder.credentials(["owner", "app", "api"])
    assert {**after, **before} == after
    assert len({*after.values()}) == 3
    assert folder.credentials(["owner", "app", "api"], is_holder=False) == after
    assert folder.credentials_file.stat().st_mode & 0o777 == 0o600


def test_a_secret_is_made_once_by_who_holds_the_folder(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    assert folder.secret_key(is_holder=False) is None
    made = folder.secret_key(is_holder=True)
    assert made is not None
    assert len(made) >= 32
    assert folder.secret_key(is_holder=False) == folder.secret_key(is_holder=True) == made
    assert folder.secret_file.stat().st_mode & 0o777 == 0o600


def test_a_secret_is_exchanged_and_those_of_before_are_kept_for_a_while(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "data")
    folder.make()
    made = [folder.secret_key(is_holder=True)]
    for kept, before in ((1, 1), (2, 2), (2, 2), (0, 0)):
        folder.rotate_secret_key(kept=kept)
        assert list(folder.previous_secret_keys()) == made[::-1][:before]
        made.append(folder.secret_key(is_holder=False))
    assert len(set(made)) == 5
    assert folder.secret_file.stat().st_mode & 0o077 == 0
