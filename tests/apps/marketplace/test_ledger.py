"""The ledger: what the database refuses at the commit, what nobody may change, and that every cent is somewhere."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.apps.marketplace.money import Purse, is_whole, purse_of
from tests.apps.marketplace.support import AMOUNT, MINUTE, NOW, Market
from tests.daily import daily_seed
from timebell.apps.marketplace.payments.ledger_store import LedgerStore
from timebell.apps.marketplace.payments.models import Balance, Entry, NewEntry, Payment, PaymentLine, Pot
from timebell.apps.marketplace.payments.rules import balance_of, charge_entries, freeze_entries, refunds_of
from timebell.testing import ManualClock
from timebell.testing.database import TestDatabase


def entry(
    payment: Payment, type: str, places: str, amount: int, time_log_id: Any = None, **given: Any
) -> NewEntry:
    from_place, _, to_place = places.partition(">")
    said: dict[str, Any] = {
        "payment_id": payment.id,
        "time_log_id": time_log_id,
        "provider_ref": "x",
        **given,
    }
    return NewEntry(type=type, from_place=from_place, to_place=to_place, amount=amount, **said)  # type: ignore[arg-type]


async def written(purse: Purse, *entries: NewEntry) -> None:
    """Past the check of what is posted together, so that the database has the word."""
    async with purse.bell.transaction() as tx:
        booking = await purse.booking(tx)
        await purse.ledger._store.insert_entries(
            tx,
            booking_id=booking.id,
            currency=booking.currency,
            ids=[uuid4() for _ in entries],
            entries=entries,
        )


async def refused(purse: Purse, constraint: str, *entries: NewEntry) -> None:
    before = await purse.balance()
    with pytest.raises(asyncpg.IntegrityConstraintViolationError) as caught:
        await written(purse, *entries)
    assert caught.value.constraint_name == constraint
    assert await purse.balance() == before, "nothing of it was written"


@pytest.mark.req("D-6.10")
async def test_what_was_paid_is_held_for_its_shifts(market: Market) -> None:
    purse = await purse_of(market)
    assert await purse.balance() == Balance()
    await purse.paid(0, 1)
    assert await purse.balance() == Balance(charged=2 * AMOUNT, held=2 * AMOUNT)
    assert await purse.shift_balance(0) == Balance(charged=AMOUNT, held=AMOUNT)
    assert await purse.shift_balance(2) == Balance()


@pytest.mark.req("X-J62")
async def test_the_database_refuses_what_does_not_add_up(market: Market) -> None:
    purse = await purse_of(market)
    payment = await purse.payment(0, 1)
    one, other, third = purse.shift_ids
    whole = charge_entries(payment, "pi_1")
    await refused(purse, "ledger_clearing", whole[0])
    await refused(purse, "ledger_clearing", *whole[:2])
    await refused(purse, "ledger_payment", replace(whole[0], amount=AMOUNT), *whole[1:2])
    await refused(purse, "ledger_confirmed", replace(whole[0], provider_ref=None), *whole[1:])
    await refused(purse, "ledger_clearing", *whole, entry(payment, "hold", "clearing>held", 1, third))
    await written(purse, *whole)
    # Once for each payment, whatever is repeated.
    await refused(purse, "idx_ledger_entries_charge", *whole)
    await refused(purse, "ledger_escrow", entry(payment, "release", "held>lender", AMOUNT + 1, one))
    await refused(purse, "ledger_escrow", entry(payment, "release", "held>lender", 1, third))
    await refused(purse, "ledger_escrow", entry(payment, "refund", "frozen>card", 1, one))
    await refused(purse, "ledger_escrow", entry(payment, "unfreeze", "frozen>held", 1, one))
    await refused(purse, "ledger_movement", entry(payment, "release", "lender>held", 1, one))
    await refused(purse, "ledger_movement", entry(payment, "refund", "card>held", 1, one))
    await refused(
        purse, "ledger_confirmed", entry(payment, "release", "held>lender", 1, one, provider_ref=None)
    )
    await refused(purse, "ledger_entries_amount_check", entry(payment, "release", "held>lender", 0, one))
    await refused(purse, "ledger_entries_amount_check", entry(payment, "release", "held>lender", -1, one))
    stranger = await purse_of(market, 1)
    await refused(purse, "ledger_time_log", entry(payment, "freeze", "held>frozen", 1, stranger.shift_ids[0]))
    await refused(stranger, "ledger_payment", entry(payment, "freeze", "held>frozen", 1, one))
    await written(purse, entry(payment, "release", "held>lender", AMOUNT, one))
    assert await purse.balance() == Balance(charged=2 * AMOUNT, held=AMOUNT, released=AMOUNT)
    assert await purse.shift_balance(1) == Balance(charged=AMOUNT, held=AMOUNT)
    await written(purse, entry(payment, "refund", "held>card", AMOUNT, other))
    assert await purse.balance() == Balance(charged=2 * AMOUNT, released=AMOUNT, refunded=AMOUNT)


@pytest.mark.req("X-J62")
async def test_a_shift_is_paid_for_and_released_once(market: Market) -> None:
    purse = await purse_of(market, 1)
    first = await purse.paid(0)
    second = await purse.payment(0)
    await refused(purse, "ledger_paid_once", *charge_entries(second, "pi_2"))
    (one,) = purse.shift_ids
    await written(purse, entry(first, "release", "held>lender", 1, one))
    await refused(purse, "idx_ledger_entries_release", entry(first, "release", "held>lender", 1, one))
    await written(purse, entry(first, "refund", "held>card", AMOUNT - 1, one))
    await refused(purse, "ledger_paid_once", *charge_entries(second, "pi_2"))


async def test_what_went_back_may_be_paid_for_again(market: Market) -> None:
    purse = await purse_of(market, 1)
    first = await purse.paid(0)
    await written(purse, entry(first, "refund", "held>card", AMOUNT, purse.shift_ids[0]))
    await purse.paid(0)
    assert await purse.balance() == Balance(charged=2 * AMOUNT, held=AMOUNT, refunded=AMOUNT)


async def test_another_currency_is_refused(market: Market) -> None:
    purse = await purse_of(market, 1)
    payment = await purse.payment(0)
    await market.rows("UPDATE marketplace.staffing_bookings SET currency = 'USD' WHERE id = $1", purse.id)
    async with purse.bell.transaction() as tx:
        booking = replace(await purse.booking(tx), currency="EUR")

    async def post() -> None:
        async with purse.bell.transaction() as tx:
            await purse.ledger.post(tx, booking, charge_entries(payment, "pi_1"))

    with pytest.raises(asyncpg.CheckViolationError) as caught:
        await post()
    assert caught.value.constraint_name == "ledger_currency"


@pytest.mark.req("D-6.10")
@pytest.mark.parametrize("role", ["url", "api_url", "read_url"])
async def test_nobody_changes_what_was_written(market: Market, role: str) -> None:
    purse = await purse_of(market, 1)
    await purse.paid(0)
    urls: TestDatabase = market.database
    connection = await asyncpg.connect(getattr(urls, role), timeout=10)
    try:
        for verb in (
            "UPDATE marketplace.ledger_entries SET amount = 1",
            "DELETE FROM marketplace.ledger_entries",
            "TRUNCATE marketplace.ledger_entries",
            "UPDATE marketplace.payment_lines SET amount = 1",
        ):
            with pytest.raises((asyncpg.InsufficientPrivilegeError, asyncpg.ReadOnlySQLTransactionError)):
                await connection.execute(verb)
    finally:
        await connection.close(timeout=10)
    assert await purse.balance() == Balance(charged=AMOUNT, held=AMOUNT)


async def test_the_past_can_be_read(market: Market) -> None:
    purse = await purse_of(market)
    await purse.paid(0, 1)
    market.clock.move(MINUTE)
    async with purse.bell.transaction() as tx:
        frozen = await purse.ledger.freeze(tx, await purse.booking(tx), await purse.shift(tx, 0), uuid4())
    assert frozen == AMOUNT
    assert await purse.balance(at=NOW - MINUTE) == Balance()
    assert await purse.balance(at=NOW) == Balance(charged=2 * AMOUNT, held=2 * AMOUNT)
    assert await purse.balance(at=NOW + MINUTE) == Balance(charged=2 * AMOUNT, held=AMOUNT, frozen=AMOUNT)


async def test_nothing_is_written_before_what_was_written(market: Market) -> None:
    """Where a transaction began before another that was quicker, what it writes is later all the same."""
    purse = await purse_of(market)
    await purse.paid(0)
    purse.ledger._store = LedgerStore(ManualClock(NOW - MINUTE))
    await purse.paid(1)
    rows = await market.rows("SELECT DISTINCT at FROM marketplace.ledger_entries")
    assert [row["at"] for row in rows] == [NOW]


async def test_entries_are_paged_in_the_order_of_writing(market: Market) -> None:
    purse = await purse_of(market)
    for number in range(3):
        await purse.paid(number)
        market.clock.move(MINUTE)
    seen: list[Entry] = []
    cursor = None
    for _ in range(4):
        async with purse.bell.transaction() as tx:
            page = await purse.ledger.entries(tx, purse.id, limit=2, cursor=cursor)
        seen += page.lines
        cursor = page.next_cursor
        if cursor is None:
            break
    assert len(seen) == 6
    assert [each.at for each in seen] == sorted(each.at for each in seen)
    async with purse.bell.transaction() as tx:
        past = await purse.ledger.entries(tx, purse.id, limit=50, cursor=None, at=NOW + MINUTE)
    assert len(past.lines) == 4


def test_rules() -> None:
    one, payment = uuid4(), uuid4()
    pots = [
        Pot(time_log_id=one, payment_id=payment, charge_ref="pi_1", held=5, leaving=2),
        Pot(time_log_id=uuid4(), payment_id=payment, charge_ref="pi_1", held=5, leaving=5),
        Pot(time_log_id=uuid4(), payment_id=uuid4(), charge_ref="pi_2", frozen=7),
    ]
    assert refunds_of(pots) == {payment: [PaymentLine(time_log_id=one, amount=3)]}
    assert [(each.time_log_id, each.amount) for each in freeze_entries(pots, uuid4())] == [(one, 3)]


MOVES = {
    "release": ("held>lender", "held"),
    "refund": ("held>card", "held"),
    "freeze": ("held>frozen", "held"),
    "unfreeze": ("frozen>held", "frozen"),
    "refund_frozen": ("frozen>card", "frozen"),
    "release_frozen": ("frozen>lender", "frozen"),
}


@pytest.mark.req("X-J62")
@pytest.mark.req("D-6.10")
async def test_every_cent_is_somewhere_at_every_instant(market: Market) -> None:
    """Random postings, allowed or not: what the database takes adds up at every past instant, and what it refuses
    leaves nothing."""
    chance = random.Random(daily_seed())
    taken = 0
    for _ in range(4):
        purse = await purse_of(market, 3)
        payments: list[Payment] = []
        for _ in range(30):
            market.clock.move(timedelta(seconds=chance.randint(0, 3)))
            try:
                if not payments or chance.random() < 0.15:
                    numbers = chance.sample(range(3), chance.randint(1, 3))
                    payment = await purse.payment(*numbers)
                    await written(purse, *charge_entries(payment, f"pi_{payment.id}"))
                    payments.append(payment)
                else:
                    payment = chance.choice(payments)
                    name = chance.choice(list(MOVES))
                    shift = chance.choice(payment.lines).time_log_id
                    amount = chance.choice([1, AMOUNT // 4, AMOUNT // 2, AMOUNT])
                    type = name.removesuffix("_frozen")
                    await written(purse, entry(payment, type, MOVES[name][0], amount, shift))
                taken += 1
            except asyncpg.IntegrityConstraintViolationError:
                pass
        async with purse.bell.transaction() as tx:
            everything = (await purse.ledger.entries(tx, purse.id, limit=500, cursor=None)).lines
        for at in {each.at for each in everything}:
            balance = await purse.balance(at=at)
            assert is_whole(balance), (at, balance)
            assert balance == balance_of([each for each in everything if each.at <= at])
        for number in range(3):
            assert is_whole(await purse.shift_balance(number))
            shift = purse.shift_ids[number]
            assert await purse.shift_balance(number) == balance_of(
                [each for each in everything if each.time_log_id == shift]
            )
            released = [each for each in everything if each.time_log_id == shift and each.type == "release"]
            assert len(released) <= 1
    assert taken > 20, "most of the walk was refused, and shows little"


@given(st.lists(st.tuples(st.sampled_from(list(MOVES)), st.integers(1, 50)), max_size=30))
def test_a_balance_is_always_whole(moves: list[tuple[str, int]]) -> None:
    """Whatever is written, if it never takes more than is there."""
    payment, shift = uuid4(), uuid4()
    entries = [
        NewEntry(type="charge", from_place="card", to_place="clearing", amount=100, payment_id=payment),
        NewEntry(
            type="hold",
            from_place="clearing",
            to_place="held",
            amount=100,
            payment_id=payment,
            time_log_id=shift,
        ),
    ]
    for name, amount in moves:
        places, source = MOVES[name]
        if getattr(balance_of(entries), source) >= amount:
            from_place, _, to_place = places.partition(">")
            entries.append(
                NewEntry(
                    type=name.removesuffix("_frozen"),  # type: ignore[arg-type]
                    from_place=from_place,  # type: ignore[arg-type]
                    to_place=to_place,  # type: ignore[arg-type]
                    amount=amount,
                    payment_id=payment,
                    time_log_id=shift,
                )
            )
    assert is_whole(balance_of(entries))
    assert balance_of(entries).charged == 100
    assert balance_of([each for each in entries if each.time_log_id]) == balance_of(entries)
