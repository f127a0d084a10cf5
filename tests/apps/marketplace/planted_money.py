"""Faults in the ledger, in payouts and in payment providers."""

from __future__ import annotations

from tests.mutants.planted import Planted

_LEDGER = ("tests/apps/marketplace/test_ledger.py",)
_PAYOUTS = ("tests/apps/marketplace/test_payouts.py",)
_ROUTES = ("tests/apps/marketplace/test_money_routes.py",)
_CONTRACT = ("tests/apps/marketplace/contract/test_payment_providers.py",)
_STRIPE = ("tests/apps/marketplace/contract/test_stripe.py",)
_VERIFYING = ("tests/apps/marketplace/test_verifying.py",)
_TABLES = "apps/marketplace/migrations/0003_expand_payments.sql"
_PAYMENTS = "apps/marketplace/payments"

MONEY = [
    Planted(
        name="ledger-leaves-something-in-clearing",
        file=_TABLES,
        old="        IF clearing <> 0 THEN\n",
        new="        IF clearing < 0 THEN\n",
        why="What was charged would be nowhere, and nobody would be told.",
        tests=_LEDGER,
    ),
    Planted(
        name="ledger-lets-more-leave-than-came",
        file=_TABLES,
        old="    IF least < 0 THEN\n",
        new="    IF least < -1000000 THEN\n",
        why="Money of one shift would leave for another.",
        tests=_LEDGER,
    ),
    Planted(
        name="ledger-pays-for-a-shift-twice",
        file=_TABLES,
        old="    IF pots > 1 THEN\n",
        new="    IF pots > 2 THEN\n",
        why="A late success would be held beside the payment that took its place.",
        tests=_LEDGER,
    ),
    Planted(
        name="ledger-owes-more-than-is-held",
        file=_TABLES,
        old="    IF leaving > held THEN\n",
        new="    IF leaving > 2 * held THEN\n",
        why="The same money would be promised to the lender and back to the borrower.",
        tests=_PAYOUTS,
    ),
    Planted(
        name="ledger-can-be-changed",
        file=_TABLES,
        old="GRANT SELECT, INSERT ON marketplace.ledger_entries,",
        new="GRANT SELECT, INSERT, UPDATE, DELETE ON marketplace.ledger_entries,",
        why="What was written could be rewritten.",
        tests=_LEDGER,
    ),
    Planted(
        name="ledger-charges-another-amount",
        file=_TABLES,
        old="            AND (NEW.type <> 'charge' OR p.amount = NEW.amount)) THEN\n",
        new="            ) THEN\n",
        why="The ledger would tell of another amount than the payment.",
        tests=_LEDGER,
    ),
    Planted(
        name="ledger-writes-before-what-was-written",
        file=f"{_PAYMENTS}/sql/insert_entries.sql",
        old="greatest(coalesce(:now::timestamptz, clock_timestamp()), max(e.at))",
        new="coalesce(:now::timestamptz, clock_timestamp(), max(e.at))",
        why="What was true at a past instant would change afterwards.",
        tests=_LEDGER,
    ),
    Planted(
        name="frozen-although-it-is-leaving",
        file=f"{_PAYMENTS}/rules.py",
        old="            amount=pot.free,\n",
        new="            amount=pot.held,\n",
        why="Money that the provider may have sent would be frozen, and the release refused.",
        tests=_LEDGER,
    ),
    Planted(
        name="payout-does-not-look-again",
        file=f"{_PAYMENTS}/payouts.py",
        old='                if payout.sort == "transfer":\n',
        new='                if payout.sort == "refund" and not payout.lines:\n',
        why="A shift that was disputed meanwhile would be paid out.",
        tests=_PAYOUTS,
    ),
    Planted(
        name="payout-kept-back-too-late",
        file=f"{_PAYMENTS}/payouts.py",
        old='        if payout.state != "pending":\n            return False\n',
        new='        if payout.state == "sent":\n            return False\n',
        why="Somebody would hear that money was kept back that the provider has sent.",
        tests=_PAYOUTS,
    ),
    Planted(
        name="payout-refused-keeps-its-key",
        file=f"{_PAYMENTS}/payouts.py",
        old="idempotency_key=_key(held.id, attempt)",
        new="idempotency_key=held.idempotency_key",
        why="The provider answers the same key with the same refusal for a day.",
        tests=_PAYOUTS,
    ),
    Planted(
        name="unfunded-although-it-was-paid",
        file=f"{_PAYMENTS}/payouts.py",
        old="find_transfer(tx, time_log_id=shift.id) is not None:",
        new="find_transfer(tx, time_log_id=shift.id) == 0:",
        why="A week that was paid out at once would be told of as unfunded at each verification, or be owed twice.",
        tests=_PAYOUTS,
    ),
    Planted(
        name="payment-refunded-in-part-is-refunded",
        file=f"{_PAYMENTS}/sql/mark_refunded.sql",
        old="    AND p.amount = (SELECT",
        new="    AND p.amount >= (SELECT",
        why="A week of which one shift went back would not count as paid.",
        tests=_PAYOUTS,
    ),
    Planted(
        name="report-taken-without-a-signature",
        file=f"{_PAYMENTS}/simulator.py",
        old='            raise Refused("the signature is not the simulator\'s")\n',
        new="            pass\n",
        why="Anybody could say that something was paid.",
        tests=_ROUTES,
    ),
    Planted(
        name="simulator-where-money-is-meant",
        file=f"{_PAYMENTS}/building.py",
        old="    return (bell.is_sandbox or bell.settings.is_demo) and provider_name(bell)",
        new="    return provider_name(bell)",
        why="A tenant could tell the provider of a real server what to answer.",
        tests=_ROUTES,
    ),
    Planted(
        name="payments-of-everybody",
        file=f"{_PAYMENTS}/sql/list_payments.sql",
        old="        AND (:person::uuid IS NULL OR EXISTS (",
        new="        AND (true OR EXISTS (",
        why="Whoever has no part in a booking would see what it costs.",
        tests=_ROUTES,
    ),
    Planted(
        name="simulator-moves-twice",
        file=f"{_PAYMENTS}/simulator.py",
        old="            return before.ref if before.fingerprint == fingerprint else",
        new="            return before.ref if before.ref else",
        why="A key would stand for two different movements.",
        tests=_CONTRACT,
    ),
    Planted(
        name="stripe-retries-by-itself",
        file=f"{_PAYMENTS}/stripe.py",
        old="            max_network_retries=0,\n",
        new="            max_network_retries=1,\n",
        why="What is uncertain would be repeated before anybody looked.",
        tests=_STRIPE,
    ),
    Planted(
        name="stripe-does-not-look-first",
        file=f"{_PAYMENTS}/stripe.py",
        old="        if movement.was_begun and intent.transfer_group is not None:\n",
        new="        if movement.was_begun and intent.transfer_group is None:\n",
        why="A job that is revived days later would pay the lender twice.",
        tests=_STRIPE,
    ),
    Planted(
        name="stripe-takes-old-reports",
        file=f"{_PAYMENTS}/stripe.py",
        old="self._webhook_secret, tolerance=TOLERANCE_SECONDS",
        new="self._webhook_secret, tolerance=None",
        why="A report that somebody recorded could be sent again for ever.",
        tests=_STRIPE,
    ),
    Planted(
        name="stripe-takes-a-silence-for-a-no",
        file=f"{_PAYMENTS}/stripe.py",
        old='            raise (Unavailable(said) if method.upper() == "GET" else Uncertain(said)) from None\n',
        new="            raise Unavailable(said) from None\n",
        why="What was done unheard would be done again.",
        tests=(*_STRIPE, *_CONTRACT),
    ),
    Planted(
        name="proof-does-not-ask-the-trail",
        file=f"{_PAYMENTS}/proving.py",
        old="        if told.get(id) != sent.get(id):\n",
        new="        if id not in told:\n",
        why="Whoever changes every table alike would not be found.",
        tests=_VERIFYING,
    ),
    Planted(
        name="proof-stops-after-a-page",
        file=f"{_PAYMENTS}/verifying.py",
        old="or len(accounts) < _BOOKINGS:",
        new="or len(accounts) <= _BOOKINGS:",
        why="Only the first bookings would be proven.",
        tests=_VERIFYING,
    ),
    Planted(
        name="reports-pruned-before-they-are-applied",
        file=f"{_PAYMENTS}/sql/prune_payment_events.sql",
        old="        AND o.applied_at IS NOT NULL\n",
        new="",
        why="A report that waits for its booking for long would be lost.",
        tests=_ROUTES,
    ),
]
