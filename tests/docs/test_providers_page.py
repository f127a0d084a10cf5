"""The page of providers says of each what its traits say."""

from __future__ import annotations

import base64
import dataclasses
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import get_args

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.shape.tree import ROOT
from timebell.notify.provider import Provider, ReportKind, Traits
from timebell.notify.reports.reporting import Outcome
from timebell.providers.apprise import Apprise
from timebell.providers.http import HttpCaller
from timebell.providers.infobip import Infobip
from timebell.providers.log import Log
from timebell.providers.push_encryption import VapidKey
from timebell.providers.resend import Resend
from timebell.providers.sendgrid import SendGrid
from timebell.providers.smtp import Smtp, SmtpServer
from timebell.providers.webhook import Webhook
from timebell.providers.webpush import WebPush

PAGE = (ROOT / "docs" / "reference" / "providers.md").read_text(encoding="utf-8")
SENDER = "bell@example.org"

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")


def _public_key() -> str:
    key = ec.generate_private_key(ec.SECP256R1()).public_key()
    return base64.b64encode(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).decode()


def _infobip(channel: str) -> Provider:
    is_sms = channel == "sms"
    return Infobip(
        channel="sms" if is_sms else "whatsapp",
        base_url="https://example.org",
        api_key="k",
        sender="447700900123",
        webhook_logins=["me:secret"],
    )


MADE: Mapping[str, Callable[[], Provider]] = {
    "`resend.Resend`": lambda: Resend(
        api_key="k", sender=SENDER, webhook_secrets=["whsec_" + base64.b64encode(bytes(32)).decode()]
    ),
    "`sendgrid.SendGrid`": lambda: SendGrid(api_key="k", sender=SENDER, webhook_keys=[_public_key()]),
    "`smtp.Smtp`": lambda: Smtp(SmtpServer(host="127.0.0.1"), sender=SENDER),
    "`infobip.Infobip` for SMS": lambda: _infobip("sms"),
    "`infobip.Infobip` for WhatsApp": lambda: _infobip("whatsapp"),
    "`webpush.WebPush`": lambda: WebPush(HttpCaller(), key=VapidKey.new(), contact="mailto:" + SENDER),
    "`webhook.Webhook`": Webhook,
    "`apprise.Apprise`": lambda: Apprise("json://localhost", channel="webhook"),
    "`log.Log`": Log,
}


def rows() -> dict[str, list[str]]:
    """The first table of the page, by the first cell of each row."""
    table = re.findall(r"^\| (.+) \|$", PAGE, re.MULTILINE)
    cells = [[cell.strip() for cell in row.split(" | ")] for row in table]
    return {row[0]: row[1:] for row in cells if len(row) == 7 and row[0] not in ("provider", "---")}


def in_words(lifetime: timedelta | None) -> str:
    if lifetime is None:
        return "none"
    if lifetime > timedelta(days=366):
        return "for ever"
    hours, minutes = divmod(lifetime // timedelta(minutes=1), 60)
    return f"{hours} hours {minutes} minutes" if minutes else f"{hours} hours"


@pytest.mark.parametrize("name", MADE)
async def test_a_row_says_what_the_traits_say(name: str) -> None:
    provider = MADE[name]()
    try:
        traits = provider.traits
        _, key, look_up, reports, rate, doubt = rows()[name]
        assert key == in_words(traits.key_lifetime)
        assert look_up == ("yes" if traits.can_look_up else "no")
        assert reports.split(",")[0] == ("yes" if traits.reports else "no")
        assert rate == ("none" if traits.rate_per_second is None else f"{traits.rate_per_second:g}/s")
        assert doubt == traits.when_uncertain
    finally:
        await provider.close()


def test_no_provider_is_left_out() -> None:
    assert rows().keys() == {*MADE, "the inbox"}


def test_every_trait_outcome_and_report_is_told() -> None:
    words = set(re.findall(r"`(\w+)`", PAGE))
    assert {field.name for field in dataclasses.fields(Traits)} <= words
    assert set(get_args(Outcome)) <= words
    assert {"bounced", "complained", "unsubscribed"} <= words & set(get_args(ReportKind))
