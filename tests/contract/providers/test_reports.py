"""Reports are verified on the bytes that came before anything is read from them, and say what they say."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contract.providers.parcels import DELIVERY
from timebell.errors import InvalidInput, UnverifiedReport
from timebell.notify.provider import Provider, Report, Reporter, ReportKind
from timebell.providers.infobip import Infobip
from timebell.providers.resend import Resend
from timebell.providers.sendgrid import SendGrid
from timebell.providers.standard_webhooks import read_secret, sign

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER_SECRET = "whsec_" + base64.b64encode(b"another secret of thirty-two byt").decode()
KEY, OTHER_KEY = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
LOGIN, OTHER_LOGIN = "timebell:correct horse battery", "timebell:staple"


def shown(key: ec.EllipticCurvePrivateKey) -> str:
    """A public key as SendGrid shows it: .../getting-started-event-webhook-security-features"""
    der = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return base64.b64encode(der).decode()


class ResendHook:
    """https://resend.com/docs/webhooks/verify-webhooks-requests, which is the scheme of Svix."""

    def reporter(self, *, secrets: Sequence[str] = (SECRET,)) -> Resend:
        return Resend(api_key="re_1", sender="a@acme.example", webhook_secrets=secrets)

    def rotating(self) -> Resend:
        return self.reporter(secrets=(OTHER_SECRET, SECRET))

    def foreign(self) -> Resend:
        return self.reporter(secrets=(OTHER_SECRET,))

    def unset(self) -> Resend:
        return self.reporter(secrets=())

    def headers(self, body: bytes, at: datetime = NOW) -> dict[str, str]:
        headers = sign(message_id="msg_1", signed_at=at, body=body, secrets=[read_secret(SECRET)])
        return {name.replace("webhook", "svix"): value for name, value in headers.items()}

    def body(self) -> bytes:
        return resend_event("email.delivered")


class SendGridHook:
    """The signature is of the timestamp and the raw body, by ECDSA over P-256 with SHA-256."""

    def reporter(self, *, keys: Sequence[ec.EllipticCurvePrivateKey] = (KEY,)) -> SendGrid:
        return SendGrid(api_key="SG.1", sender="a@acme.example", webhook_keys=[shown(key) for key in keys])

    def rotating(self) -> SendGrid:
        return self.reporter(keys=(OTHER_KEY, KEY))

    def foreign(self) -> SendGrid:
        return self.reporter(keys=(OTHER_KEY,))

    def unset(self) -> SendGrid:
        return self.reporter(keys=())

    def headers(self, body: bytes, at: datetime = NOW) -> dict[str, str]:
        timestamp = str(int(at.timestamp()))
        signature = KEY.sign(timestamp.encode() + body, ec.ECDSA(SHA256()))
        return {
            "X-Twilio-Email-Event-Webhook-Signature": base64.b64encode(signature).decode(),
            "X-Twilio-Email-Event-Webhook-Timestamp": timestamp,
        }

    def body(self) -> bytes:
        return sendgrid_events({"event": "delivered"})


class InfobipHook:
    """https://infobip.com/docs/api/platform/subscriptions-api/create-security-settings, of the type BASIC."""

    def reporter(self, *, logins: Sequence[str] = (LOGIN,)) -> Infobip:
        return Infobip(
            channel="sms", base_url="https://x.example", api_key="k", sender="s", webhook_logins=logins
        )

    def rotating(self) -> Infobip:
        return self.reporter(logins=(OTHER_LOGIN, LOGIN))

    def foreign(self) -> Infobip:
        return self.reporter(logins=(OTHER_LOGIN,))

    def unset(self) -> Infobip:
        return self.reporter(logins=())

    def headers(self, body: bytes, at: datetime = NOW) -> dict[str, str]:
        return {"Authorization": "Basic " + base64.b64encode(LOGIN.encode()).decode()}

    def body(self) -> bytes:
        return infobip_results("DELIVERED", "DELIVERED_TO_HANDSET")


