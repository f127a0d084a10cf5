"""The page of the command line lists every command and each of its options, and nothing that does not exist."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from tests.shape.tree import ROOT
from timebell.cli.program import program

PAGE = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")


def commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for part in command.list_commands(context):
            inner = command.get_command(context, part)
            assert inner is not None
            yield from commands(inner, f"{name} {part}")
    else:
        yield name, command


def sections() -> dict[str, str]:
    """The text below each heading, up to the next one."""
    parts = re.split(r"^#{2,3} +(.+)$", PAGE, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def options(text: str) -> set[str]:
    return set(re.findall(r"`(--[a-z-]+)", text))


def test_every_command_has_its_heading() -> None:
    listed = [heading for heading in sections() if heading.startswith("timebell ")]
    assert sorted(listed) == sorted(name for name, _ in commands(program, "timebell"))


def test_every_option_is_told() -> None:
    shared = options(sections()["Options that many commands have"])
    for name, command in commands(program, "timebell"):
        has = {option.opts[0] for option in command.params if isinstance(option, click.Option)}
        told = options(sections()[name])
        assert has - shared <= told, f"{name}: the page does not tell of {has - shared - told}"
        assert told - shared <= has, f"{name}: the page tells of {told - has}, which it does not have"


def test_no_line_of_a_list_of_commands_is_cut_short() -> None:
    for name, command in commands(program, "timebell"):
        assert not command.get_short_help_str(68).endswith("..."), name


def test_every_command_that_reads_answers_in_json() -> None:
    silent = {"timebell up", "timebell serve", "timebell work", "timebell consume"}
    for name, command in commands(program, "timebell"):
        has = {option.opts[0] for option in command.params if isinstance(option, click.Option)}
        assert ("--json" in has) != (name in silent), name
