"""Settings: who wins, what is refused and how, and what is never shown."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import pickle
import re
from pathlib import Path
from typing import Any

import pytest

from timebell.config import (
    FILE_BYTES_MAX,
    RULES,
    SettingLine,
    Settings,
    explain,
    load_settings,
    mask_url,
)
from timebell.errors import ConfigurationError

URL = "postgresql://bell:s3cret@db.example:5432/bell"

# Written out a second time on purpose: a default or a limit that changes by accident is found here.
WHOLE_NUMBERS: dict[str, tuple[Any, Any, Any]] = {
    "port": (8080, 1, 65535),
    "body_bytes_max": (262_144, 1024, 16_777_216),
    "requests_per_minute": (6000, 1, 100_000_000),
    "tenant_requests_per_minute": (60_000, 1, 1_000_000_000),
    "tenant_jobs_max": (1_000_000, 1, 1_000_000_000),
    "tenant_payload_bytes_max": (4_294_967_296, 1_024, 10**15),
    "tenant_schedules_max": (100_000, 1, 1_000_000_000),
    "tenant_recipients_max": (1_000_000, 1, 1_000_000_000),
    "pool_size": (11, 2, 200),
    "concurrency": (100, 1, 10_000),
    "threads": (8, 1, 256),
    "batch": (1000, 1, 5000),
    "held_bytes_max": (33_554_432, 0, 17_179_869_184),
    "max_attempts": (3, 1, 100),
    "payload_bytes_max": (65_536, 1024, 1_048_576),
    "steps_max": (300, 1, 1000),
    "many_max": (10_000, 1, 100_000),
    "horizon_days": (60, 30, 90),
    "log_days": (30, 1, 3650),
    "dead_days": (180, 1, 3650),
    "delivery_days": (180, 1, 3650),
    "alert_samples_min": (20, 1, 100_000),
    "alert_days": (180, 1, 3_650),
}
NUMBERS: dict[str, tuple[Any, Any, Any]] = {
    "connect_seconds": (10.0, 0.1, 120.0),
    "statement_seconds": (30.0, 0.1, 3600.0),
    "read_seconds": (5.0, 0.05, 3600.0),
    "lock_seconds": (5.0, 0.01, 60.0),
    "cancel_wait_seconds": (2.0, 0.0, 60.0),
    "lease_seconds": (30.0, 2.0, 600.0),
    "lease_margin_seconds": (5.0, 0.1, 300.0),
    "tenant_share": (0.9, 0.1, 1.0),
    "sweep_seconds": (0.5, 0.05, 60.0),
    "job_timeout_seconds": (300.0, 0.1, 86_400.0),
    "stop_seconds": (5.0, 0.0, 600.0),
    "alert_seconds": (15.0, 1.0, 3600.0),
}
OTHERS: dict[str, Any] = {
    "database_url": None,
    "owner_url": None,
    "api_url": None,
    "read_url": None,
    "data": None,
    "pooled": False,
    "listen_url": None,
    "host": "127.0.0.1",
    "api_key": None,
    "secret_key": None,
    "previous_secret_keys": (),
    "public_url": None,
    "origins": (),
    "apps": (
        "timebell.apps.reminders",
        "timebell.apps.meetings",
        "timebell.apps.scheduler",
        "timebell.apps.sequences",
        "timebell.apps.marketplace",
    ),
    "broker_url": None,
    "broker_tenant": "default",
    "broker_trusts_tenant": False,
    "broker_due_queue": "timebell.due",
    "payment_provider": None,
    "stripe_secret_key": None,
    "stripe_webhook_secret": None,
    "stripe_url": None,
    "providers": (),
    "demo": None,
    "node_name": None,
    "queues": (),
    "retry_delays_seconds": (60.0, 300.0, 900.0),
    "operations_recipients": (),
    "log_level": "info",
    "log_format": "console",
}


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def refusal(environ: dict[str, str] | None = None, path: Path | None = None, **explicit: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load_settings(path, environ or {}, **explicit)
    return str(caught.value)


def line_of(settings: Settings, name: str) -> SettingLine:
    return next(line for line in explain(settings) if line.name == name)


def test_defaults() -> None:
    expected = OTHERS | {name: row[0] for name, row in (WHOLE_NUMBERS | NUMBERS).items()}
    assert {name: getattr(Settings(), name) for name in RULES} == expected
    assert load_settings(environ={}) == Settings()


class TestPrecedence:
    def test_an_argument_beats_the_environment_beats_the_file(self, tmp_path: Path) -> None:
        path = write(
            tmp_path / "a.toml", "port = 1001", "threads = 11", "batch = 21", "apps = ['acme.shifts']"
        )
        environ = {"TIMEBELL_PORT": "1002", "TIMEBELL_THREADS": "12"}
        settings = load_settings(path, environ, port=1003)
        assert (settings.port, settings.threads, settings.batch, settings.steps_max) == (1003, 12, 21, 300)
        assert settings.apps == ("acme.shifts",)
        sources = {line.name: line.source for line in explain(settings)}
        assert {name: source for name, source in sources.items() if source != "default"} == {
            "port": "argument",
            "threads": "environment",
            "batch": "file",
            "apps": "file",
        }

    def test_the_file_is_the_named_one_else_the_variables_else_the_folders(self, tmp_path: Path) -> None:
        named = write(tmp_path / "named.toml", "port = 1")
        environ = {"TIMEBELL_CONFIG": str(write(tmp_path / "variable.toml", "port = 2"))}
        assert load_settings(environ={}).port == 8080
        write(tmp_path / "timebell.toml", "port = 3")
        assert load_settings(environ={}).port == 3
        assert load_settings(environ=environ).port == 2
        assert load_settings(named, environ).port == 1
        assert load_settings(str(named), environ).port == 1

    def test_the_process_environment_is_read_when_none_is_given(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "environ", {"TIMEBELL_PORT": "4321"})
        assert load_settings().port == 4321

    def test_the_projects_own_database_url_beats_the_customary_one(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.toml", 'database_url = "postgresql://file/one"')
        customary = {"DATABASE_URL": "postgresql://customary/two"}
        own = customary | {"TIMEBELL_DATABASE_URL": "postgresql://own/three"}
        assert load_settings(path, {}).database_url == "postgresql://file/one"
        assert load_settings(path, customary).database_url == "postgresql://customary/two"
        assert load_settings(path, own).database_url == "postgresql://own/three"
        assert line_of(load_settings(path, customary), "database_url").source == "environment"

    def test_empty_variables_and_arguments_of_none_count_as_not_given(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.toml", "port = 1001")
        environ = {"TIMEBELL_PORT": "", "TIMEBELL_CONFIG": "", "DATABASE_URL": "", "TIMEBELL_NODE_NAME": ""}
        settings = load_settings(path, environ, port=None)
        assert settings == Settings(port=1001)

    def test_a_value_that_equals_the_default_keeps_its_source(self) -> None:
        assert line_of(load_settings(environ={"TIMEBELL_PORT": "8080"}), "port").source == "environment"

    def test_a_constructed_record_tells_defaults_from_arguments(self) -> None:
        settings = Settings(port=81)
        assert line_of(settings, "port").source == "argument"
        assert line_of(settings, "threads").source == "default"


class TestReading:
    def test_texts_of_the_environment_become_values(self) -> None:
        settings = load_settings(
            environ={
                "TIMEBELL_APPS": "acme.shifts, acme.invoices",
                "TIMEBELL_RETRY_DELAYS_SECONDS": "1, 2.5,3",
                "TIMEBELL_POOLED": "YES",
                "TIMEBELL_LEASE_SECONDS": "12",
                "TIMEBELL_LOG_LEVEL": "WARNING",
                "TIMEBELL_DATA": "elsewhere",
                "DATABASE_URL": URL,
                "PATH": "/bin",
                "TIMEBELLPORT": "nothing of ours",
            }
        )
        assert settings.apps == ("acme.shifts", "acme.invoices")
        assert settings.retry_delays_seconds == (1.0, 2.5, 3.0)
        assert settings.pooled is True
        assert settings.lease_seconds == 12.0
        assert settings.log_level == "warning"
        assert settings.data == Path("elsewhere")

    @pytest.mark.parametrize(("text", "value"), [("true", True), ("1", True), ("No", False), ("0", False)])
    def test_flags(self, text: str, value: bool) -> None:
        assert load_settings(environ={"TIMEBELL_POOLED": text, "DATABASE_URL": URL}).pooled is value

    def test_a_path_in_the_file_starts_at_the_files_folder(self, tmp_path: Path) -> None:
        (tmp_path / "etc").mkdir()
        path = write(tmp_path / "etc" / "bell.toml", 'data = "var"')
        assert load_settings(path, {}).data == tmp_path / "etc" / "var"
        assert load_settings(write(path, f'data = "{tmp_path}"'), {}).data == tmp_path

    def test_a_tilde_is_the_home_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", "/home/of/someone")
        path = write(tmp_path / "a.toml", 'data = "~/bell"')
        assert load_settings(path, {}).data == Path("/home/of/someone/bell")
        assert load_settings(environ={"TIMEBELL_DATA": "~/bell"}).data == Path("/home/of/someone/bell")
        assert "data: '~nobody-of-that-name/x'" in refusal({"TIMEBELL_DATA": "~nobody-of-that-name/x"})

    def test_variables_of_a_kubernetes_service_are_not_taken_for_settings(self) -> None:
        environ = {
            "TIMEBELL_SERVICE_HOST": "10.0.0.9",
            "TIMEBELL_SERVICE_PORT": "80",
            "TIMEBELL_SERVICE_PORT_HTTP": "80",
            "TIMEBELL_PORT": "tcp://10.0.0.9:80",
            "TIMEBELL_PORT_80_TCP": "tcp://10.0.0.9:80",
            "TIMEBELL_PORT_80_TCP_ADDR": "10.0.0.9",
            "TIMEBELL_WEB_PORT": "tcp://10.0.0.9:80",
            "TIMEBELL_WEB_SERVICE_HOST": "10.0.0.9",
        }
        assert load_settings(environ=environ) == Settings()
        assert "TIMEBELL_WEB_PORT" in refusal({"TIMEBELL_WEB_PORT": "80"})

    def test_a_byte_order_mark_is_no_part_of_the_file(self, tmp_path: Path) -> None:
        (tmp_path / "timebell.toml").write_bytes(b"\xef\xbb\xbfport = 99")
        assert load_settings(environ={}).port == 99


class TestRefusedFiles:
    def test_a_named_file_must_exist(self, tmp_path: Path) -> None:
        missing = tmp_path / "missing.toml"
        assert f"{missing}: cannot be read" in refusal(path=missing)
        assert f"{missing}: cannot be read" in refusal({"TIMEBELL_CONFIG": str(missing)})

    @pytest.mark.parametrize(
        "content", [b"port 80", b"port = 80\nport = 81", b"node_name = '\xff'", b"a=" + b"[" * 9000]
    )
    def test_what_is_not_toml(self, content: bytes, tmp_path: Path) -> None:
        (tmp_path / "timebell.toml").write_bytes(content)
        assert "timebell.toml: is not TOML" in refusal()

    def test_a_file_over_the_limit(self, tmp_path: Path) -> None:
        write(tmp_path / "timebell.toml", "#" * FILE_BYTES_MAX)
        assert load_settings(environ={}) == Settings()
        write(tmp_path / "timebell.toml", "#" * (FILE_BYTES_MAX + 1))
        assert f"over {FILE_BYTES_MAX} bytes" in refusal()


class TestUnknownNames:
    def test_in_the_file(self, tmp_path: Path) -> None:
        write(tmp_path / "timebell.toml", "prot = 80", "pool-size = 5", "[engine]", "threads = 2")
        message = refusal()
        assert "timebell.toml is refused" in message
        assert "prot: is no setting; did you mean port?" in message
        assert "pool-size: is no setting; did you mean pool_size?" in message
        assert "engine: is no setting" in message

    def test_in_the_environment(self) -> None:
        message = refusal({"TIMEBELL_LEASE_SECOND": "9", "TIMEBELL_API_KYE": "a-key-that-nobody-may-see"})
        assert "TIMEBELL_LEASE_SECOND: is no setting; did you mean TIMEBELL_LEASE_SECONDS?" in message
        assert "did you mean TIMEBELL_API_KEY?" in message
        assert "nobody-may-see" not in message

    def test_in_the_call(self) -> None:
        assert "prot: is no setting; did you mean port?" in refusal(prot=80)

    def test_a_name_like_no_other_still_gets_the_nearest(self) -> None:
        assert re.search(
            r"TIMEBELL_QQ: is no setting; did you mean TIMEBELL_\w+\?", refusal({"TIMEBELL_QQ": "1"})
        )

    def test_the_bookkeeping_of_the_record_is_no_setting(self) -> None:
        assert "TIMEBELL_SOURCES: is no setting" in refusal({"TIMEBELL_SOURCES": "x"})

    def test_the_report_is_bounded(self, tmp_path: Path) -> None:
        write(tmp_path / "timebell.toml", *(f"unknown_{number} = 1" for number in range(500)))
        assert len(refusal().splitlines()) < 30


# What has to move along so that a value at the end of its own range meets no contradiction.
COMPANIONS: dict[str, dict[str, Any]] = {
    "lease_seconds": {"lease_margin_seconds": 0.1},
    "lease_margin_seconds": {"lease_seconds": 600},
}


class TestRanges:
    @pytest.mark.parametrize("name", [*WHOLE_NUMBERS, *NUMBERS])
    def test_both_ends_are_allowed_and_nothing_beyond(self, name: str) -> None:
        _, low, high = (WHOLE_NUMBERS | NUMBERS)[name]
        companions = COMPANIONS.get(name, {})
        step = 1 if name in WHOLE_NUMBERS else 0.001
        assert getattr(Settings(**{name: low}, **companions), name) == low
        if name == "lease_margin_seconds":
            assert "half of lease_seconds" in refusal(**{name: high}, **companions)
        else:
            assert getattr(Settings(**{name: high}, **companions), name) == high
        for beyond in (low - step, high + step):
            message = refusal({f"TIMEBELL_{name.upper()}": str(beyond)}, **companions)
            assert message.startswith(f"{name}: {beyond!r} (environment) is refused; give a ")
            ends = (low, high) if name in WHOLE_NUMBERS else (f"{low:.10g}", f"{high:.10g}")
            assert message.endswith(f"number from {ends[0]} to {ends[1]}")

    @pytest.mark.parametrize("value", ["5", True, math.nan, math.inf, [5], {"x": 5}])
    def test_what_is_no_number(self, value: Any) -> None:
        names = WHOLE_NUMBERS.keys() | NUMBERS.keys()
        expected = {f"{name}: {value!r} (argument) is refused" for name in names}
        assert {
            line.split(";")[0] for line in refusal(**dict.fromkeys(names, value)).splitlines()
        } == expected

    def test_a_fraction_is_no_whole_number(self) -> None:
        lines = refusal({f"TIMEBELL_{name.upper()}": "2.5" for name in WHOLE_NUMBERS}).splitlines()
        assert {line[: line.index(" from")] for line in lines} == {
            f"{name}: '2.5' (environment) is refused; give a whole number" for name in WHOLE_NUMBERS
        }
        assert "port: 2.5 (argument) is refused" in refusal(port=2.5)

    def test_a_number_in_quotes_in_the_file(self, tmp_path: Path) -> None:
        write(tmp_path / "timebell.toml", 'port = "80"')
        assert refusal() == "port: '80' (file) is refused; give a whole number from 1 to 65535"

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("retry_delays_seconds", []),
            ("retry_delays_seconds", [1] * 21),
            ("retry_delays_seconds", [-1]),
            ("retry_delays_seconds", [2_592_001]),
            ("retry_delays_seconds", [True]),
            ("retry_delays_seconds", "60"),
            ("apps", "acme.shifts"),
            ("apps", ["acme..shifts"]),
            ("apps", ["acme/shifts"]),
            ("apps", ["3acme"]),
            ("apps", [7]),
            ("apps", ["acme"] * 101),
            ("node_name", ""),
            ("node_name", "two words"),
            ("node_name", "-first"),
            ("node_name", "n" * 101),
            ("node_name", 7),
            ("data", ""),
            ("data", "nul\0"),
            ("data", 7),
            ("pooled", "perhaps"),
            ("pooled", 1),
            ("demo", "perhaps"),
            ("providers", "smtp"),
            ("providers", [{"kind": "log", "name": f"log{number}"} for number in range(51)]),
            ("log_level", "loud"),
            ("log_level", 10),
            ("log_format", "xml"),
            ("public_url", "bell.example.org"),
            ("public_url", "https://bell.example.org/?x=1"),
            ("public_url", "https://me:pass@bell.example.org"),
            ("public_url", "https://bell.example.org/ x"),
        ],
    )
    def test_refused_values_of_other_kinds(self, name: str, value: Any) -> None:
        message = refusal(**{name: value})
        assert message.startswith(f"{name}: ")
        assert f"(argument) is refused; give {RULES[name].allowed}" in message

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("retry_delays_seconds", (0.0,)),
            ("retry_delays_seconds", (2_592_000.0,) * 20),
            ("apps", ("acme",) * 100),
            ("node_name", "a"),
            ("node_name", "web-1.example_" + "n" * 86),
            ("log_level", "debug"),
            ("log_format", "json"),
            ("api_key", "k" * 16),
            ("api_key", "~!" * 100),
            ("payment_provider", "simulator"),
            ("stripe_url", "https://api.stripe.com"),
            ("stripe_url", "http://127.0.0.1:8443"),
            ("secret_key", "k" * 32),
            ("public_url", "http://localhost:8080"),
            ("public_url", "https://bell.example.org/notify/"),
        ],
    )
    def test_allowed_values_of_other_kinds(self, name: str, value: Any) -> None:
        assert getattr(Settings(**{name: value}), name) == value

    def test_a_very_long_value_is_not_repeated_whole(self) -> None:
        assert len(refusal({"TIMEBELL_NODE_NAME": "n" * 100_000})) < 500

    def test_every_wrong_value_is_reported_at_once(self, tmp_path: Path) -> None:
        write(tmp_path / "timebell.toml", "port = 0", "threads = 0")
        assert [text.split(":")[0] for text in refusal({"TIMEBELL_BATCH": "x"}).splitlines()] == [
            "port",
            "threads",
            "batch",
        ]

    def test_none_is_no_value_for_a_setting_that_always_has_one(self) -> None:
        with pytest.raises(ConfigurationError, match="port: None"):
            Settings(port=None)  # type: ignore[arg-type]


class TestContradictions:
    def test_the_margin_stays_below_half_of_the_lease(self) -> None:
        assert Settings(lease_seconds=10.2).lease_margin_seconds == 5.0
        message = refusal(lease_seconds=10)
        assert message == "lease_margin_seconds: 5 is too long; give less than 5, half of lease_seconds"

    @pytest.mark.parametrize(
        ("name", "value"),
        [("owner_url", URL), ("api_url", URL), ("read_url", URL), ("listen_url", URL), ("pooled", True)],
    )
    def test_what_belongs_to_a_server_needs_one(self, name: str, value: Any) -> None:
        message = refusal(**{name: value})
        assert message.startswith(f"{name}: ")
        assert "set database_url too" in message
        assert "s3cret" not in message
        assert getattr(load_settings(environ={"DATABASE_URL": URL}, **{name: value}), name) == value

    def test_a_folder_asked_for_by_hand_never_ends_on_a_server(self, tmp_path: Path) -> None:
        message = refusal({"DATABASE_URL": URL}, data=tmp_path)
        assert message.startswith("data: ")
        assert "database_url (environment)" in message
        write(tmp_path / "timebell.toml", 'data = "var"')
        assert load_settings(environ={"DATABASE_URL": URL}).database_url == URL


class TestSecrets:
    @pytest.mark.parametrize(
        ("url", "shown"),
        [
            ("postgresql://bell:s3cret@h:5432/d", "postgresql://bell:***@h:5432/d"),
            ("postgres://bell:s3:cr%40et@h/d", "postgres://bell:***@h/d"),
            ("postgresql://:s3cret@h", "postgresql://:***@h"),
            ("postgresql://bell@h/d", "postgresql://bell@h/d"),
            (
                "postgresql://h1:1,h2:2/d?target_session_attrs=any",
                "postgresql://h1:1,h2:2/d?target_session_attrs=any",
            ),
            ("postgresql://u:s3cret@[::1]:5432/d", "postgresql://u:***@[::1]:5432/d"),
            ("postgresql:///d?host=/run/pg&password=s3cret", "postgresql:///d?host=/run/pg&password=***"),
            ("postgresql://h/d?sslPassword=s3cret&a=b", "postgresql://h/d?sslPassword=***&a=b"),
        ],
    )
    def test_urls_are_taken_and_shown_without_the_password(self, url: str, shown: str) -> None:
        settings = Settings(database_url=url)
        assert settings.database_url == url
        assert mask_url(url) == shown == line_of(settings, "database_url").value
        assert "s3" not in repr(settings)

    @pytest.mark.parametrize(
        "url",
        [
            "host=h password=s3cret",
            "mysql://u:s3cret@h/d",
            "postgresql+asyncpg://u:s3cret@h/d",
            "postgresql://u:s3cret#x@h/d",
            "postgresql://u:s3cret/x@h/d",
            "postgresql://u:s3cret?x@h/d",
            "postgresql://u:s3cret@x@h/d",
            "postgresql://u:s3cret",
            "postgresql://u:s3cret @h/d",
            "postgresql://h/d?pass%77ord=s3cret",
            "postgresql://h/d?s3cret",
            "postgresql://h/d\n?password=s3cret",
            "postgresql://u:s3cret@h/" + "d" * 2000,
        ],
    )
    def test_refused_urls_are_not_shown(self, url: str) -> None:
        message = refusal(database_url=url, owner_url=url, listen_url=url)
        for name, line in zip(("database_url", "owner_url", "listen_url"), message.splitlines(), strict=True):
            assert line.startswith(
                f"{name}: the value (argument) is refused; give a URL such as postgresql://"
            )
        assert "s3cret" not in message

    def test_what_cannot_be_taken_apart_is_hidden_whole(self) -> None:
        assert mask_url("postgresql://u:s3cret#x@h/d") == "***"

    @pytest.mark.parametrize(
        "key", ["s3cret-but-tiny", "s3c" * 67, "s3cret with some blanks", "s3cret-with-ümlaut"]
    )
    def test_refused_keys_are_not_shown(self, key: str) -> None:
        message = refusal({"TIMEBELL_API_KEY": key})
        assert (
            message == "api_key: the value (environment) is refused; give 16 to 200 visible ASCII characters"
        )

    @pytest.mark.parametrize("key", ["s3cret-that-is-not-long-enough", "s3c" * 67])
    def test_a_key_that_signs_is_long_and_not_shown(self, key: str) -> None:
        message = refusal({"TIMEBELL_SECRET_KEY": key})
        assert message.startswith("secret_key: the value (environment) is refused; give 32 to 200 visible")
        assert "s3c" not in message

    def test_nothing_that_is_printed_holds_a_secret(self) -> None:
        key = "s3cret-key-of-sixteen-and-more"
        environ = {
            "TIMEBELL_STRIPE_SECRET_KEY": key,
            "TIMEBELL_STRIPE_WEBHOOK_SECRET": key,
            "TIMEBELL_API_KEY": key,
            "TIMEBELL_SECRET_KEY": f"{key}-characters",
            "DATABASE_URL": URL,
            "TIMEBELL_OWNER_URL": URL,
            "TIMEBELL_LISTEN_URL": URL,
        }
        settings = load_settings(environ=environ)
        assert settings.api_key == key
        assert line_of(settings, "api_key").value == "***"
        assert line_of(Settings(), "api_key").value is None
        printed = (
            repr(settings)
            + str(settings)
            + json.dumps([dataclasses.asdict(line) for line in explain(settings)])
        )
        assert "s3cret" not in printed
        assert "postgresql://bell:***@db.example:5432/bell" in printed


class TestTheRecord:
    def test_it_is_frozen_and_hashable(self) -> None:
        settings = Settings(apps=("acme",))
        with pytest.raises(dataclasses.FrozenInstanceError):
            settings.port = 1  # type: ignore[misc]
        assert hash(settings) == hash(Settings(apps=("acme",)))

    def test_a_replaced_value_is_checked_too(self) -> None:
        assert dataclasses.replace(Settings(), port=1).port == 1
        with pytest.raises(ConfigurationError, match="port: 0"):
            dataclasses.replace(Settings(), port=0)

    def test_it_reaches_another_process_whole(self) -> None:
        settings = load_settings(environ={"TIMEBELL_PORT": "99"})
        again = pickle.loads(pickle.dumps(settings))
        assert again == settings
        assert again.source_of("port") == "environment"

    def test_explain_gives_each_setting_once_in_order(self) -> None:
        lines = explain(Settings())
        names = [each.name for each in dataclasses.fields(Settings) if "rule" in each.metadata]
        assert [line.name for line in lines] == names
        assert all(line.value == line.default and line.source == "default" for line in lines)
        assert all(line.description.endswith(".") and line.allowed for line in lines)
        assert line_of(Settings(), "lease_seconds").unit == "seconds"

    def test_paths_are_explained_as_text(self, tmp_path: Path) -> None:
        assert line_of(Settings(data=tmp_path), "data").value == str(tmp_path)


def test_a_list_may_be_empty_in_the_environment() -> None:
    assert load_settings(environ={"TIMEBELL_APPS": "none"}).apps == ()
    assert load_settings(environ={"TIMEBELL_APPS": ""}).apps == Settings().apps
