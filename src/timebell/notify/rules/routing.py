"""Which channels can reach a recipient, and in which order they are tried.

A route has legs. The first leg tells on one channel, the first that works; each of the others tells on exactly the
channel that it names. No channel is in two legs, so nobody is told the same thing twice on one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from timebell.notify.models import Address, AddressKind, Check, Recipient, Route
from timebell.notify.provider import Channel, Provider

FIRST: Final = "first"

# What is tried where the only channel that was named, or the one that is preferred, cannot be used.
_INSTEAD: Final[Mapping[Channel, Sequence[Channel]]] = {"sms": ("email",), "whatsapp": ("sms", "email")}
_KIND: Final[Mapping[Channel, AddressKind]] = {
    "email": "email",
    "sms": "phone",
    "whatsapp": "phone",
    "push": "push",
    "webhook": "webhook",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One channel, and the address to use on it; the inbox needs none."""

    channel: Channel
    address: Address | None = None

    @property
    def value(self) -> str:
        """The address as text, empty for the inbox."""
        return "" if self.address is None else self.address.value

    def detail(self) -> dict[str, str]:
        """What a check says of it: not the address itself, which would then have to be erased from there too."""
        if self.address is None or self.address.id is None:
            return {"channel": self.channel}
        return {"channel": self.channel, "address_id": str(self.address.id)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """The ways to go along one leg of a route, best first, and why the others were left out.

    `name` is `first`, or the channel of a leg that has only that.
    """

    name: str
    candidates: Sequence[Candidate]
    checks: Sequence[Check] = ()


def legs_of(route: Route, recipient: Recipient) -> tuple[Leg, ...]:
    """The legs of a route for one recipient. A leg that only names channels of others is none."""
    also = tuple(dict.fromkeys(route.also))
    first = [channel for channel in _first_channels(route, recipient) if channel not in also]
    legs = [_leg(FIRST, first, recipient)] if first else []
    legs += [_leg(channel, [channel], recipient) for channel in also]
    return tuple(legs)


def channels_for(route: Route, recipient: Recipient) -> tuple[Channel, ...]:
    """The channels that can reach a recipient along the first leg of a route, the one that is tried first first."""
    leg = next((leg for leg in legs_of(route, recipient) if leg.name == FIRST), None)
    return () if leg is None else tuple(dict.fromkeys(each.channel for each in leg.candidates))


def leg_named(channel: Channel, route: Route) -> str:
    """The leg that a delivery on a channel belongs to."""
    return channel if channel in route.also else FIRST


def _first_channels(route: Route, recipient: Recipient) -> Sequence[Channel]:
    """The channels of the first leg in the order of trying.

    Whoever lists several has said what to try instead. Whoever names one, or leaves it to the recipient, has not, so
    what is customary follows it.
    """
    if not isinstance(route.first, str):
        named = route.first
        return tuple(dict.fromkeys((*named, *_INSTEAD.get(named[0], ())) if len(named) == 1 else named))
    preferred: Channel = recipient.channel_preference or "email"
    return tuple(dict.fromkeys((preferred, *_INSTEAD.get(preferred, ()), "email")))


def _leg(name: str, channels: Sequence[Channel], recipient: Recipient) -> Leg:
    candidates: list[Candidate] = []
    checks: list[Check] = []
    for channel in channels:
        found = list(_candidates(channel, recipient))
        candidates += found
        if not found:
            reason = _why_unreachable(channel, recipient)
            checks.append(
                Check(name="address", verdict="refused", reason=reason, detail={"channel": channel})
            )
    return Leg(name=name, candidates=tuple(candidates), checks=tuple(checks))


def _candidates(channel: Channel, recipient: Recipient) -> Iterator[Candidate]:
    """The ways to reach a recipient on a channel: verified addresses before others, gone ones never."""
    if channel == "inbox":
        yield Candidate(channel=channel)
    elif channel != "whatsapp" or recipient.whatsapp_opt_in:
        standing = [address for address in _addresses(channel, recipient) if address.gone_at is None]
        for address in sorted(standing, key=lambda address: address.verified_at is None):
            yield Candidate(channel=channel, address=address)


def _why_unreachable(channel: Channel, recipient: Recipient) -> str:
    if not _addresses(channel, recipient):
        return "no_address"
    if channel == "whatsapp" and not recipient.whatsapp_opt_in:
        return "no_consent"
    return "address_gone"


def _addresses(channel: Channel, recipient: Recipient) -> list[Address]:
    kind = _KIND[channel]
    return [address for address in recipient.addresses if address.kind == kind]


def destination_of(provider: Provider, tenant: str, candidate: Candidate) -> str:
    """What the breaker is about: the provider; or one host, where each recipient has its own. That is kept for each
    tenant apart, since it is tenants who name hosts, and one could name a page of another's that always fails."""
    if not provider.traits.is_per_host:
        return f"provider:{provider.name}"
    return f"provider:{provider.name}:{tenant}:{urlsplit(candidate.value).netloc.lower()}"
