"""`timebell ledger verify`: what it proves, and that it finds what somebody changed past the database."""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg
import pytest

from tests.acceptance.processes import answer, command
from tests.apps.marketplace.money import BY, Purse, purse_of
from tests.apps.marketplace.shift_support import disputed
from tests.apps.marketplace.support import AMOUNT, MINUTE, Market
from tests.docs.markdown import blocks
from tests.shape.tree import ROOT
from timebell.apps.marketplace.commands import verify_ledger
from timebell.apps.marketplace.payments import verifying


async def tampered(market: Market, *statements: str) -> None:
    """As the owner of the tables, whom neither grants nor triggers stop."""
    connection = await asyncpg.connect(market.database.admin_url, timeout=10)
    try:
        async with connection.transaction():
            await connection.execute("SET LOCAL session_replication_role = replica")
            for statement in statements:
                assert (await connection.execute(statement)).split()[-1] != "0", statement
    finally:
        await connection.close(timeout=10)


async def walked(market: Market) -> Purse:
    """Two payments: of the first one shift is paid out, one is frozen and one is back; the second came too late."""
    purse = await purse_of(market, 4)
    await purse.paid(0, 1, 2)
    market.clock.move(MINUTE)
    await purse.verified(0)
    await purse.owe(0)
    await purse.refund(2)
    await market.bench.run_due()
    market.clock.move(MINUTE)
    late = await purse.payment(3, status="Failed")
    async with purse.bell.transaction() as tx:
        await purse.payouts.refund_payment(tx, await purse.booking(tx), late, "too late", BY)
    await purse.verified(1)
    await market.rows(
        "UPDATE marketplace.time_log SET verified_by = 'auto', auto_approval_time = $2 WHERE id = $1",
        *(purse.shift_ids[1], market.clock.now + MINUTE),
    )
    await disputed(market, str(purse.shift_ids[1]))
    await market.bench.run_due()
    return purse


async def misfits(market: Market, tenant: str = "default") -> Sequence[str]:
    made = await verify_ledger(market.bench.bell, tenant=tenant)
    assert made.is_failure == bool(made.value["misfits"])
    return [each["what"] for each in made.value["misfits"]]


@pytest.mark.req("X-J62")
async def test_what_fits_is_proven(market: Market) -> None:
    await walked(market)
    made = await verify_ledger(market.bench.bell, tenant="default")
    assert (made.value["misfits"], made.is_failure) == ([], False)
    assert (made.value["bookings"], made.value["entries"]) == (1, 9)
    assert made.lines == ["9 entries of 1 bookings: every cent is somewhere."]
    assert (await verify_ledger(market.bench.bell, tenant="other")).value["bookings"] == 0


ENTRIES = "marketplace.ledger_entries"


