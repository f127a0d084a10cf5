"""Template filters: what a template may do with a value. A short list, each filter with a bound on what it can make.

Python-liquid brings more, among them some with which forty characters ask for gigabytes. None of them is registered.
Values stay plain texts throughout, so that in HTML mail all that came from outside is escaped when it is put out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Final, Literal, cast
from urllib.parse import quote

from babel import Locale, dates, numbers
from liquid import Markup
from liquid import escape as escape_html
from liquid.exceptions import FilterArgumentError
from liquid.undefined import Undefined

from timebell.errors import TimebellError
from timebell.rules.localtime import zone

if TYPE_CHECKING:
    from timebell.notify.templates.rendering import RenderingContext

VALUE_CHARS_MAX = 100_000
_DIGITS_MAX = 15
_NUMBER_CHARS_MAX = 40
_STEPS_OF_FORMATTING = 20
# A step is some microseconds: what a filter does to so many letters, or to so many members of a list.
_LETTERS_OF_A_STEP = 4_000
_MEMBERS_OF_A_STEP = 20

Width = Literal["short", "medium", "long", "full"]
Filter = Callable[..., object]


def refusal(message: str) -> FilterArgumentError:
    """What is said is kept with the notification, so it never repeats a value, which may be about a person."""
    return FilterArgumentError(message, token=None)


def text_of(value: object) -> str:
    """A value as text. A list or a mapping has no text that a reader should see."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, date):
        raise refusal("an instant is shown with the filter date, time or datetime")
    raise refusal(f"a {type(value).__name__} cannot be shown; name one of its parts, or loop over it")


def number_of(value: object) -> Decimal:
    given = str(value)
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise refusal(f"a {type(value).__name__} is not a number")
    if len(given) > _NUMBER_CHARS_MAX:
        raise refusal(f"the number has more than {_NUMBER_CHARS_MAX} characters")
    try:
        number = Decimal(given.strip())
    except InvalidOperation:
        raise refusal("the value is not a number; write it like 1234.5") from None
    if not number.is_finite() or (number and not -_DIGITS_MAX <= number.adjusted() < _DIGITS_MAX):
        raise refusal("the number is out of range")
    return number


def _whole(value: object, low: int, high: int) -> int:
    number = number_of(value)
    if number != number.to_integral_value() or not low <= number <= high:
        raise refusal(f"must be a whole number from {low} to {high}")
    return int(number)


def _bounded(length: int) -> None:
    if length > VALUE_CHARS_MAX:
        raise refusal(f"a value would have {length} characters; the limit is {VALUE_CHARS_MAX}")


def _append(value: object, more: object) -> str:
    left, right = text_of(value), text_of(more)
    _bounded(len(left) + len(right))
    return left + right


def _prepend(value: object, more: object) -> str:
    return _append(more, value)


def _replace(value: object, old: object, new: object = "") -> str:
    text, sought, put = text_of(value), text_of(old), text_of(new)
    if not sought:
        return text
    _bounded(len(text) + text.count(sought) * max(0, len(put) - len(sought)))
    return text.replace(sought, put)


def _join(value: object, between: object = " ") -> str:
    if not isinstance(value, Sequence):
        raise refusal("only a list can be joined")
    if isinstance(value, str):
        return text_of(value)
    put, texts = text_of(between), [text_of(each) for each in value[: VALUE_CHARS_MAX + 1]]
    _bounded(sum(map(len, texts)) + len(put) * len(texts))
    return put.join(texts)


def _truncate(value: object, longest: object = 50, end: object = "…") -> str:
    text, kept, mark = text_of(value), _whole(longest, 1, VALUE_CHARS_MAX), text_of(end)
    return text if len(text) <= kept else text[: max(0, kept - len(mark))].rstrip() + mark


def _default(value: object, other: object = "") -> object:
    is_absent = value is None or value is False or getattr(value, "force_liquid_default", False)
    return other if is_absent or (isinstance(value, str | Sequence | Mapping) and not value) else value


