"""`/u/{token}`: the way out that a message carries (RFC 8058). Reading the page changes nothing; the button does.

It needs no script and no other file, and it says nothing about who reads it: whoever has the mail has the link.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from timebell.db.walls import walled_to
from timebell.errors import ConfigurationError, InvalidInput, NotFound
from timebell.notify.people.unsubscribing import PATH, WayOut
from timebell.web.operation.bodies import read_bytes
from timebell.web.operation.pages import page
from timebell.web.operation.problems import Problem
from timebell.web.operation.routes import Route
from timebell.web.operation.surface import Surface

_FORM_BYTES_MAX: Final = 10_000
_ON: Final = {"email": "by email", "sms": "by SMS", "whatsapp": "on WhatsApp", "push": "by push message"}
_BUTTON: Final = (
    '<form method="post"><input type="hidden" name="List-Unsubscribe" value="One-Click">'
    "<button>Unsubscribe</button></form>"
)


async def show_way_out(surface: Surface, request: Request) -> Response:
    """A page that asks whether the reader wants no more of this. It only asks: robots follow every link in a mail."""
    way = _way_of(surface, request)
    if way is None:
        return _no_such_link(request)
    return page("Unsubscribe?", f"You would no longer get {_what(way)}.", _BUTTON)


async def unsubscribe(surface: Surface, request: Request) -> Response:
    """Opt out, as the link says: by the button of the page, or by a mail program in one click. Twice is no harm."""
    way = _way_of(surface, request)
    if way is None:
        return _no_such_link(request)
    # The link says all there is to say; what is sent along is read, so that the connection can go on, and not minded.
    await read_bytes(request, _FORM_BYTES_MAX)
    with walled_to(way.tenant):
        async with surface.bell.transaction(tenant=way.tenant) as tx:
            # Whoever was erased is told nothing any more.
            with suppress(NotFound):
                await surface.notify.unsubscribing.unsubscribe(tx, request.path_params["token"])
    return page("Unsubscribed", f"You will no longer get {_what(way)}.")


def _way_of(surface: Surface, request: Request) -> WayOut | None:
    try:
        return surface.notify.unsubscribing.read(request.path_params["token"])
    except InvalidInput:
        return None
    except ConfigurationError:
        raise Problem(
            503, "secret_key_missing", "secret_key is not set on this server; links cannot be read"
        ) from None


def _what(way: WayOut) -> str:
    about = "any messages" if way.topic is None else f"messages about “{way.topic}”"
    return f"{about} {_ON.get(way.channel, way.channel)}"


def _no_such_link(request: Request) -> Response:
    detail = "the link is not one of ours, or was cut; follow it as the message has it"
    if "text/html" not in request.headers.get("accept", ""):
        raise Problem(404, "not_found", detail)
    return page(
        "This link does not work", "It may have been cut. Follow it as the message has it.", status=404
    )


_TAG: Final = "unsubscribing"

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        method="GET",
        path=f"{PATH}{{token}}",
        run=show_way_out,
        summary="Ask whether to unsubscribe",
        tag=_TAG,
        scope=None,
        media_type="text/html",
    ),
    Route(
        method="POST",
        path=f"{PATH}{{token}}",
        run=unsubscribe,
        summary="Unsubscribe",
        tag=_TAG,
        scope=None,
        media_type="text/html",
        problems={408: "The body did not come in time.", 413: "The body is too large."},
    ),
)
