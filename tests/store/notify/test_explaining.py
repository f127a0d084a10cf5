"""Why something was told or not: from what was stored, and by the rules that a delivery goes by."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import time, timedelta
from typing import Any
from uuid import UUID, uuid4

import orjson
import pytest

from tests.store.notify.support import held, insert
from tests.store.support import HOUR, NOW, StillClock, Tables
from timebell.errors import InvalidInput, NotFound
from timebell.kernel import Timebell
from timebell.notify.explain.explaining import Explainer
from timebell.notify.explain.notifications import Notifications
from timebell.notify.models import Cap, QuietHours, Recipient, Tell
from timebell.notify.people.opt_outs import OptOuts
from timebell.notify.people.policies import Policies
from timebell.notify.people.recipients import Recipients
from timebell.notify.people.suppressions import Suppressions
from timebell.notify.templates.models import TemplateDraft, Text
from timebell.notify.templates.templates import Templates


@pytest.fixture
def explainer(bell: Timebell) -> Explainer:
    return Explainer(bell)


async def ana(bell: Timebell, tenant: str = "default", **terms: Any) -> Recipient:
    async with bell.transaction(tenant=tenant) as tx:
        given = {"name": "Ana", "email": "ana@example.org", "timezone": "Europe/Berlin", **terms}
        return await Recipients(bell).add(tx, **given)


async def hello(bell: Timebell, *channels: Any, tenant: str = "default") -> None:
    texts = [
        Text(channel=channel, language="en", subject=None if channel == "sms" else "Hello", body="Hello")
        for channel in channels
    ]
    async with bell.transaction(tenant=tenant) as tx:
        await Templates(bell).save(tx, TemplateDraft(key="hello", texts=texts, topic="news"))


def decisions(*checks: Mapping[str, Any], at: Any = NOW) -> str:
    return orjson.dumps([{"at": at.isoformat(), "checks": checks}]).decode()


async def noted(bell: Timebell, tables: Tables, recipient: Recipient, **values: Any) -> UUID:
    """One that was told, unless the values say otherwise."""
    told = {"state": "sent", "reason": "accepted", "settled_at": NOW, "held_until": None, "decisions": "[]"}
    given = {**told, **values}
    return await held(bell, tables, recipient.id, given["reason"], tenant=recipient.tenant, **given)


@pytest.mark.req("D-2.5")
async def test_a_story_in_order(bell: Timebell, tables: Tables, explainer: Explainer) -> None:
    recipient = await ana(bell)
    checks: list[dict[str, Any]] = [
        {"name": "address", "verdict": "refused", "reason": "no_address", "detail": {"channel": "sms"}},
        {"name": "channel", "verdict": "chosen", "detail": {"channel": "email"}},
        {"name": "provider", "verdict": "passed", "detail": {"provider": "resend", "answer": "sent"}},
    ]
    id = await noted(
        bell, tables, recipient, decisions=decisions(*checks), subject="booking:1", template_version=3
    )
    delivery = uuid4()
    await insert(
        tables,
        "deliveries",
        tenant="default",
        id=delivery,
        notification_id=id,
        recipient_id=recipient.id,
        channel="email",
        provider="resend",
        address="ana@example.org",
        state="sent",
        created_at=NOW,
        updated_at=NOW,
    )
    await insert(tables, "attempts", tenant="default", delivery_id=delivery, number=1, started_at=NOW)
    explained = await explainer.explain(id)
    assert explained.summary == "It was sent by email: the provider took it."
    assert [line.text for line in explained.story] == [
        "'hello' (version 3) was asked for about 'booking:1', due at 2027-03-01 10:00 Europe/Berlin.",
        "Not by SMS: the recipient has no address for the channel.",
        "It is told by email.",
        "resend took it.",
        "resend was called, and has not answered yet.",
    ]
    assert explained.notification is not None
    assert explained.notification.template_version == 3
    assert [one.number for one in explained.deliveries[0].attempts] == [1]


async def test_a_job_that_was_cancelled_tells_its_notification(
    bell: Timebell, tables: Tables, explainer: Explainer
) -> None:
    id = await held(bell, tables, (await ana(bell)).id, "held_quiet_hours", decisions="[]")
    assert (await explainer.explain(id)).summary == (
        "It is held until 2027-03-01 11:00 Europe/Berlin: it waits for the end of the recipient's quiet hours."
    )
    async with bell.transaction() as tx:
        await bell.cancel(tx, id=id, reason="booking cancelled")
    explained = await explainer.explain(id)
    assert explained.summary == "It was withdrawn before it was told: booking cancelled."
    assert explained.story[-1].text == explained.summary


async def test_nothing_of_another_tenant_is_explained(
    bell: Timebell, tables: Tables, explainer: Explainer
) -> None:
    """A against B: neither the notification, nor who is told, nor what is alike, nor what waits for a person."""
    recipient = await ana(bell, "a")
    await hello(bell, "email", tenant="b")
    id = await noted(bell, tables, recipient, state="failed", reason="bounced")
    notifications = Notifications(bell)
    for tenant in ("b", "default"):
        with pytest.raises(NotFound):
            await explainer.explain(id, tenant=tenant)
        with pytest.raises(NotFound):
            await notifications.get(id, tenant=tenant)
        assert (await notifications.list(tenant=tenant)).lines == ()
        assert (await notifications.needs_attention(tenant=tenant)).lines == ()
    why = await explainer.why_not(recipient.id, "hello", tenant="b")
    assert (why.answer, why.alike) == ("not_told", ())
    assert why.summary == "It would not be told: there is no such recipient, or it was erased."
    assert [line.id for line in (await notifications.list(tenant="a")).lines] == [id]


async def test_an_ordinary_job_is_no_notification(bell: Timebell, explainer: Explainer) -> None:
    async with bell.transaction() as tx:
        job = await bell.enqueue(tx, "office.ring")
    with pytest.raises(NotFound):
        await explainer.explain(job.id)


async def test_lists_are_filtered_and_paged(bell: Timebell, tables: Tables) -> None:
    notifications = Notifications(bell)
    one, other = await ana(bell), await ana(bell, name="Bo")
    ids = [await noted(bell, tables, one, subject="booking:1") for _ in range(3)]
    failed = await noted(bell, tables, other, state="failed", reason="bounced", template="bye")
    waiting = await held(bell, tables, other.id, "template_incomplete", state="skipped")
    doubtful = await noted(bell, tables, one, state="uncertain", reason="no_answer")
    everything = [doubtful, waiting, failed, *reversed(ids)]
    assert [line.id for line in (await notifications.list()).lines] == everything
    seen: list[UUID] = []
    cursor = None
    for _ in range(3):
        page = await notifications.list(limit=2, cursor=cursor)
        seen += [line.id for line in page.lines]
        cursor = page.next_cursor
    assert (seen, cursor) == (everything, None)
    assert [line.id for line in (await notifications.list(recipient=other.id)).lines] == [waiting, failed]
    assert [line.id for line in (await notifications.list(subject="booking:1")).lines] == ids[::-1]
    assert [line.id for line in (await notifications.list(state="failed")).lines] == [failed]
    assert [line.id for line in (await notifications.list(template="bye")).lines] == [failed]
    first = await notifications.needs_attention(limit=2)
    second = await notifications.needs_attention(limit=2, cursor=first.next_cursor)
    assert [line.id for line in (*first.lines, *second.lines)] == [failed, waiting, doubtful]
    with pytest.raises(InvalidInput, match="state"):
        await notifications.list(state="lost")  # type: ignore[arg-type]


async def test_why_not_says_that_nothing_stands_in_the_way(bell: Timebell, explainer: Explainer) -> None:
    recipient = await ana(bell)
    await hello(bell, "email")
    why = await explainer.why_not(recipient.id, "hello")
    assert (why.answer, why.at, why.summary) == ("told", NOW, "Nothing stands in the way.")
    assert [line.text for line in why.story] == ["It is told by email."]


@pytest.mark.req("U-12")
async def test_why_not_at_night(bell: Timebell, explainer: Explainer) -> None:
    """At an instant of tomorrow, by the quiet hours of the recipient's zone."""
    recipient = await ana(bell, quiet_hours=QuietHours(start=time(22), end=time(7)))
    await hello(bell, "email", "inbox")
    night = NOW + timedelta(hours=14)
    why = await explainer.why_not(recipient.id, "hello", night)
    assert (why.answer, why.until) == ("held", night + timedelta(hours=7))
    assert why.summary.startswith("It would be held until 2027-03-02 07:00 Europe/Berlin: ")
    urgent = Tell(recipient=recipient.id, template="hello", urgency="critical")
    assert (await explainer.why_not(recipient.id, "hello", night, tell=urgent)).answer == "told"
    brief = Tell(recipient=recipient.id, template="hello", expires_at=night + HOUR, on_quiet="drop")
    why = await explainer.why_not(recipient.id, "hello", night, tell=brief)
    assert (why.answer, why.summary) == (
        "not_told",
        "It would not be told: the recipient's quiet hours would have made it late.",
    )


