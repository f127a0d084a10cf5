"""RabbitMQ keeps the contract, with a real broker."""

from __future__ import annotations

import pytest

from tests.contract.brokers.rabbit_server import RabbitServer
from tests.contract.brokers.rabbit_side import rabbit_side
from timebell.testing.broker_suite import CHECKS, Check, name_of


@pytest.mark.req("S-1.1")
@pytest.mark.parametrize("check", CHECKS, ids=name_of)
async def test_it_conforms(check: Check, rabbit: RabbitServer) -> None:
    # What is blocked is the whole broker, for everybody; and what is on its way then waits until its deadline.
    is_blocked = "blocked" in name_of(check)
    async with rabbit_side(rabbit, is_alone=is_blocked) as side:
        if is_blocked:
            side.publish_seconds = 2.0
        await check(side)
