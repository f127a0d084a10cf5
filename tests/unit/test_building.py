"""From settings to providers: each kind as described, what is missing by its name, nothing real in demo mode."""

from __future__ import annotations

import base64
import subprocess
import sys
from datetime import timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.acceptance.processes import clean_environment
from timebell.config import Settings
from timebell.errors import ConfigurationError
from timebell.notify.provider import Answer, Parcel, Provider, Sent, Traits
from timebell.providers.apprise import Apprise
from timebell.providers.building import build_providers, open_providers
from timebell.providers.infobip import Infobip
from timebell.providers.log import Captured, Log
from timebell.providers.push_encryption import VapidKey
from timebell.providers.resend import Resend
from timebell.providers.sendgrid import SendGrid
from timebell.providers.smtp import Smtp
from timebell.providers.webhook import Webhook
from timebell.providers.webpush import WebPush

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")

SENDER = "bell@example.org"
KEY = VapidKey.new()
PUBLIC_KEY = base64.b64encode(
    ec.generate_private_key(ec.SECP256R1())
    .public_key()
    .public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
).decode()
SIGNING = "whsec_" + base64.b64encode(bytes(32)).decode()

# Nothing here is as it would be by default, so that what is left behind on the way is found.
TABLES: dict[str, dict[str, Any]] = {
    "smtp": {
        "name": "mail",
        "host": "127.0.0.1",
        "port": 2525,
        "security": "none",
        "username": "bell",
        "password": "right",
        "sender": SENDER,
        "sender_name": "Bell",
        "hello_name": "bell.example",
        "connections_max": 2,
        "rate_per_second": 3,
        "timeout_seconds": 7,
        "when_uncertain": "nothing",
    },
    "resend": {
        "name": "re",
        "api_key": "k1",
        "sender": SENDER,
        "sender_name": "Bell",
        "webhook_secrets": [SIGNING],
        "rate_per_second": 9,
        "timeout_seconds": 7,
    },
    "sendgrid": {
        "name": "sg",
        "api_key": "k2",
        "sender": SENDER,
        "sender_name": "Bell",
        "webhook_keys": [PUBLIC_KEY],
        "base_url": "https://api.eu.sendgrid.com",
        "rate_per_second": 9,
        "timeout_seconds": 7,
    },
    "infobip": {
        "name": "sms",
        "channel": "sms",
        "base_url": "https://x.example.org",
        "api_key": "k3",
        "sender": "Bell",
        "webhook_logins": ["me:secret"],
        "rate_per_second": 9,
        "timeout_seconds": 7,
    },
    "webpush": {
        "name": "push",
        "vapid_key": KEY.private,
        "contact": "mailto:ops@example.org",
        "timeout_seconds": 7,
    },
    "webhook": {
        "name": "hook",
        "ports": [8080],
        "networks": ["10.0.0.0/8"],
        "allow_http": True,
        "rate_per_second": 9,
        "timeout_seconds": 7,
    },
    "apprise": {
        "name": "chat",
        "channel": "sms",
        "url": "json://localhost/{address}",
        "timeout_seconds": 7,
        "when_uncertain": "wait",
    },
    "log": {"name": "line", "channels": ["sms"]},
}


def settings_of(kind: str, **changes: Any) -> Settings:
    table = {"kind": kind, **TABLES[kind], **changes}
    given = {name: value for name, value in table.items() if value is not None}
    return Settings(providers=(given,))  # type: ignore[arg-type]


def built(kind: str, **changes: Any) -> Provider:
    [provider] = build_providers(settings_of(kind, **changes))
    return provider


