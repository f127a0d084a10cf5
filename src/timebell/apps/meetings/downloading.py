"""A calendar at a stranger's URL: bounded in time and size, and never from inside.

What calls is imported when there is something to call, so that a process which never does has none of it.
"""

from __future__ import annotations

from datetime import timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from timebell.errors import UnsafeUrl
from timebell.kernel import Timebell
from timebell.rules.ics_reading import TEXT_CHARS_MAX

if TYPE_CHECKING:
    from timebell.providers.safe_http import Reach

# Where a calendar may lie beyond what is public.
REACH: Reach | None = None
_SECONDS: Final = 20
_BYTES_MAX: Final = 4 * TEXT_CHARS_MAX
_WEBCAL: Final = "webcal://"


class Unread(Exception):
    """There is nothing to read, for a reason out of a closed list."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def check_feed_url(url: str) -> tuple[str, str]:
    """The URL as it is called, and its host. What is plainly inside is refused here, the rest when it is called."""
    from timebell.providers.safe_http import PUBLIC, check_url

    if url.lower().startswith(_WEBCAL):
        url = f"https://{url[len(_WEBCAL) :]}"
    parsed = check_url(url, REACH or PUBLIC)
    if not _may_be_outside(parsed.host):
        raise UnsafeUrl("leads to an address that is not public; give the URL of a public host", field="url")
    return url, parsed.host


def _may_be_outside(host: str) -> bool:
    from timebell.providers.safe_addresses import is_outside

    try:
        ip_address(host.strip("[]"))
    except ValueError:
        is_local = host.lower() == "localhost" or host.lower().endswith(".localhost")
        return REACH is not None or not is_local
    return is_outside(host.strip("[]"), allowed=() if REACH is None else REACH.networks)


async def download(bell: Timebell, tenant: str, url: str) -> str:
    """What lies there. Redirects are not followed: each would be a new URL of a stranger's choice."""
    from timebell.providers.http import NoReply
    from timebell.providers.safe_http import PUBLIC, safe_caller

    caller = safe_caller(reach=REACH or PUBLIC, look_ups=bell.look_ups)
    try:
        reply = await caller.call(
            "GET",
            url,
            tenant=tenant,
            timeout=timedelta(seconds=_SECONDS),
            headers={"accept": "text/calendar"},
            body_bytes_max=_BYTES_MAX,
        )
    finally:
        await caller.close()
    if isinstance(reply, NoReply):
        raise Unread(reply.reason)
    if 300 <= reply.status <= 399:
        raise Unread("redirected")
    if not reply.is_success:
        raise Unread("gone" if reply.status in (404, 410) else "refused")
    if reply.is_cut:
        raise Unread("too_large" if len(reply.body) >= _BYTES_MAX else "closed")
    return reply.body.decode("utf-8", "replace").replace("\0", "")
