"""A page for people at the end of a link. It needs no script and no other file, and tells nobody who reads it."""

from __future__ import annotations

from html import escape
from typing import Final

from starlette.responses import HTMLResponse, Response

_HEADERS: Final = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-robots-tag": "noindex",
}
_PAGE: Final = """<!doctype html>
<html lang="{language}"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>body{{font:1.1rem/1.5 system-ui,sans-serif;max-width:32rem;margin:15vh auto;padding:0 1rem}}
button,textarea{{font:inherit;padding:.6rem 1.2rem}}textarea{{box-sizing:border-box;width:100%}}
fieldset{{border:0;margin:1rem 0;padding:0}}label{{display:block;padding:.3rem 0}}</style></head>
<body><main><h1>{title}</h1><p>{text}</p>{more}</main></body></html>
"""


def page(title: str, text: str, more: str = "", *, status: int = 200, language: str = "en") -> Response:
    """The page; `title` and `text` are plain, and `more` is HTML."""
    content = _PAGE.format(language=language, title=escape(title), text=escape(text), more=more)
    return HTMLResponse(content, status_code=status, headers=_HEADERS)
