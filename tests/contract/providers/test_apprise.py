"""What Apprise adds and what it cannot say."""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from tests.contract.providers.other_sides import AppriseSide
from timebell.errors import ConfigurationError
from timebell.notify.provider import Channel, Rejected, Sent, Uncertain
from timebell.providers.apprise import Apprise

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")


@pytest_asyncio.fixture
async def side() -> AsyncIterator[AppriseSide]:
    made = AppriseSide()
    await made.open()
    yield made
    await made.close()


async def test_it_reaches_the_service(side: AppriseSide) -> None:
    assert await side.provider.send(side.parcel()) == Sent()
    (request,) = side.requests
    assert request.path == "/sms/+41793026727"
    assert request.json()["message"] == "Your meeting begins at ten."


async def test_a_failure_may_be_anything(side: AppriseSide) -> None:
    await side.behave("fail")
    failed = Uncertain(reason="failed", about="parcel")
    assert await side.provider.send(side.parcel()) == failed, "the address may be what is wrong"
    assert side.provider.traits.when_uncertain == "retry"


@pytest.mark.parametrize("address", ["+1,+2", "+1/+2", "+1 +2", "../admin", "a?x=y", "a#b", "", "x" * 321])
async def test_an_address_is_one_target(side: AppriseSide, address: str) -> None:
    answer = await side.provider.send(replace(side.parcel(), address=address))
    assert answer == Rejected(reason="not_one_target", blame="address")
    assert side.requests == []


@pytest.mark.parametrize(
    ("url", "channel", "message"),
    [
        ("nonsense", "sms", "url: Apprise does not know it"),
        ("unknown://x/{address}", "sms", "url: Apprise does not know it"),
        ("json://localhost/" + "x" * 2_000, "sms", "url: longer than"),
        ("json://localhost/", "inbox", "channel: inbox is not carried"),
    ],
)
def test_settings_that_are_refused(url: str, channel: Channel, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Apprise(url, channel=channel)


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *arguments: Any, **options: Any) -> Any:
        if name == "apprise":
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigurationError, match=r"pip install 'timebell\[apprise\]'"):
        Apprise("json://localhost/", channel="webhook")
