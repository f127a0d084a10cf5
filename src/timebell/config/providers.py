"""Settings of providers: one record for each kind, whose fields carry their rules."""

# ruff: noqa: RUF009  (the calls behind the fields answer dataclass fields, not values to share)

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal, get_args

from timebell.config.rules import (
    Shown,
    choice,
    flag,
    hide,
    insist,
    network,
    number,
    refusals,
    ruled,
    rules_of,
    several,
    text,
    whole,
)
from timebell.errors import ConfigurationError

PROVIDERS_MAX: Final = 50
# Neither hyphen nor underscore, so that the name of a variable falls into its parts in one way only.
NAME: Final = r"[a-z][a-z0-9]{0,39}"

Leaving = Literal["email", "sms", "whatsapp", "push", "webhook"]
WhenUncertain = Literal["wait", "retry", "nothing"]

LEAVING: Final[tuple[str, ...]] = get_args(Leaving)


def _timeout(default: float) -> Any:
    return number(default, 1, 120, "seconds", "How long one call may take.")


def _rate(default: float | None = None) -> Any:
    return number(
        default, 0.01, 100_000, "calls a second", "Calls in a second at most, by all nodes together."
    )


def _sender() -> Any:
    return text(
        r"[^\s@]+@[^\s@]+",
        "an address such as bell@example.org",
        "Whom mail is from, unless the tenant's policy names another.",
        is_required=True,
    )


def _sender_name() -> Any:
    return text(
        r"[^\x00-\x1f\x7f]{1,150}", "1 to 150 characters on one line", "The name beside the sender's address."
    )


def _api_key() -> Any:
    return text(
        r"[!-~]{1,500}",
        "1 to 500 visible ASCII characters",
        "The key of the account.",
        mask=hide,
        is_required=True,
    )


def _base_url(default: str | None) -> Any:
    return text(
        r"(?:https://[^\s/@?#]+|http://(?:localhost|127\.0\.0\.1|\[::1\])(?::\d{1,5})?)(?:/[^\s@?#]*)?",
        "a URL such as https://api.example.org",
        "Where the service is called.",
        default=default,
        is_required=default is None,
    )


def _when_uncertain(default: str) -> Any:
    return choice(default, get_args(WhenUncertain), "What to do about a message that may have left.")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ProviderSettings:
    """What all kinds have in common. `unset` is each secret whose variable has no value, with that variable."""

    kind: ClassVar[str] = ""

    name: str = text(
        NAME,
        "1 to 40 small letters and digits, beginning with a letter",
        "What policies, logs and variables call it; else its kind.",
    )
    unset: tuple[tuple[str, str], ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or self.kind)
        problems = list(refusals(self, prefix=f"providers.{self.name!s:.40}."))
        if problems:
            raise ConfigurationError("\n".join(problems))

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.shown().items())})"
        )

    def shown(self) -> dict[str, Shown]:
        """Everything that is set, with secrets masked."""
        values = {name: rule.show(getattr(self, name)) for name, rule in rules_of(type(self)).items()}
        return {
            "kind": self.kind,
            **{name: value for name, value in values.items() if value not in (None, ())},
        }


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SmtpSettings(ProviderSettings):
    """Mail through an SMTP server."""

    kind: ClassVar[str] = "smtp"

    host: str = text(
        r"[A-Za-z0-9._:-]{1,253}", "the name or address of a host", "The server.", is_required=True
    )
    port: int = whole(587, 1, 65535, "", "Its port.")
    security: Literal["starttls", "tls", "none"] = choice(
        "starttls", ("starttls", "tls", "none"), "How the connection is encrypted; it never falls back."
    )
    username: str | None = text(
        r"[^\x00-\x1f\x7f]{1,320}", "1 to 320 characters on one line", "The name to sign in with."
    )
    password: str | None = text(
        r"[^\x00-\x1f\x7f]{1,500}",
        "1 to 500 characters on one line",
        "The password to sign in with.",
        mask=hide,
    )
    sender: str = _sender()
    sender_name: str | None = _sender_name()
    hello_name: str | None = text(
        r"[A-Za-z0-9._\[\]:-]{1,253}",
        "the name or address of a host",
        "What this host calls itself; else its own name.",
    )
    connections_max: int = whole(4, 1, 100, "connections", "Connections of each process at most.")
    rate_per_second: float | None = _rate()
    timeout_seconds: float = _timeout(30.0)
    when_uncertain: WhenUncertain = _when_uncertain("wait")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ResendSettings(ProviderSettings):
    """Mail through Resend."""

    kind: ClassVar[str] = "resend"

    api_key: str | None = _api_key()
    sender: str = _sender()
    sender_name: str | None = _sender_name()
    webhook_secrets: tuple[str, ...] = several(
        (),
        0,
        4,
        text(r"[!-~]{1,200}", "a signing secret such as whsec_…", "", mask=hide),
        "What signs its reports, the old one too while it is exchanged.",
    )
    rate_per_second: float | None = _rate(2.0)
    timeout_seconds: float = _timeout(30.0)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SendGridSettings(ProviderSettings):
    """Mail through SendGrid."""

    kind: ClassVar[str] = "sendgrid"

    api_key: str | None = _api_key()
    sender: str = _sender()
    sender_name: str | None = _sender_name()
    webhook_keys: tuple[str, ...] = several(
        (),
        0,
        4,
        text(r"[!-~]{1,500}", "a verification key in base64", ""),
        "The public keys of its event webhook.",
    )
    base_url: str = _base_url("https://api.sendgrid.com")
    rate_per_second: float | None = _rate()
    timeout_seconds: float = _timeout(30.0)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class InfobipSettings(ProviderSettings):
    """Text messages, or WhatsApp, through Infobip."""

    kind: ClassVar[str] = "infobip"

    channel: Literal["sms", "whatsapp"] = choice(
        None, ("sms", "whatsapp"), "What it carries; one of each for both.", is_required=True
    )
    base_url: str = _base_url(None)
    api_key: str | None = _api_key()
    sender: str = text(
        r"[ -~]{1,50}",
        "1 to 50 ASCII characters",
        "The number or name that messages are from.",
        is_required=True,
    )
    webhook_logins: tuple[str, ...] = several(
        (),
        0,
        4,
        text(r"[^\s:,]+:[^\x00-\x1f\x7f,]+", "name:password", "", mask=hide),
        "What its reports sign in with.",
    )
    rate_per_second: float | None = _rate()
    timeout_seconds: float = _timeout(30.0)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class WebPushSettings(ProviderSettings):
    """Push messages to browsers."""

    kind: ClassVar[str] = "webpush"

    vapid_key: str | None = text(
        r"[A-Za-z0-9_+/=-]{43,44}",
        "a key as `timebell providers vapid` makes it",
        "The key that browsers subscribe to.",
        mask=hide,
        is_required=True,
    )
    contact: str = text(
        r"(?:mailto:[!-~]+@[!-~]+|https://[!-~]+)",
        "mailto:ops@example.org or https://example.org/contact",
        "Where push services may complain.",
        is_required=True,
    )
    timeout_seconds: float = _timeout(20.0)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class WebhookSettings(ProviderSettings):
    """Signed calls to the recipients' own endpoints."""

    kind: ClassVar[str] = "webhook"

    ports: tuple[int, ...] = several(
        (443, 8443), 1, 20, whole(443, 1, 65535, "", ""), "The ports that may be called."
    )
    networks: tuple[str, ...] = several(
        (), 0, 20, network(""), "Networks that are not public and may be called all the same."
    )
    allow_http: bool = flag(False, "Endpoints without TLS may be called too.")
    rate_per_second: float | None = _rate()
    timeout_seconds: float = _timeout(20.0)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class AppriseSettings(ProviderSettings):
    """Whatever else Apprise can reach; needs `timebell[apprise]`."""

    kind: ClassVar[str] = "apprise"

    channel: Leaving = choice(None, LEAVING, "What it carries.", is_required=True)
    url: str | None = text(
        r"\S{1,2000}",
        "a URL of Apprise's",
        "The service; `{address}` in it stands for the recipient's address.",
        mask=hide,
        is_required=True,
    )
    timeout_seconds: float = _timeout(20.0)
    when_uncertain: WhenUncertain = _when_uncertain("retry")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LogSettings(ProviderSettings):
    """A line in the log instead of a message."""

    kind: ClassVar[str] = "log"

    channels: tuple[Leaving, ...] = several(LEAVING, 1, 5, choice(None, LEAVING, ""), "What it takes.")


