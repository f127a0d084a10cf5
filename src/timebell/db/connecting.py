"""Opening a connection: one host of the URL after the other, each within its share of the deadline."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import asyncpg

_URL = re.compile(r"(?P<head>[^/?#]*//(?:[^@/?#]*@)?)(?P<hosts>[^/?#]*)(?P<tail>.*)", re.DOTALL)

# Arrays that our statements take and give: the number of the type, its name, and the number of what it is made of. They
# are the same in every PostgreSQL.
_ARRAYS = (
    (1000, "_bool", 16),
    (1001, "_bytea", 17),
    (1005, "_int2", 21),
    (1007, "_int4", 23),
    (1016, "_int8", 20),
    (1022, "_float8", 701),
    (1115, "_timestamp", 1114),
    (1182, "_date", 1082),
    (1183, "_time", 1083),
    (1185, "_timestamptz", 1184),
    (1187, "_interval", 1186),
    (2951, "_uuid", 2950),
)
_NOTHING_ELSE = {
    "kind": b"b",
    "basetype": None,
    "range_subtype": None,
    "attrtypoids": None,
    "attrnames": None,
}
_ARRAY_TYPES = [
    {"oid": oid, "ns": "pg_catalog", "name": name, "elemtype": element, "elemdelim": ",", **_NOTHING_ELSE}
    for oid, name, element in _ARRAYS
]


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
            return knowing_arrays(await asyncpg.connect(each, timeout=timeout / len(urls), **options))
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            failure = failure or error
        except asyncpg.TargetServerAttributeNotMatched:
            continue
    raise failure or ConnectionError("no host is the kind of server that target_session_attrs asks for")


def knowing_arrays(connection: Any) -> Any:
    """The connection, told what the driver would ask the server on each one anew, for each kind of array.

    That question is slower than all others that a new connection asks, together. A driver that has another inside than
    this one goes on asking.
    """
    with suppress(AttributeError, KeyError, TypeError):
        connection._protocol.get_settings().register_data_types(_ARRAY_TYPES)
    return connection