@pytest.mark.req("X-J62")
@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (f"UPDATE {ENTRIES} SET amount = amount + 1 WHERE type = 'charge'", "was nowhere"),
        (f"UPDATE {ENTRIES} SET amount = amount - 1 WHERE type = 'hold'", "was nowhere"),
        (f"UPDATE {ENTRIES} SET amount = amount + 1 WHERE type = 'release'", "more had left than was held"),
        (f"DELETE FROM {ENTRIES} WHERE type = 'release'", "the ledger tells otherwise"),
        (
            f"DELETE FROM {ENTRIES} WHERE type = 'freeze'",
            f"the audit trail tells of {AMOUNT} frozen, and the ledger of 0",
        ),
        # As it would be if the entry that unfroze it were gone.
        (
            "UPDATE marketplace.disputes SET status = 'Resolved', resolved_at = dispute_filed_at",
            f"{AMOUNT} is frozen for it, and it is resolved",
        ),
        ("DELETE FROM marketplace.disputes", "was frozen for it, and it is not of this booking"),
        (
            f"UPDATE {ENTRIES} SET at = at - interval '1 hour' WHERE type = 'release'",
            "more had left than was held",
        ),
        (
            f"UPDATE {ENTRIES} SET provider_ref = 'x' WHERE type = 'release'",
            "no payout was sent under that name",
        ),
        (f"UPDATE {ENTRIES} SET provider_ref = 'x' WHERE type = 'charge'", "the charge is called x"),
        (f"UPDATE {ENTRIES} SET currency = 'USD' WHERE type = 'freeze'", "it is in USD"),
        (
            f"UPDATE {ENTRIES} SET payment_id = gen_random_uuid() WHERE type = 'freeze'",
            "is not of this booking",
        ),
        (
            f"INSERT INTO {ENTRIES} SELECT tenant, gen_random_uuid(), booking_id, at, type, from_place, to_place, "
            f"amount, currency, time_log_id, dispute_id, payment_id, 'again' FROM {ENTRIES} WHERE type = 'refund' "
            "AND from_place = 'held'",
            "more had left than was held",
        ),
        ("UPDATE marketplace.payouts SET amount = amount - 1 WHERE sort = 'transfer'", "its lines are"),
        (
            "UPDATE marketplace.payouts SET state = 'pending', provider_ref = NULL WHERE sort = 'transfer'",
            "no payout",
        ),
        ("DELETE FROM marketplace.payouts WHERE sort = 'transfer'", "the audit trail tells of"),
        (
            "UPDATE marketplace.payout_lines SET amount = 1 WHERE sort = 'transfer'",
            "the ledger tells otherwise",
        ),
        ("UPDATE marketplace.payment_lines SET amount = amount + 1", "is not what it was for"),
        ("UPDATE marketplace.pending_payments SET amount = amount + 1", "was charged of"),
        ("UPDATE marketplace.pending_payments SET status = 'Failed'", "and was charged"),
        ("UPDATE marketplace.pending_payments SET status = 'Succeeded'", "went back"),
    ],
)
async def test_what_somebody_changed_is_found(market: Market, statement: str, said: str) -> None:
    await walked(market)
    await tampered(market, statement)
    found = await misfits(market)
    assert any(said in each for each in found), found


async def test_a_change_that_agrees_with_itself_is_told_by_the_audit_trail(market: Market) -> None:
    """Somebody who pays themselves less, in every table at once, forgets what was recorded."""
    purse = await walked(market)
    less = f"amount = {AMOUNT - 1}"
    await tampered(
        market,
        f"UPDATE {ENTRIES} SET {less} WHERE type = 'release'",
        f"UPDATE marketplace.payouts SET {less} WHERE sort = 'transfer'",
        f"UPDATE marketplace.payout_lines SET {less} WHERE sort = 'transfer'",
    )
    (found,) = await misfits(market)
    assert f"the audit trail tells of {AMOUNT} sent as" in found
    assert (await purse.balance()).held == 1


async def test_all_bookings_are_looked_at(market: Market, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying, "_BOOKINGS", 2)
    purses = [await purse_of(market, 1) for _ in range(5)]
    for purse in purses:
        await purse.paid(0)
    assert await misfits(market) == []
    await tampered(market, f"UPDATE {ENTRIES} SET amount = amount + 1 WHERE type = 'charge'")
    made = await verify_ledger(market.bench.bell, tenant="default")
    assert {each["booking_id"] for each in made.value["misfits"]} == {purse.id for purse in purses}
    monkeypatch.setattr(verifying, "_MISFITS_MAX", 3)
    made = await verify_ledger(market.bench.bell, tenant="default")
    assert (len(made.value["misfits"]), made.value["is_cut"]) == (3, True)


async def test_as_an_operator_types_it(market: Market) -> None:
    purse = await walked(market)
    around = {"DATABASE_URL": market.database.url, "TIMEBELL_APPS": "timebell.apps.marketplace"}
    proven = command("ledger", "verify", **around)
    assert (proven.returncode, proven.stderr) == (0, "")
    page = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    assert proven.stdout.replace("9 entries of 1", "1834 entries of 30") in [
        block.code for block in blocks(page) if block.language == "text"
    ]
    assert answer("ledger", "verify", **around)["misfits"] == []
    await tampered(market, f"DELETE FROM {ENTRIES} WHERE type = 'release'")
    found = command("ledger", "verify", **around)
    assert found.returncode == 1
    assert f"booking {purse.id}: payout " in found.stdout
