"""What may be said about a recipient and what a tenant may decide: refused with the field and the remedy, or kept."""

from __future__ import annotations

from dataclasses import fields
from datetime import time, timedelta
from typing import Any

import orjson
import pytest

from timebell.errors import InvalidInput
from timebell.notify.models import Cap, Policy, QuietHours
from timebell.notify.people.policies import POLICY_FIELDS, checked_policy, policy_of
from timebell.notify.people.recipient_rows import encode_quiet_hours, quiet_hours_of
from timebell.notify.rules.recipient_checks import checked_quiet_hours, checked_terms


def test_terms_are_written_in_one_way() -> None:
    assert checked_terms({"language": "DE_at", "timezone": "Europe/Vienna", "external_id": None}) == {
        "language": "de-AT",
        "timezone": "Europe/Vienna",
        "external_id": None,
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("name", ""),
        ("name", None),
        ("name", "a\x00b"),
        ("name", "x" * 201),
        ("external_id", ""),
        ("language", "german"),
        ("language", None),
        ("timezone", "CEST"),
        ("timezone", "../etc/passwd"),
        ("channel_preference", "fax"),
        ("channel_preference", ["email"]),
        ("whatsapp_opt_in", "yes"),
        ("whatsapp_opt_in", None),
        ("quiet_hours", "22-7"),
        ("shoe_size", 44),
    ],
)
def test_a_term_is_refused_by_its_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        checked_terms({name: value})
    assert refused.value.field == name


@pytest.mark.req("U-12")
def test_quiet_hours_are_taken_as_json_has_them() -> None:
    assert checked_quiet_hours({"start": "22:00", "end": "07:00"}) == QuietHours(start=time(22), end=time(7))
    given = {
        "start": "20:30",
        "end": "08:15",
        "days": [5, 6],
        "time_bound": "hold",
        "channels": ["sms", "push"],
    }
    assert checked_quiet_hours(given) == QuietHours(
        start=time(20, 30),
        end=time(8, 15),
        days=frozenset({5, 6}),
        time_bound="hold",
        channels=frozenset({"sms", "push"}),
    )


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"start": "22:00"}, "quiet_hours.end"),
        ({"start": "24:00", "end": "07:00"}, "quiet_hours.start"),
        ({"start": "22:00:30", "end": "07:00"}, "quiet_hours.start"),
        ({"start": "22:00+01:00", "end": "07:00"}, "quiet_hours.start"),
        ({"start": "22:00", "end": 7}, "quiet_hours.end"),
        ({"start": "22:00", "end": "07:00", "days": []}, "quiet_hours.days"),
        ({"start": "22:00", "end": "07:00", "days": [7]}, "quiet_hours.days"),
        ({"start": "22:00", "end": "07:00", "days": [True]}, "quiet_hours.days"),
        ({"start": "22:00", "end": "07:00", "channels": "sms"}, "quiet_hours.channels"),
        ({"start": "22:00", "end": "07:00", "channels": ["fax"]}, "quiet_hours.channels"),
        ({"start": "22:00", "end": "07:00", "time_bound": "maybe"}, "quiet_hours.time_bound"),
        ({"start": "22:00", "end": "07:00", "zone": "UTC"}, "quiet_hours.zone"),
    ],
)
def test_quiet_hours_are_refused_by_the_name_of_the_part(given: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        checked_quiet_hours(given)
    assert refused.value.field == field


def test_quiet_hours_come_back_as_they_were_stored() -> None:
    hours = QuietHours(start=time(22), end=time(7), days=frozenset({0}), time_bound="hold")
    stored = encode_quiet_hours(hours)
    assert stored is not None
    assert quiet_hours_of(orjson.loads(stored)) == hours
    assert encode_quiet_hours(None) is None
    assert quiet_hours_of(None) is None


def test_every_part_of_a_policy_can_be_decided() -> None:
    assert {*POLICY_FIELDS, "revision"} == {each.name for each in fields(Policy)}


def test_a_policy_comes_back_as_it_was_decided() -> None:
    decided: dict[str, Any] = {
        "default_language": "de-AT",
        "default_timezone": "Europe/Vienna",
        "on_missing": "skip",
        "on_quiet": {"normal": "drop"},
        "caps": (Cap(count=3, per=timedelta(hours=1), channel="sms"), Cap(count=9, per=timedelta(days=1))),
        "providers": {"email": ["smtp", "resend"]},
        "sender": {"email": "bell@example.org", "email_name": "The bell"},
        "attempts_max": 2,
        "retry_delays_seconds": (1.0, 2.5),
        "report_wait_seconds": 60.0,
    }
    stored = orjson.loads(orjson.dumps(checked_policy(decided)))
    expected = {**decided, "on_quiet": {"normal": "drop", "time_bound": "early"}}
    assert policy_of(stored, 4) == Policy(**expected, revision=4)
    assert policy_of(None) == Policy()
    assert policy_of({}, 2) == Policy(revision=2)


@pytest.mark.parametrize(
    ("name", "value", "field"),
    [
        ("default_language", "german", "default_language"),
        ("default_timezone", 7, "default_timezone"),
        ("default_timezone", "Europe/Berln", "default_timezone"),
        ("on_missing", "send", "on_missing"),
        ("on_quiet", {"urgent": "drop"}, "on_quiet"),
        ("on_quiet", {"normal": "later"}, "on_quiet.normal"),
        ("caps", Cap(count=1, per=timedelta(1)), "caps"),
        ("caps", [{"count": 1}], "caps[0].per"),
        ("caps", [{"per_seconds": 1}], "caps[0].count"),
        ("caps", [Cap(count=0, per=timedelta(1))], "caps[0].count"),
        ("caps", [Cap(count=1, per=timedelta(0))], "caps[0].per"),
        ("caps", [Cap(count=1, per=timedelta(days=400))], "caps[0].per"),
        ("caps", [{"count": 1, "per_seconds": 1, "channel": "fax"}], "caps[0].channel"),
        ("caps", [{"count": 1, "per_seconds": 1, "topic": "x"}], "caps[0].topic"),
        ("caps", [Cap(count=1, per=timedelta(1))] * 21, "caps"),
        ("providers", {"email": []}, "providers.email"),
        ("providers", {"fax": ["x"]}, "providers"),
        ("sender", {"email": "nobody"}, "sender.email"),
        ("sender", {"email_name": "a\r\nBcc: b"}, "sender.email_name"),
        ("sender", {"name": "The bell"}, "sender"),
        ("sender", {"x": "y"}, "sender"),
        ("attempts_max", 0, "attempts_max"),
        ("attempts_max", 1.5, "attempts_max"),
        ("retry_delays_seconds", [], "retry_delays_seconds"),
        ("retry_delays_seconds", [float("nan")], "retry_delays_seconds[0]"),
        ("report_wait_seconds", -1, "report_wait_seconds"),
        ("revision", 3, "revision"),
    ],
)
def test_a_policy_is_refused_by_the_name_of_the_part(name: str, value: Any, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        checked_policy({name: value})
    assert refused.value.field == field
