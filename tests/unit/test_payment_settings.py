"""What an operator decides about payments."""

from __future__ import annotations

from typing import Any

import pytest

from timebell.config import Settings
from timebell.errors import ConfigurationError

WHOLE: dict[str, Any] = {"stripe_secret_key": "sk_test_123", "stripe_webhook_secret": "whsec_123"}


def test_stripe_is_whole_with_its_secrets() -> None:
    assert Settings(payment_provider="stripe", **WHOLE).payment_provider == "stripe"


@pytest.mark.parametrize("missing", WHOLE)
def test_stripe_needs_its_secrets(missing: str) -> None:
    given = {name: value for name, value in WHOLE.items() if name != missing}
    with pytest.raises(ConfigurationError, match=f"^{missing}: payment_provider is stripe, which needs it"):
        Settings(payment_provider="stripe", **given)


@pytest.mark.parametrize("url", ["http://api.stripe.com", "https://u:p@api.stripe.com", "https://x/v1"])
def test_what_stripe_is_told_goes_through_tls(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^stripe_url: "):
        Settings(stripe_url=url)