KINDS: Final[Mapping[str, type[ProviderSettings]]] = {
    each.kind: each
    for each in (
        SmtpSettings,
        ResendSettings,
        SendGridSettings,
        InfobipSettings,
        WebPushSettings,
        WebhookSettings,
        AppriseSettings,
        LogSettings,
    )
}


def provider_tables(about: str) -> Any:
    """The setting that lists them: records, or tables as a file has them."""

    def check(value: Any) -> tuple[ProviderSettings, ...]:
        insist(isinstance(value, list | tuple) and len(value) <= PROVIDERS_MAX)
        read, problems = [], []
        for number_, table in enumerate(value, start=1):
            try:
                read.append(read_provider(table, number_))
            except ConfigurationError as error:
                problems += str(error).splitlines()
        problems += _name_twice(read)
        if problems:
            raise ConfigurationError("\n".join(problems))
        return tuple(read)

    def from_text(names: str) -> list[str]:
        return [name.strip() for name in names.split(",")]

    return ruled(
        (),
        about=about,
        allowed=f"0 to {PROVIDERS_MAX} tables, each with a kind and its fields",
        check=check,
        from_text=from_text,
        mask=lambda providers: tuple(each.shown() for each in providers),
    )


def read_provider(table: Any, number: int) -> ProviderSettings:
    """The record of one table; `number` is its place, for one that has no name."""
    if isinstance(table, ProviderSettings):
        return table
    if not isinstance(table, Mapping):
        raise ConfigurationError(f"providers: number {number} is not a table; write [[providers]] above it")
    kind, values = table.get("kind"), {name: value for name, value in table.items() if name != "kind"}
    where = f"providers.{table.get('name') or kind or number!s:.40}"
    record = KINDS.get(kind) if isinstance(kind, str) else None
    if record is None:
        given = "is missing" if kind is None else f"{kind!r:.100} is refused"
        raise ConfigurationError(f"{where}.kind: {given}; give one of {', '.join(KINDS)}")
    # What was noted while reading is a tuple, which no file can hold.
    noted = {"unset"} if isinstance(values.get("unset"), tuple) else set()
    if unknown := [str(name) for name in values if name not in {*rules_of(record), *noted}]:
        nearest = {
            name: difflib.get_close_matches(name, rules_of(record), n=1, cutoff=0.0)[0] for name in unknown
        }
        lines = [
            f"{where}.{name:.40}: is no field of {kind}; did you mean {nearest[name]}?" for name in unknown
        ]
        raise ConfigurationError("\n".join(lines[:20]))
    return record(**values)


def _name_twice(read: list[ProviderSettings]) -> Iterator[str]:
    names = [each.name for each in read]
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            yield f"providers.{name}.name: is there {names.count(name)} times; give each a name of its own"
