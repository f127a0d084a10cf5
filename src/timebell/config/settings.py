"""Settings: one frozen record of everything that an operator may decide.

Each field carries its rule. Reading, refusing, `timebell config` and the test of the reference page all use
that one rule, so they cannot come to differ.
"""

# ruff: noqa: RUF009  (the calls behind the fields of Settings answer dataclass fields, not values to share)

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from timebell.config.providers import ProviderSettings, provider_tables
from timebell.config.queues import QueueSettings, queue_tables
from timebell.config.rules import (
    BROKER_URL,
    Shown,
    choice,
    flag,
    folder,
    hide,
    mask_broker_url,
    nothing_if_none,
    number,
    refusals,
    rules_of,
    several,
    text,
    whole,
)
from timebell.config.rules import database_url as database
from timebell.config.tuning import Tuning
from timebell.errors import ConfigurationError

Source = Literal["default", "file", "environment", "argument"]

# Those that come with Timebell. One that was taken away is not missed as long as nobody names it.
DEFAULT_APPS: Final = (
    "timebell.apps.reminders",
    "timebell.apps.meetings",
    "timebell.apps.scheduler",
    "timebell.apps.sequences",
    "timebell.apps.marketplace",
)
_MODULE = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Settings:
    """Everything an operator may decide. `load_settings` reads it; a test may construct it."""

    database_url: str | None = database("PostgreSQL 15 or newer; without it an embedded server is started.")
    owner_url: str | None = database("For migrations, as the role that owns the tables; else database_url.")
    api_url: str | None = database("For HTTP, as a role that sees one tenant at a time; else database_url.")
    read_url: str | None = database("For figures, as a role that changes nothing; else database_url.")
    data: Path | None = folder("Where the embedded server keeps its data; else a folder of the user's own.")
    pooled: bool = flag(False, "database_url leads through PgBouncer in transaction mode.")
    listen_url: str | None = database(
        "When pooled, a direct way to the database for wake-ups; else sweeps do."
    )
    pool_size: int = whole(11, 2, 200, "connections", "Connections of this process at most, for each role.")
    connect_seconds: float = number(10.0, 0.1, 120, "seconds", "How long opening a connection may take.")
    statement_seconds: float = number(30.0, 0.1, 3600, "seconds", "How long one statement may take.")
    read_seconds: float = number(
        5.0, 0.05, 3600, "seconds", "How long one statement of an HTTP request that only reads may take."
    )
    lock_seconds: float = number(5.0, 0.01, 60, "seconds", "How long a statement waits for a locked row.")
    cancel_wait_seconds: float = number(2.0, 0, 60, "seconds", "How long a cancel waits for a locked job.")

    host: str = text(
        r"[A-Za-z0-9.:-]{1,253}",
        "an address such as 127.0.0.1, or 0.0.0.0 for all of them",
        "The address that HTTP is served on.",
        default="127.0.0.1",
    )
    port: int = whole(8080, 1, 65535, "", "The TCP port that HTTP is served on.")
    body_bytes_max: int = whole(
        262_144, 1_024, 16_777_216, "bytes", "Size of the body of an HTTP request at most."
    )
    requests_per_minute: int = whole(
        6_000, 1, 100_000_000, "requests", "HTTP requests that one API key may make in a minute."
    )
    tenant_requests_per_minute: int = whole(
        60_000, 1, 1_000_000_000, "requests", "HTTP requests that one tenant may make in a minute."
    )
    tenant_jobs_max: int = whole(
        1_000_000, 1, 1_000_000_000, "jobs", "Pending jobs that one tenant may have over HTTP."
    )
    tenant_payload_bytes_max: int = whole(
        4_294_967_296, 1_024, 10**15, "bytes", "Payload that the pending jobs of one tenant may have."
    )
    tenant_schedules_max: int = whole(
        100_000, 1, 1_000_000_000, "schedules", "Schedules that one tenant may have over HTTP."
    )
    tenant_recipients_max: int = whole(
        1_000_000, 1, 1_000_000_000, "recipients", "Recipients that one tenant may have over HTTP."
    )
    api_key: str | None = text(
        r"[!-~]{16,200}",
        "16 to 200 visible ASCII characters",
        "The first admin key of the tenant `default`; without it one is made and shown once.",
        mask=hide,
    )
    secret_key: str | None = text(
        r"[!-~]{32,200}",
        "32 to 200 visible ASCII characters",
        "Signs links and tokens that act for a recipient; an embedded server keeps one of its own.",
        mask=hide,
    )
    previous_secret_keys: tuple[str, ...] = several(
        (),
        0,
        5,
        text(r"[!-~]{32,200}", "32 to 200 visible ASCII characters", "", mask=hide),
        "What secret_key was before; links and tokens that it signed are still good.",
    )
    public_url: str | None = text(
        r"https?://[^\s/@?#]+(?:/[^\s@?#]*)?",
        "a URL such as https://bell.example.org",
        "How recipients reach this server; without it messages carry no links to it.",
    )
    origins: tuple[str, ...] = several(
        (),
        0,
        100,
        text(r"https?://[^\s/@?#]+", "an origin such as https://app.example.org", ""),
        "Whose pages may open streams, besides this server's own.",
    )
    apps: tuple[str, ...] = several(
        DEFAULT_APPS,
        0,
        100,
        text(_MODULE, "the dotted name of a module", ""),
        "The apps to load, in this order; the variable says `none` for none.",
    )

    providers: tuple[ProviderSettings, ...] = provider_tables("What messages leave through, the first first.")
    demo: bool | None = flag(
        None, "Nothing leaves, the outbox shows it; without it, while providers has none."
    )

    broker_url: str | None = text(
        BROKER_URL,
        "a URL such as amqp://user:password@host:5672/vhost, or local: for one in this process",
        "The broker that messages are taken from and handed to; without it there is none.",
        mask=mask_broker_url,
    )
    broker_tenant: str = text(
        r".{1,200}", "the name of a tenant", "Whose messages those of the broker are.", default="default"
    )
    broker_trusts_tenant: bool = flag(False, "A message of the broker may name another tenant.")
    broker_due_queue: str = text(
        r"[!-~]{0,200}",
        "the name of a queue, or nothing, for which the variable says `none`",
        "The queue of the broker that all that is due goes to; without one receivers bind their own.",
        default="timebell.due",
        from_text=nothing_if_none,
    )

    payment_provider: Literal["stripe", "simulator"] | None = choice(
        None,
        ("stripe", "simulator"),
        "Who moves the money of the marketplace; without it, in demo mode, the simulator.",
    )
    stripe_secret_key: str | None = text(
        r"[!-~]{8,300}",
        "8 to 300 visible ASCII characters",
        "The secret or restricted key of Stripe that charges, refunds and transfers are made with.",
        mask=hide,
    )
    stripe_webhook_secret: str | None = text(
        r"[!-~]{8,300}",
        "8 to 300 visible ASCII characters",
        "The signing secret of the webhook endpoint that Stripe reports to.",
        mask=hide,
    )
    stripe_url: str | None = text(
        r"https://[^\s/@?#]+|http://(?:localhost|127\.0\.0\.1|\[::1\])(?::\d{1,5})?",
        "a URL such as https://api.stripe.com; without TLS only on this machine",
        "Where Stripe is called; without it, at its own address.",
    )

    node_name: str | None = text(
        r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}",
        "1 to 100 letters, digits, dots, hyphens and underscores, beginning with a letter or digit",
        "What this node is called in tables and logs; without it a name is made.",
    )
    lease_seconds: float = number(30.0, 2, 600, "seconds", "How long a silent node keeps its slots.")
    lease_margin_seconds: float = number(
        5.0, 0.1, 300, "seconds", "How long before the end of its lease a node stops starting jobs."
    )
    concurrency: int = whole(100, 1, 10_000, "jobs", "Jobs that run at once in this process.")
    tenant_share: float = number(
        0.9, 0.1, 1, "of the places", "The part of its running places that a node gives to one tenant alone."
    )
    queues: tuple[QueueSettings, ...] = queue_tables("Limits of queues, before those that the apps bring.")
    threads: int = whole(8, 1, 256, "threads", "Threads for handlers that are not async.")
    batch: int = whole(1_000, 1, 5_000, "jobs", "Jobs started or finished in one statement at most.")
    sweep_seconds: float = number(0.5, 0.05, 60, "seconds", "Time between two looks for newly due jobs.")
    held_bytes_max: int = whole(
        33_554_432, 0, 17_179_869_184, "bytes", "Bytes of payloads and cursors held in memory at most."
    )

    job_timeout_seconds: float = number(300.0, 0.1, 86_400, "seconds", "How long one attempt may take.")
    stop_seconds: float = number(5.0, 0, 600, "seconds", "How long running jobs may go on at a stop.")
    max_attempts: int = whole(3, 1, 100, "attempts", "Attempts before a job is dead, the first included.")
    retry_delays_seconds: tuple[float, ...] = several(
        (60.0, 300.0, 900.0), 1, 20, number(0.0, 0, 2_592_000, "seconds", ""), "The waits between attempts."
    )
    payload_bytes_max: int = whole(65_536, 1_024, 1_048_576, "bytes", "Size of a job's payload at most.")
    steps_max: int = whole(300, 1, 1_000, "steps", "Steps in one agenda at most.")
    many_max: int = whole(
        10_000,
        1,
        100_000,
        "jobs",
        "Jobs in one call of enqueue_many, or steps in one of set_agendas, at most.",
    )

    horizon_days: int = whole(60, 30, 90, "days", "How far ahead the occurrences of schedules are planned.")

    log_days: int = whole(30, 1, 3_650, "days", "How long finished jobs are kept.")
    delivery_days: int = whole(180, 1, 3_650, "days", "How long it is kept what somebody was told, and how.")
    dead_days: int = whole(180, 1, 3_650, "days", "How long dead jobs are kept and can be revived.")

    alert_seconds: float = number(
        15.0, 1, 3_600, "seconds", "Time between two looks for what needs a person."
    )
    alert_samples_min: int = whole(
        20, 1, 100_000, "samples", "How many samples a rate needs before it opens an alert."
    )
    operations_recipients: tuple[str, ...] = several(
        (),
        0,
        20,
        text(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", "the id of a recipient", ""),
        "Recipients of the tenant `default` who are told of alerts.",
    )
    alert_days: int = whole(180, 1, 3_650, "days", "How long alerts are kept that have closed.")

    log_level: Literal["debug", "info", "warning", "error"] = choice(
        "info", ("debug", "info", "warning", "error"), "The least severe log line that is written."
    )
    log_format: Literal["json", "console"] = choice(
        "console", ("json", "console"), "How log lines are written: json for machines, console for people."
    )

    sources: tuple[tuple[str, Source], ...] = field(default=(), compare=False)
    # What was named and is a setting no longer, and where.
    retired: tuple[tuple[str, Source], ...] = field(default=(), compare=False)
    tuning: Tuning = field(default=Tuning())

    def __post_init__(self) -> None:
        problems = list(refusals(self, origin=lambda name: f" ({self.source_of(name)})"))
        problems = problems or list(_contradictions(self))
        if problems:
            raise ConfigurationError("\n".join(problems))

    @property
    def is_demo(self) -> bool:
        """Whether this process may let nothing leave: as `demo` says, else for want of a provider."""
        return not self.providers if self.demo is None else self.demo

    def __repr__(self) -> str:
        return "Settings(" + ", ".join(f"{line.name}={line.value!r}" for line in explain(self)) + ")"

    def source_of(self, name: str) -> Source:
        """Where the value came from; one that was passed to the constructor counts as an argument."""
        unread: Source = "default" if getattr(self, name) == RULES[name].default else "argument"
        return dict(self.sources).get(name, unread)


RULES: Final = rules_of(Settings)


def _contradictions(settings: Settings) -> Iterator[str]:
    margin, half = settings.lease_margin_seconds, settings.lease_seconds / 2
    if margin >= half:
        yield f"lease_margin_seconds: {margin:g} is too long; give less than {half:g}, half of lease_seconds"
    if settings.secret_key in settings.previous_secret_keys:
        yield "previous_secret_keys: secret_key is one of them; give what it was before, or leave it out"
    for name in ("stripe_secret_key", "stripe_webhook_secret"):
        if settings.payment_provider == "stripe" and getattr(settings, name) is None:
            yield f"{name}: payment_provider is stripe, which needs it; set it, or leave payment_provider out"
    for name in ("owner_url", "api_url", "read_url", "listen_url", "pooled"):
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
