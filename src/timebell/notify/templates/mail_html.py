"""HTML mail: made harmless, with its styles where mail programs look for them, and with a text part made from it.

Whatever a template or a value says, what leaves here has no script, no handler, no form, and no link but to http,
https or mailto. What is cleaned is the rendered document, so it does not matter into which attribute a value was put.
"""

from __future__ import annotations

import re
from collections import Counter
from html import escape, unescape

import nh3
from css_inline import CSSInliner, InlineError

HTML_CHARS_MAX = 200_000
ELEMENTS_MAX = 2_000
# The inliner calls itself for each level of nesting and would take the process down with it; mail of people has few.
DEPTH_MAX = 100
CSS_CHARS_MAX = 20_000
# For each element the inliner compares every declaration with every other, and may write all of them down.
STYLE_WORK_MAX = 60_000_000
STYLE_CHARS_MAX = 5_000_000
# Formatting that is not closed begins anew in every paragraph, and the cleaner writes all of it down.
FORMATTING_MAX = 80_000

_TAGS = {
    *("a", "abbr", "b", "blockquote", "br", "center", "code", "dd", "div", "dl", "dt", "em", "font"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "img", "li", "ol", "p", "pre", "s", "small", "span"),
    *("strong", "sub", "sup", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "u", "ul"),
}
_EVERYWHERE = {"align", "bgcolor", "dir", "height", "lang", "role", "style", "title", "valign", "width"}
_ATTRIBUTES = {
    "*": _EVERYWHERE,
    "a": {"href"},
    "font": {"color", "face", "size"},
    "img": {"alt", "border", "src"},
    "ol": {"start"},
    "table": {"border", "cellpadding", "cellspacing"},
    "td": {"colspan", "rowspan"},
    "th": {"colspan", "rowspan"},
}
# Nothing that can name an address, or be laid over what stands elsewhere.
_PROPERTIES = {
    *("background-color", "border", "border-bottom", "border-collapse", "border-color", "border-left"),
    *("border-radius", "border-right", "border-spacing", "border-style", "border-top", "border-width"),
    *("color", "direction", "display", "font", "font-family", "font-size", "font-style", "font-variant"),
    *("font-weight", "height", "letter-spacing", "line-height", "margin", "margin-bottom", "margin-left"),
    *("margin-right", "margin-top", "max-width", "min-width", "padding", "padding-bottom"),
    *("padding-left", "padding-right", "padding-top", "table-layout", "text-align", "text-decoration"),
    *("text-indent", "text-transform", "vertical-align", "white-space", "width", "word-break"),
}


# The only functions in a style; everything else in parentheses names an address or computes something.
_STYLE_FUNCTION = re.compile(r"\b(?:rgba?|hsla?)\([0-9.,%/ ]*\)", re.IGNORECASE)


def _plain_style(tag: str, attribute: str, value: str) -> str | None:
    """Properties are filtered by name, so what a property says is looked at here."""
    if attribute != "style":
        return value
    rest = _STYLE_FUNCTION.sub("", value)
    return None if "(" in rest or "\\" in rest else value


def _cleaner(*extra: str) -> nh3.Cleaner:
    return nh3.Cleaner(
        tags=_TAGS,
        attributes=_ATTRIBUTES | {"*": _EVERYWHERE | set(extra)},
        clean_content_tags={"script", "style", "title"},
        filter_style_properties=_PROPERTIES,
        attribute_filter=_plain_style,
        url_schemes={"http", "https", "mailto"},
        url_relative="deny",
        link_rel=None,
    )


_CLEANER = _cleaner()
_CLEANER_BEFORE_INLINING = _cleaner("class", "id")
_INLINER = CSSInliner(load_remote_stylesheets=False)
_STYLE_BEGINS = re.compile(r"<style\b[^>]{0,200}>", re.IGNORECASE)
_STYLE_ENDS = re.compile(r"</style\b[^>]{0,200}>", re.IGNORECASE)
_OPENING = re.compile(r"<[A-Za-z]")
# Some tags with what is plainly theirs; of others only the beginning.
_FORMATTING = re.compile(
    r"<(?:b|big|code|em|font|i|nobr|s|small|strike|strong|tt|u)(?=[\s/>])"
    r"((?:\s+[a-z-]+=(?:\"[^\"<>]*\"|'[^'<>]*'|[\w#%.-]+))*\s*>)?",
    re.IGNORECASE | re.ASCII,
)
# What the cleaner wrote: lower case, every value in double quotes, and a closing tag for each opening one.
_TAG = re.compile(r'<(/?)([a-z0-9]+)((?:[^>"]++|"[^"]*+")*+)>')
_ATTRIBUTE = re.compile(r'([a-z-]+)="([^"]*)"')
_VOID = frozenset({"br", "hr", "img"})


class MailTooLarge(Exception):
    """The HTML of a mail is over a limit; the text says which."""


def mail_parts(source: str, language: str) -> tuple[str, str]:
    """The HTML part, a whole document, and the text part that says the same."""
    if len(source) > HTML_CHARS_MAX:
        raise MailTooLarge(f"the HTML has {len(source)} characters; the limit is {HTML_CHARS_MAX}")
    elements = len(_OPENING.findall(source))
    if elements > ELEMENTS_MAX:
        raise MailTooLarge(f"the HTML has {elements} elements; the limit is {ELEMENTS_MAX}")
    if _formatting_of(source) * elements > FORMATTING_MAX:
        raise MailTooLarge(f"the HTML formats {elements} elements in too many ways; use styles, or fewer")
    rest, css = _without_styles(source)
    body = _bounded(_inlined(rest, css) if css else _CLEANER.clean(rest))
    html = (
        f'<!doctype html>\n<html lang="{escape(language)}"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width"></head><body>{body}</body></html>\n'
    )
    return html, _TextWriter().text_of(body)


