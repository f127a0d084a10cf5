"""Which addresses of the internet protocol lie outside, so that a call to a stranger's URL may go there.

What is not plainly public is inside: better to refuse a rare public address than to reach one private one. Addresses
that carry another address within themselves are as safe as what they carry.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

Network = IPv4Network | IPv6Network

# Special by the registries of IANA or by custom, although the standard library calls (some of) them global.
INSIDE: Final[tuple[Network, ...]] = (
    ip_network("192.0.0.0/24"),  # protocol assignments
    ip_network("192.88.99.0/24"),  # relays of 6to4
    ip_network("168.63.129.16/32"),  # the metadata of one large cloud, in its public range
    ip_network("fec0::/10"),  # what was site-local
    ip_network("3fff::/20"),  # documentation
    ip_network("5f00::/16"),  # segment routing
    ip_network("64:ff9b:1::/48"),  # translation within one network
    ip_network("2001::/23"),  # protocol assignments, tunnels among them
    ip_network("2002::/16"),  # tunnels of 6to4
)
_TRANSLATED = ip_network("64:ff9b::/96")
_COMPATIBLE = ip_network("::/96")


def is_outside(address: str, *, allowed: Sequence[Network] = ()) -> bool:
    """Whether a call may go to this address: it is public, or in a network that was allowed by name."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    return _is_in(parsed, allowed) or _is_public(parsed)


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            return False
        carried = _carried(address)
        if carried is not None:
            return _is_public(carried)
    return address.is_global and not (
        address.is_multicast
        or address.is_reserved
        or address.is_loopback
        or address.is_link_local
        or address.is_unspecified
        or _is_in(address, INSIDE)
    )


def _carried(address: IPv6Address) -> IPv4Address | None:
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _TRANSLATED or address in _COMPATIBLE:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return None


def _is_in(address: IPv4Address | IPv6Address, networks: Sequence[Network]) -> bool:
    return any(address in network for network in networks)