def resend_event(kind: str, **data: Any) -> bytes:
    """As https://resend.com/docs/dashboard/webhooks/event-types shows it; tags come back as an object."""
    return json.dumps(
        {
            "type": kind,
            "created_at": "2026-11-15T11:59:12.126Z",
            "data": {
                "created_at": "2026-11-15T11:59:11.894719+00:00",
                "email_id": "56761188-7520-42d8-8898-ff6fc54ce618",
                "from": "Acme <onboarding@resend.dev>",
                "to": ["ann@example.org"],
                "subject": "Sending this example",
                "tags": {"timebell_delivery": str(DELIVERY)},
                **data,
            },
        }
    ).encode()


def sendgrid_events(*events: Mapping[str, Any]) -> bytes:
    """As https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/event shows them; a line break follows."""
    common = {
        "email": "ann@example.org",
        "timestamp": 1_763_207_952,
        "smtp-id": "<14c5d75ce93.dfd.64b469@ismtpd-555>",
        "sg_event_id": "qK1MxfAaE_ukyyNsjxTpkw==",
        "sg_message_id": "14c5d75ce93.dfd.64b469.filter0001.16648.5515E0B88.0",
        "timebell_delivery": str(DELIVERY),
    }
    return json.dumps([{**common, **event} for event in events]).encode() + b"\r\n"


def infobip_results(group: str, name: str, *, permanent: bool = False) -> bytes:
    """As .../sms-messaging/logs-and-status-reports/receive-outbound-sms-message-report shows it."""
    result = {
        "bulkId": "BULK-ID-123-xyz",
        "messageId": str(DELIVERY),
        "to": "41793026727",
        "sentAt": "2026-11-15T11:59:00.000+0000",
        "doneAt": "2026-11-15T11:59:12.000+0000",
        "status": {"groupId": 3, "groupName": group, "id": 5, "name": name, "description": "Words"},
        "error": {"groupName": "Ok", "id": 0, "name": "NO_ERROR", "permanent": permanent},
    }
    return json.dumps({"results": [result]}).encode()


Hook = ResendHook | SendGridHook | InfobipHook
HOOKS: list[Hook] = [ResendHook(), SendGridHook(), InfobipHook()]
SIGNED = HOOKS[:2]
every_hook = pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: type(hook).__name__)
signed_hook = pytest.mark.parametrize("hook", SIGNED, ids=lambda hook: type(hook).__name__)


def read(reporter: Reporter, headers: Mapping[str, str], body: bytes) -> Sequence[Report]:
    return reporter.read_reports(headers, body, NOW)


@every_hook
def test_a_report_names_the_delivery_and_what_became_of_it(hook: Hook) -> None:
    reporter = hook.reporter()
    provider: Provider = reporter
    (report,) = read(reporter, hook.headers(hook.body()), hook.body())
    assert provider.traits.reports
    assert (report.kind, report.delivery_id) == ("delivered", DELIVERY)
    assert report.address in {"ann@example.org", "+41793026727"}
    assert report.occurred_at is not None
    assert report.occurred_at.tzinfo is not None


@every_hook
def test_the_same_report_has_the_same_id(hook: Hook) -> None:
    first = read(hook.reporter(), hook.headers(hook.body()), hook.body())
    again = read(hook.reporter(), hook.headers(hook.body(), NOW + timedelta(seconds=9)), hook.body())
    assert [report.report_id for report in first] == [report.report_id for report in again]


@every_hook
def test_without_a_secret_every_report_is_refused(hook: Hook) -> None:
    assert not hook.unset().traits.reports
    with pytest.raises(UnverifiedReport):
        read(hook.unset(), hook.headers(hook.body()), hook.body())
    with pytest.raises(UnverifiedReport):
        read(hook.unset(), {}, hook.body())


@every_hook
def test_another_accounts_secret_opens_nothing(hook: Hook) -> None:
    with pytest.raises(UnverifiedReport):
        read(hook.foreign(), hook.headers(hook.body()), hook.body())


@every_hook
def test_either_secret_opens_while_one_is_exchanged(hook: Hook) -> None:
    assert len(read(hook.rotating(), hook.headers(hook.body()), hook.body())) == 1


