"""Unsubscribing: the token opts out, as often as it is used, and only when it is asked to."""

from __future__ import annotations

from uuid import UUID

import pytest

from timebell.config import Settings
from timebell.errors import InvalidInput, NotFound
from timebell.kernel import Timebell
from timebell.notify.models import OptOut
from timebell.notify.people.recipients import Recipients
from timebell.notify.people.unsubscribing import Unsubscribing, WayOut


async def test_a_token_opts_out_of_its_topic_on_its_channel(bell: Timebell) -> None:
    recipients = Recipients(bell)
    unsubscribing = Unsubscribing(Settings(secret_key="k" * 32), recipients.opt_outs)
    async with bell.transaction(tenant="acme") as tx:
        ana = await recipients.add(tx, name="Ana")
    token = unsubscribing.token(WayOut(tenant="acme", recipient=ana.id, topic="news", channel="email"))
    way = unsubscribing.read(token)
    assert (await recipients.get(ana.id, tenant="acme")).opt_outs == ()
    for is_new in (True, False):
        async with bell.transaction(tenant=way.tenant) as tx:
            assert await unsubscribing.unsubscribe(tx, token) is is_new
    assert (await recipients.get(ana.id, tenant="acme")).opt_outs == (OptOut(topic="news", channel="email"),)


async def test_a_token_acts_in_its_own_tenant_for_whom_there_is(bell: Timebell) -> None:
    recipients = Recipients(bell)
    unsubscribing = Unsubscribing(Settings(secret_key="k" * 32), recipients.opt_outs)
    token = unsubscribing.token(WayOut(tenant="acme", recipient=UUID(int=7), topic=None, channel="email"))
    async with bell.transaction() as tx:
        with pytest.raises(InvalidInput, match="another tenant"):
            await unsubscribing.unsubscribe(tx, token)
    async with bell.transaction(tenant="acme") as tx:
        with pytest.raises(NotFound):
            await unsubscribing.unsubscribe(tx, token)
