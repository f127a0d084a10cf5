"""Why a broker will not have us, in one line with the remedy; and what only looks like it and passes by itself."""

from __future__ import annotations

import re
import shlex
import ssl
from collections.abc import Iterable
from typing import Final

from timebell.brokers.rabbitmq.address import Address
from timebell.errors import ConfigurationError

ACCESS_REFUSED: Final = 403
NOT_FOUND: Final = 404
PRECONDITION_FAILED: Final = 406
NOT_ALLOWED: Final = 530

# While a node starts, or has all that it takes.
_PASSING: Final = re.compile(r"is down|limit|not available|timed? ?out", re.IGNORECASE)
# What is named after us, as RabbitMQ reads patterns too.
_OURS: Final = re.compile(r"timebell(\..*)?")
_WORDS_CHARS_MAX: Final = 300


class Unreachable(Exception):
    """There was no broker, or it went away; a later try may find it."""


class Closed(Exception):
    """The broker closed a channel or a connection and said why."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(f"{code} {words}")
        self.code = code
        self.words = _plain(words)


def refused_login(address: Address, closed: Closed) -> ConfigurationError | None:
    """What a broker says instead of opening a connection; None if it may be otherwise soon."""
    user, vhost = _shown(address.user), _shown(address.vhost)
    if closed.code == ACCESS_REFUSED:
        return ConfigurationError(
            f"broker_url: the broker refuses the user {user} ({closed.words}); correct the user and the password, and "
            "note that the user guest may only come from the broker's own machine"
        )
    if closed.code != NOT_ALLOWED or _PASSING.search(closed.words):
        return None
    if "not found" in closed.words:
        return ConfigurationError(
            f"broker_url: the broker has no virtual host {vhost} ({closed.words}); correct the path of the URL, or "
            f"make it with `rabbitmqctl add_vhost {vhost}`"
        )
    return ConfigurationError(
        f"broker_url: the user {user} may not use the virtual host {vhost} ({closed.words}); grant it with "
        f"{_grant(address)}"
    )


def refused_declaration(
    address: Address, closed: Closed, about: str, names: Iterable[str]
) -> ConfigurationError | None:
    """What a broker says to what we declare, `about` which it is; None if it may be otherwise soon. `names` are
    those of all that we declare: whoever grants rights takes away those of before."""
    if closed.code == ACCESS_REFUSED:
        return ConfigurationError(
            f"broker_url: the user {_shown(address.user)} lacks a right that {about} needs ({closed.words}); grant it "
            f"with {_grant(address, names)}"
        )
    if closed.code == PRECONDITION_FAILED:
        return ConfigurationError(
            f"broker_url: {about} is there already and is otherwise ({closed.words}); delete it at the broker once "
            "nobody needs it, or use another virtual host"
        )
    if closed.code == NOT_FOUND and "no exchange" in closed.words:
        return ConfigurationError(
            f"broker_url: {about} is bound to an exchange that is not there ({closed.words}); declare it first"
        )
    return None


def refused_certificate(error: ssl.SSLError) -> ConfigurationError:
    words = _plain(error.reason or str(error))
    if isinstance(error, ssl.SSLCertVerificationError):
        return ConfigurationError(
            f"broker_url: the certificate of the broker is not trusted ({_plain(error.verify_message)}); name the "
            "authority's with ?cacertfile=/path/to/ca.pem, and the host as the certificate has it"
        )
    return ConfigurationError(
        f"broker_url: the broker does not agree on TLS ({words}); use its port for TLS, or amqp:// without it"
    )


def _grant(address: Address, names: Iterable[str] = ()) -> str:
    """What we need and no more: to configure, write and read what has our name, and these."""
    vhost, user = _shown(address.vhost), _shown(address.user)
    others = [re.escape(name) for name in dict.fromkeys(names) if not _OURS.fullmatch(name)]
    pattern = f"^({'|'.join((_OURS.pattern, *others))})$" if others else f"^{_OURS.pattern}$"
    rights = " ".join([shlex.quote(pattern)] * 3)
    return f"`rabbitmqctl set_permissions -p {vhost} {user} {rights}`"


def _shown(name: str) -> str:
    return _plain(name) if name.isprintable() and " " not in name else repr(name)


def _plain(words: str) -> str:
    """One line, whatever the other side sent."""
    return "".join(letter if letter.isprintable() else " " for letter in words[:_WORDS_CHARS_MAX]).strip()
