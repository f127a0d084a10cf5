"""Validation rules: one for each setting, from which it is read, checked, shown and documented."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Final

from timebell.errors import ConfigurationError

Shown = str | int | float | bool | None | tuple[str | float | Mapping[str, object], ...]

TEXT_MAX: Final = 2_000
HIDDEN: Final = "***"


def hide(_: object) -> str:
    """The mask of what is a secret as a whole."""
    return HIDDEN


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What one setting may be. `check` answers the value to keep and raises ValueError for one it refuses."""

    default: object
    about: str
    allowed: str
    check: Callable[[Any], object]
    from_text: Callable[[str], object] = str
    unit: str = ""
    mask: Callable[[Any], Shown] | None = None
    is_required: bool = False

    @property
    def is_secret(self) -> bool:
        return self.mask is hide

    def show(self, value: Any) -> Shown:
        if self.mask is not None and value not in (None, ()):
            return self.mask(value)
        return str(value) if isinstance(value, Path) else value

    def read(self, text: str) -> object:
        """The value that a text stands for; a text that stands for none is left for `check` to refuse."""
        try:
            return self.from_text(text)
        except ValueError:
            return text


def rules_of(record: type) -> Mapping[str, Rule]:
    """The rules of a record's fields, by name and in order."""
    return {each.name: each.metadata["rule"] for each in fields(record) if "rule" in each.metadata}


def refusals(record: Any, *, prefix: str = "", origin: Callable[[str], str] = lambda _: "") -> Iterator[str]:
    """Let each field be what its rule makes of its value, and answer a line for each that is refused.

    A secret that is missing is left to whoever needs it: not every process that reads the settings does.
    """
    for name, rule in rules_of(type(record)).items():
        value = getattr(record, name)
        if value is None and rule.default is None:
            if rule.is_required and not rule.is_secret:
                yield f"{prefix}{name}: is missing; give {rule.allowed}"
            continue
        try:
            object.__setattr__(record, name, rule.check(value))
        except ConfigurationError as error:
            yield from str(error).splitlines()
        except ValueError:
            given = "the value" if rule.mask else f"{value!r:.200}"
            yield f"{prefix}{name}: {given}{origin(name)} is refused; give {rule.allowed}"


def ruled(default: object, **rule: Any) -> Any:
    return field(default=default, metadata={"rule": Rule(default=default, **rule)})


def insist(condition: bool) -> None:
    if not condition:
        raise ValueError


def number(
    default: float | None, low: float, high: float, unit: str, about: str, *, whole: bool = False
) -> Any:
    convert = int if whole else float

    def check(value: Any) -> float:
        insist(isinstance(value, (int, convert)) and not isinstance(value, bool) and low <= value <= high)
        return convert(value)

    ends = (low, high) if whole else (f"{low:.10g}", f"{high:.10g}")
    allowed = f"a {'whole number' if whole else 'number'} from {ends[0]} to {ends[1]}"
    return ruled(default, about=about, allowed=allowed, check=check, from_text=convert, unit=unit)


def whole(default: int, low: int, high: int, unit: str, about: str) -> Any:
    return number(default, low, high, unit, about, whole=True)


def several(default: tuple[object, ...], at_least: int, at_most: int, each: Any, about: str) -> Any:
    one: Rule = each.metadata["rule"]

    def check(value: Any) -> tuple[object, ...]:
        insist(isinstance(value, list | tuple) and at_least <= len(value) <= at_most)
        return tuple(one.check(part) for part in value)

    def from_text(text: str) -> list[object]:
        # A variable that is empty counts as one that is not set, so no values at all need a word.
        if at_least == 0 and text.strip() == "none":
            return []
        return [one.from_text(part.strip()) for part in text.split(",")]

    allowed = f"{at_least} to {at_most} values, each {one.allowed}"
    return ruled(
        default, about=about, allowed=allowed, check=check, from_text=from_text, unit=one.unit, mask=one.mask
    )


def flag(default: bool | None, about: str) -> Any:
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}

    def check(value: Any) -> bool:
        insist(isinstance(value, bool))
        return bool(value)

    def from_text(text: str) -> object:
        return words.get(text.lower(), text)

    return ruled(default, about=about, allowed="true or false", check=check, from_text=from_text)


