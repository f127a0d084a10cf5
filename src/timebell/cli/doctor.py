"""`timebell doctor`: look at everything that has to fit, and say of each thing that does not what to do."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import click

from timebell.cli import findings
from timebell.cli.common import json_option, place_options, run, settings_of
from timebell.cli.findings import Finding, Verdict
from timebell.cli.printing import print_json, print_table
from timebell.cli.timezone_copies import OwnCopy, own_copy, system_offsets, system_version, told
from timebell.clock import SystemClock
from timebell.config import Settings
from timebell.db.data_folder import SECRET_FILES
from timebell.db.failures import DATABASE_ERRORS
from timebell.db.migrate import SERVER_MAJOR_MIN
from timebell.db.probe import ServerFacts, ask_server, hears_wakeups, timezone_offsets, wall_of
from timebell.errors import TimebellError
from timebell.kernel.app import Registry
from timebell.kernel.insights import Insights, TimezoneLine
from timebell.loading import BUILT_IN
from timebell.providers.building import open_providers
from timebell.rules.localtime import TIMEZONE_VERSION
from timebell.server import Place, database_place, open_bell, with_secret_key

_SKEW_SECONDS_MAX = 1.0
_DISK_BYTES_LOW = 1_000_000_000
_DISK_BYTES_MIN = 100_000_000
_FAILURES = (TimebellError, *DATABASE_ERRORS)


@click.command()
@json_option
@place_options
def doctor(as_json: bool, config: Path | None, data: Path | None) -> None:
    """Look at everything that Timebell needs. Ends with 1 if something fails."""
    findings = run(_examine(settings_of(config, data)))
    is_well = all(finding.verdict != "fail" for finding in findings)
    if as_json:
        print_json({"is_well": is_well, "findings": findings})
    else:
        rows = [(each.verdict, each.name, each.found, each.remedy) for each in findings]
        print_table(["", "what", "found", "what to do"], rows, empty="")
    if not is_well:
        raise click.exceptions.Exit(1)


async def _examine(settings: Settings) -> list[Finding]:
    ours = own_copy(_here())
    findings = [_timezones(), _system_timezones(ours), await _providers(settings)]
    try:
        async with database_place(settings, "find") as place:
            findings.append(_secret_keys(with_secret_key(settings, place)))
            facts = await ask_server(place.url, seconds=settings.connect_seconds)
            connected = f"{place.shown} as {facts.role}, {facts.round_trip_seconds * 1000:.1f} ms"
            findings.append(Finding(name="connection", verdict="ok", found=connected))
            findings += [_version(facts), _clock(facts), *_role(facts, settings)]
            findings += [await _wakeups(place, settings), await _wall(place, settings)]
            findings += await _insides(place, settings, ours)
            if place.embedded is not None:
                findings += [_secrets(place.embedded.folder), _disk(place.embedded.folder)]
    except _FAILURES as error:
        findings.append(
            Finding(
                name="connection",
                verdict="fail",
                found=str(error) or type(error).__name__,
                remedy="correct DATABASE_URL or --data, and see that the server runs",
            )
        )
    return findings


def _timezones() -> Finding:
    found = f"{TIMEZONE_VERSION} (tzdata {version('tzdata')})"
    return Finding(name="timezone data", verdict="ok", found=found)


def _system_timezones(ours: OwnCopy) -> Finding:
    name = "system's timezones"
    theirs = system_offsets(ours)
    if theirs is None:
        return Finding(name=name, verdict="ok", found="it has none of its own")
    found = system_version() or "of a version that it does not tell"
    wrong = ours.differing(theirs)
    if not wrong:
        return Finding(name=name, verdict="ok", found=f"{found}, the same for the next two years")
    return Finding(
        name=name,
        verdict="warn",
        found=f"{found}, which differs for {told(wrong)}",
        remedy="Timebell uses its own; bring the older one up to date, so that other programs agree",
    )


async def _providers(settings: Settings) -> Finding:
    """They are built as `timebell up` would, which calls nobody, and closed again."""
    name = "providers"
    if settings.is_demo:
        why = "as the settings say" if settings.demo else "for want of one in the settings"
        return Finding(name=name, verdict="ok", found=f"demo mode, {why}: only the inbox is real")
    try:
        async with open_providers(settings) as providers:
            listed = [f"{each.name} ({', '.join(sorted(each.traits.channels))})" for each in providers]
    except TimebellError as error:
        # The error's own text names the remedy.
        return Finding(name=name, verdict="fail", found=str(error))
    if listed:
        return Finding(name=name, verdict="ok", found=", ".join(listed))
    return Finding(
        name=name,
        verdict="warn",
        found="none, and demo mode is off: only the inbox can be told",
        remedy="add [[providers]] to the settings, or leave demo out",
    )


async def _database_timezones(ours: OwnCopy, place: Place, used: list[TimezoneLine]) -> Finding:
    """Timebell computes no local time in SQL, so a difference matters only to queries that people write."""
    name = "database's timezones"
    theirs = await timezone_offsets(place.url, list(ours.offsets), ours.moments)
    wrong = ours.differing(theirs)
    if not wrong:
        return Finding(name=name, verdict="ok", found="the same for the next two years")
    planned = sorted({line.timezone for line in used}.intersection(wrong))
    if not planned:
        return Finding(
            name=name, verdict="ok", found=f"differ for {told(wrong)}, in which nothing is planned"
        )
    return Finding(
        name=name,
        verdict="warn",
        found=f"differ for {told(planned)}, in which schedules are planned",
        remedy="do not convert these with AT TIME ZONE in queries of your own, or update the server's data",
    )


def _planned_timezones(used: list[TimezoneLine]) -> Finding:
    name = "plans' timezone data"
    newest = max((line.version for line in used), default=None)
    if newest is None:
        return Finding(name=name, verdict="ok", found="nothing is planned yet")
    if newest <= TIMEZONE_VERSION:
        return Finding(name=name, verdict="ok", found=newest)
    return Finding(
        name=name,
        verdict="fail",
        found=f"{newest}, newer than {TIMEZONE_VERSION} here, so a node that runs here does not plan",
        remedy="install the tzdata package of that version here too",
    )


def _here() -> datetime:
    """What this machine's own clock says, which nothing but a comparison may rely on."""
    return datetime.now(UTC)  # noqa: TID251


