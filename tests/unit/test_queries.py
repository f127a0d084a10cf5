"""One query, one file: parameters are named in the text and numbered for the driver."""

from __future__ import annotations

import re

import pytest

from timebell.db.queries import load_queries, parse
from timebell.errors import DatabaseError


@pytest.mark.parametrize(
    ("source", "text", "parameters"),
    [
        ("SELECT 1", "SELECT 1", ()),
        ("SELECT :a", "SELECT $1", ("a",)),
        ("SELECT :b, :a, :b", "SELECT $1, $2, $1", ("b", "a")),
        ("SELECT :ids::uuid[]", "SELECT $1::uuid[]", ("ids",)),
        ("SELECT x::text, :a::text", "SELECT x::text, $1::text", ("a",)),
        ("SELECT x[1:2], y[a:b]", "SELECT x[1:2], y[a:b]", ()),
        ("SELECT ':a', ':b it''s :c', :d", "SELECT ':a', ':b it''s :c', $1", ("d",)),
        ("-- :a and 'more\nSELECT :b -- :c\n, :d", "SELECT $1\n, $2", ("b", "d")),
        ("SELECT '-- :a', :b", "SELECT '-- :a', $1", ("b",)),
        ("SELECT (:a)", "SELECT ($1)", ("a",)),
        ("SELECT :a_1 , :a", "SELECT $1 , $2", ("a_1", "a")),
        ("SELECT   1\n\n    FROM t  \n", "SELECT   1\nFROM t", ()),
    ],
)
def test_parameters_are_numbered_as_they_appear(source: str, text: str, parameters: tuple[str, ...]) -> None:
    query = parse("q", source)
    assert query.text == f"/* q */ {text}"
    assert query.parameters == parameters


def test_many_parameters_keep_apart() -> None:
    query = parse("q", ", ".join(f":p{number}" for number in range(12)))
    assert query.text == "/* q */ " + ", ".join(f"${number}" for number in range(1, 13))


def test_values_go_to_their_numbers() -> None:
    query = parse("q", "SELECT :b, :a")
    assert query.arguments({"a": 1, "b": None}) == [None, 1]
    assert parse("q", "SELECT 1").arguments({}) == []


@pytest.mark.parametrize("values", [{}, {"a": 1}, {"a": 1, "c": 2}, {"a": 1, "b": 2, "c": 3}])
def test_a_missing_or_superfluous_value_is_refused(values: dict[str, object]) -> None:
    with pytest.raises(DatabaseError, match=re.escape("q.sql takes ['a', 'b'], was given")):
        parse("q", "SELECT :a, :b").arguments(values)


def test_a_query_cannot_be_changed() -> None:
    query = parse("q", "SELECT 1")
    with pytest.raises(AttributeError):
        query.name = "other"  # type: ignore[misc]


def test_the_files_of_a_package_are_loaded_by_name_and_once() -> None:
    queries = load_queries("timebell.kernel.sql")
    assert queries["insert_jobs"].text.startswith("/* insert_jobs */ WITH inserted AS (")
    assert {name for name, query in queries.items() if query.name != name} == set()
    assert load_queries("timebell.kernel.sql") is queries
    with pytest.raises(TypeError):
        queries["insert_jobs"] = parse("q", "SELECT 1")  # type: ignore[index]


def test_no_comment_and_no_name_is_left_in_what_is_sent() -> None:
    for query in load_queries("timebell.kernel.sql").values():
        assert "--" not in query.text
        assert not re.search(r"(?<![:\w]):[a-z]", query.text), query.name
        numbers = {int(number) for number in re.findall(r"\$(\d+)", query.text)}
        assert numbers == set(range(1, len(query.parameters) + 1)), query.name
