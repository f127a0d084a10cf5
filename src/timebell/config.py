"""Settings: one frozen record, read once from `timebell.toml` and the environment.

Each field carries its rule. Reading, refusing, `timebell config` and the test of the reference page all use
that one rule, so they cannot come to differ.
"""

# ruff: noqa: RUF009  (the calls behind the fields of Settings answer dataclass fields, not values to share)

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal

from timebell.errors import ConfigurationError

Source = Literal["default", "file", "environment", "argument"]
Shown = str | int | float | bool | None | tuple[str | float, ...]

PREFIX: Final = "TIMEBELL_"
FILE_NAME: Final = "timebell.toml"
FILE_BYTES_MAX: Final = 65_536
TEXT_MAX: Final = 2_000
UNKNOWN_MAX: Final = 20
HIDDEN: Final = "***"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What one setting may be. `check` answers the value to keep and raises ValueError for one it refuses."""

    default: object
    about: str
    allowed: str
    check: Callable[[Any], object]
    from_text: Callable[[str], object] = str
    unit: str = ""
    mask: Callable[[str], str] | None = None

    def show(self, value: Any) -> Shown:
        if self.mask is not None and value is not None:
            return self.mask(value)
        return str(value) if isinstance(value, Path) else value


def _ruled(default: object, **rule: Any) -> Any:
    return field(default=default, metadata={"rule": Rule(default=default, **rule)})


def _insist(condition: bool) -> None:
    if not condition:
        raise ValueError


def _number(default: float, low: float, high: float, unit: str, about: str, *, whole: bool = False) -> Any:
    convert = int if whole else float

    def check(value: Any) -> float:
        _insist(isinstance(value, (int, convert)) and not isinstance(value, bool) and low <= value <= high)
        return convert(value)

    allowed = f"a {'whole number' if whole else 'number'} from {low:.10g} to {high:.10g}"
    return _ruled(default, about=about, allowed=allowed, check=check, from_text=convert, unit=unit)


def _whole(default: int, low: int, high: int, unit: str, about: str) -> Any:
    return _number(default, low, high, unit, about, whole=True)


def _several(default: tuple[object, ...], at_least: int, at_most: int, each: Any, about: str) -> Any:
    one: Rule = each.metadata["rule"]

    def check(value: Any) -> tuple[object, ...]:
        _insist(isinstance(value, list | tuple) and at_least <= len(value) <= at_most)
        return tuple(one.check(part) for part in value)

    def from_text(text: str) -> list[object]:
        return [one.from_text(part.strip()) for part in text.split(",")]

    allowed = f"{at_least} to {at_most} values, each {one.allowed}"
    return _ruled(default, about=about, allowed=allowed, check=check, from_text=from_text, unit=one.unit)


def _flag(default: bool, about: str) -> Any:
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}

    def check(value: Any) -> bool:
        _insist(isinstance(value, bool))
        return bool(value)

    def from_text(text: str) -> object:
        return words.get(text.lower(), text)

    return _ruled(default, about=about, allowed="true or false", check=check, from_text=from_text)


def _choice(default: str, names: tuple[str, ...], about: str) -> Any:
    def check(value: Any) -> str:
        _insist(isinstance(value, str) and value.lower() in names)
        return str(value).lower()

    return _ruled(default, about=about, allowed="one of " + ", ".join(names), check=check)


def _text(pattern: str, allowed: str, about: str, *, mask: Callable[[str], str] | None = None) -> Any:
    def check(value: Any) -> str:
        _insist(isinstance(value, str) and len(value) <= TEXT_MAX)
        _insist(re.fullmatch(pattern, value, re.ASCII) is not None)
        return str(value)

    return _ruled(None, about=about, allowed=allowed, check=check, mask=mask)


def _folder(about: str) -> Any:
    def check(value: Any) -> Path:
        _insist(isinstance(value, str | Path) and 0 < len(str(value)) <= TEXT_MAX and "\0" not in str(value))
        try:
            return Path(value).expanduser()
        except RuntimeError as error:
            raise ValueError from error

    return _ruled(None, about=about, allowed="the path of a folder", check=check)


_MODULE = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*"
_HOST = r"(?:\[[0-9A-Fa-f:.]+\]|[^\s:@/?#,\[\]]*)(?::\d{1,5})?"
_PAIR = r"[^\s#&=%]+=[^\s#&]*"
_URL = (
    r"(?P<scheme>postgres(?:ql)?)://(?:(?P<user>[^\s:@/?#]*)(?P<password>:[^\s@/?#]*)?@)?"
    rf"(?P<hosts>{_HOST}(?:,{_HOST})*)(?P<path>/[^\s@?#]*)?(?:\?(?P<query>{_PAIR}(?:&{_PAIR})*))?"
)


def mask_url(url: str) -> str:
    """The URL of a database as it may be shown; one that cannot be taken apart is hidden as a whole."""
    match = re.fullmatch(_URL, url, re.ASCII)
    if match is None:
        return HIDDEN
    scheme, user, password, hosts, path, query = match.groups()
    login = "" if user is None else f"{user}:{HIDDEN}@" if password else f"{user}@"
    options = re.sub(r"(?i)(password[^&=]*=)[^&]*", rf"\1{HIDDEN}", query or "")
    return f"{scheme}://{login}{hosts}{path or ''}" + (f"?{options}" if options else "")


def _url(about: str) -> Any:
    shape = "a URL such as postgresql://user:password@host:5432/database, without +driver"
    return _text(_URL, f"{shape}, special characters in the password percent-encoded", about, mask=mask_url)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Settings:
    """Everything an operator may decide. `load_settings` reads it; a test may construct it."""

    database_url: str | None = _url("PostgreSQL 15 or newer; without it an embedded server is started.")
    owner_url: str | None = _url("For migrations, as the role that owns the tables; else database_url.")
    data: Path | None = _folder("Where the embedded server keeps its data; else a folder of the user's own.")
    pooled: bool = _flag(False, "database_url leads through PgBouncer in transaction mode.")
    listen_url: str | None = _url("When pooled, a direct way to the database for wake-ups; else sweeps do.")
    pool_size: int = _whole(10, 2, 200, "connections", "Connections that this process opens at most.")
    connect_seconds: float = _number(10.0, 0.1, 120, "seconds", "How long opening a connection may take.")
    statement_seconds: float = _number(30.0, 0.1, 3600, "seconds", "How long one statement may take.")
    lock_seconds: float = _number(5.0, 0.01, 60, "seconds", "How long a statement waits for a locked row.")
    cancel_wait_seconds: float = _number(2.0, 0, 60, "seconds", "How long a cancel waits for a locked job.")

    port: int = _whole(8080, 1, 65535, "", "The TCP port that HTTP is served on.")
    api_key: str | None = _text(
        r"[!-~]{16,200}",
        "16 to 200 visible ASCII characters",
        "The first admin key of the tenant `default`, for an HTTP interface that is yet to come.",
        mask=lambda _: HIDDEN,
    )
    apps: tuple[str, ...] = _several(
        (), 0, 100, _text(_MODULE, "the dotted name of a module", ""), "The apps to load, in this order."
    )

    node_name: str | None = _text(
        r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}",
        "1 to 100 letters, digits, dots, hyphens and underscores, beginning with a letter or digit",
        "What this node is called in tables and logs; without it a name is made.",
    )
    lease_seconds: float = _number(30.0, 2, 600, "seconds", "How long a silent node keeps its slots.")
    lease_margin_seconds: float = _number(
        5.0, 0.1, 300, "seconds", "How long before the end of its lease a node stops starting jobs."
    )
    concurrency: int = _whole(100, 1, 10_000, "jobs", "Jobs that run at once in this process.")
    threads: int = _whole(8, 1, 256, "threads", "Threads for handlers that are not async.")
    batch: int = _whole(1_000, 1, 5_000, "jobs", "Jobs started or finished in one statement at most.")
    read_ahead_seconds: float = _number(1.0, 0.05, 60, "seconds", "How long before its time a job is read.")
    sweep_seconds: float = _number(0.5, 0.05, 60, "seconds", "Time between two looks for newly due jobs.")
    full_sweep_seconds: float = _number(60.0, 1, 3600, "seconds", "Time between two looks at all due jobs.")
    held_jobs_max: int = _whole(20_000, 1, 1_000_000, "jobs", "Jobs held in memory at most.")
    held_per_tenant_queue_max: int = _whole(
        10_000, 1, 1_000_000, "jobs", "Jobs of one tenant in one queue held in memory at most."
    )
    grid_ms: float = _number(1.0, 0.1, 100, "milliseconds", "The grid that wake-ups are rounded up to.")

    job_timeout_seconds: float = _number(300.0, 0.1, 86_400, "seconds", "How long one attempt may take.")
    stop_seconds: float = _number(5.0, 0, 600, "seconds", "How long running jobs may go on at a stop.")
    max_attempts: int = _whole(3, 1, 100, "attempts", "Attempts before a job is dead, the first included.")
    retry_delays_seconds: tuple[float, ...] = _several(
        (60.0, 300.0, 900.0), 1, 20, _number(0.0, 0, 2_592_000, "seconds", ""), "The waits between attempts."
    )
    payload_bytes_max: int = _whole(65_536, 1_024, 1_048_576, "bytes", "Size of a job's payload at most.")
    offset_days_max: int = _whole(3_660, 1, 36_600, "days", "How far a step may be from its anchor.")
    steps_max: int = _whole(100, 1, 1_000, "steps", "Steps in one agenda at most.")
    many_max: int = _whole(10_000, 1, 100_000, "jobs", "Jobs in one call of enqueue_many at most.")

    horizon_days: int = _whole(60, 30, 90, "days", "How far ahead the occurrences of schedules are planned.")
    plan_batch: int = _whole(500, 1, 5_000, "schedules", "Schedules planned in one transaction at most.")
    plan_seconds: float = _number(60.0, 1, 3_600, "seconds", "Time between two looks for what to plan.")

    log_days: int = _whole(30, 1, 3_650, "days", "How long finished jobs are kept.")
    dead_days: int = _whole(180, 1, 3_650, "days", "How long dead jobs are kept and can be revived.")
    log_partitions_ahead_days: int = _whole(14, 2, 366, "days", "How far ahead the job log is prepared.")

    log_level: Literal["debug", "info", "warning", "error"] = _choice(
        "info", ("debug", "info", "warning", "error"), "The least severe log line that is written."
    )
    log_format: Literal["json", "console"] = _choice(
        "console", ("json", "console"), "How log lines are written: json for machines, console for people."
    )

    sources: tuple[tuple[str, Source], ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        problems = []
        for name, rule in RULES.items():
            value = getattr(self, name)
            if value is None and rule.default is None:
                continue
            try:
                object.__setattr__(self, name, rule.check(value))
            except ValueError:
                given = "the value" if rule.mask else f"{value!r:.200}"
                problems.append(f"{name}: {given} ({self.source_of(name)}) is refused; give {rule.allowed}")
        problems = problems or list(_contradictions(self))
        if problems:
            raise ConfigurationError("\n".join(problems))

    def __repr__(self) -> str:
        return "Settings(" + ", ".join(f"{line.name}={line.value!r}" for line in explain(self)) + ")"

    def source_of(self, name: str) -> Source:
        """Where the value came from; one that was passed to the constructor counts as an argument."""
        unread: Source = "default" if getattr(self, name) == RULES[name].default else "argument"
        return dict(self.sources).get(name, unread)


RULES: Final[Mapping[str, Rule]] = {
    each.name: each.metadata["rule"] for each in fields(Settings) if "rule" in each.metadata
}


def _contradictions(settings: Settings) -> Iterator[str]:
    margin, half = settings.lease_margin_seconds, settings.lease_seconds / 2
    if margin >= half:
        yield f"lease_margin_seconds: {margin:g} is too long; give less than {half:g}, half of lease_seconds"
    for small, large in (
        ("held_per_tenant_queue_max", "held_jobs_max"),
        ("sweep_seconds", "read_ahead_seconds"),
        ("sweep_seconds", "full_sweep_seconds"),
    ):
        low, high = getattr(settings, small), getattr(settings, large)
        if low > high:
            yield f"{small}: {low} is above {large}; give at most {high} or raise {large}"
    for name in ("owner_url", "listen_url", "pooled"):
        if settings.database_url is None and getattr(settings, name):
            yield f"{name}: the embedded server has no use for it; set database_url too or leave {name} out"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingLine:
    """One line of `timebell config`: secrets are masked, and every value can be written as JSON."""

    name: str
    value: Shown
    default: Shown
    source: Source
    description: str
    unit: str
    allowed: str


def explain(settings: Settings) -> list[SettingLine]:
    """Every setting with its value and where that came from, in the order of the reference page."""
    return [
        SettingLine(
            name=name,
            value=rule.show(getattr(settings, name)),
            default=rule.show(rule.default),
            source=settings.source_of(name),
            description=rule.about,
            unit=rule.unit,
            allowed=rule.allowed,
        )
        for name, rule in RULES.items()
    ]


def load_settings(
    path: str | Path | None = None, environ: Mapping[str, str] | None = None, **explicit: Any
) -> Settings:
    """Read the settings: an argument wins over the environment, and the environment over the file.

    The file is `path`, else the one that TIMEBELL_CONFIG names, else `timebell.toml` in the current folder if
    there is one. An argument of None and an empty variable count as not given.
    """
    environ = os.environ if environ is None else environ
    arguments = {name: value for name, value in explicit.items() if value is not None}
    _refuse_unknown("the call", arguments)
    layers: dict[Source, Mapping[str, Any]] = {
        "file": _from_file(path or environ.get(PREFIX + "CONFIG")),
        "environment": _from_environment(environ),
        "argument": arguments,
    }
    sources = {name: source for source, layer in layers.items() for name in layer}
    values = {name: layers[source][name] for name, source in sources.items()}
    if "data" in arguments and "database_url" in values:
        raise ConfigurationError(
            f"data: names a folder for the embedded server, but database_url ({sources['database_url']}) "
            "names a server; leave one of them out"
        )
    return Settings(**values, sources=tuple(sources.items()))


def _from_file(named: str | Path | None) -> dict[str, Any]:
    path = Path(named or FILE_NAME)
    if not named and not path.exists():
        return {}
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
        if len(content) > FILE_BYTES_MAX:
            raise ConfigurationError(f"{path}: is over {FILE_BYTES_MAX} bytes; keep only settings in it")
        values = tomllib.loads(content.decode("utf-8-sig"))
    except OSError as error:
        raise ConfigurationError(
            f"{path}: cannot be read ({error.strerror}); correct --config or TIMEBELL_CONFIG"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path}: is not TOML ({error}); correct it there") from error
    _refuse_unknown(str(path), values)
    if isinstance(data := values.get("data"), str) and data[:1] not in ("", "~"):
        values["data"] = path.parent / data
    return values


# A Kubernetes service whose name begins with timebell puts variables such as TIMEBELL_PORT=tcp://10.0.0.9:80
# into every pod beside it. They are nobody's settings, and refusing them would keep the pod from starting.
_SERVICE_LINK = re.compile(
    r"TIMEBELL_(\w+_)?(SERVICE_(HOST|PORT)\w*=.*|PORT_\d+_(TCP|UDP|SCTP)\w*=.*|PORT=(tcp|udp|sctp)://.*)"
)


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    given = {name: text for name, text in environ.items() if name.startswith(PREFIX) and text}
    links = {name for name, text in given.items() if _SERVICE_LINK.fullmatch(f"{name}={text}")}
    names = given.keys() - links - {PREFIX + "CONFIG"}
    texts = {name.removeprefix(PREFIX).lower(): given[name] for name in names}
    _refuse_unknown("the environment", texts, spell=lambda name: PREFIX + name.upper())
    if environ.get("DATABASE_URL"):
        texts.setdefault("database_url", environ["DATABASE_URL"])
    return {name: _read(RULES[name], text) for name, text in texts.items()}


def _read(rule: Rule, text: str) -> object:
    """The value that a text stands for; a text that stands for none is left for the rule to refuse."""
    try:
        return rule.from_text(text)
    except ValueError:
        return text


def _refuse_unknown(origin: str, names: Iterable[str], *, spell: Callable[[str], str] = str) -> None:
    unknown = sorted(name for name in names if name not in RULES)[:UNKNOWN_MAX]
    if unknown:
        nearest = {name: difflib.get_close_matches(name, RULES, n=1, cutoff=0.0)[0] for name in unknown}
        lines = [f"{spell(name)}: is no setting; did you mean {spell(nearest[name])}?" for name in unknown]
        raise ConfigurationError(f"{origin} is refused; correct or remove these\n" + "\n".join(lines))