def choice(default: str | None, names: tuple[str, ...], about: str, *, is_required: bool = False) -> Any:
    def check(value: Any) -> str:
        insist(isinstance(value, str) and value.lower() in names)
        return str(value).lower()

    allowed = "one of " + ", ".join(names)
    return ruled(default, about=about, allowed=allowed, check=check, is_required=is_required)


def text(
    pattern: str,
    allowed: str,
    about: str,
    *,
    default: str | None = None,
    mask: Callable[[str], str] | None = None,
    is_required: bool = False,
    from_text: Callable[[str], str] = str,
) -> Any:
    def check(value: Any) -> str:
        insist(isinstance(value, str) and len(value) <= TEXT_MAX)
        insist(re.fullmatch(pattern, value, re.ASCII) is not None)
        return str(value)

    return ruled(
        default,
        about=about,
        allowed=allowed,
        check=check,
        mask=mask,
        is_required=is_required,
        from_text=from_text,
    )


def nothing_if_none(text: str) -> str:
    """A variable that is empty counts as one that is not set, so no text at all needs a word."""
    return "" if text.strip() == "none" else text


def folder(about: str) -> Any:
    def check(value: Any) -> Path:
        insist(isinstance(value, str | Path) and 0 < len(str(value)) <= TEXT_MAX and "\0" not in str(value))
        try:
            return Path(value).expanduser()
        except RuntimeError as error:
            raise ValueError from error

    return ruled(None, about=about, allowed="the path of a folder", check=check)


def network(about: str) -> Any:
    def check(value: Any) -> str:
        insist(isinstance(value, str))
        return str(ip_network(value))

    return ruled(None, about=about, allowed="a network such as 10.20.0.0/16", check=check)


_HOST = r"(?:\[[0-9A-Fa-f:.]+\]|[^\s:@/?#,\[\]]*)(?::\d{1,5})?"
_PAIR = r"[^\s#&=%]+=[^\s#&]*"
_URL = (
    r"(?P<scheme>postgres(?:ql)?)://(?:(?P<user>[^\s:@/?#]*)(?P<password>:[^\s@/?#]*)?@)?"
    rf"(?P<hosts>{_HOST}(?:,{_HOST})*)(?P<path>/[^\s@?#]*)?(?:\?(?P<query>{_PAIR}(?:&{_PAIR})*))?"
)


def mask_url(url: str) -> str:
    """The URL of a database as it may be shown; one that cannot be taken apart is hidden as a whole."""
    match = re.fullmatch(_URL, url, re.ASCII)
    if match is None:
        return HIDDEN
    scheme, user, password, hosts, path, query = match.groups()
    login = "" if user is None else f"{user}:{HIDDEN}@" if password else f"{user}@"
    options = re.sub(r"(?i)(password[^&=]*=)[^&]*", rf"\1{HIDDEN}", query or "")
    return f"{scheme}://{login}{hosts}{path or ''}" + (f"?{options}" if options else "")


def database_url(about: str) -> Any:
    shape = "a URL such as postgresql://user:password@host:5432/database, without +driver"
    return text(_URL, f"{shape}, special characters in the password percent-encoded", about, mask=mask_url)


# Several hosts are those of one cluster. The path is the name of a virtual host, percent-encoded.
BROKER_URL: Final = (
    r"local:|(?P<scheme>amqps?)://(?:(?P<user>[^\s:@/?#]*)(?P<password>:[^\s@/?#]*)?@)?"
    rf"(?P<hosts>{_HOST}(?:,{_HOST})*)(?P<path>/[^\s@/?#]*)?(?:\?(?P<query>{_PAIR}(?:&{_PAIR})*))?"
)


def mask_broker_url(url: str) -> str:
    """The URL of a broker as it may be shown."""
    match = re.fullmatch(BROKER_URL, url, re.ASCII)
    if match is None:
        return HIDDEN
    scheme, user, password, hosts, path, _ = match.groups()
    if scheme is None:
        return url
    login = "" if user is None else f"{user}:{HIDDEN}@" if password else f"{user}@"
    return f"{scheme}://{login}{hosts}{path or ''}"
