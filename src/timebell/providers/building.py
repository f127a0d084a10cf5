"""From the settings to providers.

Each kind is imported when one is built, so that a process has only the code of what it sends through. One in demo mode
has none that could send.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from ipaddress import ip_network
from typing import Any, Final, TypeVar

from timebell.config import (
    AppriseSettings,
    InfobipSettings,
    LogSettings,
    ProviderSettings,
    ResendSettings,
    SendGridSettings,
    Settings,
    SmtpSettings,
    WebhookSettings,
    WebPushSettings,
)
from timebell.errors import ConfigurationError, InvalidInput
from timebell.logs import Logger
from timebell.notify.provider import Provider
from timebell.providers.log import Log, captured_providers

log = Logger("timebell.providers")

CLOSE_SECONDS_MAX: Final = 1.0

Value = TypeVar("Value")


@asynccontextmanager
async def open_providers(
    settings: Settings, given: Sequence[Provider] | None = None
) -> AsyncIterator[Sequence[Provider]]:
    """What a process tells through: what it was given, else what the settings describe; closed at the end, either way.

    Where `demo` is set nothing else is used than what lets nothing leave.
    """
    if given is None:
        used: Sequence[Provider] = build_providers(settings)
    else:
        used = captured_providers() if settings.demo else given
    try:
        yield used
    finally:
        await _close([*used, *(given or ())])


def build_providers(settings: Settings) -> Sequence[Provider]:
    """The providers of the settings, in their order; in demo mode those that capture, and no other is built."""
    if settings.is_demo:
        return captured_providers()
    built: list[Provider] = []
    problems = []
    for each in settings.providers:
        try:
            built.append(_build(each))
        except ConfigurationError as error:
            problems += [f"providers.{each.name}.{line}" for line in str(error).splitlines()]
        except InvalidInput as error:
            problems.append(f"providers.{each.name}.{error}")
    if problems:
        raise ConfigurationError("\n".join(problems))
    return built


async def _close(providers: Sequence[Provider]) -> None:
    """All at once and within a bound: an end that a stranger's server holds up must not hold up that of the process."""
    different = {id(provider): provider for provider in providers}.values()
    try:
        async with asyncio.timeout(CLOSE_SECONDS_MAX):
            ends = await asyncio.gather(*(each.close() for each in different), return_exceptions=True)
    except TimeoutError:
        log.warning("a provider did not close in time", seconds=CLOSE_SECONDS_MAX)
        return
    for provider, end in zip(different, ends, strict=True):
        if isinstance(end, BaseException):
            log.warning(
                "a provider did not close", provider=provider.name, error=f"{type(end).__name__}: {end}"
            )


def _build(terms: ProviderSettings) -> Provider:
    if terms.unset:
        remedy = "which is not set; set it, or leave this out"
        raise ConfigurationError("\n".join(f"{name}_env: names {it}, {remedy}" for name, it in terms.unset))
    return _BUILDERS[type(terms)](terms)


def _needed(terms: ProviderSettings, field: str, value: Value | None) -> Value:
    if value is None:
        variable = f"TIMEBELL_PROVIDER_{terms.name}_{field}".upper()
        raise ConfigurationError(f"{field}: is missing; set {variable}, or name its variable in {field}_env")
    return value


def _checked_sender(sender: str) -> str:
    from timebell.providers.mail import read_address

    read_address(sender, field="sender")
    return sender


def _seconds(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


def _smtp(terms: SmtpSettings) -> Provider:
    from timebell.providers.smtp import Smtp, SmtpServer

    if terms.username is not None:
        _needed(terms, "password", terms.password)
    elif terms.password is not None:
        raise ConfigurationError("username: is missing beside the password; give both or neither")
    server = SmtpServer(
        host=terms.host,
        port=terms.port,
        security=terms.security,
        username=terms.username,
        password=terms.password,
        hello_name=terms.hello_name,
        connections_max=terms.connections_max,
        rate_per_second=terms.rate_per_second,
        timeout=_seconds(terms.timeout_seconds),
        when_uncertain=terms.when_uncertain,
    )
    return Smtp(server, sender=terms.sender, sender_name=terms.sender_name, name=terms.name)


def _resend(terms: ResendSettings) -> Provider:
    from timebell.providers.resend import Resend

    return Resend(
        api_key=_needed(terms, "api_key", terms.api_key),
        sender=_checked_sender(terms.sender),
        sender_name=terms.sender_name or "",
        name=terms.name,
        webhook_secrets=terms.webhook_secrets,
        timeout=_seconds(terms.timeout_seconds),
        rate_per_second=terms.rate_per_second,
    )


def _sendgrid(terms: SendGridSettings) -> Provider:
    from timebell.providers.sendgrid import SendGrid

    return SendGrid(
        api_key=_needed(terms, "api_key", terms.api_key),
        sender=_checked_sender(terms.sender),
        sender_name=terms.sender_name or "",
        name=terms.name,
        webhook_keys=terms.webhook_keys,
        base_url=terms.base_url,
        timeout=_seconds(terms.timeout_seconds),
        rate_per_second=terms.rate_per_second,
    )


def _infobip(terms: InfobipSettings) -> Provider:
    from timebell.providers.infobip import Infobip

    return Infobip(
        channel=terms.channel,
        base_url=terms.base_url,
        api_key=_needed(terms, "api_key", terms.api_key),
        sender=terms.sender,
        name=terms.name,
        webhook_logins=terms.webhook_logins,
        timeout=_seconds(terms.timeout_seconds),
        rate_per_second=terms.rate_per_second,
    )


def _webpush(terms: WebPushSettings) -> Provider:
    from timebell.providers.push_encryption import VapidKey
    from timebell.providers.safe_http import safe_caller
    from timebell.providers.webpush import WebPush

    return WebPush(
        safe_caller(),
        key=VapidKey.read(_needed(terms, "vapid_key", terms.vapid_key)),
        contact=terms.contact,
        name=terms.name,
        timeout=_seconds(terms.timeout_seconds),
    )


def _webhook(terms: WebhookSettings) -> Provider:
    from timebell.providers.safe_http import Reach, safe_caller
    from timebell.providers.webhook import Webhook

    reach = Reach(
        ports=frozenset(terms.ports),
        networks=tuple(ip_network(each) for each in terms.networks),
        is_plain_allowed=terms.allow_http,
    )
    return Webhook(
        name=terms.name,
        caller=safe_caller(reach=reach),
        timeout=_seconds(terms.timeout_seconds),
        rate_per_second=terms.rate_per_second,
    )


def _apprise(terms: AppriseSettings) -> Provider:
    from timebell.providers.apprise import Apprise

    return Apprise(
        _needed(terms, "url", terms.url),
        channel=terms.channel,
        name=terms.name,
        timeout=_seconds(terms.timeout_seconds),
        when_uncertain=terms.when_uncertain,
    )


def _log(terms: LogSettings) -> Provider:
    return Log(name=terms.name, channels=terms.channels)


_BUILDERS: Final[Mapping[type[ProviderSettings], Callable[[Any], Provider]]] = {
    SmtpSettings: _smtp,
    ResendSettings: _resend,
    SendGridSettings: _sendgrid,
    InfobipSettings: _infobip,
    WebPushSettings: _webpush,
    WebhookSettings: _webhook,
    AppriseSettings: _apprise,
    LogSettings: _log,
}
