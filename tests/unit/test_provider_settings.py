"""Providers in the settings: what the file says, what the environment says, and what is never shown."""

from __future__ import annotations

import dataclasses
import json
import pickle
import re
from pathlib import Path
from typing import Any

import pytest

from timebell.config import (
    KINDS,
    ProviderSettings,
    Settings,
    SmtpSettings,
    WebhookSettings,
    explain,
    load_settings,
    rules_of,
)
from timebell.errors import ConfigurationError

PAGES = Path(__file__).parents[2] / "docs"
MAIL = {"kind": "smtp", "name": "mail", "host": "smtp.example.org", "sender": "bell@example.org"}
SECRET = "s3cret-and-long-enough"


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def file_of(*tables: dict[str, Any], **top: Any) -> None:
    """A `timebell.toml` in the current folder."""
    lines = [f"{name} = {json.dumps(value)}" for name, value in top.items()]
    for table in tables:
        lines += ["[[providers]]", *(f"{name} = {json.dumps(value)}" for name, value in table.items())]
    Path("timebell.toml").write_text("\n".join(lines), encoding="utf-8")


def loaded(*tables: dict[str, Any], **environ: str) -> tuple[ProviderSettings, ...]:
    file_of(*tables)
    return load_settings(environ=environ).providers


def refusal(*tables: dict[str, Any], **environ: str) -> str:
    file_of(*tables)
    with pytest.raises(ConfigurationError) as caught:
        load_settings(environ=environ)
    return str(caught.value)


class TestReading:
    def test_a_table_of_the_file(self) -> None:
        [mail] = loaded({**MAIL, "port": 2525})
        assert mail == SmtpSettings(
            name="mail", host="smtp.example.org", port=2525, sender="bell@example.org", security="starttls"
        )

    def test_they_keep_their_order_and_are_called_by_their_kind_if_by_nothing_else(self) -> None:
        assert [each.name for each in loaded({"kind": "webhook"}, MAIL, {"kind": "log"})] == [
            "webhook",
            "mail",
            "log",
        ]

    def test_the_environment_wins_over_the_file(self) -> None:
        [mail] = loaded(MAIL, TIMEBELL_PROVIDER_MAIL_HOST="other.example", TIMEBELL_PROVIDER_MAIL_PORT="25")
        assert isinstance(mail, SmtpSettings)
        assert (mail.host, mail.port) == ("other.example", 25)

    def test_lists_and_flags_of_the_environment(self) -> None:
        [hook] = loaded(
            {"kind": "webhook"},
            TIMEBELL_PROVIDER_WEBHOOK_PORTS="443, 8080",
            TIMEBELL_PROVIDER_WEBHOOK_ALLOW_HTTP="yes",
            TIMEBELL_PROVIDER_WEBHOOK_NETWORKS="10.0.0.0/8,fd00::/8",
        )
        assert hook == WebhookSettings(
            ports=(443, 8080), allow_http=True, networks=("10.0.0.0/8", "fd00::/8")
        )

    def test_the_environment_alone_may_describe_one(self) -> None:
        settings = load_settings(
            environ={
                "TIMEBELL_PROVIDERS": "log, mail",
                "TIMEBELL_PROVIDER_MAIL_KIND": "smtp",
                "TIMEBELL_PROVIDER_MAIL_HOST": "smtp.example.org",
                "TIMEBELL_PROVIDER_MAIL_SENDER": "bell@example.org",
                "TIMEBELL_PROVIDER_LOG_CHANNELS": "sms",
            }
        )
        assert [(each.kind, each.name) for each in settings.providers] == [("log", "log"), ("smtp", "mail")]
        assert settings.source_of("providers") == "environment"

    def test_the_environment_may_choose_among_those_of_the_file(self) -> None:
        found = loaded(
            MAIL,
            {"kind": "log"},
            {"kind": "webhook"},
            TIMEBELL_PROVIDERS="webhook,mail",
            TIMEBELL_PROVIDER_LOG_CHANNELS="sms",
        )
        assert [each.name for each in found] == ["webhook", "mail"]

    def test_a_program_may_give_records_or_tables(self) -> None:
        record = SmtpSettings(host="smtp.example.org", sender="bell@example.org", password=SECRET)
        settings = load_settings(environ={}, providers=[record, {"kind": "log"}])
        assert settings.providers[0] is record
        assert Settings(providers=[{"kind": "log"}]).providers == settings.providers[1:]  # type: ignore[arg-type]

    def test_they_reach_another_process_whole(self) -> None:
        settings = Settings(providers=(WebhookSettings(ports=(80,)),))
        assert pickle.loads(pickle.dumps(settings)) == settings
        assert hash(settings) == hash(dataclasses.replace(settings))