async def test_why_not_names_what_stands_in_the_way(bell: Timebell, explainer: Explainer) -> None:
    recipient = await ana(bell)
    assert (await explainer.why_not(recipient.id, "hello")).summary == (
        "It would not be told: there is no such template, or no text of it for the channel."
    )
    await hello(bell, "sms")
    why = await explainer.why_not(recipient.id, "hello")
    assert [line.text for line in why.story] == [
        "Not by email: there is no such template, or no text of it for the channel."
    ]
    await hello(bell, "email")
    async with bell.transaction() as tx:
        await Suppressions(bell).add(tx, channel="email", address="ana@example.org")
    why = await explainer.why_not(recipient.id, "hello")
    assert why.summary == "It would not be told: the address is on the suppression list."
    async with bell.transaction() as tx:
        await OptOuts(bell).add(tx, recipient.id, topic="news")
    why = await explainer.why_not(recipient.id, "hello")
    assert [line.text for line in why.story] == [
        "Not by email: the recipient opted out of 'news' on every channel."
    ]


async def test_why_not_counts_what_the_cap_counted(
    bell: Timebell, tables: Tables, explainer: Explainer
) -> None:
    recipient = await ana(bell)
    await hello(bell, "email", "inbox")
    async with bell.transaction() as tx:
        await Policies(bell).change(tx, caps=[Cap(count=1, per=timedelta(days=1))])
    sent = {"tenant": "default", "recipient_id": recipient.id, "channel": "", "sent_ats": [NOW - HOUR]}
    await insert(tables, "recent_sends", **sent)
    why = await explainer.why_not(recipient.id, "hello")
    assert (why.answer, why.until) == ("held", NOW + 23 * HOUR)
    assert (await explainer.why_not(recipient.id, "hello", NOW + 24 * HOUR)).answer == "told"
    for tell in (
        Tell(recipient=recipient.id, template="hello", urgency="critical"),
        Tell(recipient=recipient.id, template="hello", channels=["inbox"]),
    ):
        assert (await explainer.why_not(recipient.id, "hello", tell=tell)).answer == "told"


async def test_why_not_shows_what_there_was(
    bell: Timebell, tables: Tables, clock: StillClock, explainer: Explainer
) -> None:
    """Whoever asks why there was nothing at nine is shown what became of what was due at nine."""
    recipient = await ana(bell)
    await hello(bell, "email")
    id = await noted(bell, tables, recipient, state="skipped", reason="expired", due_at=NOW)
    await noted(bell, tables, recipient, due_at=NOW - timedelta(days=2))
    await noted(bell, tables, recipient, template="bye")
    clock.now = NOW + timedelta(days=3)
    why = await explainer.why_not(recipient.id, "hello", NOW + HOUR)
    assert [(one.id, one.summary) for one in why.alike] == [(id, "It was not told: its time had passed.")]


async def test_why_not_refuses_what_cannot_be_asked(bell: Timebell, explainer: Explainer) -> None:
    for recipient, template, field in [("ana", "hello", "recipient"), (uuid4(), "", "template")]:
        with pytest.raises(InvalidInput, match=field):
            await explainer.why_not(recipient, template)  # type: ignore[arg-type]
