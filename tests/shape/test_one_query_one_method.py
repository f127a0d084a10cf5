"""One query, one file, one method: whoever sees a name in a log finds the SQL by that name."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

from tests.shape.tree import PACKAGE, within


def store_methods(source: str) -> list[str]:
    """The methods of the classes that are a slice's store, `Store` or `EngineStore` for example."""
    return [
        member.name
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef) and node.name.endswith("Store")
        for member in node.body
        if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def query_complaints(slice_name: str, queries: list[str], methods: list[str]) -> list[str]:
    times = Counter(methods)
    return [
        f"{slice_name}/sql/{query}.sql has {times[query]} methods of its name in {slice_name}/store*.py"
        for query in queries
        if times[query] != 1
    ]


def _store_modules(folder: Path) -> list[Path]:
    return sorted([*folder.glob("*store*.py"), *folder.glob("store/*.py")])


def test_every_query_has_one_method() -> None:
    complaints = []
    for folder in sorted(path.parent for path in PACKAGE.rglob("sql") if path.is_dir()):
        methods = [
            method
            for module in _store_modules(folder)
            for method in store_methods(module.read_text(encoding="utf-8"))
        ]
        queries = sorted(path.stem for path in (folder / "sql").glob("*.sql"))
        complaints += query_complaints(within(folder), queries, methods)
    assert not complaints, "\n".join(complaints)


def test_every_query_lies_directly_in_its_slice() -> None:
    astray = [
        within(path)
        for path in PACKAGE.rglob("*.sql")
        if path.parent.name not in {"sql", "migrations"} or not path.stem.replace("_", "a").isalnum()
    ]
    assert not astray, (
        f"a query is <slice>/sql/<method>.sql, a migration <slice>/migrations/NNNN_….sql: {astray}"
    )


def test_the_check_itself() -> None:
    store = "class Store:\n    async def read_job(self): ...\n\nclass Other:\n    def finish(self): ...\n"
    twice = store + "\nclass LateStore:\n    def read_job(self): ...\n"
    assert query_complaints("kernel", ["read_job"], store_methods(store)) == []
    assert query_complaints("kernel", ["finish"], store_methods(store)) == [
        "kernel/sql/finish.sql has 0 methods of its name in kernel/store*.py"
    ]
    assert query_complaints("kernel", ["read_job"], store_methods(twice)) == [
        "kernel/sql/read_job.sql has 2 methods of its name in kernel/store*.py"
    ]