@every_hook
def test_every_header_is_needed(hook: Hook) -> None:
    headers = hook.headers(hook.body())
    for name in headers:
        for wrong in ({**headers, name: ""}, {k: v for k, v in headers.items() if k != name}):
            with pytest.raises(UnverifiedReport):
                read(hook.reporter(), wrong, hook.body())


@every_hook
def test_names_of_headers_may_be_written_in_any_case(hook: Hook) -> None:
    headers = {name.upper(): value for name, value in hook.headers(hook.body()).items()}
    assert len(read(hook.reporter(), headers, hook.body())) == 1


@signed_hook
def test_every_byte_is_signed(hook: Hook) -> None:
    body = hook.body()
    for position in range(0, len(body), 7):
        flipped = bytearray(body)
        flipped[position] ^= 1
        with pytest.raises(UnverifiedReport):
            read(hook.reporter(), hook.headers(body), bytes(flipped))


@signed_hook
def test_json_that_was_written_again_is_refused(hook: Hook) -> None:
    again = json.dumps(json.loads(hook.body()), indent=1).encode()
    with pytest.raises(UnverifiedReport):
        read(hook.reporter(), hook.headers(hook.body()), again)


@signed_hook
@pytest.mark.parametrize(("minutes", "accepted"), [(4, True), (-4, True), (10, False), (-10, False)])
def test_a_clock_that_is_wrong_is_refused(hook: Hook, minutes: int, accepted: bool) -> None:
    headers = hook.headers(hook.body(), NOW + timedelta(minutes=minutes))
    if accepted:
        assert read(hook.reporter(), headers, hook.body())
    else:
        with pytest.raises(UnverifiedReport):
            read(hook.reporter(), headers, hook.body())


@every_hook
@pytest.mark.parametrize(
    "body", [b"", b"null", b"[]", b"{}", b'"x"', b"[1]", b"{", b"\xff\xfe", b'{"results":7}']
)
def test_a_verified_body_of_another_form_reports_nothing(hook: Hook, body: bytes) -> None:
    with contextlib.suppress(UnverifiedReport):
        assert not read(hook.reporter(), hook.headers(body), body)


@every_hook
def test_a_body_that_is_too_long_is_refused(hook: Hook) -> None:
    body = b" " * 1_000_001
    with pytest.raises(UnverifiedReport, match="bytes"):
        read(hook.reporter(), hook.headers(body), body)


@settings(max_examples=150, deadline=None)
@given(
    value=st.recursive(
        st.none()
        | st.booleans()
        | st.floats(allow_nan=False)
        | st.text(max_size=9)
        | st.integers(-(10**30), 10**30),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["type", "data", "event", "results", "messageId", "status", "timestamp", "to", "tags"]
                ),
                inner,
            )
        ),
        max_leaves=12,
    )
)
def test_whatever_json_is_signed_nothing_breaks(value: Any) -> None:
    body = json.dumps(value).encode()
    for hook in HOOKS:
        # It is signed, so nothing else can be wrong about it than what it says.
        with contextlib.suppress(UnverifiedReport):
            found = read(hook.reporter(), hook.headers(body), body)
            assert all(one.kind in get_args(ReportKind) for one in found)


@pytest.mark.parametrize(
    ("kind", "data", "expected", "is_permanent"),
    [
        ("email.sent", {}, "sent", True),
        ("email.delivered", {}, "delivered", True),
        ("email.bounced", {"bounce": {"type": "Permanent", "message": "no such user"}}, "bounced", True),
        ("email.bounced", {"bounce": {"type": "Transient", "message": "full"}}, "bounced", False),
        ("email.complained", {}, "complained", True),
        ("email.failed", {"failed": {"reason": "reached_daily_quota"}}, "failed", True),
        ("email.suppressed", {}, "failed", True),
    ],
)
def test_what_resend_reports(kind: str, data: dict[str, Any], expected: str, is_permanent: bool) -> None:
    hook = ResendHook()
    body = resend_event(kind, **data)
    (report,) = read(hook.reporter(), hook.headers(body), body)
    assert (report.kind, report.is_permanent) == (expected, is_permanent)
    assert report.provider_id == "56761188-7520-42d8-8898-ff6fc54ce618"
    assert report.occurred_at == datetime(2026, 11, 15, 11, 59, 12, 126_000, tzinfo=UTC)