def _version(facts: ServerFacts) -> Finding:
    if facts.major >= SERVER_MAJOR_MIN:
        return Finding(name="server version", verdict="ok", found=f"PostgreSQL {facts.version}")
    remedy = f"upgrade the server to PostgreSQL {SERVER_MAJOR_MIN} or newer"
    return Finding(name="server version", verdict="fail", found=f"PostgreSQL {facts.version}", remedy=remedy)


def _clock(facts: ServerFacts) -> Finding:
    skew = (_here() - facts.now).total_seconds() - facts.round_trip_seconds / 2
    found = f"this machine is {skew:+.3f} s from the database"
    if abs(skew) <= _SKEW_SECONDS_MAX + facts.round_trip_seconds:
        return Finding(name="clock", verdict="ok", found=found)
    return Finding(
        name="clock",
        verdict="warn",
        found=found,
        remedy="the database's clock decides what is due; synchronise both machines (NTP)",
    )


def _role(facts: ServerFacts, settings: Settings) -> list[Finding]:
    """Behind a pooler nothing can be set at the start of a connection, so the role itself must bring it."""
    lease_ms = int(settings.lease_seconds * 1000)
    wanted: dict[str, tuple[Callable[[str], bool], str]] = {
        "lock_timeout": (lambda value: 0 < int(value) <= 60_000, "5s"),
        "idle_in_transaction_session_timeout": (
            lambda value: 0 < int(value) < lease_ms,
            f"{int(lease_ms * 2 / 3)}ms",
        ),
        "jit": (lambda value: value == "off", "off"),
    }
    findings = []
    for name, (fits, better) in wanted.items():
        value = facts.settings.get(name, "")
        unit = "" if name == "jit" else " ms"
        if fits(value):
            findings.append(Finding(name=f"role's {name}", verdict="ok", found=f"{value}{unit}"))
            continue
        findings.append(
            Finding(
                name=f"role's {name}",
                verdict="fail" if settings.pooled else "ok",
                found=f"{value}{unit}" + ("" if settings.pooled else ", which each connection sets itself"),
                remedy=f"ALTER ROLE {facts.role} SET {name} = '{better}'" if settings.pooled else None,
            )
        )
    return findings