def _size(value: object) -> int:
    if isinstance(value, str | Sequence | Mapping):
        return len(value)
    raise refusal("only a text or a list has a size")


def _end(position: int) -> Filter:
    def first_or_last(value: object) -> object:
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise refusal("only a list has a first and a last")
        return value[position] if value else None

    return first_or_last


def _rounded(value: Decimal, digits: int) -> Decimal:
    return value.quantize(Decimal(1).scaleb(-digits), rounding=ROUND_HALF_UP)


def _round(value: object, digits: object = 0) -> Decimal:
    return _rounded(number_of(value), _whole(digits, 0, 6))


def _divided_by(value: object, other: object) -> Decimal:
    divisor = number_of(other)
    if not divisor:
        raise refusal("cannot divide by zero")
    quotient = number_of(value) / divisor
    return number_of(
        quotient if quotient == quotient.to_integral_value() else _rounded(quotient, 10).normalize()
    )


def _newline_to_br(value: object, *, context: RenderingContext) -> str:
    if not context.autoescape:
        return text_of(value)
    broken = str(escape_html(text_of(value))).replace("\n", "<br>\n")
    _bounded(len(broken))
    return Markup(broken)


def _escape(value: object, *, context: RenderingContext) -> str:
    """Everything is escaped where it must be; whoever asks for it besides does not get it twice."""
    return escape_html(text_of(value)) if context.autoescape else text_of(value)


def _url_encode(value: object) -> str:
    return quote(text_of(value), safe="")


def _moment(value: object, context: RenderingContext, timezone: object) -> date | datetime:
    """A date, an instant in the reader's or the given timezone, or a wall time, which is shown as it is."""
    moment = value
    if isinstance(value, str) and len(value) <= _NUMBER_CHARS_MAX:
        try:
            moment = date.fromisoformat(value) if len(value) <= 10 else datetime.fromisoformat(value)
        except ValueError:
            moment = None
    if not isinstance(moment, date):
        raise refusal("the value is no date or instant; give it in ISO 8601")
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        return moment
    try:
        return moment.astimezone(zone(context.timezone if timezone is None else text_of(timezone)))
    except TimebellError:
        raise refusal("the timezone is not known; give an IANA name, for example Europe/Berlin") from None
    except OverflowError:
        raise refusal("the instant cannot be shown in the timezone") from None


def _width(value: object) -> Width:
    if value in ("short", "medium", "long", "full"):
        return cast(Width, str(value))
    raise refusal("the width is not short, medium, long or full")


def _date(
    value: object, width: object = "medium", *, timezone: object = None, context: RenderingContext
) -> str:
    moment = _moment(value, context, timezone)
    day = moment.date() if isinstance(moment, datetime) else moment
    return _shown_date(day, _width(width), context.locale)


@lru_cache(maxsize=2_000)
def _shown_date(day: date, width: Width, locale: Locale) -> str:
    """Those who are told something at the same time mostly read the same date."""
    return dates.format_date(day, width, locale=locale)


def _weekday(value: object, *, timezone: object = None, context: RenderingContext) -> str:
    return dates.format_date(_moment(value, context, timezone), "EEEE", locale=context.locale)


def _time(
    value: object, width: object = "short", *, timezone: object = None, context: RenderingContext
) -> str:
    moment = _moment(value, context, timezone)
    if not isinstance(moment, datetime):
        raise refusal("a date has no time; give an instant")
    if _width(width) == "short":
        return _shown_minute(time(moment.hour, moment.minute), context.locale)
    if moment.tzinfo is None:
        # It is no instant, so no zone may be named with it, as the longer forms do.
        return dates.format_time(moment.replace(tzinfo=UTC), "medium", tzinfo=UTC, locale=context.locale)
    return dates.format_time(moment, _width(width), tzinfo=moment.tzinfo, locale=context.locale)


@lru_cache(maxsize=5_000)
def _shown_minute(minute: time, locale: Locale) -> str:
    return dates.format_time(minute, "short", locale=locale)


