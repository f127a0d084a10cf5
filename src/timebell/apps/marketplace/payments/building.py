"""Which payment provider a process has, as its settings say."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from weakref import WeakKeyDictionary

from timebell.apps.marketplace.payments.provider import PaymentProvider
from timebell.apps.marketplace.payments.simulator import Simulator
from timebell.errors import ConfigurationError
from timebell.kernel import Job, Timebell

# One for each bell, since it keeps connections open; a process has one bell or two.
_BUILT: Final[WeakKeyDictionary[Timebell, PaymentProvider]] = WeakKeyDictionary()
_MISSING: Final = (
    "payment_provider: nothing can be charged or paid out without one; set TIMEBELL_PAYMENT_PROVIDER to stripe, or to "
    "simulator where no money is to move"
)


def provider_name(bell: Timebell) -> str | None:
    """None where none is set and money might be meant: then nothing may be charged. In a sandbox, whose time is not
    that of the world, no money moves whatever the settings say."""
    if bell.is_sandbox:
        return "simulator"
    settings = bell.settings
    return settings.payment_provider or ("simulator" if settings.is_demo else None)


def provider_of(bell: Timebell) -> PaymentProvider:
    """The provider of a process; where there is none it is refused in words that name the remedy."""
    if bell not in _BUILT:
        _BUILT[bell] = _build(bell)
    return _BUILT[bell]


def use_provider(bell: Timebell, provider: PaymentProvider) -> None:
    """Have a bell use a provider of one's own."""
    _BUILT[bell] = provider


def is_simulated(bell: Timebell) -> bool:
    """Whether what the simulator did may be shown and steered: where no money is meant."""
    return (bell.is_sandbox or bell.settings.is_demo) and provider_name(bell) == "simulator"


def destination_of(job: Job) -> str | None:
    """What the jobs that call a provider have a breaker for."""
    name = provider_name(job.bell)
    return None if name is None else f"payments:{name}"


@asynccontextmanager
async def opened(bell: Timebell) -> AsyncIterator[None]:
    """Close the provider of a process when that has stopped paying."""
    try:
        yield
    finally:
        provider = _BUILT.pop(bell, None)
        if provider is not None:
            await provider.close()


def _build(bell: Timebell) -> PaymentProvider:
    name = provider_name(bell)
    if name == "simulator":
        return Simulator(bell)
    if name == "stripe":
        return _stripe(bell)
    raise ConfigurationError(_MISSING)


def _stripe(bell: Timebell) -> PaymentProvider:
    """The library is large, and only whoever uses it needs it."""
    try:
        from timebell.apps.marketplace.payments.stripe import stripe_of
    except ModuleNotFoundError:
        raise ConfigurationError(
            "payment_provider: stripe needs its library; install timebell[stripe]"
        ) from None
    return stripe_of(bell)
