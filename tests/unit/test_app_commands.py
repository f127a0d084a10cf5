"""The commands that apps bring: what a record may say, which words are refused, and what help shows of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from timebell.cli.brought import commands_of
from timebell.cli.program import program
from timebell.errors import ConfigurationError
from timebell.kernel import App, Command, CommandAnswer, CommandArgument, CommandOption, Timebell

Bring = Callable[[str, str], None]

SHOP = """
from timebell.kernel import App, Command, CommandAnswer, CommandArgument, CommandOption

async def sell(bell, **given):
    return CommandAnswer(lines=[], value=None)

COMMANDS = (
    Command(
        words=("{word}", "sell"),
        help="Sell the book BOOK.",
        run=sell,
        arguments=[CommandArgument(name="book", choices=["dune", "emma"])],
        options=[
            CommandOption(name="price", help="For how much.", sort="number", least=1, most=9, default=5),
            CommandOption(name="as_gift", help="In paper.", sort="flag"),
            CommandOption(name="note", help="Said to whom.", is_many=True),
        ],
    ),
    Command(words=("{word}", "close"), help="Close it.", run=sell, shared=()),
)
app = App(name="{name}", commands="{name}")
"""


@pytest.fixture
def bring(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bring:
    """Writes an app, and has the settings name it beside those of before."""
    names: list[str] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(name: str, source: str) -> None:
        (tmp_path / f"{name}.py").write_text(source)
        names.append(name)
        monkeypatch.setenv("TIMEBELL_APPS", ",".join(names))

    return write


def shop(name: str, word: str | None = None) -> str:
    return SHOP.replace("{name}", name).replace("{word}", word or name)


def asked(*arguments: str) -> Result:
    return CliRunner().invoke(program, list(arguments))


async def nothing(bell: Timebell, **given: Any) -> CommandAnswer:
    return CommandAnswer(lines=(), value=None)


async def strict(bell: Timebell, *, book: str) -> CommandAnswer:
    return CommandAnswer(lines=(), value=book)


def test_help_lists_what_apps_bring_behind_what_the_engine_has(bring: Bring) -> None:
    bring("shop_a", shop("shop_a", "shop-a"))
    bring("shop_b", shop("shop_b", "shop-b"))
    lines = [line.split() for line in asked("--help").output.splitlines()]
    first = [line[0] for line in lines if line]
    assert first[-3:] == ["audit", "shop-a", "shop-b"]
    assert lines[-1] == ["shop-b", "Of", "the", "app", "shop_b:", "sell,", "close."]


def test_the_help_of_a_command_tells_what_it_takes(bring: Bring) -> None:
    bring("shop_c", shop("shop_c", "shop"))
    told = asked("shop", "sell", "--help").output
    for part in (
        "{dune|emma}",
        "Sell the book BOOK.",
        "[default: 5; 1<=x<=9]",
        "--as-gift",
        "--note",
        "--tenant",
        "--actor",
        "--json",
        "--config",
        "--data",
    ):
        assert part in told
    told = asked("shop", "close", "--help").output
    assert "--json" in told
    assert "--tenant" not in told
    assert "--actor" not in told


@pytest.mark.parametrize(
    "arguments",
    [
        ["sell"],
        ["sell", "ulysses"],
        ["sell", "dune", "emma"],
        ["sell", "dune", "--price", "10"],
        ["sell", "dune", "--price", "x"],
        ["close", "--tenant", "t"],
        ["buy"],
    ],
)
def test_what_a_command_does_not_take_is_refused(bring: Bring, arguments: list[str]) -> None:
    bring("shop_d", shop("shop_d", "shop"))
    assert asked("shop", *arguments).exit_code == 2


def test_the_settings_file_that_a_command_names_says_which_apps_there_are(
    bring: Bring, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bring("shop_e", shop("shop_e", "shop"))
    monkeypatch.delenv("TIMEBELL_APPS")
    (tmp_path / "other.toml").write_text('apps = ["shop_e"]\n')
    assert asked("shop", "--help").exit_code == 2
    assert "Of the app shop_e" not in asked("--help").output
    assert asked("shop", "sell", "--help", "--config", "other.toml").exit_code == 0
    assert asked("shop", "close", "--config=other.toml", "--help").exit_code == 0
    assert asked("shop", "--", "--config=other.toml").exit_code == 2


def test_only_a_word_that_the_engine_does_not_have_makes_it_load_apps(bring: Bring) -> None:
    bring("shop_broken", "raise RuntimeError('closed')")
    assert asked("--version").exit_code == 0
    assert asked("schedule", "preview", "FREQ=DAILY", "--count", "1").exit_code == 0
    refused = asked("shop")
    assert isinstance(refused.exception, ConfigurationError)
    assert "closed" in str(refused.exception)


def test_help_is_there_whatever_is_wrong_with_an_app_and_says_what(bring: Bring) -> None:
    bring("shop_gone", "from timebell import App\napp = App(name='shop', commands='shop_gone_commands')")
    told = asked("--help")
    assert told.exit_code == 0
    assert "audit " in told.output
    assert "The commands of apps are not listed: app 'shop'" in told.output
    assert "shop_gone_commands" in told.output


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ([shop("twice_a", "shop"), shop("twice_b", "shop")], "'shop' is already brought by another app"),
        ([shop("clash", "jobs")], "app 'clash': the command 'jobs' is one of the engine's"),
        (["from timebell import App\napp = App(name='idle', commands='{module}')"], "has no COMMANDS"),
        (
            ["from timebell import App\nCOMMANDS = ('sell',)\napp = App(name='odd', commands='{module}')"],
            "put a tuple of Command there",
        ),
        (
            [shop("double", "shop") + "COMMANDS = (*COMMANDS, *COMMANDS)\n"],
            "'shop' is there twice, or begins another",
        ),
        (
            [shop("begun", "shop") + "COMMANDS += (Command(words=('shop',), help='Look.', run=sell),)\n"],
            "'shop' is there twice, or begins another",
        ),
        ([shop("wrong").replace("async ", "")], "command 'wrong sell': run: must be `async def`"),
    ],
)
def test_what_is_refused_when_it_is_loaded(
    bring: Bring, tmp_path: Path, sources: list[str], message: str
) -> None:
    for number, source in enumerate(sources):
        module = f"{tmp_path.name}_{number}"
        given = source.replace("{module}", module)
        for name in ("twice_a", "twice_b", "clash", "double", "begun", "wrong"):
            given = given.replace(f'commands="{name}"', f'commands="{module}"')
        bring(module, given)
    refused = asked("shop")
    assert isinstance(refused.exception, ConfigurationError)
    assert message in str(refused.exception)


def test_an_app_without_commands_brings_none() -> None:
    assert commands_of([App(name="silent")], ()) == {}


def test_a_single_word_is_a_command_by_itself(bring: Bring) -> None:
    bring("shop_f", shop("shop_f", "shop").replace('("shop", "sell")', '("sell",)'))
    assert "Sell the book BOOK." in asked("sell", "--help").output
    assert not isinstance(program.get_command(click.Context(program), "sell"), click.Group)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"words": ()}, "give a tuple of one or two"),
        ({"words": ("a", "b", "c")}, "give a tuple of one or two"),
        ({"words": ("Shop",)}, "'Shop' is refused"),
        ({"words": ("shop", "--sell")}, "'--sell' is refused"),
        ({"help": ""}, "give one line of up to 68"),
        ({"help": "two\nlines"}, "give one line of up to 68"),
        ({"help": "x" * 69}, "give one line of up to 68"),
        ({"arguments": [CommandArgument(name="json")]}, "'json' is no name"),
        ({"arguments": [CommandArgument(name="a-b")]}, "'a-b' is no name"),
        ({"arguments": [CommandArgument(name="actor")]}, "'actor' is named twice"),
        (
            {"arguments": [CommandArgument(name="a", is_many=True), CommandArgument(name="b")]},
            "only the last may be left out",
        ),
        (
            {"arguments": [CommandArgument(name="a", is_required=False), CommandArgument(name="b")]},
            "only the last may be left out",
        ),
        (
            {"options": [CommandOption(name="a", help="A.", sort="date")]},  # type: ignore[arg-type]
            "'date' is not text",
        ),
        ({"options": [CommandOption(name="a", help="A.", sort="flag", choices=["x"])]}, "only a text has"),
        ({"options": [CommandOption(name="a", help="A.", least=1)]}, "only a number has them"),
        ({"options": [CommandOption(name="a", help="A.", sort="flag", default=1)]}, "leave it out"),
        ({"options": [CommandOption(name="a", help="A.", is_many=True, default="x")]}, "leave it out"),
        ({"options": [CommandOption(name="a", help="A.", sort="flag", is_many=True)]}, "stands once"),
        ({"run": strict}, "it is given the bell, and by name: tenant, actor"),
        ({"run": strict, "shared": ()}, "by name: nothing"),
    ],
)
def test_what_a_record_cannot_say(said: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Command(**{"words": ("shop",), "help": "Look.", "run": nothing, **said})
    assert message in str(refused.value)


def test_a_function_that_takes_what_it_is_given_is_taken() -> None:
    Command(words=("shop",), help="Look.", run=strict, arguments=[CommandArgument(name="book")], shared=())