class TestSecrets:
    def test_by_the_variable_of_the_provider(self) -> None:
        [mail] = loaded(MAIL, TIMEBELL_PROVIDER_MAIL_PASSWORD=SECRET)
        assert isinstance(mail, SmtpSettings)
        assert mail.password == SECRET

    def test_by_a_variable_that_the_file_names(self) -> None:
        table = {**MAIL, "password_env": "SMTP_PASSWORD"}
        [mail] = loaded(table, SMTP_PASSWORD=SECRET)
        assert isinstance(mail, SmtpSettings)
        assert mail.password == SECRET
        [mail] = loaded(table, SMTP_PASSWORD="other", TIMEBELL_PROVIDER_MAIL_PASSWORD=SECRET)
        assert isinstance(mail, SmtpSettings)
        assert mail.password == SECRET

    def test_a_named_variable_without_a_value_is_noted_for_whoever_needs_it(self) -> None:
        [mail] = loaded({**MAIL, "password_env": "SMTP_PASSWORD"}, SMTP_PASSWORD="")
        assert mail.unset == (("password", "SMTP_PASSWORD"),)

    def test_none_may_stand_in_the_file(self) -> None:
        message = refusal({**MAIL, "password": SECRET})
        assert message.startswith("providers.mail.password: is a secret and stands in the file; set ")
        assert "TIMEBELL_PROVIDER_MAIL_PASSWORD" in message
        assert "password_env" in message
        assert SECRET not in message

    @pytest.mark.parametrize("secret", ["s3cret with blanks", "re_AbCdEf123", "hunter2"])
    def test_a_secret_where_the_name_of_its_variable_belongs_is_not_repeated(self, secret: str) -> None:
        assert refusal({**MAIL, "password_env": secret}) == (
            "providers.mail.password_env: the value is refused; give the name of a variable, in capitals"
        )

    def test_a_refused_secret_is_not_shown(self) -> None:
        message = refusal(
            {"kind": "webpush", "contact": "https://a.example"}, TIMEBELL_PROVIDER_WEBPUSH_VAPID_KEY=SECRET
        )
        assert message.startswith("providers.webpush.vapid_key: the value is refused; give a key as")
        assert SECRET not in message

    def test_nothing_that_is_printed_holds_one(self) -> None:
        tables = [
            {"kind": "resend", "sender": "a@b.example", "api_key_env": "KEY", "webhook_secrets_env": "KEY"},
            {"kind": "apprise", "channel": "sms", "url_env": "KEY"},
            {**MAIL, "username": "bell", "password_env": "KEY"},
        ]
        file_of(*tables)
        settings = load_settings(environ={"KEY": SECRET})
        [line] = [line for line in explain(settings) if line.name == "providers"]
        printed = repr(settings) + repr(settings.providers) + json.dumps(dataclasses.asdict(line))
        assert SECRET not in printed
        assert isinstance(line.value, tuple)
        assert line.value[0] == {
            "kind": "resend",
            "name": "resend",
            "api_key": "***",
            "sender": "a@b.example",
            "webhook_secrets": "***",
            "rate_per_second": 2.0,
            "timeout_seconds": 30.0,
        }
        assert line.source == "file"

    @pytest.mark.parametrize("record", KINDS.values(), ids=KINDS)
    def test_what_looks_like_a_secret_is_one(self, record: type[ProviderSettings]) -> None:
        looks = {
            name for name in rules_of(record) if re.search(r"password|secret|api_key|vapid|login|^url", name)
        }
        assert looks == {name for name, rule in rules_of(record).items() if rule.is_secret}


