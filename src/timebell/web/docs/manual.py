"""The pages for people: every operation, and every code of a refusal. They are plain HTML and load nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

import orjson

Document = Mapping[str, Any]

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1d2733 }
code, pre { font: 14px/1.45 ui-monospace, monospace; background: #f3f5f7; border-radius: 4px }
code { padding: .1em .3em } pre { padding: .8rem; overflow-x: auto }
table { border-collapse: collapse; width: 100% } td, th { text-align: left; padding: .25rem .6rem .25rem 0;
  border-bottom: 1px solid #e3e7eb; vertical-align: top }
h2 { margin-top: 3rem } details { margin: .4rem 0; border-bottom: 1px solid #e3e7eb; padding-bottom: .4rem }
summary { cursor: pointer } summary code { font-weight: 600 } nav a { margin-right: 1rem }
"""


def operations_page(document: Document, codes: Mapping[str, str]) -> str:
    """All operations, by what they are about."""
    by_tag: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            tag = operation.get("tags", ["other"])[0]
            by_tag.setdefault(tag, []).append(_operation(document, method, path, operation))
    links = "".join(f'<a href="#{escape(tag)}">{escape(tag)}</a>' for tag in by_tag)
    parts = [f'<h2 id="{escape(tag)}">{escape(tag)}</h2>{"".join(texts)}' for tag, texts in by_tag.items()]
    rows = [
        (f'<a href="/problems/{code}"><code>{code}</code></a>', escape(codes[code])) for code in sorted(codes)
    ]
    return _page(
        f"Timebell {document['info']['version']}",
        _paragraphs(document["info"]["description"])
        + '<p>The same for programs: <a href="/openapi.json"><code>/openapi.json</code></a></p>'
        + f"<nav>{links}</nav>{''.join(parts)}<h2>Refusals</h2>{_table(('code', 'meaning'), rows)}",
    )


def problem_page(code: str, text: str) -> str:
    return _page(code, f'<p>{escape(text)}</p><p><a href="/docs">All operations and all codes</a></p>')


def _operation(document: Document, method: str, path: str, operation: Document) -> str:
    parts = [_paragraphs(operation.get("description", ""))]
    parameters = [
        (
            f"<code>{escape(each['name'])}</code>",
            each["in"],
            _kind(each["schema"]),
            _needed(each),
            _about(each),
        )
        for each in operation.get("parameters", ())
    ]
    if parameters:
        parts.append(_table(("parameter", "in", "kind", "", ""), parameters))
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if body is not None:
        parts.append(f"<p>Body</p>{_fields(document, body['schema'])}")
    parts.append(f"<pre>{escape(_curl(method, path, operation, body))}</pre>")
    answers = []
    for status, response in operation["responses"].items():
        content = response.get("content", {}).get("application/json", {})
        shown = _fields(document, content["schema"]) if content.get("schema") else ""
        answers.append((f"<code>{escape(status)}</code>", escape(response.get("description", "")) + shown))
    parts.append(_table(("answer", ""), answers))
    heading = f"<code>{method.upper()} {escape(path)}</code> {escape(operation.get('summary', ''))}"
    return f'<details id="{escape(operation["operationId"])}"><summary>{heading}</summary>{"".join(parts)}</details>'


def _fields(document: Document, schema: Document) -> str:
    found = _resolved(document, schema)
    required = set(found.get("required", ()))
    rows = [
        (f"<code>{escape(name)}</code>", _kind(each), "needed" if name in required else "", _about(each))
        for name, each in found.get("properties", {}).items()
    ]
    return _table(("field", "kind", "", ""), rows) if rows else f"<p>{_kind(found)}</p>"


def _resolved(document: Document, schema: Document) -> Document:
    name = schema.get("$ref", "").rpartition("/")[2]
    found: Document = document["components"]["schemas"].get(name, schema) if name else schema
    return found


def _kind(schema: Document) -> str:
    """What a value may be, in a few words."""
    if "$ref" in schema:
        return escape(schema["$ref"].rpartition("/")[2])
    if "enum" in schema or "const" in schema:
        return " | ".join(
            f"<code>{escape(str(each))}</code>" for each in schema.get("enum", [schema.get("const")])
        )
    if "anyOf" in schema:
        return " or ".join(_kind(each) for each in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    kind = str(schema.get("format") or schema.get("type") or "anything")
    limits = [
        f"{word} {schema[name]}"
        for name, word in (("minimum", "from"), ("maximum", "to"), ("maxLength", "up to"))
        if name in schema
    ]
    return escape(" ".join([kind, *limits]))


def _needed(parameter: Document) -> str:
    return "needed" if parameter.get("required") else ""


def _about(schema: Document) -> str:
    return escape(str(schema.get("description", "")))


def _curl(method: str, path: str, operation: Document, body: Document | None) -> str:
    lines = [f'curl -X {method.upper()} "$TIMEBELL_URL{path}"']
    if operation.get("security") != []:
        lines.append('-H "Authorization: Bearer $TIMEBELL_API_KEY"')
    for parameter in operation.get("parameters", ()):
        if parameter["name"] == "Timebell-Actor":
            lines.append('-H "Timebell-Actor: $RECIPIENT_ID"')
        elif parameter["name"] == "Idempotency-Key" and parameter.get("required"):
            lines.append('-H "Idempotency-Key: $(uuidgen)"')
    if body is not None:
        shown = orjson.dumps(body.get("example", {}), option=orjson.OPT_INDENT_2).decode()
        lines += ["-H 'Content-Type: application/json'", f"-d '{shown}'"]
    return " \\\n  ".join(lines)


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{_marked(each)}</p>" for each in text.strip().split("\n\n") if each)


def _marked(text: str) -> str:
    """Text in which backticks mark what is to be typed."""
    return "".join(
        f"<code>{part}</code>" if odd else part for part, odd in _alternating(escape(text).split("`"))
    )


def _alternating(parts: list[str]) -> Iterator[tuple[str, bool]]:
    for number, part in enumerate(parts):
        yield part, number % 2 == 1


def _table(headings: tuple[str, ...], rows: list[Any]) -> str:
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    lines = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{lines}</table>"


def _page(title: str, content: str) -> str:
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>'
        f"<body><h1>{escape(title)}</h1>{content}</body></html>"
    )
