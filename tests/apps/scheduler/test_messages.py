"""Reading what comes in, and building what goes out. Nothing is asked but the rules."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from hashlib import sha256
from typing import Any

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from timebell.apps.scheduler.dues import Due, message_of
from timebell.apps.scheduler.messages import (
    BODY_BYTES_MAX,
    HEADER_BYTES_MAX,
    HEADERS_MAX,
    bytes_of,
    read_instant,
    read_message,
    whose,
)
from timebell.apps.scheduler.models import REASONS, Poison, ScheduleCancel, ScheduleRequest
from timebell.brokers import UNREADABLE_HEADERS
from timebell.brokers.carrying import why_not_carried

AT = "2026-03-29T09:00:00Z"


def request(**fields: Any) -> dict[str, Any]:
    return {"type": "ScheduleRequest", "id": "a", **fields}


def read(fields: Any, **properties: Any) -> ScheduleRequest | ScheduleCancel | Poison:
    body = fields if isinstance(fields, bytes) else orjson.dumps(fields)
    return read_message(body, **properties)


def reason_of(fields: Any, **properties: Any) -> str:
    answer = read(fields, **properties)
    assert isinstance(answer, Poison)
    return answer.reason


def asked(fields: Any, **properties: Any) -> ScheduleRequest:
    answer = read(fields, **properties)
    assert isinstance(answer, ScheduleRequest), answer
    return answer


@pytest.mark.req("S-1.1")
def test_the_three_forms_of_the_source() -> None:
    assert asked(request(at=AT)) == ScheduleRequest(id="a", due_at=datetime(2026, 3, 29, 9, tzinfo=UTC))
    assert asked(request(rrule="FREQ=DAILY")) == ScheduleRequest(id="a", recurrence="FREQ=DAILY")
    assert read({"type": "ScheduleCancel", "id": "a"}) == ScheduleCancel(id="a")


@pytest.mark.req("S-1.2")
def test_what_else_a_message_may_say() -> None:
    whole = asked(
        request(
            rrule="FREQ=HOURLY",
            tz="Europe/Berlin",
            dtstart="2026-03-01T09:00:00.75+01:00",
            misfire="fire_all",
            payload={"to": ["x", 1, None]},
            tenant="acme",
            colour="green",
        ),
        correlation_id="c-1",
    )
    assert whole == ScheduleRequest(
        id="a",
        tenant="acme",
        recurrence="FREQ=HOURLY",
        timezone="Europe/Berlin",
        start_at=datetime(2026, 3, 1, 8, tzinfo=UTC),
        misfire="fire_all",
        payload='{"to":["x",1,null]}',
        correlation_id="c-1",
    )


def test_the_type_may_be_a_property_and_the_body_goes_before_it() -> None:
    assert read({"id": "a"}, type="ScheduleCancel") == ScheduleCancel(id="a")
    assert isinstance(read(request(at=AT), type="ScheduleCancel"), ScheduleRequest)


def test_beside_an_instant_what_is_said_of_recurrences_is_ignored() -> None:
    plain = asked(request(at=AT))
    assert asked(request(at=AT, tz="Nowhere", dtstart="soon", misfire="never")) == plain
    assert asked(request(at=AT, rrule=None, payload=None, tenant=None)) == plain


DEEP = b'{"type":"ScheduleRequest","id":"a","at":"%s","payload":%s}' % (AT.encode(), b"[" * 400 + b"]" * 400)
BAD: list[tuple[Any, str]] = [
    (b"\xff\xfe", "not_utf8"),
    (b'{"id": "\xff"}', "not_utf8"),
    (b"", "not_json"),
    (b"{", "not_json"),
    (b'{"id": NaN}', "not_json"),
    (b'{"id": 1e400}', "not_json"),
    (b'{"id": "\\ud800"}', "not_json"),
    (b"[" * 60_000, "not_json"),
    (b'{"payload": ' + b"[" * 2_000 + b"]" * 2_000 + b"}", "not_json"),
    ([], "not_an_object"),
    ("ScheduleRequest", "not_an_object"),
    ({"id": "a", "at": AT}, "unknown_type"),
    ({"type": "ScheduleDue", "id": "a"}, "unknown_type"),
    ({"type": 7, "id": "a"}, "unknown_type"),
    ({"type": "ScheduleCancel"}, "no_id"),
    (request(at=AT, id=None), "no_id"),
    (request(at=AT, id=""), "bad_id"),
    (request(at=AT, id=7), "bad_id"),
    (request(at=AT, id="a\0"), "bad_id"),
    (request(at=AT, id="ä" * 101), "bad_id"),
    (request(at=AT, tenant=""), "bad_tenant"),
    (request(at=AT, tenant=7), "bad_tenant"),
    (request(at=AT, tenant="x" * 201), "bad_tenant"),
    (request(), "no_time"),
    (request(at=None, rrule=None), "no_time"),
    (request(at=AT, rrule="FREQ=DAILY"), "two_times"),
    (request(at="tomorrow"), "bad_time"),
    (request(at="2026-03-29T09:00:00"), "bad_time"),
    (request(at="2026-03-29"), "bad_time"),
    (request(at="2026-02-30T09:00:00Z"), "bad_time"),
    (request(at="2026-03-29T24:00:00Z"), "bad_time"),
    (request(at="2026-03-29T09:00:60Z"), "bad_time"),
    (request(at="2026-03-29T09:00:00+25:00"), "bad_time"),
    (request(at="2026-W13-7T09:00:00Z"), "bad_time"),
    (request(at="٢٠٢٦-03-29T09:00:00Z"), "bad_time"),
    (request(at="0001-01-01T00:00:00Z"), "bad_time"),
    (request(at="0001-01-01T00:00:00+01:00"), "bad_time"),
    (request(at="9999-12-31T23:59:59.999999Z"), "bad_time"),
    (request(at=1774774800), "bad_time"),
    (request(at="2" * 100_000), "bad_time"),
    (request(rrule="FREQ=DAILY", dtstart="2026-03-29T09:00:00"), "bad_time"),
    (request(rrule="FREQ=NEVER"), "bad_rule"),
    (request(rrule=""), "bad_rule"),
    (request(rrule=["FREQ=DAILY"]), "bad_rule"),
    (request(rrule="FREQ=DAILY;" * 50), "bad_rule"),
    (request(rrule="FREQ=DAILY;COUNT=-1"), "bad_rule"),
    (request(rrule="FREQ=DAILY", tz="Europe/Berln"), "bad_timezone"),
    (request(rrule="FREQ=DAILY", tz=1), "bad_timezone"),
    (request(rrule="FREQ=DAILY", tz="../../etc/passwd"), "bad_timezone"),
    (request(rrule="FREQ=DAILY", misfire="never"), "bad_misfire"),
    (request(rrule="FREQ=DAILY", misfire=["skip"]), "bad_misfire"),
    (request(at=AT, payload="a\0b"), "bad_payload"),
    (DEEP, "bad_payload"),
]


@pytest.mark.req("S-1.5")
@pytest.mark.parametrize(("fields", "reason"), BAD)
def test_what_is_wrong_has_a_reason_of_its_own(fields: Any, reason: str) -> None:
    answer = read(fields)
    assert isinstance(answer, Poison)
    assert answer.reason == reason
    assert 10 < len(answer.detail) < 600
    assert "Traceback" not in answer.detail


def test_every_reason_that_can_be_read_off_a_message_is_tried_here() -> None:
    tried = {reason for _, reason in BAD}
    left = {"too_large", "headers_too_large", "bad_headers", "foreign_tenant", "cannot_be_stored"}
    assert tried | left == {*REASONS}
    assert not tried & left


def test_a_reason_names_the_field_as_the_caller_knows_it() -> None:
    for fields, words in [
        (request(rrule="FREQ=NEVER"), "rrule: FREQ: 'NEVER'"),
        (request(rrule="FREQ=DAILY", tz="Europe/Berln"), "tz: 'Europe/Berln'"),
        (request(at="soon"), "at: 'soon'"),
        (request(rrule="FREQ=DAILY", dtstart="soon"), "dtstart: 'soon'"),
    ]:
        answer = read(fields)
        assert isinstance(answer, Poison)
        assert answer.detail.startswith(words)
        assert "; " in answer.detail


def test_a_body_is_as_long_as_it_was_sent() -> None:
    fits = orjson.dumps(request(at=AT, payload="x" * BODY_BYTES_MAX))
    fits = orjson.dumps(request(at=AT, payload="x" * (2 * BODY_BYTES_MAX - len(fits))))
    assert len(fits) == BODY_BYTES_MAX
    assert isinstance(read(fits), ScheduleRequest)
    assert reason_of(fits + b" ") == "too_large"
    # Only its beginning was kept, and even that is well formed.
    assert reason_of(request(at=AT), body_bytes=BODY_BYTES_MAX + 1) == "too_large"


def test_a_bomb_of_headers_is_poison() -> None:
    few: dict[str, object] = {f"h{number}": number for number in range(HEADERS_MAX)}
    assert isinstance(read(request(at=AT), headers=few), ScheduleRequest)
    assert reason_of(request(at=AT), headers={**few, "one": 1}) == "headers_too_large"
    assert reason_of(request(at=AT), headers={"x": "y" * HEADER_BYTES_MAX}) == "headers_too_large"
    assert isinstance(read(request(at=AT), headers={"x": "y" * (HEADER_BYTES_MAX - 20)}), ScheduleRequest)
    nested: object = "y"
    for _ in range(5_000):
        nested = [nested, {"z" * 100: nested}]
    assert reason_of(request(at=AT), headers={"x": nested}) == "headers_too_large"
    assert bytes_of([["x"] * 10_000] * 10_000, 100) > 100


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-03-29T09:00:00Z", datetime(2026, 3, 29, 9, tzinfo=UTC)),
        ("2026-03-29t09:00:00z", datetime(2026, 3, 29, 9, tzinfo=UTC)),
        ("2026-03-29 09:00:00+00:00", datetime(2026, 3, 29, 9, tzinfo=UTC)),
        ("2026-03-29T09:00:00.1-03:30", datetime(2026, 3, 29, 12, 30, 0, 100_000, tzinfo=UTC)),
        ("2026-03-29T09:00:00.123456789Z", datetime(2026, 3, 29, 9, 0, 0, 123_456, tzinfo=UTC)),
    ],
)
def test_instants_are_read_as_they_are_written(text: str, instant: datetime) -> None:
    assert read_instant(text) == instant


@given(
    st.datetimes(
        min_value=datetime(1, 1, 3),
        max_value=datetime(9999, 12, 29),
        timezones=st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes))),
    )
)
def test_every_instant_with_an_offset_can_be_read(instant: datetime) -> None:
    # Years have four digits there, which isoformat sees to.
    assert read_instant(instant.isoformat()) == instant


numbers = st.integers() | st.decimals(allow_nan=False, allow_infinity=False).map(str).filter(
    lambda text: abs(float(text)) < 1e300
)


@given(number=numbers)
@example(number=2**64)
@example(number="0.1234567890123456789")
@example(number="1E+5")
def test_numbers_go_through_as_they_were_written(number: int | str) -> None:
    try:
        written = orjson.loads(f"[{number}]")
    except orjson.JSONDecodeError:
        return
    body = f'{{"type":"ScheduleRequest","id":"a","at":"{AT}","payload":[{number}]}}'
    payload = asked(body.encode()).payload
    assert payload is not None
    if len(str(number)) >= 16 or "E" in str(number):
        assert payload == f"[{number}]"
    assert orjson.loads(payload) == written


simple_values = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text()
json_values = st.recursive(
    simple_values | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@given(payload=json_values)
def test_a_payload_is_echoed(payload: Any) -> None:
    try:
        body = orjson.dumps(request(at=AT, payload=payload))
    except TypeError:
        return
    answer = read_message(body)
    if "\\u0000" in body.decode():
        assert isinstance(answer, Poison | ScheduleRequest)
        return
    assert isinstance(answer, ScheduleRequest)
    assert (None if answer.payload is None else orjson.loads(answer.payload)) == payload


@given(
    fields=st.dictionaries(
        st.sampled_from(["type", "id", "at", "rrule", "tz", "dtstart", "misfire", "payload", "tenant"]),
        json_values | st.sampled_from([AT, "ScheduleRequest", "ScheduleCancel", "FREQ=DAILY", "UTC", "skip"]),
    ),
    type=st.none() | st.text(),
    headers=st.dictionaries(st.text(), json_values, max_size=3),
    correlation_id=st.none() | st.text(),
)
@settings(max_examples=100)
def test_whatever_comes_is_a_request_a_cancel_or_poison(
    fields: dict[str, Any], type: str | None, headers: dict[str, Any], correlation_id: str | None
) -> None:
    body = json.dumps(fields).encode()
    answer = read_message(body, type=type, headers=headers, correlation_id=correlation_id)
    if isinstance(answer, Poison):
        assert answer.reason in REASONS
        answer.detail.encode()
    else:
        assert 0 < len(answer.id.encode()) <= 200


@given(st.binary(max_size=300))
def test_any_bytes_are_read(body: bytes) -> None:
    assert isinstance(read_message(body), Poison | ScheduleCancel | ScheduleRequest)


def test_a_correlation_that_cannot_be_kept_is_left_out() -> None:
    assert asked(request(at=AT), correlation_id="x" * 256).correlation_id is None
    assert asked(request(at=AT), correlation_id="").correlation_id is None
    assert asked(request(at=AT), correlation_id="a\0").correlation_id is None
    assert asked(request(at=AT), correlation_id="x" * 255).correlation_id == "x" * 255


def test_a_tenant_is_our_own_unless_the_broker_is_trusted() -> None:
    ours, theirs = ScheduleCancel(id="a"), ScheduleCancel(id="a", tenant="acme")
    assert whose(ours, own="default", is_trusted=False) == "default"
    assert whose(ScheduleCancel(id="a", tenant="default"), own="default", is_trusted=False) == "default"
    assert whose(theirs, own="default", is_trusted=True) == "acme"
    refused = whose(theirs, own="default", is_trusted=False)
    assert isinstance(refused, Poison)
    assert refused.reason == "foreign_tenant"
    assert "broker_trusts_tenant" in refused.detail
    long = whose(ScheduleCancel(id="a", tenant="ä" * 121), own="default", is_trusted=True)
    assert isinstance(long, Poison)
    assert long.reason == "bad_tenant"
    assert whose(ScheduleCancel(id="a", tenant="ä" * 120), own="default", is_trusted=True) == "ä" * 120


def test_a_long_tenant_still_makes_a_key() -> None:
    now = datetime(2026, 3, 29, 9, tzinfo=UTC)
    longest = Due(id="ä" * 100, tenant="ä" * 120, due_at=now, fired_at=now, correlation_id="ä" * 255)
    message = message_of(longest)
    assert why_not_carried(message) is None
    name = f"{longest.tenant}/{longest.id}/2026-03-29T09:00:00.000000Z"
    assert message.message_id == f"sha256:{sha256(name.encode()).hexdigest()}"
    assert message.correlation_id is None


def test_headers_that_nobody_can_read_are_poison() -> None:
    """A bomb of tables within tables: what reads the frames gives up, and says so."""
    said = {UNREADABLE_HEADERS: "there are more than 16 tables within tables"}
    found = read_message(b'{"type": "ScheduleCancel", "id": "a"}', headers=said)
    assert isinstance(found, Poison)
    assert (found.reason, "tables within tables" in found.detail) == ("bad_headers", True)
