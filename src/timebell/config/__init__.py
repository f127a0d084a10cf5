"""Settings: one frozen record, read once from `timebell.toml` and the environment."""

from timebell.config.providers import (
    KINDS,
    AppriseSettings,
    InfobipSettings,
    LogSettings,
    ProviderSettings,
    ResendSettings,
    SendGridSettings,
    SmtpSettings,
    WebhookSettings,
    WebPushSettings,
)
from timebell.config.queues import QueueSettings
from timebell.config.reading import FILE_BYTES_MAX, load_settings, warn_of_retired
from timebell.config.rules import HIDDEN, Rule, mask_broker_url, mask_url, rules_of
from timebell.config.settings import RULES, SettingLine, Settings, explain
from timebell.config.tuning import RETIRED, Tuning

__all__ = [
    "FILE_BYTES_MAX",
    "HIDDEN",
    "KINDS",
    "RETIRED",
    "RULES",
    "AppriseSettings",
    "InfobipSettings",
    "LogSettings",
    "ProviderSettings",
    "QueueSettings",
    "ResendSettings",
    "Rule",
    "SendGridSettings",
    "SettingLine",
    "Settings",
    "SmtpSettings",
    "Tuning",
    "WebPushSettings",
    "WebhookSettings",
    "explain",
    "load_settings",
    "mask_broker_url",
    "mask_url",
    "rules_of",
    "warn_of_retired",
]
