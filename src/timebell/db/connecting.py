"""Opening a connection: one host of the URL after the other, each within its share of the deadline."""

from __future__ import annotations

import re
from typing import Any

import asyncpg

_URL = re.compile(r"(?P<head>[^/?#]*//(?:[^@/?#]*@)?)(?P<hosts>[^/?#]*)(?P<tail>.*)", re.DOTALL)


def urls_of(url: str) -> list[str]:
    """The URL once for each of its hosts."""
    match = _URL.fullmatch(url)
    if match is None:
        return [url]
    return [f"{match['head']}{host}{match['tail']}" for host in match["hosts"].split(",")]


async def connect(url: str, *, timeout: float, **options: Any) -> Any:
    """A connection to the first host that answers and is what `target_session_attrs` asks for.

    The driver gives all hosts one deadline together, so that one whose machine is gone would use it up each time
    and none behind it would ever be asked.
    """
    urls = urls_of(url)
    failure: Exception | None = None
    for each in urls:
        try:
            return await asyncpg.connect(each, timeout=timeout / len(urls), **options)
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            failure = failure or error
        except asyncpg.TargetServerAttributeNotMatched:
            continue
    raise failure or ConnectionError("no host is the kind of server that target_session_attrs asks for")
