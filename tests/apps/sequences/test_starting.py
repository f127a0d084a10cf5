"""The starting set: every text can be saved, says the same in both languages, and is fit to be sent to a guest."""

from __future__ import annotations

import re
import tomllib
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import pytest
import pytest_asyncio

from tests.shape.tree import PACKAGE
from timebell.config import Settings
from timebell.db.pool import Database
from timebell.kernel import Registry, Timebell
from timebell.notify.provider import Channel
from timebell.notify.templates.checking import covering, paths_of
from timebell.notify.templates.models import GIVEN, Reader, Rendered, TemplateDraft, Text, Variable
from timebell.notify.templates.templates import Templates
from timebell.testing.database import TestDatabase

FOLDER = PACKAGE / "apps" / "sequences" / "starting"
SETS = ("guest_stay", "event_tickets", "trial")
LANGUAGES = ("en", "de")
ROUTED: tuple[Channel, ...] = ("email", "sms", "whatsapp")
SEGMENTS_MAX = 2

CONDITIONS = {"minDaysOut", "maxDaysOut", "bookingSubtype", "language", "hasPhone", "status"}
ANCHORS = {"event_time", "booking_start", "booking_end"}
OFFSET = re.compile(r"-?P(?:\d+D|T\d+[HMS])")
# What a text shows where something that it relies on is not there. Behind a colon comes something, if need be a list.
RUINS = re.compile(
    r"\{[{%]|%\}|\}\}|\bNone\b|\bnull\b|Liquid| ,| \.|  |,,|\.\.|: *\.|:\s*\Z|: *\n(?!\n?(?:- |Booking: |Buchung: ))"
)

CONTACT = {
    "name": "Ana Müller",
    "email": "ana@example.org",
    "phone": "+4915112345678",
    "language": "de",
}
BOOKING = {
    "eventName": "Hotel Seeblick, Doppelzimmer mit Balkon",
    "subtype": "stay",
    "status": "confirmed",
    "location": "Uferpromenade 12, 78464 Konstanz, Eingang neben dem Hafen",
    "startAt": "2026-03-27T14:00:00Z",
    "endAt": "2026-03-30T09:00:00Z",
    "timezone": "Europe/Berlin",
}
FACTS = {
    "productName": "Ledgerly",
    "plan": "Team",
    "start": "2026-03-13T14:00:00Z",
    "end": "2026-03-27T14:00:00Z",
    "timezone": "Europe/Berlin",
    "upgradeUrl": "https://ledgerly.example/account/plans?from=trial",
}
WHOLE: Mapping[str, Any] = {"contact": CONTACT, "booking": BOOKING, "facts": FACTS}
# Nothing but what a booking or a trial always has.
BARE: Mapping[str, Any] = {
    "contact": {"name": None, "email": "ana@example.org", "phone": None, "language": None},
    "booking": {**BOOKING, "location": None},
    "facts": {name: value for name, value in FACTS.items() if name in ("productName", "start", "end")},
}
# On the clocks of Berlin, which are an hour ahead of UTC before the change of clocks and two hours behind it.
SHOWN = {
    "booking.startAt": {
        "en": ("Mar 27, 2026", "March 27, 2026", "3:00"),
        "de": ("27.03.2026", "27. März 2026", "15:00"),
    },
    "booking.endAt": {
        "en": ("Mar 30, 2026", "March 30, 2026", "11:00"),
        "de": ("30.03.2026", "30. März 2026", "11:00"),
    },
    "facts.end": {
        "en": ("Mar 27, 2026", "March 27, 2026", "3:00"),
        "de": ("27.03.2026", "27. März 2026", "15:00"),
    },
}


# The same instants on the reader's clock, which nobody at the desk or at the entrance goes by.
ELSEWHERE = re.compile(r"\b(?:10:00|0?5:00)\b")


def read(name: str) -> dict[str, Any]:
    return tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


def draft_of(said: Mapping[str, Any]) -> TemplateDraft:
    """As an operation that saves a template takes it: nothing may stand there that it does not know."""
    given = dict(said)
    texts = [Text(**each) for each in given.pop("texts")]
    variables = [Variable(**each) for each in given.pop("variables")]
    return TemplateDraft(texts=texts, variables=variables, **given)


def drafts(name: str) -> list[TemplateDraft]:
    return list(map(draft_of, read(name)["templates"]))


