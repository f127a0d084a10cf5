"""Bodies of requests: read up to a limit, and taken for JSON only where every reader would read the same in them."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from starlette.requests import Request

from timebell.web.operation.problems import FieldError, Problem

DEPTH_MAX: Final = 32
_BODY_SECONDS = 30.0
# One that does not end goes on to the end of the text: looking for the end again from each quote in it takes minutes.
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_BRACKET = re.compile(r"[\[\]{}]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_JSON = "application/json"


async def read_bytes(request: Request, bytes_max: int) -> bytes:
    """The whole body. It is given up as soon as it is too large, whatever its length was said to be."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > bytes_max:
        raise _too_large(bytes_max)
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for chunk in request.stream():
                size += len(chunk)
                if size > bytes_max:
                    raise _too_large(bytes_max)
                chunks.append(chunk)
    except TimeoutError:
        raise Problem(
            408,
            "body_too_slow",
            f"the body did not come within {_BODY_SECONDS:g} s; send it again",
            headers={"connection": "close"},
        ) from None
    return b"".join(chunks)


def media_type_of(request: Request) -> str:
    return request.headers.get("content-type", "").split(";")[0].strip().lower()


def read_text(raw: bytes) -> str:
    """A body that is a text, such as a file that somebody uploads."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise Problem(400, "malformed_text", "the body is not UTF-8; save the file as UTF-8") from None
    if "\x00" in text:
        raise Problem(400, "malformed_text", "the body has the character NUL, which no text can hold")
    return text


def check_json(request: Request, raw: bytes) -> None:
    """Refuse what is no JSON, and what another reader may read otherwise than we do."""
    media_type = media_type_of(request)
    if media_type != _JSON and not media_type.endswith("+json"):
        raise Problem(415, "unsupported_media_type", f"content-type: send {_JSON}")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise Problem(400, "malformed_json", "the body is not UTF-8") from None
    _check_depth(text)
    try:
        found = _JSON_READER.decode(text)
    except ValueError as error:
        raise Problem(400, "malformed_json", f"the body is not JSON: {error}"[:300]) from None
    if "\\u" in text:
        _check_letters(found)


def _check_letters(found: Any) -> None:
    """Only an escape can bring in what no text of the database can hold."""
    for text in _texts(found):
        if "\x00" in text:
            raise Problem(400, "malformed_json", "the body has the character NUL, which no text can hold")
        if _SURROGATE.search(text):
            raise Problem(400, "malformed_json", "the body has half of a surrogate pair; send both")


def _texts(found: Any) -> Iterator[str]:
    if isinstance(found, str):
        yield found
    elif isinstance(found, dict):
        for name, value in found.items():
            yield name
            yield from _texts(value)
    elif isinstance(found, list):
        for value in found:
            yield from _texts(value)


def _too_large(bytes_max: int) -> Problem:
    return Problem(
        413,
        "body_too_large",
        f"the body is over {bytes_max} bytes; send less at once",
        headers={"connection": "close"},
    )


def _check_depth(text: str) -> None:
    """Whether it nests too deeply, found out without a parser that would nest with it."""
    if text.count("[") + text.count("{") <= DEPTH_MAX:
        return
    depth = 0
    for bracket in _BRACKET.findall(_STRING.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        if depth > DEPTH_MAX:
            raise Problem(400, "malformed_json", f"the body nests deeper than {DEPTH_MAX}; flatten it")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of two members of one name every reader takes another, so neither is taken."""
    found = dict(pairs)
    if len(found) < len(pairs):
        [(twice, _)] = Counter(name for name, _ in pairs).most_common(1)
        error = FieldError(
            pointer=f"/{twice[:100]}", code="duplicate_name", message="stands twice in one object"
        )
        raise Problem(400, "malformed_json", f"{twice[:100]}: stands twice in one object", errors=[error])
    return found


def _finite(text: str) -> float:
    found = float(text)
    if math.isinf(found):
        raise Problem(400, "malformed_json", f"{text[:50]} is too large a number")
    return found


def _refuse_constant(name: str) -> Any:
    raise Problem(400, "malformed_json", f"{name} is no JSON number; leave it out or send null")


# Made once: to make one takes longer than to read a small body.
_JSON_READER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_refuse_constant, parse_float=_finite
)
