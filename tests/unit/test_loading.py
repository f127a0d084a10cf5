"""Which apps a process loads: those that the settings name, and by default those that come with Timebell."""

from __future__ import annotations

from pathlib import Path

import pytest

from timebell.brokers.local import LocalBroker
from timebell.config import Settings
from timebell.errors import ConfigurationError
from timebell.loading import apps_of, load_apps


def test_nothing_is_loaded_where_the_settings_name_nothing() -> None:
    assert apps_of(Settings(apps=())) == []


@pytest.mark.parametrize(("package", "is_folder_left"), [("house_a", False), ("house_b", True)])
def test_a_default_app_that_was_deleted_is_not_missed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, package: str, is_folder_left: bool
) -> None:
    """Neither where its folder is gone, nor where only the folder is left."""
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").touch()
    if is_folder_left:
        (tmp_path / package / "gone").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in (f"{package}.gone", f"{package}.apps.gone"):
        assert apps_of(Settings(apps=(name,), sources=(("apps", "default"),))) == []


def test_an_app_that_somebody_names_must_be_there() -> None:
    with pytest.raises(ConfigurationError, match=r"no module 'acme\.shifts'"):
        apps_of(Settings(apps=("acme.shifts",)))


def test_an_app_that_needs_the_broker_is_made_of_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "house_c.py").write_text(
        "from timebell import App\n"
        "def with_broker(broker):\n"
        "    return App(name='post' if broker is None else 'mail')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    [app] = apps_of(Settings(apps=("house_c",)))
    assert app.name == "post"
    [app] = load_apps(["house_c"], LocalBroker())
    assert app.name == "mail"
