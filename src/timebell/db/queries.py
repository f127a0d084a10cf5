"""One query, one `.sql` file: loaded by name, its parameters named in the text as in psql (`:ids`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType

from timebell.errors import DatabaseError

# A parameter is a colon and a name that do not follow a colon (a cast) or a word.
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_][a-z0-9_]*)")
_COMMENT_OR_TEXT = re.compile(r"--[^\n]*|'(?:[^']|'')*'")


@dataclass(frozen=True, slots=True)
class Query:
    """A statement and the names of its parameters, in the order of their numbers."""

    name: str
    text: str
    parameters: tuple[str, ...]

    def arguments(self, values: Mapping[str, object]) -> list[object]:
        """The values in the order of the parameters; a missing or a superfluous one is a bug and says so."""
        if len(values) != len(self.parameters) or any(name not in values for name in self.parameters):
            raise DatabaseError(
                f"{self.name}.sql takes {sorted(self.parameters)}, was given {sorted(values)}"
            )
        return [values[name] for name in self.parameters]


def parse(name: str, source: str) -> Query:
    """Number the named parameters of a statement. Comments go; what stands in quotes is left alone."""
    parameters: list[str] = []

    def number(match: re.Match[str]) -> str:
        if match[1] not in parameters:
            parameters.append(match[1])
        return f"${parameters.index(match[1]) + 1}"

    pieces: list[str] = []
    position = 0
    for quoted in _COMMENT_OR_TEXT.finditer(source):
        pieces.append(_PARAMETER.sub(number, source[position : quoted.start()]))
        if quoted[0].startswith("'"):
            pieces.append(quoted[0])
        position = quoted.end()
    pieces.append(_PARAMETER.sub(number, source[position:]))
    # The name leads the text so that logs and pg_stat_activity show it.
    text = re.sub(r"[ \t]*\n\s*", "\n", "".join(pieces)).strip()
    return Query(name=name, text=f"/* {name} */ {text}", parameters=tuple(parameters))


@cache
def load_queries(package: str) -> Mapping[str, Query]:
    """Every `.sql` file of a package, by its name without the ending."""
    files = sorted(resources.files(package).iterdir(), key=lambda file: file.name)
    return MappingProxyType(
        {
            file.name.removesuffix(".sql"): parse(file.name.removesuffix(".sql"), file.read_text("utf-8"))
            for file in files
            if file.name.endswith(".sql")
        }
    )
