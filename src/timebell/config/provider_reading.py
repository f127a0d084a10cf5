"""The reader of provider settings: puts together what the file and the environment say of them.

A secret has no place in a file that is copied and committed, so the environment alone brings it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from timebell.config.providers import KINDS
from timebell.config.rules import Rule, rules_of
from timebell.errors import ConfigurationError

PROVIDER_PREFIX: Final = "TIMEBELL_PROVIDER_"
NAMED_BY: Final = "_env"
PROBLEMS_MAX: Final = 20

# Few secrets are written in capitals alone, so one that stands here by mistake is refused and not looked for by name.
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,199}")

Table = dict[str, Any]


class ProviderReader:
    """`environ` is where secrets are found by the names that the file gives; `own` are the variables of ours in it."""

    def __init__(self, environ: Mapping[str, str], own: Mapping[str, str]) -> None:
        self._environ = environ
        self._own = {name: text for name, text in own.items() if name.startswith(PROVIDER_PREFIX)}
        self._problems: list[str] = []

    def read(self, in_file: Any, names: list[str] | None) -> Any:
        """The tables of the file with what the environment adds; those of `names` in their order, if it is given.

        One that the file does not have is described by the environment alone, and its kind may be its name. What is no
        list of tables is handed on, to be refused by the rule of the setting.
        """
        if not isinstance(in_file, list) or not all(isinstance(table, dict) for table in in_file):
            return in_file
        tables = [self._filled(table) for table in in_file]
        known = {_name_of(table) for table in tables}
        tables += [self._filled({"name": name, "kind": name}) for name in names or () if name not in known]
        self._problems += self._idle(tables)
        if self._problems:
            raise ConfigurationError("\n".join(self._problems[:PROBLEMS_MAX]))
        if names is None:
            return tables
        return [table for name in names for table in tables if _name_of(table) == name]

    def _filled(self, table: Table) -> Table:
        name = _name_of(table)
        filled = {**table, **({"kind": kind} if (kind := self._own.get(_variable(name, "kind"))) else {})}
        unset = []
        for field, rule in _fields_of(filled).items():
            named = self._named(filled, field) if rule.is_secret else None
            text = self._own.get(_variable(name, field)) or (self._environ.get(named) if named else None)
            if text:
                filled[field] = rule.read(text)
            elif named:
                unset.append((field, named))
        return {**filled, "unset": tuple(unset)} if unset else filled

    def _named(self, table: Table, field: str) -> str | None:
        """The variable that the file names for a secret."""
        name = _name_of(table)
        if table.pop(field, None) is not None:
            self._problems.append(
                f"providers.{name:.40}.{field}: is a secret and stands in the file; set {_variable(name, field)} "
                f"instead, or name the variable that holds it in {field}{NAMED_BY}"
            )
        variable = table.pop(field + NAMED_BY, None)
        if variable is None or (isinstance(variable, str) and _VARIABLE.fullmatch(variable)):
            return variable
        # Not repeated: it may well be the secret itself.
        self._problems.append(
            f"providers.{name:.40}.{field}{NAMED_BY}: the value is refused; give the name of a variable, "
            "in capitals"
        )
        return None

    def _idle(self, tables: Iterable[Table]) -> Iterator[str]:
        """Variables that speak of a provider that there is not, or of a field that it has not."""
        by_name = {_name_of(table).upper(): table for table in tables}
        for variable in sorted(self._own):
            name, _, field = variable.removeprefix(PROVIDER_PREFIX).partition("_")
            table = by_name.get(name)
            if table is None:
                yield f"{variable}: there is no provider {name.lower():.40}; list it in TIMEBELL_PROVIDERS"
                continue
            known = [*_fields_of(table), "kind"]
            if len(known) > 1 and field.lower() not in known:
                nearest = difflib.get_close_matches(field.lower(), known, n=1, cutoff=0.0)[0]
                yield f"{variable}: is no field of {name.lower()}; did you mean {_variable(name, nearest)}?"


def _name_of(table: Table) -> str:
    return str(table.get("name") or table.get("kind") or "")


def _fields_of(table: Table) -> Mapping[str, Rule]:
    """What the environment may say of it; nothing where its kind is unknown, which the rule of the setting refuses."""
    kind = table.get("kind")
    record = KINDS.get(kind) if isinstance(kind, str) else None
    return {} if record is None else {name: rule for name, rule in rules_of(record).items() if name != "name"}


def _variable(name: str, field: str) -> str:
    return f"{PROVIDER_PREFIX}{name.upper()}_{field.upper()}"
