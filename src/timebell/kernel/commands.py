"""Commands that an app brings to the command line, in records that know nothing of how a command line is made."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from timebell.errors import ConfigurationError

_WORD = re.compile(r"[a-z][a-z0-9-]{0,29}")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,29}")
_WORDS_MAX = 2
# So that a list of commands has room for it beside the word.
_HELP_MAX = 68
# Every command has these from the command line itself.
_TAKEN = frozenset({"config", "data", "json", "help"})

CommandFunction = Callable[..., Awaitable["CommandAnswer"]]
Shared = Literal["tenant", "actor"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandAnswer:
    """What a command answers: `lines` for a person, `value` for `--json`, as records, mappings and lists are shown.

    `is_failure`: what was asked has been done, and has found something that the exit code must tell.
    """

    lines: Sequence[str]
    value: Any
    is_failure: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandArgument:
    """What stands behind the words of a command, in the order of its arguments; `is_many`, one or more of them."""

    name: str
    choices: Sequence[str] = ()
    is_required: bool = True
    is_many: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOption:
    """`name` as the function has it: `dry_run` is `--dry-run`. A number is whole, and between `least` and `most`."""

    name: str
    help: str
    sort: Literal["text", "number", "flag"] = "text"
    default: str | int | None = None
    choices: Sequence[str] = ()
    least: int | None = None
    most: int | None = None
    is_many: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command of the command line: `timebell sequences install` has the words "sequences" and "install".

    `run` is an `async` function of the bell and of what was given, each by its name: a text or None, a number or None,
    a bool for a flag, a tuple where there may be many. The bell stands on the database of the settings, with the apps
    that they name, and in front of the wall as the engine's own commands do; so a command names its tenant.

    `shared` are the options that many commands have: `tenant`, the default one unless given, and `actor`, which is the
    user of the machine unless given.
    """

    words: tuple[str, ...]
    help: str
    run: CommandFunction
    arguments: Sequence[CommandArgument] = ()
    options: Sequence[CommandOption] = ()
    shared: Sequence[Shared] = ("tenant", "actor")

    def __post_init__(self) -> None:
        if not 1 <= len(self.words) <= _WORDS_MAX:
            raise ConfigurationError(f"command {self.words!r}: words: give a tuple of one or two")
        for word in self.words:
            if not _WORD.fullmatch(word):
                self._refuse(
                    f"words: {word!r} is refused; lower-case letters, digits and hyphens, 30 at most"
                )
        if not self.help or "\n" in self.help or len(self.help) > _HELP_MAX:
            self._refuse(f"help: give one line of up to {_HELP_MAX} characters")
        for option in self.options:
            self._check(option)
        given = [*(each.name for each in self.arguments), *(each.name for each in self.options)]
        names = [*given, *self.shared]
        for name in names:
            if not _NAME.fullmatch(name) or name in _TAKEN:
                self._refuse(f"{name!r} is no name for what it takes; choose another")
            if names.count(name) > 1:
                self._refuse(f"{name!r} is named twice; rename one of them")
        if any(each.is_many or not each.is_required for each in self.arguments[:-1]):
            self._refuse("arguments: only the last may be left out, or be many")
        self._check_run(names)

    def _check(self, option: CommandOption) -> None:
        if option.sort not in ("text", "number", "flag"):
            self._refuse(f"{option.name}: sort: {option.sort!r} is not text, number or flag")
        if option.sort != "text" and option.choices:
            self._refuse(f"{option.name}: choices: only a text has them")
        if option.sort != "number" and (option.least, option.most) != (None, None):
            self._refuse(f"{option.name}: least, most: only a number has them")
        if (option.sort == "flag" or option.is_many) and option.default is not None:
            self._refuse(f"{option.name}: default: what is not given is False, or none; leave it out")
        if option.sort == "flag" and option.is_many:
            self._refuse(f"{option.name}: is_many: a flag stands once")

    def _check_run(self, names: Sequence[str]) -> None:
        """Now, and not when somebody needs the command."""
        if not inspect.iscoroutinefunction(self.run):
            self._refuse("run: must be `async def`")
        try:
            inspect.signature(self.run).bind(None, **dict.fromkeys(names))
        except TypeError as error:
            takes = ", ".join(names) or "nothing"
            self._refuse(f"run: {error}; it is given the bell, and by name: {takes}")

    def _refuse(self, why: str) -> None:
        raise ConfigurationError(f"command {' '.join(self.words)!r}: {why}")