def _datetime(
    value: object, width: object = "medium", *, timezone: object = None, context: RenderingContext
) -> str:
    """The date in the given width and the time to the minute, put together as the language does."""
    pattern = str(dates.get_datetime_format(_width(width), locale=context.locale)).replace("'", "")
    parts = {
        "{0}": _time(value, timezone=timezone, context=context),
        "{1}": _date(value, width, timezone=timezone, context=context),
    }
    return pattern.replace("{1}", parts["{1}"]).replace("{0}", parts["{0}"])


def _timezone_name(value: object, *, timezone: object = None, context: RenderingContext) -> str:
    moment = _moment(value, context, timezone)
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise refusal("only an instant is shown in a timezone")
    return dates.get_timezone_name(moment, width="short", locale=context.locale)


def _number(value: object, digits: object = None, *, context: RenderingContext) -> str:
    number = number_of(value)
    if digits is None:
        return numbers.format_decimal(number, locale=context.locale)
    places = _whole(digits, 0, 6)
    pattern = f"#,##0.{'0' * places}" if places else "#,##0"
    return numbers.format_decimal(_rounded(number, places), format=pattern, locale=context.locale)


def _percent(value: object, *, context: RenderingContext) -> str:
    return numbers.format_percent(number_of(value), locale=context.locale)


def _currency(value: object, code: object, *, context: RenderingContext) -> str:
    currency = text_of(code)
    if not (len(currency) == 3 and currency.isascii() and currency.isupper()):
        raise refusal("the code is not a currency; give its three letters, for example EUR")
    return numbers.format_currency(number_of(value), currency, locale=context.locale)


def _steps_for(value: object) -> int:
    if isinstance(value, str):
        return len(value) // _LETTERS_OF_A_STEP
    return len(value) // _MEMBERS_OF_A_STEP if isinstance(value, Sequence) else 0


def _checked(function: Filter, *, with_context: bool = False, steps: int = 0) -> Filter:
    """A filter that is never given what is missing, and that makes nothing too large."""

    @wraps(function)
    def run(*given: object, context: RenderingContext, **named: object) -> object:
        for value in (*given, *named.values()):
            if isinstance(value, Undefined):
                str(value)
        context.spend(steps + sum(map(_steps_for, given)))
        made = function(*given, context=context, **named) if with_context else function(*given, **named)
        if isinstance(made, str):
            _bounded(len(made))
        return number_of(made) if isinstance(made, Decimal) else made

    run.with_context = True  # type: ignore[attr-defined]
    return run


_PLAIN: Final[dict[str, Filter]] = {
    "append": _append,
    "capitalize": lambda value: text_of(value)[:1].upper() + text_of(value)[1:],
    "divided_by": _divided_by,
    "downcase": lambda value: text_of(value).lower(),
    "first": _end(0),
    "join": _join,
    "last": _end(-1),
    "minus": lambda value, other: number_of(value) - number_of(other),
    "plus": lambda value, other: number_of(value) + number_of(other),
    "prepend": _prepend,
    "replace": _replace,
    "round": _round,
    "size": _size,
    "strip": lambda value: text_of(value).strip(),
    "times": lambda value, other: number_of(value) * number_of(other),
    "truncate": _truncate,
    "upcase": lambda value: text_of(value).upper(),
    "url_encode": _url_encode,
}
_IN_CONTEXT: Final[dict[str, Filter]] = {"escape": _escape, "newline_to_br": _newline_to_br}
_FORMATTING: Final[dict[str, Filter]] = {
    "currency": _currency,
    "date": _date,
    "datetime": _datetime,
    "number": _number,
    "percent": _percent,
    "time": _time,
    "timezone_name": _timezone_name,
    "weekday": _weekday,
}
FILTERS: Final[dict[str, Filter]] = {
    "default": _default,
    **{name: _checked(each) for name, each in _PLAIN.items()},
    **{name: _checked(each, with_context=True) for name, each in _IN_CONTEXT.items()},
    **{
        name: _checked(each, with_context=True, steps=_STEPS_OF_FORMATTING)
        for name, each in _FORMATTING.items()
    },
}
