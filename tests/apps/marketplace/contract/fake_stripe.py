"""Stripe as its documentation describes it, as far as payments need it: behind a real HTTP server, and with faults.

It keeps what it answered for each idempotency key with a hash of what was asked, refuses parameters that the library
does not know, and knows no more ways to move money than there are here.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, Literal
from urllib.parse import parse_qsl

import stripe

from tests.contract.providers.http_server import HttpServer, Request, Response, as_json
from timebell.apps.marketplace.payments.stripe import API_VERSION

SECRET_KEY: Final = "sk_test_of_the_fake"
WEBHOOK_SECRET: Final = "whsec_of_the_fake"
CUSTOMER: Final = "cus_1"
ACCOUNT: Final = "acct_1"
# What becomes of a charge, by the card that is on file.
CARDS: Final = {
    "pm_card_visa": "succeeded",
    "pm_card_visa_chargeDeclined": "card_declined",
    "pm_card_chargeDeclinedInsufficientFunds": "insufficient_funds",
    "pm_card_authenticationRequired": "authentication_required",
    "pm_card_processing": "processing",
}
# It is not done, or it is; and in both cases nobody hears of it, or only that something was wrong.
Fault = Literal[
    "lost", "done_and_lost", "failed", "done_and_failed", "busy", "in_use", "hang", "done_and_hang"
]
_PARAMS: Final = {
    ("POST", "payment_intents"): stripe.params.PaymentIntentCreateParams,
    ("GET", "payment_intents"): stripe.params.PaymentIntentListParams,
    ("POST", "refunds"): stripe.params.RefundCreateParams,
    ("GET", "refunds"): stripe.params.RefundListParams,
    ("POST", "transfers"): stripe.params.TransferCreateParams,
    ("GET", "transfers"): stripe.params.TransferListParams,
}

Json = dict[str, Any]


class Refusal(Exception):
    def __init__(self, status: int, type: str, code: str | None, message: str, **more: Any) -> None:
        super().__init__(message)
        self.status = status
        self.content = {"error": {"type": type, "code": code, "message": message, **more}}


@dataclass(slots=True)
class FakeStripe:
    """One account. `faults` are used up, the first first, by the calls that they name."""

    faults: list[tuple[str, Fault]] = field(default_factory=list)
    intents: dict[str, Json] = field(default_factory=dict)
    refunds: dict[str, Json] = field(default_factory=dict)
    transfers: dict[str, Json] = field(default_factory=dict)
    kept: dict[str, tuple[str, int, Json]] = field(default_factory=dict)
    seen: list[Request] = field(default_factory=list)
    page_max: int = 100
    now: int | None = None
    server: HttpServer = field(init=False)
    _numbers: Any = field(default_factory=count)

    def __post_init__(self) -> None:
        self.server = HttpServer(self.serve)

    @property
    def url(self) -> str:
        return self.server.url

    def forget_keys(self) -> None:
        """As Stripe does after a day."""
        self.kept.clear()

    def serve(self, request: Request) -> Response:
        self.seen.append(request)
        assert request.path.startswith("/v1/")
        assert request.headers["stripe-version"] == API_VERSION
        if request.headers.get("authorization") != f"Bearer {SECRET_KEY}":
            return self._answer(
                401, {"error": {"type": "invalid_request_error", "message": "Invalid API Key"}}
            )
        parts = request.path.removeprefix("/v1/").split("/")
        fault = self._fault(request.method, parts)
        self.server.manner = "answer"
        if fault == "busy":
            said = {"error": {"type": "invalid_request_error", "code": "rate_limit", "message": "Too many"}}
            return self._answer(429, said, {"Retry-After": "2"})
        if fault == "in_use":
            said = {
                "error": {"type": "idempotency_error", "code": "idempotency_key_in_use", "message": "In use"}
            }
            return self._answer(409, said)
        if fault in ("lost", "failed", "hang"):
            self.server.manner = {"lost": "close", "hang": "hang"}.get(fault, "answer")
            return self._answer(500, {"error": {"type": "api_error", "message": "Something went wrong"}})
        status, content = self._kept_answer(request, parts)
        if fault in ("done_and_lost", "done_and_hang"):
            self.server.manner = "close" if fault == "done_and_lost" else "hang"
        if fault == "done_and_failed":
            return self._answer(500, {"error": {"type": "api_error", "message": "Something went wrong"}})
        return self._answer(status, content)

    def _fault(self, method: str, parts: list[str]) -> Fault | None:
        name = f"{method} {parts[0]}" + (" cancel" if parts[-1] == "cancel" else "")
        for place, (call, fault) in enumerate(self.faults):
            if call == name:
                del self.faults[place]
                return fault
        return None

    def _answer(self, status: int, content: Json, headers: Mapping[str, str] | None = None) -> Response:
        return as_json(status, content, {"Request-Id": f"req_{next(self._numbers)}", **(headers or {})})

    def _kept_answer(self, request: Request, parts: list[str]) -> tuple[int, Json]:
        """The answer to the first request with this key, for as long as it is remembered."""
        if request.method == "GET":
            return self._run(request, parts)
        key = request.headers["idempotency-key"]
        assert len(key) <= 255
        body_hash = hashlib.sha256(request.path.encode() + b"\n" + request.body).hexdigest()
        if key in self.kept:
            before, status, content = self.kept[key]
            if before != body_hash:
                said = {
                    "type": "idempotency_error",
                    "message": "Keys can only be used with the same parameters",
                }
                return 400, {"error": said}
            return status, content
        status, content = self._run(request, parts)
        # What fails its validation is not remembered.
        if status != 404:
            self.kept[key] = (body_hash, status, content)
        return status, content

    def _run(self, request: Request, parts: list[str]) -> tuple[int, Json]:
        given = _nested(
            request.query.items() if request.method == "GET" else parse_qsl(request.body.decode())
        )
        known = _PARAMS.get((request.method, parts[0])) if len(parts) == 1 else None
        if known is not None:
            unknown = given.keys() - known.__annotations__.keys()
            if unknown:
                return 400, {
                    "error": {"type": "invalid_request_error", "message": f"Received unknown {unknown}"}
                }
        try:
            match (request.method, *parts):
                case ("POST", "payment_intents"):
                    return 200, self._charge(given)
                case ("POST", "payment_intents", id, "cancel"):
                    return 200, self._cancel(id)
                case ("GET", "payment_intents", id):
                    return 200, self._found(self.intents, id)
                case ("GET", "payment_intents"):
                    since = int(given.get("created", {}).get("gte", 0))
                    return 200, self._listed(
                        [
                            each
                            for each in self.intents.values()
                            if each["customer"] == given["customer"] and each["created"] >= since
                        ],
                        given,
                    )
                case ("POST", "refunds"):
                    return 200, self._refund(given)
                case ("GET", "refunds"):
                    of_intent = given["payment_intent"]
                    found = [each for each in self.refunds.values() if each["payment_intent"] == of_intent]
                    return 200, self._listed(found, given)
                case ("POST", "transfers"):
                    return 200, self._transfer(given)
                case ("GET", "transfers"):
                    group = given["transfer_group"]
                    found = [each for each in self.transfers.values() if each["transfer_group"] == group]
                    return 200, self._listed(found, given)
        except Refusal as refusal:
            return refusal.status, refusal.content
        return 404, {"error": {"type": "invalid_request_error", "message": f"Unrecognized {request.path}"}}

    def _charge(self, given: Json) -> Json:
        if given["customer"] != CUSTOMER:
            raise Refusal(400, "invalid_request_error", "resource_missing", "No such customer")
        assert (given["confirm"], given["off_session"]) == ("true", "true")
        assert given["automatic_payment_methods"] == {"enabled": "true", "allow_redirects": "never"}
        if given["payment_method"] not in CARDS:
            raise Refusal(400, "invalid_request_error", "resource_missing", "No such PaymentMethod")
        outcome = CARDS[given["payment_method"]]
        intent = self._intent(given, outcome)
        self.intents[intent["id"]] = intent
        if intent["status"] == "requires_payment_method":
            said = intent["last_payment_error"]
            raise Refusal(
                402,
                "card_error",
                said["code"],
                said["message"],
                decline_code=said["decline_code"],
                payment_intent=intent,
            )
        return intent

    def _intent(self, given: Json, outcome: str) -> Json:
        id = f"pi_{next(self._numbers)}"
        is_declined = outcome not in ("succeeded", "processing")
        error = None
        if is_declined:
            is_card = outcome != "authentication_required"
            error = {
                "type": "card_error",
                "code": "card_declined" if is_card else outcome,
                "decline_code": outcome if is_card and outcome != "card_declined" else None,
                "message": "Your card was declined.",
            }
        return {
            "id": id,
            "object": "payment_intent",
            "amount": int(given["amount"]),
            "amount_capturable": 0,
            "amount_received": int(given["amount"]) if outcome == "succeeded" else 0,
            "application": None,
            "application_fee_amount": None,
            "automatic_payment_methods": {"allow_redirects": "never", "enabled": True},
            "canceled_at": None,
            "cancellation_reason": None,
            "capture_method": "automatic",
            "client_secret": f"{id}_secret",
            "confirmation_method": "automatic",
            "created": self._clock(),
            "currency": given["currency"],
            "customer": given["customer"],
            "description": None,
            "last_payment_error": error,
            "latest_charge": f"ch_{id}",
            "livemode": False,
            "metadata": given["metadata"],
            "next_action": None,
            "on_behalf_of": None,
            "payment_method": given["payment_method"],
            "payment_method_types": ["card"],
            "processing": None,
            "receipt_email": None,
            "setup_future_usage": None,
            "shipping": None,
            "statement_descriptor": None,
            "status": "requires_payment_method" if is_declined else outcome,
            "transfer_data": None,
            "transfer_group": given["transfer_group"],
        }

    def _cancel(self, id: str) -> Json:
        intent = self._found(self.intents, id)
        if intent["status"] in ("succeeded", "canceled"):
            raise Refusal(
                400,
                "invalid_request_error",
                "payment_intent_unexpected_state",
                f"You cannot cancel this PaymentIntent because it has a status of {intent['status']}.",
                payment_intent=intent,
            )
        intent |= {"status": "canceled", "canceled_at": self._clock()}
        return intent

    def _refund(self, given: Json) -> Json:
        intent = self._found(self.intents, given["payment_intent"], status=400)
        amount = int(given["amount"])
        gone = sum(each["amount"] for each in self.refunds.values() if each["payment_intent"] == intent["id"])
        if intent["status"] != "succeeded" or gone + amount > intent["amount"]:
            raise Refusal(400, "invalid_request_error", "charge_already_refunded", "More than was charged")
        id = f"re_{next(self._numbers)}"
        self.refunds[id] = {
            "id": id,
            "object": "refund",
            "amount": amount,
            "balance_transaction": f"txn_{id}",
            "charge": intent["latest_charge"],
            "created": self._clock(),
            "currency": intent["currency"],
            "metadata": given["metadata"],
            "payment_intent": intent["id"],
            "reason": None,
            "receipt_number": None,
            "source_transfer_reversal": None,
            "status": "succeeded",
            "transfer_reversal": None,
        }
        return self.refunds[id]

    def _transfer(self, given: Json) -> Json:
        if given["destination"] != ACCOUNT:
            raise Refusal(400, "invalid_request_error", "resource_missing", "No such destination")
        of_charge = given["source_transaction"]
        intent = next(each for each in self.intents.values() if each["latest_charge"] == of_charge)
        amount = int(given["amount"])
        gone = sum(
            each["amount"] for each in self.transfers.values() if each["source_transaction"] == of_charge
        )
        if intent["status"] != "succeeded" or gone + amount > intent["amount"]:
            raise Refusal(400, "invalid_request_error", "balance_insufficient", "Insufficient funds")
        id = f"tr_{next(self._numbers)}"
        self.transfers[id] = {
            "id": id,
            "object": "transfer",
            "amount": amount,
            "amount_reversed": 0,
            "balance_transaction": f"txn_{id}",
            "created": self._clock(),
            "currency": given["currency"],
            "description": None,
            "destination": given["destination"],
            "destination_payment": f"py_{id}",
            "livemode": False,
            "metadata": given["metadata"],
            "reversals": {
                "object": "list",
                "data": [],
                "has_more": False,
                "url": f"/v1/transfers/{id}/reversals",
            },
            "reversed": False,
            "source_transaction": of_charge,
            "source_type": "card",
            # A transfer of a charge is in the group of that.
            "transfer_group": intent["transfer_group"],
        }
        return self.transfers[id]

    def _found(self, known: Mapping[str, Json], id: str, status: int = 404) -> Json:
        if id not in known:
            raise Refusal(status, "invalid_request_error", "resource_missing", f"No such thing: {id}")
        return known[id]

    def _listed(self, found: list[Json], given: Json) -> Json:
        """The newest first."""
        newest = found[::-1]
        if "starting_after" in given:
            ids = [each["id"] for each in newest]
            newest = newest[ids.index(given["starting_after"]) + 1 :]
        limit = min(int(given["limit"]), self.page_max)
        page = newest[:limit]
        return {"object": "list", "url": "/v1/x", "has_more": len(newest) > limit, "data": page}

    def _clock(self) -> int:
        return int(time.time()) if self.now is None else self.now

    def settle(self, id: str) -> None:
        """What was processing has succeeded."""
        self.intents[id] |= {"status": "succeeded", "amount_received": self.intents[id]["amount"]}

    def event(
        self, id: str, type: str, *, at: int | None = None, secret: str = WEBHOOK_SECRET
    ) -> tuple[bytes, Json]:
        """What it reports of an intent, signed as its documentation says."""
        moment = int(time.time()) if at is None else at
        event = {
            "id": f"evt_{id}_{type}",
            "object": "event",
            "api_version": API_VERSION,
            "created": moment,
            "data": {"object": self.intents[id]},
            "livemode": False,
            "pending_webhooks": 1,
            "request": {"id": None, "idempotency_key": None},
            "type": type,
        }
        raw = json.dumps(event, indent=2).encode()
        return raw, {"stripe-signature": sign(raw, moment, secret)}


def sign(raw: bytes, moment: int, secret: str = WEBHOOK_SECRET) -> str:
    signature = hmac.new(secret.encode(), f"{moment}.".encode() + raw, hashlib.sha256).hexdigest()
    return f"t={moment},v1={signature}"


def _nested(pairs: Any) -> Json:
    """`metadata[key]=x` as a form says it."""
    found: Json = {}
    for name, value in pairs:
        outer, _, inner = name.partition("[")
        if inner:
            found.setdefault(outer, {})[inner.removesuffix("]")] = value
        else:
            found[name] = value
    return found
