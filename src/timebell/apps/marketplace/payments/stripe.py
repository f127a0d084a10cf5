"""`stripe`: charges cards on file, refunds them and pays connected accounts, through Stripe's own library.

Only whoever has chosen this provider loads it, since the library is large. It repeats nothing by itself: whether to try
again is decided by the job, which knows what was asked before. Stripe remembers a key for a day and answers it with
what became of the first request, be that an error of its own; after a day the key is as good as new. So whatever may
have been asked for is looked for first: by listing, which shows what was just written, and not by Stripe's search,
which may not do so for an hour. A repeated key then covers what was still on its way while we looked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from datetime import timedelta
from typing import Any, Final, TypeVar
from uuid import UUID

import httpx2
import stripe

from timebell.apps.marketplace.payments.provider import (
    Charge,
    Charged,
    ChargeState,
    Movement,
    Refused,
    Report,
    Unavailable,
    Uncertain,
)
from timebell.errors import ConfigurationError
from timebell.kernel import Timebell

# What we have read the documentation of. Another version is a decision, and not what an account happens to have.
API_VERSION: Final = "2026-10-28.endive"
TOLERANCE_SECONDS: Final = 300
_SECONDS: Final = 30.0
_SKEW: Final = timedelta(hours=1)
_PAGE: Final = 100
_PAGES_MAX: Final = 50
_FAILURE_MAX: Final = 200
_STATES: Final[Mapping[str, ChargeState]] = {
    "succeeded": "succeeded",
    "processing": "processing",
    "canceled": "cancelled",
    "requires_payment_method": "declined",
    # The bank wants to see its customer, who is not there.
    "requires_action": "declined",
}
_REPORTED: Final = frozenset(
    {
        "payment_intent.succeeded",
        "payment_intent.payment_failed",
        "payment_intent.canceled",
        "payment_intent.processing",
    }
)
Answer = TypeVar("Answer")


class Transport(stripe.HTTPClient):
    """Stripe's library on the client that everything else here calls out with. What it raises says whether the request
    can have arrived."""

    name = "httpx2"

    def __init__(self, *, seconds: float = _SECONDS) -> None:
        super().__init__()
        self._seconds = seconds
        self._client = httpx2.AsyncClient(timeout=seconds, follow_redirects=False)

    async def request_async(
        self, method: str, url: str, headers: Mapping[str, str], post_data: Any = None
    ) -> tuple[bytes, int, Mapping[str, str]]:
        try:
            async with asyncio.timeout(self._seconds):
                response = await self._client.request(method, url, headers=dict(headers), content=post_data)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            raise Unavailable(f"Stripe was not reached: {_name(error)}") from None
        except (httpx2.HTTPError, TimeoutError) as error:
            said = f"no answer of Stripe was had: {_name(error)}"
            # Whatever only reads has done nothing.
            raise (Unavailable(said) if method.upper() == "GET" else Uncertain(said)) from None
        return response.content, response.status_code, response.headers

    async def close_async(self) -> None:
        await self._client.aclose()


class StripePayments:
    """Speaks to one account of Stripe."""

    name: Final = "stripe"

    def __init__(
        self, *, secret_key: str, webhook_secret: str, url: str | None = None, seconds: float = _SECONDS
    ) -> None:
        self._webhook_secret = webhook_secret
        self._transport = Transport(seconds=seconds)
        self._client = stripe.StripeClient(
            secret_key,
            stripe_version=API_VERSION,
            base_addresses={} if url is None else {"api": url},
            max_network_retries=0,
            http_client=self._transport,
        )

    async def charge(self, charge: Charge) -> Charged:
        if charge.customer is None or charge.method is None:
            raise Refused(
                "the borrower has no card on file; give the company its payment_customer and payment_method"
            )
        asked = self._client.v1.payment_intents.create_async(
            {
                "amount": charge.amount,
                "currency": charge.currency.lower(),
                "customer": charge.customer,
                "payment_method": charge.method,
                # The card is on file and nobody is there who could be sent anywhere.
                "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"},
                "confirm": True,
                "off_session": True,
                "transfer_group": f"payment:{charge.payment_id}",
                "metadata": {
                    "tenant": charge.tenant,
                    "booking": str(charge.booking_id),
                    "payment": str(charge.payment_id),
                    "key": charge.key,
                },
            },
            {"idempotency_key": charge.key},
        )
        try:
            return charged_of(await _asked(asked))
        except stripe.CardError as error:
            return _declined(error)

    async def look_up(self, charge: Charge, *, ref: str | None = None) -> Charged | None:
        intents = self._client.v1.payment_intents
        if ref is not None:
            try:
                return charged_of(await _asked(intents.retrieve_async(ref)))
            except Missing:
                return None
        if charge.customer is None:
            return None
        params: stripe.params.PaymentIntentListParams = {"customer": charge.customer, "limit": _PAGE}
        if charge.asked_at is not None:
            params["created"] = {"gte": int((charge.asked_at - _SKEW).timestamp())}
        for _ in range(_PAGES_MAX):
            page = await _asked(intents.list_async(params))
            for intent in page.data:
                if _metadata(intent).get("key") == charge.key:
                    return charged_of(intent)
            if not page.has_more:
                return None
            params["starting_after"] = page.data[-1].id
        raise Unavailable("the customer has more payments than could be looked through")

    async def cancel(self, charge: Charge, *, ref: str) -> Charged:
        intents = self._client.v1.payment_intents
        try:
            return charged_of(
                await _asked(intents.cancel_async(ref, {}, {"idempotency_key": f"{charge.key}:cancel"}))
            )
        except Missing as error:
            raise Refused(f"there is no charge {ref}") from error
        except Refused:
            # It succeeded, or has to run its course.
            return charged_of(await _asked(intents.retrieve_async(ref)))

    async def refund(self, movement: Movement) -> str:
        refunds = self._client.v1.refunds
        if movement.was_begun:
            params: stripe.params.RefundListParams = {"payment_intent": movement.of_ref, "limit": _PAGE}
            for _ in range(_PAGES_MAX):
                page = await _asked(refunds.list_async(params))
                for refund in page.data:
                    if _metadata(refund).get("key") == movement.key:
                        return _refunded(refund)
                if not page.has_more:
                    break
                params["starting_after"] = page.data[-1].id
        made = refunds.create_async(
            {
                "payment_intent": movement.of_ref,
                "amount": movement.amount,
                "metadata": _about(movement),
            },
            {"idempotency_key": movement.key},
        )
        return _refunded(await _asked(made))

    async def transfer(self, movement: Movement) -> str:
        if movement.destination is None:
            raise Refused("the lender has no connected account; give the company its payment_account")
        try:
            intent = await _asked(self._client.v1.payment_intents.retrieve_async(movement.of_ref))
        except Missing as error:
            raise Refused(f"there is no charge {movement.of_ref}") from error
        transfers = self._client.v1.transfers
        if movement.was_begun and intent.transfer_group is not None:
            params: stripe.params.TransferListParams = {
                "transfer_group": intent.transfer_group,
                "limit": _PAGE,
            }
            for _ in range(_PAGES_MAX):
                page = await _asked(transfers.list_async(params))
                for transfer in page.data:
                    if _metadata(transfer).get("key") == movement.key:
                        return transfer.id
                if not page.has_more:
                    break
                params["starting_after"] = page.data[-1].id
        if not isinstance(intent.latest_charge, str):
            raise Refused(f"{movement.of_ref} has charged nothing that could be paid out")
        made = transfers.create_async(
            {
                "amount": movement.amount,
                "currency": movement.currency.lower(),
                "destination": movement.destination,
                # Of this charge, also while its money is not yet available; and of no other's.
                "source_transaction": intent.latest_charge,
                "metadata": _about(movement),
            },
            {"idempotency_key": movement.key},
        )
        return (await _asked(made)).id

    def read_report(self, raw: bytes, headers: Mapping[str, str]) -> Report | None:
        try:
            event = self._client.construct_event(
                raw, headers.get("stripe-signature"), self._webhook_secret, tolerance=TOLERANCE_SECONDS
            )
            type = event.type
        except stripe.SignatureVerificationError as error:
            raise Refused(f"the signature does not hold: {error.user_message}") from None
        except (ValueError, AttributeError, TypeError, KeyError):
            raise Refused("the report cannot be read") from None
        if type not in _REPORTED:
            return None
        intent = event.data.object
        assert isinstance(intent, stripe.PaymentIntent)
        said = _metadata(intent)
        try:
            payment_id, tenant = UUID(said["payment"]), said["tenant"]
        except (KeyError, ValueError):
            # Somebody else's, in the same account.
            return None
        charged = charged_of(intent)
        # The event says what became of it, whatever it is by the time that Stripe wrote the event down.
        state: ChargeState = "declined" if type == "payment_intent.payment_failed" else charged.state
        return Report(
            event_id=event.id,
            tenant=tenant,
            payment_id=payment_id,
            ref=charged.ref,
            state=state,
            failure=charged.failure,
        )

    async def close(self) -> None:
        await self._transport.close_async()


class Missing(Refused):
    """What was named is not there."""


async def _asked(call: Awaitable[Answer]) -> Answer:
    """What Stripe answers; where it does not do what was asked, whether it can have done it all the same."""
    try:
        return await call
    except stripe.CardError:
        raise
    except stripe.RateLimitError as error:
        raise Unavailable(_said(error), retry_after=_retry_after(error)) from None
    except (stripe.AuthenticationError, stripe.PermissionError) as error:
        # Nothing was done, and nothing will be until somebody sets it right.
        raise Unavailable(_said(error)) from None
    except stripe.InvalidRequestError as error:
        raise (Missing if error.http_status == 404 else Refused)(_said(error)) from None
    except stripe.IdempotencyError as error:
        if error.http_status == 409:
            raise Uncertain(_said(error)) from None
        raise Refused(_said(error)) from None
    except stripe.StripeError as error:
        raise Uncertain(_said(error)) from None


def charged_of(intent: stripe.PaymentIntent) -> Charged:
    state = _STATES.get(intent.status, "processing")
    failure = None
    if state == "declined":
        error = intent.last_payment_error
        failure = (error and (error.decline_code or error.code)) or intent.status
    return Charged(ref=intent.id, state=state, failure=failure)


def _declined(error: stripe.CardError) -> Charged:
    """A card that is declined is answered with the intent that it was declined for."""
    intent = error.error.payment_intent if error.error is not None else None
    if intent is None:
        raise Uncertain(_said(error))
    failure = (error.error and error.error.decline_code) or error.code or "card_declined"
    return Charged(ref=intent.id, state="declined", failure=failure)


def _refunded(refund: stripe.Refund) -> str:
    if refund.status in ("failed", "canceled"):
        raise Refused(f"the refund {refund.id} {refund.status}: {refund.failure_reason}")
    return refund.id


def _about(movement: Movement) -> dict[str, str]:
    return {"tenant": movement.tenant, "booking": str(movement.booking_id), "key": movement.key}


def _metadata(thing: stripe.PaymentIntent | stripe.Refund | stripe.Transfer) -> Mapping[str, str]:
    return {} if thing.metadata is None else thing.metadata.to_dict()


def _name(error: Exception) -> str:
    return str(error) or type(error).__name__


def _said(error: stripe.StripeError) -> str:
    return f"{error.code or type(error).__name__}: {error.user_message}"[:_FAILURE_MAX]


def _retry_after(error: stripe.StripeError) -> float | None:
    given = (error.headers or {}).get("retry-after", "")
    return float(given) if given.isdecimal() else None


def stripe_of(bell: Timebell) -> StripePayments:
    """As the settings say, which are whole: they refuse to be without its secrets."""
    settings = bell.settings
    if settings.stripe_secret_key is None or settings.stripe_webhook_secret is None:
        raise ConfigurationError(
            "stripe_secret_key: payment_provider is stripe, which needs both of its secrets"
        )
    return StripePayments(
        secret_key=settings.stripe_secret_key,
        webhook_secret=settings.stripe_webhook_secret,
        url=settings.stripe_url,
    )