class TestRefusals:
    @pytest.mark.parametrize(
        ("table", "message"),
        [
            ({"name": "mail"}, "providers.mail.kind: is missing; give one of smtp, resend, sendgrid"),
            ({"kind": "smpt"}, "providers.smpt.kind: 'smpt' is refused; give one of smtp"),
            ({"kind": ["smtp"], "name": "m"}, "providers.m.kind: ['smtp'] is refused"),
            ({**MAIL, "hots": "x"}, "providers.mail.hots: is no field of smtp; did you mean host?"),
            ({**MAIL, "unset": ["x"]}, "providers.mail.unset: is no field of smtp"),
            ({**MAIL, "port": 0}, "providers.mail.port: 0 is refused; give a whole number from 1 to 65535"),
            ({**MAIL, "sender": "bell"}, "providers.mail.sender: 'bell' is refused; give an address such as"),
            ({**MAIL, "name": "my-mail"}, "providers.my-mail.name: 'my-mail' is refused; give 1 to 40 small"),
            ({"kind": "smtp", "sender": "a@b.example"}, "providers.smtp.host: is missing; give the name"),
            ({"kind": "log", "channels": []}, "providers.log.channels: [] is refused"),
            ({"kind": "log", "channels": ["inbox"]}, "providers.log.channels: ['inbox'] is refused"),
            ({"kind": "webhook", "networks": ["10.0.0.1/8"]}, "providers.webhook.networks: "),
            (
                {"kind": "infobip", "base_url": "http://api.example.org", "channel": "sms", "sender": "7"},
                "providers.infobip.base_url: 'http://api.example.org' is refused; give a URL such as https://",
            ),
            (
                {"kind": "infobip", "base_url": "https:///sms", "channel": "sms", "sender": "7"},
                "providers.infobip.base_url: 'https:///sms' is refused",
            ),
        ],
    )
    def test_a_wrong_table(self, table: dict[str, Any], message: str) -> None:
        assert refusal(table).startswith(message)

    def test_all_that_is_wrong_is_told_at_once(self) -> None:
        file_of({**MAIL, "port": 0, "security": "perhaps"}, {"kind": "nothing"}, threads=0)
        with pytest.raises(ConfigurationError) as caught:
            load_settings(environ={})
        assert [line.split(":")[0] for line in str(caught.value).splitlines()] == [
            "providers.mail.port",
            "providers.mail.security",
            "providers.nothing.kind",
            "threads",
        ]

    def test_a_name_that_is_there_twice(self) -> None:
        assert "providers.mail.name: is there 2 times" in refusal(MAIL, {"kind": "log", "name": "mail"})
        assert "providers.mail.name: is there 2 times" in refusal(MAIL, MAIL, TIMEBELL_PROVIDERS="mail")

    def test_a_variable_of_no_provider(self) -> None:
        message = refusal(MAIL, TIMEBELL_PROVIDER_MIAL_PASSWORD=SECRET)
        assert message.startswith("TIMEBELL_PROVIDER_MIAL_PASSWORD: there is no provider mial; ")
        assert SECRET not in message

    def test_a_variable_of_no_field(self) -> None:
        message = refusal(MAIL, TIMEBELL_PROVIDER_MAIL_PASWORD=SECRET)
        assert message == (
            "TIMEBELL_PROVIDER_MAIL_PASWORD: is no field of mail; did you mean TIMEBELL_PROVIDER_MAIL_PASSWORD?"
        )

    def test_what_is_no_list_of_tables(self) -> None:
        Path("timebell.toml").write_text("providers = 'smtp'", encoding="utf-8")
        with pytest.raises(
            ConfigurationError, match=r"^providers: the value \(file\) is refused; give 0 to 50 tables"
        ):
            load_settings(environ={})
        Path("timebell.toml").write_text("providers = [7]", encoding="utf-8")
        with pytest.raises(ConfigurationError, match="providers: number 1 is not a table"):
            load_settings(environ={})

    def test_a_service_of_kubernetes_is_no_field(self) -> None:
        assert loaded(MAIL, TIMEBELL_PROVIDER_MAIL_PORT="tcp://10.0.0.9:25") == loaded(MAIL)


class TestDemo:
    @pytest.mark.req("M-5.8")
    @pytest.mark.parametrize(
        ("demo", "tables", "expected"),
        [
            (None, [], True),
            (None, [{"kind": "log"}], False),
            ("true", [{"kind": "log"}], True),
            ("false", [], False),
        ],
    )
    def test_it_is_on_until_there_is_a_provider(
        self, demo: str | None, tables: list[dict[str, Any]], expected: bool
    ) -> None:
        file_of(*tables)
        assert load_settings(environ={} if demo is None else {"TIMEBELL_DEMO": demo}).is_demo is expected


def cells(kind: str) -> list[list[str]]:
    page = (PAGES / "reference" / "settings.md").read_text(encoding="utf-8")
    [section] = re.findall(rf"^#### {kind}\n(.*?)(?=^####|\Z)", page, re.MULTILINE | re.DOTALL)
    return [row.split(" | ") for row in re.findall(r"^\| (.+) \|$", section, re.MULTILINE)[2:]]


class TestThePages:
    @pytest.mark.parametrize("kind", KINDS)
    def test_each_kind_has_its_table(self, kind: str) -> None:
        expected = []
        for name, rule in rules_of(KINDS[kind]).items():
            if name == "name":
                continue
            label = f"**`{name}`**" if rule.is_required else f"`{name}`"
            default = "none" if rule.default is None else f"`{json.dumps(rule.default)}` {rule.unit}".rstrip()
            meaning = rule.about + (" A secret." if rule.is_secret else "")
            expected.append([label, default, rule.allowed, meaning])
        assert cells(kind) == expected

    def test_what_the_page_shows_is_accepted(self) -> None:
        page = (PAGES / "howto" / "providers.md").read_text(encoding="utf-8")
        shown = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
        for example in [*shown, "\n".join(shown[1:3])]:
            Path("timebell.toml").write_text(example, encoding="utf-8")
            assert load_settings(environ={}).providers

    def test_the_variables_that_the_page_sets_are_known(self) -> None:
        page = (PAGES / "howto" / "providers.md").read_text(encoding="utf-8")
        [shell] = [
            block for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) if "PROVIDERS=" in block
        ]
        environ = dict(line.removeprefix("export ").split("=", 1) for line in shell.splitlines())
        plain = {name: value.replace("…", "x").strip("'") for name, value in environ.items()}
        assert [each.kind for each in load_settings(environ=plain).providers] == ["resend", "apprise"]