@pytest.mark.parametrize(
    "kind", ["email.opened", "email.clicked", "email.delivery_delayed", "contact.created"]
)
def test_what_resend_tells_besides_is_left(kind: str) -> None:
    hook = ResendHook()
    assert not read(hook.reporter(), hook.headers(resend_event(kind)), resend_event(kind))


@pytest.mark.parametrize(
    ("event", "expected", "is_permanent"),
    [
        ({"event": "processed"}, "sent", True),
        ({"event": "delivered", "response": "250 OK"}, "delivered", True),
        ({"event": "bounce", "type": "bounce", "reason": "550 no such user"}, "bounced", True),
        ({"event": "bounce", "type": "blocked", "reason": "421 try later"}, "bounced", False),
        ({"event": "dropped", "reason": "Bounced Address"}, "failed", True),
        ({"event": "spamreport"}, "complained", True),
        ({"event": "unsubscribe"}, "unsubscribed", True),
        ({"event": "group_unsubscribe"}, "unsubscribed", True),
    ],
)
def test_what_sendgrid_reports(event: dict[str, Any], expected: str, is_permanent: bool) -> None:
    hook = SendGridHook()
    body = sendgrid_events(event, {"event": "open"}, {"event": "deferred"})
    (report,) = read(hook.reporter(), hook.headers(body), body)
    assert (report.kind, report.is_permanent) == (expected, is_permanent)
    assert report.provider_id == "14c5d75ce93"
    assert report.occurred_at == datetime.fromtimestamp(1_763_207_952, tz=UTC)


@pytest.mark.parametrize(
    ("group", "name", "permanent", "expected"),
    [
        ("PENDING", "PENDING_ENROUTE", False, "sent"),
        ("DELIVERED", "DELIVERED_TO_OPERATOR", False, "sent"),
        ("DELIVERED", "DELIVERED_TO_HANDSET", False, "delivered"),
        ("UNDELIVERABLE", "UNDELIVERABLE_NOT_DELIVERED", True, "failed"),
        ("EXPIRED", "EXPIRED_EXPIRED", False, "failed"),
        ("REJECTED", "REJECTED_DESTINATION", True, "failed"),
    ],
)
def test_what_infobip_reports(group: str, name: str, permanent: bool, expected: str) -> None:
    hook = InfobipHook()
    body = infobip_results(group, name, permanent=permanent)
    (report,) = read(hook.reporter(), hook.headers(body), body)
    assert (report.kind, report.is_permanent) == (expected, permanent)
    assert report.report_id == f"{DELIVERY}:{name}"
    assert report.occurred_at == datetime(2026, 11, 15, 11, 59, 12, tzinfo=UTC)


def test_what_a_mail_server_said_can_be_kept() -> None:
    """Its words come along as they are; a character that the database refuses would hold up the whole batch."""
    hook = SendGridHook()
    body = sendgrid_events({"event": "bounce", "reason": "550 no\0such\r\nuser"}, {"event": "delivered"})
    bounced, _ = read(hook.reporter(), hook.headers(body), body)
    assert bounced.reason == "550 no such user"


@pytest.mark.parametrize("said", ["9999-12-31T23:59:59-23:00", "0001-01-01T00:00:00+23:00"])
def test_an_instant_beyond_all_calendars_is_left_out(said: str) -> None:
    hook = ResendHook()
    body = resend_event("email.delivered").replace(b"2026-11-15T11:59:12.126Z", said.encode())
    (report,) = read(hook.reporter(), hook.headers(body), body)
    assert report.occurred_at is None


@pytest.mark.parametrize("key", ["", "AAAA", "not base64", SECRET])
def test_a_key_that_is_none_is_refused_at_once(key: str) -> None:
    with pytest.raises(InvalidInput, match="webhook_keys"):
        SendGrid(api_key="SG.1", sender="a@acme.example", webhook_keys=[key])
    with pytest.raises(InvalidInput, match="webhook_secrets"):
        Resend(api_key="re_1", sender="a@acme.example", webhook_secrets=[key + "!"])
