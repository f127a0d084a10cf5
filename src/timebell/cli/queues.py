"""The commands about what carries the jobs: queues and nodes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from timebell.cli.common import (
    Desk,
    actor_option,
    actor_or_me,
    ask,
    json_option,
    place_options,
    tenant_option,
)
from timebell.cli.printing import plain, print_json, print_line, print_table
from timebell.kernel.insights import QueueLine


@click.group()
def queues() -> None:
    """Look at queues, pause and resume them."""


@queues.command("list", short_help="List the queues and what lies in them.")
@json_option
@place_options
def list_queues(as_json: bool, config: Path | None, data: Path | None) -> None:
    """List the queues with their limits, their pauses and what lies in them."""

    async def look(at: Desk) -> list[dict[str, Any]]:
        depths = {depth.queue: depth for depth in await at.insights.depth()}
        return [{**plain(line), "depth": depths.get(line.name)} for line in await at.insights.queues()]

    lines = ask(config, data, look)
    if as_json:
        print_json(lines)
        return
    columns = ["queue", "rate", "concurrency", "paused for", "due", "running", "parked", "future", "late s"]
    rows = [_queue_row(line) for line in lines]
    print_table(columns, rows, empty="No queue was declared.")


def _queue_row(line: dict[str, Any]) -> Sequence[Any]:
    depth = line["depth"]
    paused = [pause["tenant"] or "everyone" for pause in line["pauses"]]
    counts = (
        (0, 0, 0, 0, 0.0)
        if depth is None
        else (
            depth.due_count,
            depth.started_count,
            depth.parked_count,
            depth.future_count,
            depth.lateness_seconds,
        )
    )
    return (line["name"], line["rate_per_second"], line["concurrency"], paused, *counts)


@queues.command("pause")
@click.argument("queue")
@click.option("--everyone", is_flag=True, help="For every tenant.")
@click.option("--reason", help="Why, for the record.")
@actor_option
@tenant_option
@json_option
@place_options
def pause_queue(
    queue: str,
    actor: str | None,
    tenant: str,
    as_json: bool,
    config: Path | None,
    data: Path | None,
    **options: Any,
) -> None:
    """Start no more jobs of QUEUE, for one tenant or for everyone. What runs is left to run."""

    async def pause(at: Desk) -> QueueLine:
        async with at.bell.transaction(tenant=tenant) as tx:
            await at.bell.pause(tx, queue, actor=actor_or_me(actor), **options)
        return next(line for line in await at.insights.queues() if line.name == queue)

    line = ask(config, data, pause)
    if as_json:
        print_json(line)
    else:
        print_line(f"{queue} is paused for {'everyone' if options['everyone'] else tenant}.")


@queues.command("resume")
@click.argument("queue")
@click.option("--everyone", is_flag=True, help="Lift the pause for every tenant.")
@tenant_option
@json_option
@place_options
def resume_queue(
    queue: str, everyone: bool, tenant: str, as_json: bool, config: Path | None, data: Path | None
) -> None:
    """Start jobs of QUEUE again."""

    async def resume(at: Desk) -> bool:
        async with at.bell.transaction(tenant=tenant) as tx:
            return await at.bell.resume(tx, queue, everyone=everyone)

    was_paused = ask(config, data, resume)
    if as_json:
        print_json({"queue": queue, "was_paused": was_paused})
    else:
        print_line(f"{queue} goes on." if was_paused else f"{queue} was not paused.")


@click.command()
@json_option
@place_options
def nodes(as_json: bool, config: Path | None, data: Path | None) -> None:
    """List the nodes that are alive and how many slots each reads."""
    lines = ask(config, data, lambda at: at.insights.nodes())
    if as_json:
        print_json(lines)
        return
    columns = ["node", "incarnation", "version", "started", "lease until", "slots"]
    rows = [
        (line.node, line.incarnation, line.version, line.started_at, line.lease_until, line.slot_count)
        for line in lines
    ]
    print_table(columns, rows, empty="No node is alive; start `timebell up` or `timebell work`.")
