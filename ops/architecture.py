"""The map of the rooms: which there are, what is in them, and which of them import which, read off the source.

`python -m ops.architecture` writes it into docs/architecture.md, between the two marks. A test compares the page with
what this would write, so the drawing cannot grow old.
"""

from __future__ import annotations

import ast
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "timebell"
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- map: begin -->", "<!-- map: end -->"
_WIDTH = 26


def layers() -> list[str]:
    """The places at the top of the package as the linter has them, the highest first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (contract,) = [each for each in settings["contracts"] if each["id"] == "layers"]
    return [layer.replace("(", "").replace(")", "") for layer in contract["layers"]]


def rooms_of(place: str) -> list[str]:
    """The packages directly within a place, but for those that hold statements and migrations."""
    folder = PACKAGE / place
    inner = [path.parent.name for path in sorted(folder.glob("*/__init__.py"))]
    return [name for name in inner if name not in {"sql", "migrations"}]


def room_of(module: str) -> str | None:
    """The room that a module of the package is in: `notify/people`, or `notify` for what lies before the rooms."""
    parts = module.split(".")
    if parts[0] != "timebell" or len(parts) < 2:
        return None
    place = parts[1]
    if len(parts) > 2 and (PACKAGE / place / parts[2] / "__init__.py").exists():
        return f"{place}/{parts[2]}"
    return place


def imports() -> Mapping[str, set[str]]:
    """By room, the other rooms that it imports from while it runs."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        here = room_of(".".join(parts))
        if here is None or path.name == "__init__.py":
            continue
        for module in _imported(ast.parse(path.read_text(encoding="utf-8"))):
            there = room_of(module)
            if there is not None and there != here:
                found[here].add(there)
    return found


def _imported(tree: ast.Module) -> Iterator[str]:
    """What is imported only for its types is no arrow."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        waiting.extend(ast.iter_child_nodes(node))


def about(place: str) -> str:
    """The first sentence of a docstring."""
    path = PACKAGE / place
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or ""
    return text.splitlines()[0] if text else ""


def drawing() -> str:
    arrows = imports()
    lines: list[str] = []
    for layer in layers():
        places = [name.strip() for name in layer.split("|")]
        for place in places:
            if not (PACKAGE / place).is_dir() and not (PACKAGE / f"{place}.py").exists():
                continue
            lines += _drawn(place, place, arrows)
            for room in rooms_of(place):
                lines += _drawn(f"{place}/{room}", f"  {room}", arrows)
        lines.append("")
    return "\n".join(lines).rstrip()


def _drawn(room: str, shown: str, arrows: Mapping[str, set[str]]) -> Sequence[str]:
    place = room.split("/")[0]
    reached = sorted({_short(there, place) for there in arrows.get(room, ())})
    first = f"{shown:<{_WIDTH}}{about(room)}".rstrip()
    return [first, f"{'':<{_WIDTH}}-> {', '.join(reached)}"] if reached else [first]


def _short(there: str, place: str) -> str:
    """Within a place a room has its own name; another place is shown as a whole, but the kernel by its rooms."""
    other, _, room = there.partition("/")
    if other == place:
        return f"./{room}" if room else "."
    return there if other == "kernel" else other


def page() -> str:
    """The page as it should be."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n```text\n{drawing()}\n```\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
