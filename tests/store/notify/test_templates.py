"""Templates in the database: versions, what is shipped, what is pinned, and what another tenant cannot see."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

from tests.store.support import NOW, Tables
from timebell.errors import InvalidInput, InvalidTemplate, NotFound
from timebell.kernel import Timebell
from timebell.notify.models import Address, Recipient
from timebell.notify.service import Notify
from timebell.notify.templates.models import (
    Reader,
    Rendered,
    Template,
    TemplateDraft,
    Text,
    Unrendered,
    Variable,
)
from timebell.notify.templates.templates import Templates


def draft(body: str = "Hi {{ name }}", key: str = "greeting", language: str = "en") -> TemplateDraft:
    return TemplateDraft(
        key=key,
        texts=[Text(channel="sms", language=language, body=body)],
        variables=[Variable(name="name", policy="default", default={"a": [1, "ü"]})],
    )


@pytest_asyncio.fixture
async def templates(bell: Timebell) -> Templates:
    return Templates(bell)


async def save(
    bell: Timebell, templates: Templates, body: str, *, tenant: str = "default", key: str = "greeting"
) -> Template:
    async with bell.transaction(tenant=tenant) as tx:
        return await templates.save(tx, draft(body, key), actor="ann")


async def ship(bell: Timebell, templates: Templates, body: str, *, is_locked: bool = False) -> Template:
    async with bell.transaction() as tx:
        return await templates.ship(tx, draft(body), is_locked=is_locked)


async def shipped(bell: Timebell) -> dict[str, list[int]]:
    """The versions of each key that is shipped, the current one last."""
    async with bell.database.connection() as session:
        rows = await session.connection.fetch(
            "SELECT key, version FROM timebell_notify.templates WHERE tenant = '' ORDER BY is_current, version"
        )
    return {
        key: [row["version"] for row in rows if row["key"] == key] for key in {row["key"] for row in rows}
    }


async def test_of_many_that_are_shipped_only_what_changed_is_a_new_version(
    bell: Timebell, templates: Templates
) -> None:
    drafts = [draft("one", "first"), draft("two", "second"), draft("three", "third")]
    for said, versions in (
        (drafts, {"first": [1], "second": [1], "third": [1]}),
        (drafts, {"first": [1], "second": [1], "third": [1]}),
        ([drafts[0], draft("other", "second")], {"first": [1], "second": [1, 2], "third": [1]}),
        ((), {"first": [1], "second": [1, 2], "third": [1]}),
    ):
        async with bell.transaction() as tx:
            await templates.ship_all(tx, said)
        assert await shipped(bell) == versions
    async with bell.transaction() as tx:
        await templates.ship_all(tx, drafts[:1], is_locked=True)
    assert (await templates.read("first", tenant="default")).is_locked
    assert await shipped(bell) == {"first": [1, 2], "second": [1, 2], "third": [1]}


async def test_of_many_none_is_shipped_where_one_is_wrong(bell: Timebell, templates: Templates) -> None:
    with pytest.raises(InvalidTemplate):
        async with bell.transaction() as tx:
            await templates.ship_all(tx, [draft("one", "first"), draft("{{ nobody }", "second")])
    assert await shipped(bell) == {}


async def body_of(templates: Templates, tenant: str = "default", version: int | None = None) -> str:
    return (await templates.read("greeting", tenant=tenant, version=version)).texts[0].body


@pytest.mark.req("D-2.3")
async def test_what_is_saved_is_read_again(bell: Timebell, templates: Templates) -> None:
    whole = TemplateDraft(
        key="booking.confirmed",
        topic="bookings",
        message_class="marketing",
        texts=[
            Text(
                channel="email",
                language="en",
                subject="S {{ name }}",
                body="<p>{{ name }}</p>",
                format="html",
            ),
            Text(channel="sms", language="de-AT", body="x"),
        ],
        variables=[Variable(name="name", policy="block")],
    )
    async with bell.transaction() as tx:
        saved = await templates.save(tx, whole, actor="ann")
    assert await templates.read("booking.confirmed", tenant="default") == saved
    assert (saved.version, saved.topic, saved.message_class, saved.is_shipped) == (
        1,
        "bookings",
        "marketing",
        False,
    )


@pytest.mark.req("D-2.3")
async def test_a_change_is_a_new_version_and_the_old_one_stays(bell: Timebell, templates: Templates) -> None:
    first = await save(bell, templates, "one {{ name }}")
    second = await save(bell, templates, "two {{ name }}")
    again = await save(bell, templates, "two {{ name }}")
    assert (first.version, second.version, again) == (1, 2, second)
    assert await body_of(templates) == "two {{ name }}"
    assert await body_of(templates, version=1) == "one {{ name }}"
    lines = await templates.versions("greeting", tenant="default")
    assert [(line.version, line.is_current) for line in lines] == [(2, True), (1, False)]


async def test_a_notification_keeps_the_version_that_it_was_planned_with(
    bell: Timebell, templates: Templates
) -> None:
    await save(bell, templates, "one {{ name }}")
    async with bell.transaction() as tx:
        (pinned,) = await templates.pin(tx, [("greeting", None)])
    await save(bell, templates, "two {{ name }}")
    kept = await templates.find("default", pinned.key, pinned.version)
    newest = await templates.find("default", pinned.key)
    shown = [
        each.render("sms", reader=Reader(), context={"name": "Bo"})
        for each in (kept, newest)
        if each is not None
    ]
    assert [each.content.text for each in shown if isinstance(each, Rendered)] == ["one Bo", "two Bo"]


async def test_what_is_saved_in_a_transaction_can_be_pinned_in_it(
    bell: Timebell, templates: Templates
) -> None:
    async with bell.transaction() as tx:
        await templates.save(tx, draft())
        pinned = await templates.pin(tx, [("greeting", None), ("greeting", 1)])
    assert [(one.version, one.topic) for one in pinned] == [(1, "greeting"), (1, "greeting")]


@pytest.mark.req("A-6.3")
async def test_a_template_that_there_is_not_is_refused_by_name(bell: Timebell, templates: Templates) -> None:
    await save(bell, templates, "x")
    async with bell.transaction() as tx:
        with pytest.raises(NotFound, match="'nothing' does not exist"):
            await templates.pin(tx, [("greeting", None), ("nothing", None)])
        with pytest.raises(NotFound, match="'greeting' has no version 9"):
            await templates.pin(tx, [("greeting", 9)])
        with pytest.raises(NotFound):
            await templates.use(tx, "greeting", 9)
        await templates.pin(tx, [("greeting", 1)])
    assert await templates.find("default", "nothing") is None
    assert await templates.find("default", "greeting", 9) is None


async def test_an_earlier_version_can_be_made_current_again(bell: Timebell, templates: Templates) -> None:
    await save(bell, templates, "one")
    await save(bell, templates, "two")
    async with bell.transaction() as tx:
        assert (await templates.use(tx, "greeting", 1)).version == 1
    assert await body_of(templates) == "one"
    assert (await save(bell, templates, "three")).version == 3


@pytest.mark.req("X-C17")
async def test_a_tenant_uses_what_is_shipped_until_it_has_its_own(
    bell: Timebell, templates: Templates
) -> None:
    shipped = await ship(bell, templates, "shipped")
    assert (await ship(bell, templates, "shipped")).version == shipped.version
    own = await save(bell, templates, "own", tenant="acme")
    assert (await body_of(templates, "acme"), await body_of(templates, "other")) == ("own", "shipped")
    assert own.version != shipped.version
    async with bell.transaction(tenant="acme") as tx:
        await templates.use(tx, "greeting")
    assert await body_of(templates, "acme") == "shipped"


@pytest.mark.req("X-C17", "D-2.3")
async def test_what_is_shipped_and_locked_stays_as_it_is(bell: Timebell, templates: Templates) -> None:
    await save(bell, templates, "own", tenant="acme")
    await ship(bell, templates, "locked", is_locked=True)
    assert await body_of(templates, "acme") == "locked"
    with pytest.raises(InvalidTemplate, match="shipped and locked"):
        await save(bell, templates, "mine", tenant="acme")


async def test_a_version_number_never_means_two_texts(bell: Timebell, templates: Templates) -> None:
    """A pinned number is all that a notification keeps, whoever saves or ships what afterwards."""
    first = await ship(bell, templates, "shipped 1")
    own = await save(bell, templates, "own 1", tenant="acme")
    second = await ship(bell, templates, "shipped 2")
    later = await save(bell, templates, "own 2", tenant="acme")
    other = await save(bell, templates, "other", tenant="other")
    numbers = [each.version for each in (first, own, second, later)]
    assert len(set(numbers)) == 4
    assert other.version not in (first.version, second.version)
    assert [await body_of(templates, "acme", number) for number in numbers] == [
        *("shipped 1", "own 1", "shipped 2", "own 2")
    ]


async def test_two_who_save_at_once_get_two_versions(bell: Timebell, templates: Templates) -> None:
    saved = await asyncio.gather(*(save(bell, templates, f"text {i}") for i in range(6)))
    assert sorted(each.version for each in saved) == [1, 2, 3, 4, 5, 6]
    lines = await templates.versions("greeting", tenant="default")
    assert [line.is_current for line in lines] == [True, False, False, False, False, False]


async def test_a_tenant_does_not_wait_for_another(
    bell: Timebell, templates: Templates, tables: Tables
) -> None:
    async with bell.transaction(tenant="acme") as tx:
        await templates.save(tx, draft("slow"))
        async with asyncio.timeout(3):
            await save(bell, templates, "quick", tenant="other")
            shipping = asyncio.create_task(ship(bell, templates, "shipped"))
            await tables.until_someone_waits()
    assert (await shipping).version == 2


async def test_a_tenant_sees_nothing_of_another(bell: Timebell, templates: Templates) -> None:
    await save(bell, templates, "secret", tenant="a")
    await save(bell, templates, "secret", tenant="a", key="other")
    assert (await templates.list(tenant="b")).lines == ()
    assert await templates.versions("greeting", tenant="b") == []
    assert await templates.find("a", "greeting", 1) is not None
    assert await templates.find("b", "greeting", 1) is None
    for version in (None, 1):
        with pytest.raises(NotFound):
            await templates.read("greeting", tenant="b", version=version)
        with pytest.raises(NotFound):
            await templates.preview("greeting", tenant="b", channel="sms", context={}, version=version)
    async with bell.transaction(tenant="b") as tx:
        with pytest.raises(NotFound):
            await templates.pin(tx, [("greeting", 1)])
        with pytest.raises(NotFound):
            await templates.use(tx, "greeting", 1)
    assert (await save(bell, templates, "mine", tenant="b")).version == 1
    assert await body_of(templates, "a") == "secret"


async def test_lists_go_on_where_the_page_before_ended(bell: Timebell, templates: Templates) -> None:
    await ship(bell, templates, "shipped")
    for key in ("a", "b", "greeting", "z"):
        await save(bell, templates, "x", key=key)
    first = await templates.list(tenant="default", limit=3)
    rest = await templates.list(tenant="default", limit=3, cursor=first.next_cursor)
    assert [line.key for line in first.lines + rest.lines] == ["a", "b", "greeting", "z"]
    assert [line.is_shipped for line in first.lines] == [False, False, False]
    assert rest.next_cursor is None


async def test_a_refused_draft_leaves_the_transaction_usable(bell: Timebell, templates: Templates) -> None:
    await ship(bell, templates, "locked", is_locked=True)
    async with bell.transaction() as tx:
        with pytest.raises(InvalidTemplate):
            await templates.save(tx, draft())
        await templates.save(tx, draft(key="mine"))
    assert (await templates.read("mine", tenant="default")).version == 1


async def test_saving_is_recorded(bell: Timebell, templates: Templates, tables: Tables) -> None:
    await save(bell, templates, "x", tenant="acme")
    rows = await tables.rows("SELECT tenant, name, subject, actor, data::text AS data FROM timebell.events")
    assert [(row["tenant"], row["name"], row["subject"], row["actor"]) for row in rows] == [
        ("acme", "template.saved", "template:greeting", "ann")
    ]


async def test_a_version_is_read_once_and_those_who_ask_together_share_a_statement(
    bell: Timebell, templates: Templates
) -> None:
    for tenant in ("a", "b"):
        await save(bell, templates, f"of {tenant}", tenant=tenant)
    timings = bell.database.observer.timings
    asked = [(tenant, "greeting", 1) for tenant in ("a", "b", "a", "none")] * 20
    found = await asyncio.gather(*(templates.find(*one) for one in asked))
    assert [each and each.template.texts[0].body for each in found[:4]] == ["of a", "of b", "of a", None]
    before = timings["read_templates"].count
    assert before <= 6
    assert await templates.find("a", "greeting", 1) is found[0]
    assert timings["read_templates"].count == before


async def test_the_cache_is_bounded(
    bell: Timebell, templates: Templates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("timebell.notify.templates.templates.CACHED_CHARS_MAX", 250)
    for number in range(4):
        await save(bell, templates, f"{number}" * 100)
    for version in (1, 2, 3, 4, 1):
        assert await body_of(templates, version=version) == f"{version - 1}" * 100
    assert templates._cache._chars == 200
    assert len(templates._cache._compiled) == 2


async def test_all_bells_of_a_process_have_one_cache(bell: Timebell, templates: Templates) -> None:
    """As the one that pays and the one that answers requests; each has its own way to the database."""
    await save(bell, templates, "Hi")
    await body_of(templates)
    beside, apart = Timebell(bell.database, beside=bell), Timebell(bell.database)
    notify = beside.shared.one(Notify)
    assert notify is beside.shared.one(Notify) is not bell.shared.one(Notify)
    assert notify.templates._cache._compiled.keys() == {("default", "greeting", 1)}
    assert apart.shared.one(Notify).templates._cache._compiled == {}
    assert beside.tallies is bell.tallies is not apart.tallies


async def test_the_cache_counts_what_texts_take_once_they_are_read(
    bell: Timebell, templates: Templates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("timebell.notify.templates.templates.CACHED_CHARS_MAX", 5_000)
    for number in range(3):
        await save(bell, templates, f"{number}" + "{{ name }}" * 20)
        await body_of(templates)
    assert len(templates._cache._compiled) == 1


@pytest.mark.req("A-4.1", "A-4.3")
async def test_a_recipient_is_told_with_what_is_known_of_it_now(bell: Timebell, templates: Templates) -> None:
    body = "{{ recipient.name }} {{ recipient.email }} {{ due_at | time }} {{ unsubscribe_url }}"
    await save(bell, templates, body)
    ann = Recipient(
        id=UUID(int=1),
        tenant="default",
        name="Ann",
        language="de",
        timezone="Europe/Berlin",
        addresses=[
            Address(kind="email", value="old@example.com", gone_at=NOW),
            Address(kind="email", value="ann@example.com"),
        ],
    )

    async def told(recipient: Recipient, version: int | None = None) -> Rendered | Unrendered:
        return await templates.render(
            *("default", "greeting", version),
            channel="sms",
            recipient=recipient,
            context={},
            due_at=NOW,
            unsubscribe_url="https://e.org/u",
        )

    answer = await told(ann)
    assert isinstance(answer, Rendered)
    assert answer.content.text == "Ann ann@example.com 10:00 AM https://e.org/u"
    renamed = await told(replace(ann, name="Anne"), 1)
    assert isinstance(renamed, Rendered)
    assert renamed.content.text.startswith("Anne ")
    unreachable = await told(replace(ann, addresses=()))
    assert isinstance(unreachable, Unrendered)
    assert unreachable.names == ("recipient.email",)
    gone = await told(ann, 7)
    assert isinstance(gone, Unrendered)
    assert gone.reason == "template_missing"


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"version": 0}, "version"),
        ({"version": "1"}, "version"),
        ({"context": None}, "context"),
        ({"default_language": None}, "default_language"),
        ({"reader": Reader(language="")}, "reader.language"),
        ({"channel": "fax"}, "channel"),
    ],
)
async def test_a_preview_says_what_is_wrong_with_the_question(
    bell: Timebell, templates: Templates, wrong: dict[str, Any], field: str
) -> None:
    await save(bell, templates, "x")
    asked: dict[str, Any] = {"tenant": "default", "channel": "sms", "context": {}, **wrong}
    with pytest.raises(InvalidInput) as caught:
        await templates.preview("greeting", **asked)
    assert caught.value.field == field


async def test_a_preview_shows_what_a_reader_would_get(bell: Timebell, templates: Templates) -> None:
    body = "Hi {{ name }} at {{ at | time }}"
    variables = [Variable(name="name"), Variable(name="at")]
    made = TemplateDraft(
        key="new", texts=[Text(channel="sms", language="de", body=body)], variables=variables
    )
    context = {"name": "Zoë …", "at": "2026-12-01T12:00:00Z"}
    reader = Reader(language="de", timezone="Europe/Berlin")
    shown = await templates.preview(made, tenant="default", channel="sms", context=context, reader=reader)
    assert shown.rendered is not None
    assert shown.rendered.content.text == "Hi Zoë … at 13:00"
    assert shown.sms is not None
    assert (shown.sms.encoding, shown.sms.forcing, shown.sms.segments) == ("ucs2", "ë…", 1)
    missing = await templates.preview(
        made, tenant="default", channel="sms", context={"at": "x"}, reader=reader
    )
    assert missing.unrendered is not None
    assert missing.unrendered.names == ("name",)
    assert (await templates.list(tenant="default")).lines == ()
    await save(bell, templates, "Saved {{ name }}")
    saved = await templates.preview("greeting", tenant="default", channel="sms", context={"name": "x"})
    assert saved.rendered is not None
    assert saved.rendered.content.text == "Saved x"
    other = await templates.preview("greeting", tenant="default", channel="email", context={})
    assert (other.unrendered and other.unrendered.reason, other.languages) == ("template_missing", ())
