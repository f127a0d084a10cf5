"""Faults in the command line: whose commands there are, and how they end."""

from __future__ import annotations

from tests.mutants.planted import Planted

_RECORDS = ("tests/unit/test_app_commands.py",)
_RUN = ("tests/acceptance/test_app_commands.py",)

PLANTED = [
    Planted(
        name="app-takes-a-word-of-the-engine",
        file="cli/brought.py",
        old="if word in taken:",
        new="if word in taken and word in made:",
        why="An app brings a command that nobody can call, since the engine's goes before it.",
        tests=_RECORDS,
    ),
    Planted(
        name="second-app-takes-a-word-of-the-first",
        file="cli/brought.py",
        old="if word in made:",
        new="if word in made and word in taken:",
        why="Which of two apps runs depends on the order in the settings.",
        tests=_RECORDS,
    ),
    Planted(
        name="help-fails-with-an-app",
        file="cli/program.py",
        old="            return [*_MODULES, *_brought(ctx)]\n        except ConfigurationError as error:",
        new="            return [*_MODULES, *_brought(ctx)]\n        except KeyError as error:",
        why="Where an app cannot be loaded nobody is shown what could be done about it.",
        tests=_RECORDS,
    ),
    Planted(
        name="app-command-without-apps",
        file="cli/brought.py",
        old="has_apps=True",
        new="has_apps=False",
        why="A command of an app works on a bell that does not know the app.",
        tests=_RUN,
    ),
    Planted(
        name="app-command-never-fails",
        file="cli/brought.py",
        old="    if answer.is_failure:\n",
        new="    if answer.is_failure and not answer.lines:\n",
        why="A check that found something wrong ends as if all were well.",
        tests=_RUN,
    ),
    Planted(
        name="app-command-without-an-actor",
        file="cli/brought.py",
        old='given["actor"] = actor_or_me(given["actor"])',
        new='given["actor"] = given["actor"]',
        why="What an operator did stands in the audit trail as nobody's.",
        tests=_RUN,
    ),
]
