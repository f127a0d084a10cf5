"""Signatures agree with the library of Standard Webhooks, and nothing but the signed bytes passes."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from timebell.errors import InvalidInput, UnverifiedReport
from timebell.providers.standard_webhooks import read_secret, sign, verify

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
TEXT = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER_TEXT = "whsec_" + base64.b64encode(b"another secret of thirty-two byt").decode()
SECRET, OTHER = read_secret(TEXT), read_secret(OTHER_TEXT)
BODY = '{"type":"a.b","data":{"name":"Zoë"}}'.encode()


def signed(*secrets: bytes, at: datetime = NOW, body: bytes = BODY) -> dict[str, str]:
    return dict(sign(message_id="msg_1", signed_at=at, body=body, secrets=secrets or (SECRET,)))


def is_accepted(headers: dict[str, str], body: bytes = BODY, *, secrets: list[bytes] | None = None) -> bool:
    try:
        return verify(headers, body, secrets=[SECRET] if secrets is None else secrets, now=NOW) == "msg_1"
    except UnverifiedReport:
        return False


def test_the_example_of_the_specification() -> None:
    """spec/standard-webhooks.md gives the form of the header; the library gives the value."""
    at = datetime.fromtimestamp(1_674_087_231, tz=UTC)
    expected = Webhook(TEXT).sign("msg_1", at, BODY.decode())
    assert signed(at=at)["webhook-signature"] == expected
    assert signed(at=at)["webhook-timestamp"] == "1674087231"


def test_the_library_accepts_what_we_sign() -> None:
    """It reads the time of the machine, so this signs at that time."""
    now = datetime.now(tz=UTC)
    Webhook(TEXT).verify(BODY, signed(at=now))
    Webhook(TEXT).verify(BODY, signed(OTHER, SECRET, at=now))
    with pytest.raises(WebhookVerificationError):
        Webhook(TEXT).verify(BODY, signed(OTHER, at=now))


def test_we_accept_what_the_library_signs() -> None:
    headers = {
        "Webhook-Id": "msg_1",
        "Webhook-Timestamp": str(int(NOW.timestamp())),
        "Webhook-Signature": f"v1a,ignored {Webhook(TEXT).sign('msg_1', NOW, BODY.decode())}",
    }
    assert is_accepted(headers)


def test_every_byte_is_signed() -> None:
    for position in range(len(BODY)):
        flipped = bytearray(BODY)
        flipped[position] ^= 1
        assert not is_accepted(signed(), bytes(flipped))


def test_every_character_of_the_signature_counts() -> None:
    headers = signed()
    signature = headers["webhook-signature"]
    for position in range(len("v1,"), len(signature) - 1):
        changed = "A" if signature[position] != "A" else "B"
        wrong = signature[:position] + changed + signature[position + 1 :]
        assert not is_accepted({**headers, "webhook-signature": wrong})


@pytest.mark.parametrize("change", [b" ", b"\n", b"\r\n"])
def test_json_that_means_the_same_is_not_the_same(change: bytes) -> None:
    assert not is_accepted(signed(), BODY + change)
    assert not is_accepted(signed(), BODY.replace(b":", b": "))


@pytest.mark.parametrize("header", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_every_header_is_needed(header: str) -> None:
    assert not is_accepted({name: value for name, value in signed().items() if name != header})
    assert not is_accepted({**signed(), header: ""})
    assert not is_accepted({**signed(), header: "v1, v1,= ,"})


@pytest.mark.parametrize(
    ("seconds", "accepted"), [(0, True), (300, True), (301, False), (-300, True), (-301, False), (600, False)]
)
def test_a_clock_may_differ_by_five_minutes(seconds: int, accepted: bool) -> None:
    """A replay at 301 s is refused, and so is what comes from the future."""
    assert is_accepted(signed(at=NOW - timedelta(seconds=seconds))) is accepted


def test_a_secret_may_be_exchanged_from_either_side() -> None:
    assert is_accepted(signed(OTHER, SECRET))
    assert is_accepted(signed(SECRET), secrets=[OTHER, SECRET])
    assert not is_accepted(signed(OTHER))


def test_without_a_secret_everything_is_refused() -> None:
    assert not is_accepted(signed(), secrets=[])


def test_an_id_cannot_move_the_full_stops() -> None:
    with pytest.raises(InvalidInput, match="message_id"):
        sign(message_id="msg.1", signed_at=NOW, body=BODY, secrets=[SECRET])
    # `a` + `1.body` and `a.1` + `body` are the same signed text, were full stops allowed.
    headers = signed(body=b"0." + BODY)
    moved = {**headers, "webhook-id": f"msg_1.{headers['webhook-timestamp']}", "webhook-timestamp": "0"}
    assert not is_accepted(moved, BODY)


def test_a_flood_of_signatures_is_cut() -> None:
    headers = signed()
    flood = " ".join(["v1,AAAA"] * 100_000)
    assert not is_accepted({**headers, "webhook-signature": f"{flood} {headers['webhook-signature']}"})


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_c2hvcnQ=", "whsec_***", "whsec_" + "A" * 200])
def test_a_weak_secret_is_refused(secret: str) -> None:
    with pytest.raises(InvalidInput, match="24 to 64 bytes"):
        read_secret(secret)


@pytest.mark.parametrize(
    "timestamp", ["-1", "1e9", " 1763208000", "1763208000.0", "9" * 11, "9" * 12, "\uff19"]
)
def test_a_timestamp_is_a_plain_number(timestamp: str) -> None:
    assert not is_accepted({**signed(), "webhook-timestamp": timestamp})
