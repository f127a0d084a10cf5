"""Rendering the texts of strangers: Liquid, with bounds on everything that a text can ask for.

A template is a program that somebody else wrote. It sees the values that it is given and nothing behind them, it has a
short list of tags and filters, and every node, value and filter costs a step of a budget that both ends it in time and
is the same on every machine; the time itself is the second bound. What is missing is never shown as a blank: it ends
the rendering with its name.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TextIO

from babel import Locale
from liquid import BoundTemplate, Environment, Markup, Mode, RenderContext, Token
from liquid import escape as escape_html
from liquid.builtin import content, illegal, output
from liquid.builtin.tags import (
    assign_tag,
    case_tag,
    comment_tag,
    for_tag,
    if_tag,
    inline_comment_tag,
    unless_tag,
)
from liquid.exceptions import LiquidError, LiquidInterrupt, ResourceLimitError, UndefinedError
from liquid.output import LimitedStringIO
from liquid.undefined import FalsyStrictUndefined
from liquid.utils import ReadOnlyChainMap

from timebell.notify.templates.filters import FILTERS, text_of

STEPS_MAX = 20_000
CPU_SECONDS_MAX = 0.1
# As long as one may hold up everything else that the process does.
BRIEF_SECONDS_MAX = 0.003
OUTPUT_BYTES_MAX = 200_000
ASSIGNED_CHARS_MAX = 500_000
MARK_CHARS_MAX = 500
_STEPS_BETWEEN_LOOKS = 64

_TAGS = (
    *(content.Literal, output.Output, illegal.Illegal, if_tag.IfTag, unless_tag.UnlessTag, case_tag.CaseTag),
    *(for_tag.ForTag, for_tag.BreakTag, for_tag.ContinueTag, assign_tag.AssignTag, comment_tag.CommentTag),
    inline_comment_tag.InlineCommentTag,
)
TAG_NAMES: Final = frozenset(
    {
        *(
            "assign",
            "break",
            "case",
            "comment",
            "continue",
            "else",
            "elsif",
            "endcase",
            "endcomment",
            "endfor",
        ),
        *("endif", "endunless", "for", "if", "unless", "when", "#"),
    }
)
_MARK = re.compile(r"\{[{%]")
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
_NAME = re.compile(r"[A-Za-z_]\w{0,60}", re.ASCII)
_TAG_NAME = re.compile(r"-?\s*(#|\w*)")


class UnreadableText(Exception):
    """A text is no Liquid that we take; the message says what is wrong with it."""


class Missing(Exception):
    """The text speaks of a variable that was not given."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class Failed(Exception):
    """The text could not be rendered within its limits, or asked for something that cannot be done."""


class NotBrief(Exception):
    """The text takes longer than a turn of the loop may; it is rendered elsewhere, from its beginning."""


class _Absent(FalsyStrictUndefined):
    """What was not given: false when asked about, ready for the filter `default`, and an error when shown."""

    force_liquid_default = True

    def __eq__(self, other: object) -> bool:
        return other is None or other is False or isinstance(other, _Absent)

    __hash__ = None  # type: ignore[assignment]


class RenderingContext(RenderContext):
    """The values that one rendering sees, and what it has spent."""

    __slots__ = ("_assigned_chars", "_began", "_is_brief", "_steps", "locale", "timezone")

    def __init__(
        self,
        template: BoundTemplate,
        *,
        globals: Mapping[str, object],
        locale: Locale,
        timezone: str,
        is_brief: bool = False,
    ) -> None:
        super().__init__(template, globals=globals)
        # Without the wall clock of python-liquid, which it offers under the names `now` and `today`.
        self.scope = ReadOnlyChainMap(self.locals, self.globals)
        self.locale = locale
        self.timezone = timezone
        self._is_brief = is_brief
        self._steps = 0
        self._began: float | None = None
        self._assigned_chars = 0

    def spend(self, steps: int = 1) -> None:
        before, self._steps = self._steps, self._steps + steps
        if self._steps > STEPS_MAX:
            raise ResourceLimitError(f"takes more than {STEPS_MAX} steps", token=None)
        if before // _STEPS_BETWEEN_LOOKS != self._steps // _STEPS_BETWEEN_LOOKS:
            self._look()

    def _look(self) -> None:
        """The time counts from the first look on: most texts are done before it, and asking costs as much as a node."""
        spent = time.thread_time()
        if self._began is None:
            self._began = spent
        if self._is_brief and spent - self._began > BRIEF_SECONDS_MAX:
            raise NotBrief
        if spent - self._began > CPU_SECONDS_MAX:
            raise ResourceLimitError(f"takes longer than {CPU_SECONDS_MAX} seconds", token=None)

    @property
    def disabled_tags(self) -> list[str]:
        """Every node asks for this before it renders itself, so this is where a node is counted."""
        self.spend()
        return []

    @disabled_tags.setter
    def disabled_tags(self, value: object) -> None:
        """No tag is disabled: those that are not wanted do not exist."""

    def get(self, path: list[object], *, token: Token | None, default: object = None) -> object:
        """A value by its path, through mappings and lists alone: nothing has attributes here."""
        self.spend()
        found: object = self.scope
        for segment in path:
            found = _part(found, segment)
            if found is None:
                name = ".".join(
                    each if isinstance(each, str) and _NAME.fullmatch(each) else "*" for each in path
                )
                return _Absent(name, token=token, hint=name)
        return found

    def filter(self, name: str, token: Token | None) -> Any:
        self.spend()
        return super().filter(name, token)

    def assign(self, key: str, val: Any) -> None:
        before = self.locals.get(key)
        self._assigned_chars += len(val) if isinstance(val, str) else 0
        self._assigned_chars -= len(before) if isinstance(before, str) else 0
        if self._assigned_chars > ASSIGNED_CHARS_MAX:
            raise ResourceLimitError(f"assigns more than {ASSIGNED_CHARS_MAX} characters", token=None)
        self.locals[key] = val


