"""What an operator asks about providers from the command line."""

from __future__ import annotations

import json
from pathlib import Path

from tests.acceptance.processes import answer, assert_refused, command
from timebell.providers.push_encryption import VapidKey

SECRET = "hunter2-and-more"


def settings_file(folder: Path) -> Path:
    path = folder / "bell.toml"
    path.write_text(
        '[[providers]]\nkind = "smtp"\nname = "mail"\nhost = "smtp.example.org"\nsender = "bell@example.org"\n'
        'username = "bell"\npassword_env = "SMTP_PASSWORD"\n',
        encoding="utf-8",
    )
    return path


def finding(*arguments: object, **variables: str) -> tuple[str, str]:
    """What the doctor says of providers; what else it finds is none of this test's business."""
    done = command("doctor", "--json", *arguments, **variables)
    [found] = [one for one in json.loads(done.stdout)["findings"] if one["name"] == "providers"]
    return found["verdict"], found["found"]


def test_the_doctor_says_demo_or_which_providers(place: Path) -> None:
    config, nowhere = ("--config", settings_file(place)), ("--data", place / "nothing")
    assert finding(*nowhere) == ("ok", "demo mode, for want of one in the settings: only the inbox is real")
    assert finding(*config, *nowhere, SMTP_PASSWORD=SECRET) == ("ok", "mail (email)")
    asked = finding(*config, *nowhere, TIMEBELL_DEMO="true")
    assert asked == ("ok", "demo mode, as the settings say: only the inbox is real")
    verdict, found = finding(*config, *nowhere)
    assert verdict == "fail"
    assert found.startswith("providers.mail.password_env: names SMTP_PASSWORD, which is not set")
    assert finding(*nowhere, TIMEBELL_DEMO="false")[0] == "warn"


def test_config_shows_that_a_secret_is_set_and_not_what_it_is(place: Path) -> None:
    config = ("--config", settings_file(place))
    lines = answer("config", *config, SMTP_PASSWORD=SECRET)
    [line] = [line for line in lines if line["name"] == "providers"]
    assert line["value"][0]["name"] == "mail"
    assert line["value"][0]["password"] == "***"
    for arguments in (config, (*config, "--json")):
        assert SECRET not in command("config", *arguments, SMTP_PASSWORD=SECRET).stdout


def test_a_node_without_its_secret_does_not_start(place: Path) -> None:
    done = command(
        "work", "--config", settings_file(place), DATABASE_URL="postgresql://someone@127.0.0.1:1/timebell"
    )
    assert_refused(done, 2, "providers.mail.password_env", "SMTP_PASSWORD")


def test_a_pair_of_keys_for_push() -> None:
    first, second = answer("providers", "vapid"), answer("providers", "vapid")
    assert first.keys() == {"vapid_key", "public_key"}
    assert first != second
    assert VapidKey.read(first["vapid_key"]).public == first["public_key"]
    told = command("providers", "vapid")
    assert told.returncode == 0
    assert "TIMEBELL_PROVIDER_WEBPUSH_VAPID_KEY" in told.stdout