def refusal(kind: str, **changes: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        built(kind, **changes)
    return str(caught.value)


# What was described is when the provider gives up, and the deadline around it a little later.
LATER = timedelta(seconds=12)


@pytest.mark.parametrize(
    ("kind", "made", "traits"),
    [
        (
            "smtp",
            Smtp,
            Traits(
                channels=frozenset({"email"}),
                rate_per_second=3.0,
                # As long again, for one of its own connections.
                timeout=LATER + timedelta(seconds=7),
                marks_handover=True,
                when_uncertain="nothing",
            ),
        ),
        (
            "resend",
            Resend,
            Traits(
                channels=frozenset({"email"}),
                key_lifetime=timedelta(hours=24),
                reports=True,
                rate_per_second=9.0,
                timeout=LATER,
                marks_handover=True,
            ),
        ),
        (
            "sendgrid",
            SendGrid,
            Traits(
                channels=frozenset({"email"}),
                reports=True,
                rate_per_second=9.0,
                timeout=LATER,
                marks_handover=True,
            ),
        ),
        (
            "infobip",
            Infobip,
            Traits(
                channels=frozenset({"sms"}),
                can_look_up=True,
                reports=True,
                rate_per_second=9.0,
                timeout=LATER,
                marks_handover=True,
            ),
        ),
        (
            "webpush",
            WebPush,
            Traits(
                channels=frozenset({"push"}),
                when_uncertain="retry",
                is_per_host=True,
                timeout=LATER,
                marks_handover=True,
            ),
        ),
        (
            "webhook",
            Webhook,
            Traits(
                channels=frozenset({"webhook"}),
                key_lifetime=timedelta(hours=75, minutes=35),
                rate_per_second=9.0,
                is_per_host=True,
                timeout=LATER,
                marks_handover=True,
            ),
        ),
        ("apprise", Apprise, Traits(channels=frozenset({"sms"}), timeout=LATER)),
        ("log", Log, Traits(channels=frozenset({"sms"}), key_lifetime=timedelta(days=36_500))),
    ],
)
async def test_each_kind_is_built_as_it_was_described(kind: str, made: type, traits: Traits) -> None:
    provider = built(kind)
    assert type(provider) is made
    assert provider.name == TABLES[kind]["name"]
    assert provider.traits == traits
    await provider.close()


async def test_what_the_traits_do_not_show_arrives_too() -> None:
    """The fields that only a conversation would show, by the names under which the providers keep them."""

    def kept(provider: object, *path: str) -> Any:
        for name in path:
            provider = getattr(provider, name)
        return provider

    mail, push, hook = built("smtp"), built("webpush"), built("webhook")
    server = kept(mail, "_server")
    assert (server.host, server.port, server.security) == ("127.0.0.1", 2525, "none")
    assert (server.username, server.password, server.hello_name) == ("bell", "right", "bell.example")
    assert server.connections_max == 2
    assert (kept(mail, "_sender"), kept(mail, "_sender_name")) == (SENDER, "Bell")
    for kind, key, url in (
        ("resend", "k1", "https://api.resend.com/emails"),
        ("sendgrid", "k2", "https://api.eu.sendgrid.com/v3/mail/send"),
    ):
        account = kept(built(kind), "_account")
        assert (account.api_key, account.url, account.sender_name) == (key, url, "Bell")
        assert account.timeout == timedelta(seconds=7)
    assert kept(built("infobip"), "_api_key") == "k3"
    assert kept(built("infobip"), "_base_url") == "https://x.example.org"
    assert kept(built("infobip"), "_sender") == "Bell"
    assert (kept(push, "_key").public, kept(push, "_contact")) == (KEY.public, "mailto:ops@example.org")
    reach = kept(hook, "_caller", "_make_transport").keywords["reach"]
    assert (reach.ports, [str(each) for each in reach.networks]) == ({8080}, ["10.0.0.0/8"])
    assert reach.is_plain_allowed


class TestRefusals:
    @pytest.mark.parametrize(
        ("kind", "field"),
        [
            ("smtp", "password"),
            ("resend", "api_key"),
            ("sendgrid", "api_key"),
            ("infobip", "api_key"),
            ("webpush", "vapid_key"),
            ("apprise", "url"),
        ],
    )
    def test_a_secret_that_is_missing(self, kind: str, field: str) -> None:
        name = TABLES[kind]["name"]
        assert refusal(kind, **{field: None}) == (
            f"providers.{name}.{field}: is missing; set TIMEBELL_PROVIDER_{name.upper()}_{field.upper()}, "
            f"or name its variable in {field}_env"
        )

    @pytest.mark.parametrize(
        ("kind", "changes", "message"),
        [
            ("smtp", {"username": None}, "providers.mail.username: is missing beside the password"),
            ("smtp", {"host": "smtp.example.org"}, "providers.mail.security: a password would cross"),
            ("smtp", {"sender": "a@b..c"}, "providers.mail.sender: "),
            ("resend", {"sender": "a@b..c"}, "providers.re.sender: "),
            ("sendgrid", {"sender": "a@b..c"}, "providers.sg.sender: "),
            ("resend", {"webhook_secrets": ["whsec_x"]}, "providers.re.webhook_secrets: is no secret"),
            ("sendgrid", {"webhook_keys": ["x"]}, "providers.sg.webhook_keys: is no public key"),
            (
                "webpush",
                {"vapid_key": "A" * 43},
                "providers.push.vapid_key: is no private key on P-256; make",
            ),
            ("apprise", {"url": "nonsense://x"}, "providers.chat.url: Apprise does not know it"),
        ],
    )
    def test_what_only_the_provider_can_tell(self, kind: str, changes: dict[str, Any], message: str) -> None:
        assert refusal(kind, **changes).startswith(message)

    def test_a_named_variable_that_is_not_set(self) -> None:
        message = refusal("smtp", unset=(("password", "SMTP_PASSWORD"),), password=None)
        assert message.startswith("providers.mail.password_env: names SMTP_PASSWORD, which is not set")

    def test_all_are_told_at_once(self) -> None:
        tables = [{"kind": kind, **TABLES[kind]} for kind in ("resend", "sendgrid")]
        for table in tables:
            del table["api_key"]
        with pytest.raises(ConfigurationError) as caught:
            build_providers(Settings(providers=tuple(tables)))  # type: ignore[arg-type]
        assert len(str(caught.value).splitlines()) == 2


class Carrier:
    """A provider of somebody's own that says when it is closed, and may fail at it."""

    def __init__(self, name: str, failure: Exception | None = None) -> None:
        self.name = name
        self.traits = Traits(channels=frozenset({"email"}))
        self.is_closed = False
        self._failure = failure

    async def send(self, parcel: Parcel) -> Answer:
        return Sent()

    async def look_up(self, parcel: Parcel) -> Answer:
        raise NotImplementedError

    async def close(self) -> None:
        self.is_closed = True
        if self._failure is not None:
            raise self._failure


class TestOpening:
    async def test_what_was_given_is_used_and_closed(self) -> None:
        broken, whole = Carrier("broken", OSError("gone")), Carrier("whole")
        async with open_providers(Settings(), [broken, whole]) as used:
            assert list(used) == [broken, whole]
        assert broken.is_closed
        assert whole.is_closed

    async def test_what_was_given_goes_before_the_settings(self) -> None:
        carrier = Carrier("own")
        async with open_providers(settings_of("resend"), [carrier]) as used:
            assert list(used) == [carrier]

    async def test_they_are_closed_after_a_failure_too(self) -> None:
        carrier = Carrier("own")
        with pytest.raises(ZeroDivisionError):
            async with open_providers(Settings(), [carrier]):
                raise ZeroDivisionError
        assert carrier.is_closed


@pytest.mark.req("M-5.8")
class TestDemo:
    async def test_nothing_is_built_but_what_captures(self) -> None:
        # Each of these would be refused for its missing secret if it were built.
        tables = [{"kind": "resend", "sender": SENDER}, {"kind": "webpush", "contact": "https://a.example"}]
        settings = Settings(demo=True, providers=tuple(tables))  # type: ignore[arg-type]
        providers = build_providers(settings)
        assert all(isinstance(provider, Captured) for provider in providers)
        channels = {channel for provider in providers for channel in provider.traits.channels}
        assert channels == {"email", "sms", "whatsapp", "push", "webhook"}

    async def test_what_was_given_is_not_used_where_demo_mode_was_asked_for(self) -> None:
        carrier = Carrier("own")
        async with open_providers(Settings(demo=True), [carrier]) as used:
            assert all(isinstance(provider, Captured) for provider in used)
        assert carrier.is_closed

    def test_a_process_has_no_code_that_could_send(self) -> None:
        program = (
            "import sys\n"
            "from timebell.config import Settings\n"
            "import timebell.server\n"
            "from timebell.providers.building import build_providers\n"
            "build_providers(Settings(demo=True, providers=({'kind': 'webhook'},)))\n"
            "senders = ('aiosmtplib', 'smtplib', 'httpx2', 'apprise', 'urllib.request', 'http.client')\n"
            "ours = [name for name in sys.modules if name.startswith('timebell.providers.')]\n"
            "print(sorted(ours), [name for name in senders if name in sys.modules])\n"
            "build_providers(Settings(providers=({'kind': 'webhook'},)))\n"
            "print('httpx2' in sys.modules)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=clean_environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        own = "['timebell.providers.building', 'timebell.providers.log']"
        assert done.stdout.splitlines() == [f"{own} []", "True"]
