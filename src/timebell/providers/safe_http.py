"""Calls to URLs that strangers gave, which never lead inside.

The name is resolved once, every address that it stands for is checked, and the connection goes to one that was checked,
so that a name which changes its mind in between gains nothing. One that hangs holds up its own tenant alone. The host's
name still stands in the request and in the TLS handshake. Redirects are not followed, since each would be a new URL of
the stranger's choice.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import httpx2

from timebell.errors import UnsafeUrl
from timebell.kernel.look_ups import LookUps
from timebell.providers.http import TENANT, HttpCaller, plain_transport
from timebell.providers.safe_addresses import Network, is_outside

URL_LENGTH_MAX: Final = 2_000
ADDRESSES_MAX: Final = 64
ADDRESSES_TRIED_MAX: Final = 4

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

_UNSEEN = re.compile(r"[\x00-\x20\x7f-\x9f\u2028\u2029\\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Where calls may go beyond what is public and encrypted: for a network of one's own, and for development."""

    ports: frozenset[int] = frozenset({443, 8443})
    networks: tuple[Network, ...] = ()
    is_plain_allowed: bool = False


PUBLIC: Final = Reach()


def check_url(url: str, reach: Reach = PUBLIC) -> httpx2.URL:
    """The URL, or UnsafeUrl with what is wrong with it. Where its name leads is asked when it is called."""
    if len(url) > URL_LENGTH_MAX:
        raise UnsafeUrl(f"is longer than {URL_LENGTH_MAX} characters; give a shorter one", field="url")
    if _UNSEEN.search(url):
        raise UnsafeUrl("has a space, a backslash or a control character; encode it with %", field="url")
    try:
        parsed = httpx2.URL(url)
    except httpx2.InvalidURL as error:
        raise UnsafeUrl("is not a URL; give one such as https://example.com/hook", field="url") from error
    if parsed.scheme != "https" and not (parsed.scheme == "http" and reach.is_plain_allowed):
        raise UnsafeUrl(f"has the scheme {parsed.scheme!r}; give one with https", field="url")
    if parsed.userinfo:
        raise UnsafeUrl("carries a user or a password; leave it out", field="url")
    if not parsed.host or "%" in parsed.host:
        raise UnsafeUrl(
            "has no host, or one of a single network; give the name of a public host", field="url"
        )
    if _port(parsed) not in reach.ports:
        allowed = ", ".join(str(port) for port in sorted(reach.ports))
        raise UnsafeUrl(f"has the port {_port(parsed)}; give one of {allowed}", field="url")
    return parsed


class SafeTransport(httpx2.AsyncBaseTransport):
    """Checks where a request would go, and connects there and nowhere else.

    Connections are not kept: two names may share an address, and what was encrypted for one must not serve the other.
    """

    def __init__(
        self,
        *,
        reach: Reach = PUBLIC,
        resolve: Resolve | None = None,
        look_ups: LookUps | None = None,
        verify: ssl.SSLContext | None = None,
    ) -> None:
        self._reach = reach
        self._resolve = resolve
        self._own = LookUps() if look_ups is None and resolve is None else None
        self._look_ups = look_ups or self._own
        self._inner = plain_transport(verify, keeps=False)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        url = check_url(str(request.url), self._reach)
        failure: httpx2.TransportError | None = None
        for address in (await self._addresses(url, request))[:ADDRESSES_TRIED_MAX]:
            try:
                return await self._inner.handle_async_request(_pinned(request, url, address))
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                failure = error
        raise failure or httpx2.ConnectError("the host has no address", request=request)

    async def aclose(self) -> None:
        await self._inner.aclose()
        if self._own is not None:
            self._own.close()

    async def _addresses(self, url: httpx2.URL, request: httpx2.Request) -> Sequence[str]:
        try:
            addresses = await self._ask(url, request)
        except (OSError, UnicodeError) as error:
            raise httpx2.ConnectError("the host's name cannot be resolved", request=request) from error
        inside = [it for it in addresses if not is_outside(it, allowed=self._reach.networks)]
        if inside or len(addresses) > ADDRESSES_MAX:
            raise UnsafeUrl(
                "leads to an address that is not public; give the URL of a public host", field="url"
            )
        return addresses

    async def _ask(self, url: httpx2.URL, request: httpx2.Request) -> Sequence[str]:
        host = url.raw_host.decode("ascii").strip("[]")
        if self._resolve is not None:
            return await self._resolve(host, _port(url))
        assert self._look_ups is not None
        return await self._look_ups(request.extensions.get(TENANT, ""), host)


def safe_caller(
    *,
    reach: Reach = PUBLIC,
    resolve: Resolve | None = None,
    look_ups: LookUps | None = None,
    verify: ssl.SSLContext | None = None,
) -> HttpCaller:
    """For every call whose URL is a stranger's: webhooks, push endpoints, feeds.

    Names are asked for with `look_ups`, which several callers may share; without them, with some of its own.
    """
    make = partial(SafeTransport, reach=reach, resolve=resolve, look_ups=look_ups, verify=verify)
    return HttpCaller(make_transport=make)


def _port(url: httpx2.URL) -> int:
    return url.port if url.port is not None else 443 if url.scheme == "https" else 80


def _pinned(request: httpx2.Request, url: httpx2.URL, address: str) -> httpx2.Request:
    """The same request to an address: what the server and its certificate are called stays the host's name."""
    return httpx2.Request(
        request.method,
        url.copy_with(host=address),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": url.raw_host.decode("ascii").strip("[]")},
    )