async def _wakeups(place: Place, settings: Settings) -> Finding:
    slower = f"jobs that are due at once start up to {settings.sweep_seconds:g} s later"
    url = settings.listen_url or (None if settings.pooled else place.url)
    if url is None:
        return Finding(
            name="wake-ups",
            verdict="warn",
            found="off behind the pooler",
            remedy=f"set listen_url to a direct way to the server; until then {slower}",
        )
    try:
        if await hears_wakeups(url):
            return Finding(name="wake-ups", verdict="ok", found="a notification comes back")
        found = "no notification came back"
    except _FAILURES as error:
        found = str(error) or type(error).__name__
    return Finding(
        name="wake-ups",
        verdict="warn",
        found=found,
        remedy=f"let listen_url lead straight to the server, without a pooler; until then {slower}",
    )


async def _wall(place: Place, settings: Settings) -> Finding:
    """Whether a query that forgets its tenant would be stopped by the database."""
    name = "wall of tenants"
    if place.api_url is None:
        return Finding(
            name=name,
            verdict="warn",
            found="not there: requests are answered as the role of the nodes, which sees every tenant",
            remedy="make a role for the API, set api_url, and bring the schema up to date with it",
        )
    try:
        facts = await wall_of(place.api_url, "timebell.jobs", seconds=settings.connect_seconds)
    except _FAILURES as error:
        return Finding(
            name=name, verdict="fail", found=str(error) or type(error).__name__, remedy="correct api_url"
        )
    if facts.may_read and facts.is_walled:
        return Finding(name=name, verdict="ok", found=f"{facts.role} sees one tenant at a time")
    if facts.may_read:
        remedy = "let api_url lead to a role of its own, which is neither the owner nor a superuser"
        return Finding(
            name=name, verdict="fail", found=f"{facts.role} is not held to one tenant", remedy=remedy
        )
    return Finding(
        name=name,
        verdict="fail",
        found=f"{facts.role} may not read the jobs",
        remedy="run `timebell migrate` with this api_url",
    )


async def _insides(place: Place, settings: Settings, ours: OwnCopy) -> list[Finding]:
    try:
        async with open_bell(place, settings, Registry([BUILT_IN])) as bell:
            insights = Insights(bell.database, SystemClock())
            health, used = await insights.health(), await insights.timezones()
            parked, left = await insights.parked_schedules(), await insights.left_kinds()
    except _FAILURES as error:
        # The error's own text names the remedy.
        return [Finding(name="schema", verdict="fail", found=str(error) or type(error).__name__)]
    fits = Finding(name="schema", verdict="ok", found="fits this version")
    return [
        fits,
        findings.nodes(health),
        findings.handlers(left),
        findings.lateness(health),
        findings.log(health, settings),
        findings.snapshot(health),
        findings.seals(health),
        findings.schedules(parked),
        _planned_timezones(used),
        await _database_timezones(ours, place, used),
    ]


def _secret_keys(settings: Settings) -> Finding:
    name = "secret_key"
    count = len(settings.previous_secret_keys)
    if settings.secret_key is None:
        return Finding(name=name, verdict="ok", found="none: no links to act on and no tokens")
    if count == 0:
        return Finding(name=name, verdict="ok", found="one")
    return Finding(
        name=name,
        verdict="warn",
        found=f"one, and {count} of before whose links and tokens are still good",
        remedy="when timebell_previous_secret_key_uses_total stands still, leave previous_secret_keys out",
    )


def _secrets(folder: Path) -> Finding:
    """Whoever reads them is the database's owner, or signs as this server does."""
    name = "files of secrets"
    found = [path for path in map(folder.joinpath, SECRET_FILES) if path.exists()]
    open_ones = [path.name for path in found if path.stat().st_mode & 0o077]
    if not open_ones:
        return Finding(name=name, verdict="ok", found="only their owner may read them")
    return Finding(
        name=name,
        verdict="fail",
        found=f"others may read {' and '.join(open_ones)} in {folder}",
        remedy="chmod 600 them, and think of them as known to whoever could",
    )


def _disk(folder: Path) -> Finding:
    free = shutil.disk_usage(folder).free
    found = f"{free / 1e9:.1f} GB free beside {folder}"
    if free >= _DISK_BYTES_LOW:
        return Finding(name="disk", verdict="ok", found=found)
    verdict: Verdict = "warn" if free >= _DISK_BYTES_MIN else "fail"
    return Finding(name="disk", verdict=verdict, found=found, remedy="free some space there")
