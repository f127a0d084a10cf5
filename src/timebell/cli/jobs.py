"""The commands about jobs: look at them, cancel them, bring dead ones back, tell the journey of one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args
from uuid import UUID

import click
import orjson

from timebell.cli.common import (
    ID,
    Desk,
    actor_option,
    actor_or_me,
    ask,
    json_option,
    page_options,
    place_options,
    tenant_option,
)
from timebell.cli.printing import (
    error_line,
    page_json,
    plain,
    print_fields,
    print_json,
    print_line,
    print_page,
    print_table,
    text,
)
from timebell.errors import InvalidInput, NotFound
from timebell.kernel.models import Cancelled, JobState

_STATES = ["unfinished", "finished", *get_args(JobState)]


@click.group()
def jobs() -> None:
    """Look at jobs, cancel them, and settle dead ones."""


@jobs.command("list")
@tenant_option
@click.option("--state", type=click.Choice(_STATES), default="unfinished", show_default=True)
@click.option("--subject", help="Only jobs about this subject.")
@click.option("--kind", help="Only jobs of this kind.")
@click.option("--queue", help="Only jobs of this queue.")
@click.option("--key", help="Only the jobs under this key.")
@page_options
@json_option
@place_options
def list_jobs(as_json: bool, config: Path | None, data: Path | None, **options: Any) -> None:
    """List jobs, the last enqueued first."""
    page = ask(config, data, lambda at: at.insights.jobs(**options))
    if as_json:
        print_json(page_json(page))
        return
    columns = ["id", "state", "kind", "queue", "due", "attempt", "subject", "reason", "error"]
    rows = [
        (
            line.id,
            line.state,
            line.kind,
            line.queue,
            line.due_at,
            line.attempt,
            line.subject,
            line.reason,
            error_line(line.error),
        )
        for line in page.lines
    ]
    print_page(columns, page, rows, empty="No such jobs.")


@jobs.command("show")
@click.argument("id", type=ID)
@tenant_option
@json_option
@place_options
def show_job(id: UUID, tenant: str, as_json: bool, config: Path | None, data: Path | None) -> None:
    """Show one job, wherever it is."""
    line = ask(config, data, lambda at: at.insights.job(tenant, id))
    if line is None:
        raise NotFound(f"no job {id} of the tenant {tenant!r}; is it another tenant's?")
    if as_json:
        print_json(line)
    else:
        print_fields(_fields(line))


@jobs.command("cancel", short_help="Cancel jobs, and say what became of each.")
@click.argument("id", type=ID, required=False)
@click.option("--kind", help="With --key: the kind of the job.")
@click.option("--key", help="With --kind: the key of the job.")
@click.option("--subject", help="Every job about this subject.")
@click.option("--reason", default="cancelled by an operator", show_default=True, help="Why, for the log.")
@actor_option
@tenant_option
@json_option
@place_options
def cancel_jobs(
    actor: str | None, tenant: str, as_json: bool, config: Path | None, data: Path | None, **named: Any
) -> None:
    """Cancel jobs by ID, by --kind and --key, or by --subject, and say what became of each."""

    async def cancel(at: Desk) -> list[Cancelled]:
        async with at.bell.transaction(tenant=tenant) as tx:
            return await at.bell.cancel(tx, actor=actor_or_me(actor), **named)

    answers = ask(config, data, cancel)
    if as_json:
        print_json(answers)
    else:
        rows = [(each.id, each.answer, each.state) for each in answers]
        print_table(["id", "answer", "state"], rows, empty="No such jobs.")


def _dead_options(function: Any) -> Any:
    for option in (
        click.option("--fingerprint", help="Those that died of this cause."),
        click.option("--queue", help="Those of this queue."),
        click.option("--kind", help="Those of this kind."),
        click.option("--limit", type=click.IntRange(1, 10_000), default=1_000, show_default=True),
    ):
        function = option(function)
    return click.argument("ids", type=ID, nargs=-1)(function)


@jobs.command("revive", short_help="Bring dead jobs back.")
@_dead_options
@click.option("--payload", help="A new payload, as JSON, for a single ID.")
@click.option("--per-second", type=float, help="How many may come back in a second.")
@actor_option
@tenant_option
@json_option
@place_options
def revive_jobs(
    ids: Sequence[UUID],
    payload: str | None,
    actor: str | None,
    tenant: str,
    as_json: bool,
    config: Path | None,
    data: Path | None,
    **options: Any,
) -> None:
    """Bring dead jobs back, by their IDS or by what they have in common."""

    async def revive(at: Desk) -> list[UUID]:
        async with at.bell.transaction(tenant=tenant) as tx:
            return await at.bell.revive(
                tx,
                ids=list(ids) or None,
                payload=None if payload is None else _read_payload(payload),
                actor=actor_or_me(actor),
                **options,
            )

    _print_ids("revived", ask(config, data, revive), as_json)


@jobs.command("discard", short_help="Give dead jobs up for good.")
@_dead_options
@actor_option
@tenant_option
@json_option
@place_options
def discard_jobs(
    ids: Sequence[UUID],
    actor: str | None,
    tenant: str,
    as_json: bool,
    config: Path | None,
    data: Path | None,
    **options: Any,
) -> None:
    """Give dead jobs up for good, by their IDS or by what they have in common."""

    async def discard(at: Desk) -> list[UUID]:
        async with at.bell.transaction(tenant=tenant) as tx:
            return await at.bell.discard(tx, ids=list(ids) or None, actor=actor_or_me(actor), **options)

    _print_ids("discarded", ask(config, data, discard), as_json)


def _read_payload(given: str) -> dict[str, Any]:
    try:
        payload = orjson.loads(given)
    except orjson.JSONDecodeError as error:
        raise InvalidInput(f"is not JSON ({error})", field="payload") from error
    if not isinstance(payload, dict):
        raise InvalidInput("must be a JSON object", field="payload")
    return payload


def _print_ids(done: str, ids: list[UUID], as_json: bool) -> None:
    if as_json:
        print_json({done: ids})
        return
    for id in ids:
        print_line(str(id))
    print_line(f"{len(ids)} {done}.")


@click.group()
def dead() -> None:
    """Look at the dead jobs, which wait for an operator."""


@dead.command("list")
@tenant_option
@click.option("--kind", help="Only those of this kind.")
@click.option("--queue", help="Only those of this queue.")
@click.option("--fingerprint", help="Only those that died of this cause.")
@page_options
@json_option
@place_options
def list_dead(as_json: bool, config: Path | None, data: Path | None, **options: Any) -> None:
    """List dead jobs, the last that died first."""
    page = ask(config, data, lambda at: at.insights.dead(**options))
    if as_json:
        print_json(page_json(page))
        return
    columns = ["id", "kind", "died", "attempts", "reason", "error", "fingerprint"]
    rows = [
        (
            line.id,
            line.kind,
            line.died_at,
            line.attempt,
            line.reason,
            error_line(line.error),
            line.fingerprint,
        )
        for line in page.lines
    ]
    print_page(columns, page, rows, empty="No job is dead.")


@dead.command("causes")
@click.option("--tenant", help="Only of this tenant.  [default: every tenant]")
@page_options
@json_option
@place_options
def list_causes(as_json: bool, config: Path | None, data: Path | None, **options: Any) -> None:
    """List what jobs died of, and how many of each; the latest first."""
    page = ask(config, data, lambda at: at.insights.failures(**options))
    if as_json:
        print_json(page_json(page))
        return
    columns = ["fingerprint", "tenant", "kind", "jobs", "last died", "error", "example"]
    rows = [
        (
            each.fingerprint,
            each.tenant,
            each.kind,
            each.job_count,
            each.last_died_at,
            error_line(each.error),
            each.example_id,
        )
        for each in page.lines
    ]
    print_page(columns, page, rows, empty="No job is dead.")


@click.command()
@click.argument("id", type=ID)
@tenant_option
@json_option
@place_options
def journey(id: UUID, tenant: str, as_json: bool, config: Path | None, data: Path | None) -> None:
    """Tell everything that is known of one job, in order."""
    told = ask(config, data, lambda at: at.insights.journey(tenant, id))
    if told is None:
        raise NotFound(f"no job {id} of the tenant {tenant!r}; is it another tenant's?")
    if as_json:
        print_json(told)
        return
    print_fields(_fields(told.job))
    if told.agenda is not None:
        print_line("")
        print_fields(_fields(told.agenda))
    print_line("")
    rows = [
        (
            entry.at,
            entry.what,
            entry.reason,
            ", ".join(f"{name} {text(value)}" for name, value in entry.details.items()),
        )
        for entry in told.entries
    ]
    print_table(["at", "what", "reason", "details"], rows, empty="Nothing is known of it any more.")


def _fields(record: Any) -> list[tuple[str, Any]]:
    return list(plain(record).items())
