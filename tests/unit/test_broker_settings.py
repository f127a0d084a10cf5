"""The settings about a broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from timebell.config import explain, load_settings
from timebell.errors import ConfigurationError


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("local:", "local:"),
        ("amqp://host", "amqp://host"),
        ("amqp://guest:guest@127.0.0.1:5672/", "amqp://guest:***@127.0.0.1:5672/"),
        (
            "amqps://u:p%40ss@a.example:5671,b.example/shop%2Fone",
            "amqps://u:***@a.example:5671,b.example/shop%2Fone",
        ),
        ("amqp://u@[::1]:5672/v?heartbeat=10", "amqp://u@[::1]:5672/v"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    settings = load_settings(environ={"TIMEBELL_BROKER_URL": url})
    assert settings.broker_url == url
    assert {line.name: line.value for line in explain(settings)}["broker_url"] == shown
    assert "guest:guest" not in repr(settings)


@pytest.mark.parametrize(
    "url", ["localhost:5672", "http://host", "amqp:/host", "amqp://u:p@h/a/b", "local:x"]
)
def test_what_is_no_url_of_a_broker_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(
        ConfigurationError, match=r"broker_url: the value .* is refused; give a URL such as amqp:"
    ):
        load_settings(environ={"TIMEBELL_BROKER_URL": url})


def test_no_queue_at_all_has_a_word_in_the_environment(tmp_path: Path) -> None:
    assert load_settings(environ={"TIMEBELL_BROKER_DUE_QUEUE": "none"}).broker_due_queue == ""
    assert load_settings(environ={"TIMEBELL_BROKER_DUE_QUEUE": "dues"}).broker_due_queue == "dues"
    path = tmp_path / "b.toml"
    path.write_text("broker_due_queue = ''")
    assert load_settings(path, {}).broker_due_queue == ""