def _without_styles(source: str) -> tuple[str, str]:
    """The document without its style sheets, and these. One that never ends is left for the cleaner to drop."""
    rest: list[str] = []
    styles: list[str] = []
    position = 0
    while begin := _STYLE_BEGINS.search(source, position):
        end = _STYLE_ENDS.search(source, begin.end())
        if end is None:
            break
        rest.append(source[position : begin.start()])
        styles.append(source[begin.end() : end.start()])
        position = end.end()
    return "".join([*rest, source[position:]]), "\n".join(styles)


def _formatting_of(source: str) -> int:
    """How many formatting elements can be open at once: a parser keeps three of those that are alike."""
    found = Counter(tag[0] if tag[1] else tag.start() for tag in _FORMATTING.finditer(source))
    return sum(min(count, 3) for count in found.values())


def _bounded(made: str) -> str:
    if len(made) > HTML_CHARS_MAX:
        raise MailTooLarge(
            f"the HTML has {len(made)} characters when its tags are closed and its styles are put in; "
            f"the limit is {HTML_CHARS_MAX}"
        )
    return made


def _inlined(source: str, css: str) -> str:
    clean = _bounded(_CLEANER_BEFORE_INLINING.clean(source))
    pieces = css.count("{") + css.count(",") + css.count(";")
    elements = len(_OPENING.findall(clean))
    is_too_much = elements * pieces * pieces > STYLE_WORK_MAX or elements * len(css) > STYLE_CHARS_MAX
    if len(css) > CSS_CHARS_MAX or is_too_much:
        raise MailTooLarge(f"{pieces} styles for {elements} elements are too many; use fewer rules")
    if _depth(clean) > DEPTH_MAX:
        raise MailTooLarge(f"the HTML is nested deeper than {DEPTH_MAX}; close its tags, or nest less")
    try:
        return _CLEANER.clean(_bounded(_INLINER.inline_fragment(clean, css)))
    except InlineError as error:
        raise MailTooLarge(f"the styles cannot be read: {error}") from None


def _depth(clean: str) -> int:
    depth = deepest = 0
    for closing, name, _ in _TAG.findall(clean):
        if closing:
            depth -= 1
        elif name not in _VOID:
            depth += 1
            deepest = max(deepest, depth)
    return deepest


_BREAKS = dict.fromkeys(("br", "dd", "div", "dt", "li", "tr"), "\n")
_BREAKS |= dict.fromkeys(("blockquote", "dl", "h1", "h2", "h3", "h4", "h5", "h6"), "\n\n")
_BREAKS |= dict.fromkeys(("hr", "ol", "p", "pre", "table", "ul"), "\n\n")
_WHITESPACE = re.compile(r"[ \t\r\n\f]+")
_AROUND_BREAKS = re.compile(r" *\n *")
_MANY_BREAKS = re.compile(r"\n{3,}")
_MANY_SPACES = re.compile(r" {2,}")


class _TextWriter:
    """Makes a text of what the cleaner wrote, in which every tag is known and closed."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._links: list[tuple[str, int]] = []
        self._lists: list[int | None] = []

    def text_of(self, clean: str) -> str:
        position = 0
        for tag in _TAG.finditer(clean):
            self._say(clean[position : tag.start()])
            closing, name, attributes = tag.groups()
            self._pieces.append(_BREAKS.get(name, ""))
            if closing:
                self._end(name)
            else:
                self._begin(name, attributes)
            position = tag.end()
        self._say(clean[position:])
        text = _MANY_SPACES.sub(" ", "".join(self._pieces))
        return _MANY_BREAKS.sub("\n\n", _AROUND_BREAKS.sub("\n", text)).strip()

    def _say(self, data: str) -> None:
        if data:
            self._pieces.append(_WHITESPACE.sub(" ", unescape(data)))

    def _begin(self, name: str, attributes: str) -> None:
        if name == "a":
            self._links.append((_value_of("href", attributes), len(self._pieces)))
        elif name in ("ol", "ul"):
            self._lists.append(1 if name == "ol" else None)
        elif name == "li":
            self._pieces.append(self._bullet())
        elif name == "hr":
            self._pieces.append("---\n\n")
        elif name in ("td", "th"):
            self._pieces.append(" ")
        elif name == "img":
            self._pieces.append(_value_of("alt", attributes))

    def _end(self, name: str) -> None:
        if name == "a" and self._links:
            address, begin = self._links.pop()
            shown = "".join(self._pieces[begin:]).strip()
            address = address.removeprefix("mailto:")
            if address and address != shown:
                self._pieces.append(f" ({address})" if shown else address)
        elif name in ("ol", "ul") and self._lists:
            self._lists.pop()

    def _bullet(self) -> str:
        number = self._lists[-1] if self._lists else None
        if number is None:
            return "- "
        self._lists[-1] = number + 1
        return f"{number}. "


def _value_of(name: str, attributes: str) -> str:
    return next((unescape(value) for each, value in _ATTRIBUTE.findall(attributes) if each == name), "")
