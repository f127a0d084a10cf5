"""`timebell keys rotate-secret`: the folder of an embedded server has a new secret, and remembers the old one."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from timebell.cli.keys import keys
from timebell.db.data_folder import DataFolder
from timebell.errors import ConfigurationError


def rotate(folder: Path, *options: str) -> None:
    CliRunner().invoke(
        keys,
        ["rotate-secret", "--data", str(folder), *options],
        catch_exceptions=False,
        standalone_mode=False,
    )


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DATABASE_URL", "TIMEBELL_DATABASE_URL", "TIMEBELL_SECRET_KEY"):
        monkeypatch.delenv(name, raising=False)


def test_there_is_a_new_secret_and_the_old_one_is_believed(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "data")
    folder.make()
    old = folder.secret_key(is_holder=True)
    rotate(folder.path)
    assert folder.secret_key(is_holder=False) != old
    assert folder.previous_secret_keys() == (old,)
    rotate(folder.path, "--keep", "0")
    assert folder.previous_secret_keys() == ()


def test_where_the_settings_have_it_they_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="has no secret yet"):
        rotate(tmp_path)
    monkeypatch.setenv("TIMEBELL_SECRET_KEY", "k" * 32)
    with pytest.raises(ConfigurationError, match="put what it is into previous_secret_keys"):
        rotate(tmp_path)
