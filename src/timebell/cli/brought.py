"""The commands that apps bring: loaded from their modules, and made into commands like the engine's own."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from timebell.cli.common import actor_option, actor_or_me, ask, json_option, place_options, tenant_option
from timebell.cli.printing import print_json, print_line
from timebell.config import load_settings
from timebell.errors import ConfigurationError
from timebell.kernel.app import App
from timebell.kernel.commands import Command, CommandAnswer, CommandArgument, CommandOption
from timebell.loading import apps_of


def brought_commands(config: Path | None, taken: Collection[str]) -> Mapping[str, click.Command]:
    """By their first words, what the apps of the settings bring; a word that is `taken` is refused."""
    return commands_of(apps_of(load_settings(config)), taken)


def commands_of(apps: Iterable[App], taken: Collection[str]) -> Mapping[str, click.Command]:
    made: dict[str, click.Command] = {}
    for app in apps:
        firsts: dict[str, list[Command]] = {}
        for command in _load(app):
            firsts.setdefault(command.words[0], []).append(command)
        for word, commands in firsts.items():
            if word in taken:
                raise ConfigurationError(
                    f"app {app.name!r}: the command {word!r} is one of the engine's; rename it"
                )
            if word in made:
                raise ConfigurationError(
                    f"app {app.name!r}: the command {word!r} is already brought by another app; rename one of them"
                )
            made[word] = _first(app, word, commands)
    return made


def _load(app: App) -> Sequence[Command]:
    if app.commands is None:
        return ()
    try:
        commands = getattr(importlib.import_module(app.commands), "COMMANDS", ())
    except Exception as error:
        raise ConfigurationError(
            f"app {app.name!r}: its commands {app.commands!r} cannot be imported ({type(error).__name__}: {error}); "
            "correct it there"
        ) from error
    if not commands or not all(isinstance(command, Command) for command in commands):
        raise ConfigurationError(
            f"app {app.name!r}: {app.commands} has no COMMANDS; put a tuple of Command there"
        )
    return tuple(commands)


def _first(app: App, word: str, commands: Sequence[Command]) -> click.Command:
    """The command of one word, or the group of those that begin with it."""
    names = [" ".join(command.words[1:]) for command in commands]
    if len(set(names)) < len(names) or ("" in names and len(names) > 1):
        raise ConfigurationError(
            f"app {app.name!r}: the command {word!r} is there twice, or begins another; rename one of them"
        )
    if names == [""]:
        return _command(commands[0])
    about = f"Of the app {app.name}: {', '.join(names)}."
    made = {name: _command(command) for name, command in zip(names, commands, strict=True)}
    return click.Group(word, commands=made, help=about, short_help=about)


def _command(command: Command) -> click.Command:
    def run(as_json: bool, config: Path | None, data: Path | None, **given: Any) -> None:
        if "actor" in command.shared:
            given["actor"] = actor_or_me(given["actor"])
        answer = ask(config, data, lambda at: command.run(at.bell, **given), has_apps=True)
        _print(command, answer, as_json)

    made: Callable[..., Any] = json_option(place_options(run))
    if "tenant" in command.shared:
        made = tenant_option(made)
    if "actor" in command.shared:
        made = actor_option(made)
    for option in reversed(command.options):
        made = _option(option)(made)
    for argument in reversed(command.arguments):
        made = _argument(argument)(made)
    return click.command(command.words[-1], help=command.help, short_help=command.help)(made)


def _print(command: Command, answer: object, as_json: bool) -> None:
    if not isinstance(answer, CommandAnswer):
        raise ConfigurationError(
            f"command {' '.join(command.words)!r}: it has run, and answered {type(answer).__name__}; "
            "let it return a CommandAnswer"
        )
    if as_json:
        print_json(answer.value)
    else:
        for line in answer.lines:
            print_line(line)
    if answer.is_failure:
        raise click.exceptions.Exit(1)


def _option(option: CommandOption) -> Callable[[Any], Any]:
    flag = f"--{option.name.replace('_', '-')}"
    if option.sort == "flag":
        return click.option(flag, option.name, is_flag=True, help=option.help)
    return click.option(
        flag,
        option.name,
        type=_type(option),
        default=option.default,
        show_default=option.default is not None,
        multiple=option.is_many,
        help=option.help,
    )


def _type(option: CommandOption) -> click.ParamType[Any]:
    if option.sort == "number":
        return click.IntRange(option.least, option.most)
    return _text(option.choices)


def _argument(argument: CommandArgument) -> Callable[[Any], Any]:
    return click.argument(
        argument.name,
        type=_text(argument.choices),
        required=argument.is_required,
        nargs=-1 if argument.is_many else 1,
    )


def _text(choices: Sequence[str]) -> click.ParamType[Any]:
    return click.Choice(list(choices)) if choices else click.STRING
