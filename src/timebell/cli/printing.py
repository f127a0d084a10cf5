"""How answers look: one JSON document for machines, a table for people."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import orjson
from rich.console import Console
from rich.table import Table

from timebell.kernel.paging import Page

# A terminal obeys what it is shown, and much of that was written by strangers.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# A line of a traceback. The folders before the file's name are left out.
_RAISED = re.compile(r'  File "(?:[^"]*[\\/])?(?P<file>[^"\\/]+)", line (?P<line>\d+)')
_UNBROKEN_MAX = 36
_WIDTH_MAX = 1_000


def plain(value: Any) -> Any:
    """Records as mappings, in the order of their fields, and durations as text; orjson knows the rest."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, timedelta):
        return duration(value)
    # The driver has ids of a class of its own, which orjson does not take for ids.
    return str(value) if isinstance(value, UUID) else value


def print_json(value: Any) -> None:
    """The only thing that a command with --json writes to standard output."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_UTC_Z | orjson.OPT_APPEND_NEWLINE
    sys.stdout.write(orjson.dumps(plain(value), option=options).decode())
    sys.stdout.flush()


def page_json(page: Page[Any]) -> dict[str, Any]:
    """A list has the same shape here as over HTTP."""
    return {"data": page.lines, "next_cursor": page.next_cursor, "has_more": page.next_cursor is not None}


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, empty: str) -> None:
    """Columns are broken between words, the first one never; a table too wide for that is left to the terminal."""
    cells = [[text(value) for value in row] for row in rows]
    if not cells:
        _console().print(empty)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        parts = [part for row in (columns, *cells) for part in (row[number].split() if number else [row[0]])]
        longest = max(map(len, parts), default=0)
        width = min(longest, _UNBROKEN_MAX) if number else longest
        table.add_column(column, no_wrap=number == 0, overflow="fold", min_width=width)
    for row in cells:
        table.add_row(*row)
    console = _console()
    needed = console.measure(table, options=console.options.update(max_width=_WIDTH_MAX)).minimum
    console.width = max(console.width, needed)
    console.print(table)


def print_page(columns: Sequence[str], page: Page[Any], rows: Iterable[Sequence[Any]], *, empty: str) -> None:
    print_table(columns, rows, empty=empty)
    if page.next_cursor is not None:
        print_line(f"There is more: --cursor {page.next_cursor}")


def print_fields(pairs: Iterable[tuple[str, Any]]) -> None:
    """One record: what is not known of it is left out."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs:
        if value is not None:
            table.add_row(name, text(value))
    _console().print(table)


def print_line(line: str) -> None:
    """Left to the terminal to break, so that what is copied from it is whole."""
    _console().print(harmless(line), soft_wrap=True)


def text(value: Any) -> str:
    """A value as a person reads it: instants in UTC to the millisecond, nothing for what is not known."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, float):
        return f"{value:,.3f}".rstrip("0").rstrip(".")
    if isinstance(value, timedelta):
        return duration(value)
    if isinstance(value, str):
        return harmless(value)
    if isinstance(value, UUID | int):
        return str(value)
    if isinstance(value, list | tuple):
        return ", ".join(text(each) for each in value)
    return harmless(orjson.dumps(plain(value)).decode())


def error_line(error: str | None) -> str | None:
    """An error as a table has room for it: what it says, and the file and line where it was raised."""
    if error is None:
        return None
    first, *rest = error.split("\n")
    places = [found for line in rest if (found := _RAISED.match(line))]
    return f"{first} ({places[-1]['file']}:{places[-1]['line']})" if places else first


def duration(value: timedelta) -> str:
    """As ISO 8601 writes it, in the units that no change of clocks makes longer or shorter."""
    microseconds = abs(value) // timedelta(microseconds=1)
    minutes, rest = divmod(microseconds, 60_000_000)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{rest / 1e6:.6f}".rstrip("0").rstrip(".")
    parts = [(str(hours), "H"), (str(minutes), "M"), (seconds, "S")]
    told = "".join(f"{amount}{unit}" for amount, unit in parts if amount != "0")
    return f"{'-' if value < timedelta(0) else ''}PT{told or '0S'}"


def harmless(line: str) -> str:
    """What a terminal shows and does not obey."""
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", line)


def _console() -> Console:
    """As wide as the terminal; into a file or a pipe, wide enough that no line is broken."""
    is_terminal = sys.stdout.isatty()
    return Console(
        file=sys.stdout, width=None if is_terminal else _WIDTH_MAX, highlight=False, markup=False, emoji=False
    )