def _part(value: object, segment: object) -> object:
    if type(value) is dict and type(segment) is str and (found := value.get(segment)) is not None:
        return found
    if isinstance(value, Mapping | ReadOnlyChainMap):
        try:
            return value[segment]  # type: ignore[index]
        except (KeyError, TypeError):
            return len(value) if segment == "size" and isinstance(value, Mapping) else None
    if isinstance(value, Sequence) and not isinstance(value, str):
        if isinstance(segment, int) and not isinstance(segment, bool):
            return value[segment] if -len(value) <= segment < len(value) else None
        if segment in ("first", "last") and value:
            return value[0 if segment == "first" else -1]
    return len(value) if segment == "size" and isinstance(value, str | Sequence) else None


class _OutputNode(output.OutputNode):
    def render_to_output(self, context: RenderContext, buffer: TextIO) -> int:
        value = self.expression.evaluate(context)
        if isinstance(value, _Absent):
            raise UndefinedError(value.name, token=None)
        if value is None:
            raise UndefinedError(str(self.expression)[:100], token=None)
        text = value if isinstance(value, Markup) else text_of(value)
        return buffer.write(str(escape_html(text)) if context.autoescape else text)


class _Output(output.Output):
    node_class = _OutputNode


class _Environment(Environment):
    """Liquid with our tags and filters only. There is nothing to include from, and no way to mark a value as safe."""

    block_nesting_limit = 20
    undefined = _Absent

    def setup_tags_and_filters(self, *, extra: bool = False) -> None:
        for tag in (*_TAGS, _Output):
            self.add_tag(tag)
        for name, function in FILTERS.items():
            self.add_filter(name, function)


_PLAIN = _Environment(tolerance=Mode.STRICT, undefined=_Absent)
_HTML = _Environment(tolerance=Mode.STRICT, undefined=_Absent, autoescape=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedText:
    """A text that has been read, and the paths of the variables that it speaks of."""

    bound: BoundTemplate
    paths: frozenset[str]


def parse_text(source: str, *, is_html: bool = False) -> ParsedText:
    for mark in marks_of(source):
        _check_mark(mark)
    try:
        bound = (_HTML if is_html else _PLAIN).from_string(source)
        analysis = bound.analyze(include_partials=False)
    except LiquidError as error:
        raise UnreadableText(_message_of(error)) from None
    unknown = sorted(analysis.filters.keys() - FILTERS.keys())
    if unknown:
        raise UnreadableText(f"there is no filter {unknown[0][:40]}; there are {', '.join(sorted(FILTERS))}")
    paths = (_path_of(variable.segments) for each in analysis.globals.values() for variable in each)
    return ParsedText(bound=bound, paths=frozenset(paths))


def marks_of(source: str) -> Iterator[str]:
    """What stands between `{{` or `{%` and its end, each with its beginning. One that never ends is refused here."""
    position = 0
    while begin := _MARK.search(source, position):
        closing = "}}" if begin[0] == "{{" else "%}"
        end = source.find(closing, begin.end(), begin.end() + MARK_CHARS_MAX)
        if end < 0:
            line = source.count("\n", 0, begin.start()) + 1
            raise UnreadableText(
                f"line {line}: {begin[0]} is not closed by {closing} within {MARK_CHARS_MAX} characters"
            )
        yield source[begin.start() : end]
        position = end + 2


def _check_mark(mark: str) -> None:
    name = _TAG_NAME.match(mark, 2)
    if mark.startswith("{%") and name is not None and name[1] not in TAG_NAMES:
        raise UnreadableText(
            f"there is no tag {name[1][:40]!r}; there are {', '.join(sorted(TAG_NAMES - {'#'}))}"
        )
    # A range can have more members than memory has room for, and some tags lay them all out at once.
    if "(" in _QUOTED.sub("", mark):
        raise UnreadableText(f"{mark[:60]}: parentheses are not taken; loop over a list that you pass")


def _path_of(segments: Sequence[object]) -> str:
    names: list[str] = []
    for segment in segments:
        if not isinstance(segment, str) or (names and segment in ("first", "last", "size")):
            break
        names.append(segment)
    return ".".join(names)


def _message_of(error: LiquidError) -> str:
    try:
        context = error.context()
    except ValueError:
        context = None  # The fault is the end of the text, which lies behind its last line.
    where = f"line {context[0]}: " if context else ""
    return f"{where}{str(error.message)[:200]}"


def render_text(
    text: ParsedText, values: Mapping[str, object], *, locale: Locale, timezone: str, is_brief: bool = False
) -> str:
    """The text as a reader gets it. `is_brief`: it raises NotBrief where it takes longer than a turn may."""
    context = RenderingContext(
        text.bound, globals=values, locale=locale, timezone=timezone, is_brief=is_brief
    )
    buffer = LimitedStringIO(limit=OUTPUT_BYTES_MAX)
    try:
        for node in text.bound.nodes:
            node.render(context, buffer)
    except UndefinedError as error:
        raise Missing(str(error.message)) from None
    except LiquidInterrupt as interrupt:
        raise Failed(f"{interrupt} stands outside a loop") from None
    except LiquidError as error:
        raise Failed(_message_of(error)) from None
    except NotBrief:
        raise
    except Exception as error:
        # Whatever a stranger's text brings about is a fault of the text, and no reason to run the job again.
        raise Failed(f"it brought about a {type(error).__name__}") from None
    return buffer.getvalue()
