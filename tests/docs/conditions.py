"""Which tests may be skipped by a condition, found by reading: in their marks, in their bodies, in the fixtures that
they ask for, and in whatever of the tests these name."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

# What is missing here is installed by `make packages`.
INSTALLED = "tests.packages"
_CONDITIONS = {
    "pytest.skip",
    "pytest.importorskip",
    "pytest.mark.skipif",
    "unittest.skipIf",
    "unittest.skipUnless",
}
_WORDS = {each.rpartition(".")[2] for each in _CONDITIONS}
_IMPORT = re.compile(r"^\s*(?:from|import) (tests[\w.]*)(?: import (\w+))?", re.MULTILINE)
_FIXTURES = ("pytest.fixture", "pytest_asyncio.fixture")

Function = ast.FunctionDef | ast.AsyncFunctionDef
Place = tuple["Module", ast.AST]


@dataclass(frozen=True)
class Module:
    """A module of the tests, under the name that others import it by."""

    name: str
    tree: ast.Module

    def __hash__(self) -> int:
        return hash(self.name)

    @cached_property
    def defined(self) -> Mapping[str, list[ast.stmt]]:
        """What stands at the top, by the name that it gets."""
        found: dict[str, list[ast.stmt]] = {}
        for each in self.tree.body:
            for name in _names(each):
                found.setdefault(name, []).append(each)
        return found

    @cached_property
    def imported(self) -> Mapping[str, tuple[str, str | None]]:
        """A name, and the module and the name there that it stands for; none where it stands for the module."""
        found: dict[str, tuple[str, str | None]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                found |= {each.asname or each.name: (node.module, each.name) for each in node.names}
            elif isinstance(node, ast.Import):
                found |= {each.asname: (each.name, None) for each in node.names if each.asname}
        return found


def _names(node: ast.stmt) -> list[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            return [each.id for each in targets if isinstance(each, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case _:
            return []


class Conditions:
    """Answers of a test whether some condition may keep it from running."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        suspects = _suspects(sources)
        self._modules = {name: Module(name, ast.parse(sources[name])) for name in suspects}
        self._read: dict[ast.AST, tuple[int | None, list[Place]]] = {}

    def of(self, module: str, *path: str) -> str | None:
        """The place of a condition that may skip this test, or none; a test in a class is named by both."""
        if module not in self._modules:
            return None
        home = self._modules[module]
        nodes = _nodes(home.tree.body, path)
        marks = home.defined.get("pytestmark", [])
        # The decorators of its class are its own; the other tests there are not.
        outer = [
            mark for node in nodes[:-1] if isinstance(node, ast.ClassDef) for mark in node.decorator_list
        ]
        start: list[Place] = [(home, node) for node in (nodes[-1], *outer, *marks)]
        start += self._automatic(home)
        return self._first_condition(start)

    def _first_condition(self, start: Iterable[Place]) -> str | None:
        waiting, seen = list(start), set()
        while waiting:
            module, node = waiting.pop()
            if node in seen or module.name == INSTALLED:
                continue
            seen.add(node)
            if node not in self._read:
                self._read[node] = _condition(node), [*self._mentioned(module, node)]
            line, mentioned = self._read[node]
            if line is not None:
                return f"{module.name}:{line}"
            waiting += mentioned
        return None

    def _mentioned(self, module: Module, node: ast.AST) -> Iterator[Place]:
        for each in ast.walk(node):
            match each:
                case ast.Name(id=name):
                    yield from self._found(module, name)
                case ast.Attribute(value=ast.Name(id=name), attr=attr) if name in module.imported:
                    of, inner = module.imported[name]
                    yield from self._at(of if inner is None else f"{of}.{inner}", attr)
                case ast.Call(func=ast.Attribute(attr="usefixtures")):
                    for argument in each.args:
                        yield from self._fixture(module, ast.literal_eval(argument))
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    for parameter in (*each.args.args, *each.args.kwonlyargs):
                        yield from self._fixture(module, parameter.arg)
                case _:
                    pass

    def _found(self, module: Module, name: str) -> Iterator[Place]:
        if name in module.defined:
            yield from ((module, each) for each in module.defined[name])
        elif name in module.imported:
            of, inner = module.imported[name]
            if inner is not None:
                yield from self._at(of, inner)

    def _at(self, module: str, name: str) -> Iterator[Place]:
        if module in self._modules:
            yield from self._found(self._modules[module], name)

    def _fixture(self, module: Module, name: str) -> Iterator[Place]:
        """The nearest of this name, as pytest has it: in the module, or in a conftest on the way up."""
        for place in (module, *self._conftests(module)):
            found = [each for each in self._found(place, name) if _is_fixture(each[1])]
            if found:
                yield from found
                return

    def _automatic(self, module: Module) -> Iterator[Place]:
        for place in (module, *self._conftests(module)):
            for nodes in place.defined.values():
                yield from (
                    (place, node) for node in nodes if _is_fixture(node, lambda call: "autouse=True" in call)
                )

    def _conftests(self, module: Module) -> Iterator[Module]:
        return (self._modules[name] for name in _conftests(module.name) if name in self._modules)


def _suspects(sources: Mapping[str, str]) -> set[str]:
    """The modules from which a condition can be reached at all, which spares reading the others."""
    found = {
        name
        for name, text in sources.items()
        if name != INSTALLED and any(word in text for word in _CONDITIONS)
    }
    reaching = {
        name: {
            *_conftests(name),
            *(each for pair in _IMPORT.findall(text) for each in (pair[0], ".".join(pair))),
        }
        for name, text in sources.items()
    }
    while more := {name for name in reaching.keys() - found if reaching[name] & found}:
        found |= more
    return found


def _conftests(name: str) -> list[str]:
    parts = name.split(".")[:-1]
    return [".".join((*parts[:count], "conftest")) for count in range(len(parts), 0, -1)]


def _condition(node: ast.AST) -> int | None:
    """The line of the first in it."""
    found = (
        each
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute) and each.attr in _WORDS and ast.unparse(each) in _CONDITIONS
    )
    return next((each.lineno for each in found), None)


def _nodes(body: list[ast.stmt], path: tuple[str, ...]) -> list[ast.stmt]:
    found: list[ast.stmt] = []
    for name in path:
        # Of two with one name the later one counts.
        node = [each for each in body if _names(each) == [name]][-1]
        found.append(node)
        body = node.body if isinstance(node, ast.ClassDef) else []
    return found


def _is_fixture(node: ast.AST, also: Callable[[str], bool] = lambda call: True) -> bool:
    return isinstance(node, Function) and any(
        text.startswith(_FIXTURES) and also(text) for text in map(ast.unparse, node.decorator_list)
    )