def steps(name: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    for sequence in read(name)["sequences"]:
        for step in sequence["steps"]:
            yield sequence, step


@pytest_asyncio.fixture
async def bell(database_url: TestDatabase) -> AsyncIterator[Timebell]:
    database = await Database.open(database_url.url)
    made = Timebell(database, registry=Registry([]), settings=Settings())
    yield made
    await made.close()
    await database.close()


async def shown(
    templates: Templates, draft: TemplateDraft, context: Mapping[str, Any]
) -> AsyncIterator[tuple[Text, Rendered]]:
    """Every text as a reader gets it who lives elsewhere."""
    for text in draft.texts:
        reader = Reader(language=text.language, timezone="America/New_York", name="Ana Müller")
        given = {"unsubscribe_url": "https://bell.example/unsubscribe/abc"}
        preview = await templates.preview(
            draft.key, tenant="default", channel=text.channel, context=context, reader=reader, given=given
        )
        place = f"{draft.key} {text.channel}/{text.language}"
        assert preview.rendered is not None, f"{place}: {preview.unrendered}"
        assert preview.rendered.language == text.language
        if text.channel == "sms":
            assert preview.sms is not None
            assert preview.sms.encoding == "gsm7", f"{place}: {preview.sms.forcing}"
            assert preview.sms.segments <= SEGMENTS_MAX, f"{place}: {preview.rendered.content.text}"
        yield text, preview.rendered


@pytest.mark.parametrize("name", SETS)
async def test_every_text_is_saved_and_shows_everything(bell: Timebell, name: str) -> None:
    templates = Templates(bell)
    async with bell.transaction() as tx:
        for draft in drafts(name):
            assert (await templates.save(tx, draft, actor="cli")).version == 1
    for draft in drafts(name):
        async for text, rendered in shown(templates, draft, WHOLE):
            content = rendered.content
            place, said = (
                f"{draft.key} {text.channel}/{text.language}",
                f"{content.subject or ''}\n{content.text}",
            )
            assert not RUINS.search(said), f"{place}: {said}"
            assert not ELSEWHERE.search(said), f"{place}: {said}"
            assert (content.html is not None) == (text.channel == "email")
            for path in paths_of(text) - GIVEN:
                if path.endswith(".timezone"):
                    continue
                root, _, leaf = path.partition(".")
                whole = SHOWN.get(path, {}).get(text.language, (WHOLE[root][leaf],))
                assert any(each in said for each in whole), f"{place}: {path} is not in {said}"


@pytest.mark.parametrize("name", SETS)
async def test_what_may_be_missing_leaves_no_hole(bell: Timebell, name: str) -> None:
    templates = Templates(bell)
    async with bell.transaction() as tx:
        for draft in drafts(name):
            await templates.save(tx, draft)
    for draft in drafts(name):
        async for text, rendered in shown(templates, draft, BARE):
            said = f"{rendered.content.subject or ''}\n{rendered.content.text}"
            assert not RUINS.search(said), f"{draft.key} {text.channel}/{text.language}: {said}"


@pytest.mark.parametrize("name", SETS)
def test_both_languages_speak_of_what_is_declared_on_every_channel(name: str) -> None:
    for draft in drafts(name):
        places = [(text.channel, text.language) for text in draft.texts]
        channels = {channel for channel, _ in places}
        assert sorted(places) == sorted((channel, each) for channel in channels for each in LANGUAGES)
        used = {path for text in draft.texts for path in paths_of(text)} - GIVEN
        declared = {variable.name for variable in draft.variables}
        assert {covering(path, declared) for path in used} == declared, draft.key
        bodies = [text.body for text in draft.texts]
        assert len(set(bodies)) == len(bodies), f"{draft.key}: a text stands there twice"


@pytest.mark.parametrize("name", SETS)
def test_texts_speak_only_of_what_their_steps_are_given(name: str) -> None:
    roots = {"contact": CONTACT, **({"facts": FACTS} if name == "trial" else {"booking": BOOKING})}
    for draft in drafts(name):
        for variable in draft.variables:
            root, _, leaf = variable.name.partition(".")
            assert leaf in roots[root], f"{draft.key}: {variable.name}"


@pytest.mark.parametrize("name", SETS)
def test_every_step_has_the_texts_that_it_needs(name: str) -> None:
    known = {draft.key: {text.channel for text in draft.texts} for draft in drafts(name)}
    for sequence, step in steps(name):
        needed = set(ROUTED) if step["channel"] != "email" else {"email"}
        assert needed <= known[step["templateId"]], f"{sequence['name']}: {step['key']}"
    assert {step["templateId"] for _, step in steps(name)} == set(known), "no text is there for nothing"


@pytest.mark.parametrize("name", SETS)
def test_sequences_are_what_can_be_saved(name: str) -> None:
    sequences = read(name)["sequences"]
    assert len({each["name"] for each in sequences}) == len(sequences)
    for sequence in sequences:
        assert set(sequence) <= {"name", "triggerEvent", "bookingSubtype", "conditions", "steps"}
        keys = [step["key"] for step in sequence["steps"]]
        assert len(set(keys)) == len(keys)
    for sequence, step in steps(name):
        place = f"{sequence['name']}: {step['key']}"
        required = {"key", "anchor", "offset", "channel", "templateId", "contacts"}
        assert required <= set(step) <= required | {"at", "conditions"}, place
        assert step["anchor"] in ANCHORS, place
        assert OFFSET.fullmatch(step["offset"]), place
        assert re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", step.get("at", "09:00")), place
        assert step["channel"] in (*ROUTED, "preferred"), place
        assert step["contacts"] in ("primary", "all"), place
        assert set(step.get("conditions", {})) <= CONDITIONS, place


def test_bookings_of_one_set_do_not_start_another() -> None:
    """Two sets may be installed beside each other: what starts them differs, by the event or by the subtype."""
    started = [
        (sequence["triggerEvent"], sequence.get("bookingSubtype"))
        for name in SETS
        for sequence in read(name)["sequences"]
    ]
    assert len(set(started)) == len(started)
    events = {event for event, _ in started}
    assert all(subtype for event, subtype in started if event.startswith("booking_"))
    assert {"booking_confirmed", "booking_checked_in", "booking_completed", "booking_cancelled"} <= events
    assert {"trial_started", "trial_cancelled"} <= events


def test_no_two_sets_have_a_template_of_the_same_key() -> None:
    keys = [draft.key for name in SETS for draft in drafts(name)]
    assert len(set(keys)) == len(keys)
