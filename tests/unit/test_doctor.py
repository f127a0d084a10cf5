"""What the doctor makes of parked schedules, of timezone data that differ and of secrets that lie open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest

from timebell.cli import doctor, findings
from timebell.cli.doctor import (
    _database_timezones,
    _planned_timezones,
    _secret_keys,
    _secrets,
    _system_timezones,
)
from timebell.cli.timezone_copies import Offsets, own_copy
from timebell.config import Settings
from timebell.db.data_folder import SECRET_FILES
from timebell.kernel.insights.records import Health, ParkedSchedule, TimezoneLine
from timebell.rules.localtime import TIMEZONE_VERSION
from timebell.server import Place

OURS = own_copy(datetime(2026, 6, 1, tzinfo=UTC))
PLACE = Place(url="postgresql://nowhere", owner_url="postgresql://nowhere")


def line(timezone: str, version: str = TIMEZONE_VERSION) -> TimezoneLine:
    return TimezoneLine(timezone=timezone, version=version, updated_at=datetime(2026, 1, 1, tzinfo=UTC))


def off(*names: str) -> Offsets:
    """All of our offsets, and an hour more for some names."""
    return {
        name: [each + 3600 for each in offsets] if name in names else offsets
        for name, offsets in OURS.offsets.items()
    }


@pytest.fixture
def differing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def offsets(url: str, names: Sequence[str], moments: Sequence[datetime]) -> Offsets:
        return off("Africa/Casablanca", "Europe/Berlin")

    monkeypatch.setattr(doctor, "timezone_offsets", offsets)


@pytest.mark.usefixtures("differing")
async def test_a_difference_matters_where_something_is_planned() -> None:
    spared = await _database_timezones(OURS, PLACE, [line("Asia/Kolkata")])
    assert spared.verdict == "ok"
    assert spared.found == "differ for Africa/Casablanca, Europe/Berlin, in which nothing is planned"
    hit = await _database_timezones(OURS, PLACE, [line("Asia/Kolkata"), line("Europe/Berlin")])
    assert hit.verdict == "warn"
    assert hit.found == "differ for Europe/Berlin, in which schedules are planned"
    assert hit.remedy is not None


def test_plans_that_stand_on_newer_data_are_a_failure() -> None:
    assert _planned_timezones([]).verdict == "ok"
    assert _planned_timezones([line("Asia/Kolkata"), line("Europe/Berlin", "2020a")]).verdict == "ok"
    newer = _planned_timezones([line("Asia/Kolkata", "2999a"), line("Europe/Berlin")])
    assert newer.verdict == "fail"
    assert newer.found.startswith("2999a, newer than ")


def test_parked_schedules_are_told_with_the_last_reason() -> None:
    assert findings.schedules([]).verdict == "ok"
    parked = ParkedSchedule(
        id=UUID(int=7), tenant="t", reason="no such kind", parked_at=datetime(2026, 1, 1, tzinfo=UTC)
    )
    one, two = findings.schedules([parked]), findings.schedules([parked, replace(parked, reason="older")])
    assert one.verdict == two.verdict == "warn"
    assert one.found == f"one is parked, {UUID(int=7)} of the tenant t: no such kind"
    assert two.found == f"2 are parked, the last, {UUID(int=7)} of the tenant t: no such kind"


def test_the_system_is_compared_by_what_its_clocks_show(monkeypatch: pytest.MonkeyPatch) -> None:
    def system(answer: Offsets | None) -> findings.Finding:
        monkeypatch.setattr(doctor, "system_offsets", lambda ours: answer)
        return _system_timezones(OURS)

    assert system(None).verdict == "ok"
    assert system(off()).verdict == "ok"
    assert system({}).verdict == "ok"
    wrong = system(off("Europe/Berlin"))
    assert (wrong.verdict, wrong.found.endswith("which differs for Europe/Berlin")) == ("warn", True)


def test_secrets_that_others_may_read_are_a_failure(tmp_path: Path) -> None:
    assert _secrets(tmp_path).verdict == "ok"
    for name in SECRET_FILES:
        (tmp_path / name).touch(mode=0o600)
    assert _secrets(tmp_path).verdict == "ok"
    (tmp_path / "secret_key.json").chmod(0o644)
    found = _secrets(tmp_path)
    assert (found.verdict, "secret_key.json" in found.found) == ("fail", True)


def test_a_kind_that_nobody_can_run_is_named_with_what_to_do() -> None:
    assert findings.handlers({}).verdict == "ok"
    finding = findings.handlers({"hello.ring": 4, "other.run": 1})
    assert finding.verdict == "warn"
    assert "hello.ring (4 due), other.run (1 due)" in finding.found
    assert finding.remedy is not None
    assert "start the program" in finding.remedy


@pytest.mark.req("U-20")
@pytest.mark.parametrize(("seconds", "verdict"), [(0.0, "ok"), (3_600.0, "ok"), (7_200.0, "warn")])
def test_an_audit_trail_that_nobody_seals_is_named(seconds: float, verdict: str) -> None:
    health = Health(
        oldest_due_at=None,
        lateness_seconds=0.0,
        node_count=1,
        unowned_slot_count=0,
        last_logged_at=None,
        log_days_ahead=14,
        unsealed_seconds=seconds,
        oldest_snapshot=None,
    )
    finding = findings.seals(health)
    assert finding.verdict == verdict
    assert ("2.0 hours" in finding.found) == (verdict == "warn")


def test_secrets_of_before_are_not_forgotten_there() -> None:
    assert _secret_keys(Settings()).verdict == "ok"
    assert _secret_keys(Settings(secret_key="n" * 32)).verdict == "ok"
    finding = _secret_keys(Settings(secret_key="n" * 32, previous_secret_keys=("o" * 32,)))
    assert finding.verdict == "warn"
    assert "leave previous_secret_keys out" in str(finding.remedy)
    assert "o" * 32 not in f"{finding}"
