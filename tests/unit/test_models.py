"""The records of the kernel are checked when they are made; every refusal names its field and the remedy."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from timebell.errors import (
    ConfigurationError,
    InvalidInput,
    NaiveInstant,
    NoTransaction,
    UnknownKind,
    UnknownQueue,
)
from timebell.kernel import App, Done, Enqueue, Handler, Job, Outcome, Queue, Refused, Registry, Step
from timebell.kernel.models import check_instant, check_name

NOW = datetime(2027, 3, 1, 9, 0, tzinfo=UTC)
FIRST, LAST = [end.replace(tzinfo=UTC) for end in (datetime.min, datetime.max)]
HOUR = timedelta(hours=1)
NAIVE = datetime(2027, 3, 1, 9, 0)


class Unsure(tzinfo):
    """A zone that does not know its offset, which makes its times as good as naive."""

    def utcoffset(self, _: datetime | None) -> None:
        return None

    def dst(self, _: datetime | None) -> None:
        return None

    def tzname(self, _: datetime | None) -> str:
        return "unsure"


async def ring(job: Job) -> Outcome:
    return Done()


def ring_at_once(job: Job) -> None:
    return None


Refusal = tuple[dict[str, Any], str, str]

QUEUES: list[Refusal] = [
    ({"name": "Mail"}, "queue", "'Mail' is not a name in lower case"),
    ({"name": ""}, "queue", "'' is not a name in lower case"),
    ({"name": "m" * 201}, "queue", "is not a name in lower case"),
    ({"name": None}, "queue", "None is not a name in lower case"),
    ({"rate": 0}, "rate", "must be between 0.001 and 100000, was 0"),
    ({"rate": float("inf")}, "rate", "must be between 0.001 and 100000, was inf"),
    ({"rate": float("nan")}, "rate", "must be between 0.001 and 100000, was nan"),
    ({"rate": "5"}, "rate", "must be between 0.001 and 100000, was '5'"),
    ({"burst": 0}, "burst", "must be between 1 and 100000, was 0"),
    ({"burst": 1.5}, "burst", "must be a whole number, was 1.5"),
    ({"concurrency": 0}, "concurrency", "must be between 1 and 100000, was 0"),
    ({"concurrency": True}, "concurrency", "must be between 1 and 100000, was True"),
]

# What a job and a step have in common.
SHARED: list[Refusal] = [
    ({"kind": "ring"}, "kind", "'ring' is not of the form app.verb in lower case"),
    ({"kind": "Office.ring"}, "kind", "is not of the form app.verb"),
    ({"kind": "office.ring\n"}, "kind", "is not of the form app.verb"),
    ({"kind": "o." + "r" * 200}, "kind", "is not of the form app.verb"),
    ({"kind": None}, "kind", "None is not of the form app.verb"),
    ({"key": ""}, "key", "must have 1 to 200 characters, has 0"),
    ({"key": "k" * 201}, "key", "must have 1 to 200 characters, has 201"),
    ({"key": "k\x00"}, "key", "must not contain a NUL character"),
    ({"key": "k\ud83d"}, "key", "must not contain a NUL character or half a surrogate pair"),
    ({"key": 7}, "key", "7 is not a text; give 1 to 200 characters"),
    ({"queue": "Mail"}, "queue", "'Mail' is not a name in lower case"),
    ({"queue": ["mail"]}, "queue", "['mail'] is not a name in lower case"),
    ({"guard": ""}, "guard", "must have 1 to 200 characters"),
    ({"expires_at": NAIVE}, "expires_at", "has no offset; give it one, for example tzinfo=timezone.utc"),
    ({"expires_at": "soon"}, "expires_at", "'soon' is not a datetime; give one with an offset"),
    ({"priority": 101}, "priority", "must be between -100 and 100, was 101"),
    ({"priority": -101}, "priority", "must be between -100 and 100, was -101"),
    ({"priority": 0.5}, "priority", "must be a whole number, was 0.5"),
    ({"priority": "high"}, "priority", "must be between -100 and 100, was 'high'"),
    ({"max_attempts": 0}, "max_attempts", "must be between 1 and 100, was 0"),
    ({"max_attempts": 101}, "max_attempts", "must be between 1 and 100, was 101"),
    ({"urgency": "high"}, "urgency", "must be 'normal', 'time_bound' or 'critical'"),
]

JOBS: list[Refusal] = [
    *SHARED,
    ({"due_at": NAIVE}, "due_at", "2027-03-01T09:00:00 has no offset; give it one"),
    ({"due_at": NAIVE.replace(tzinfo=Unsure())}, "due_at", "has no offset; give it one"),
    ({"due_at": datetime.min.replace(tzinfo=timezone(HOUR))}, "due_at", "must lie in the years 1 to 9999"),
    ({"due_at": FIRST}, "due_at", "must lie in the years 1 to 9999"),
    ({"due_at": LAST}, "due_at", "must lie in the years 1 to 9999"),
    ({"due_at": NOW, "delay": HOUR}, "delay", "give due_at or delay, not both"),
    ({"delay": -HOUR}, "delay", "must not be negative"),
    ({"delay": 5}, "delay", "5 is not a timedelta; give one"),
    ({"due_at": NOW, "expires_at": NOW}, "expires_at", "must be after due_at"),
    ({"subject": "s" * 201}, "subject", "must have 1 to 200 characters, has 201"),
    ({"correlation_id": ""}, "correlation_id", "must have 1 to 200 characters"),
    ({"key": None, "key_lifetime": HOUR}, "key_lifetime", "needs a key that it is the lifetime of"),
    ({"key_lifetime": timedelta(0)}, "key_lifetime", "must be positive and at most 3660 days"),
    ({"key_lifetime": timedelta(days=3_661)}, "key_lifetime", "must be positive and at most 3660 days"),
    ({"key_lifetime": 60}, "key_lifetime", "60 is not a timedelta; give one"),
    ({"on_conflict": "ignore"}, "on_conflict", "must be 'same', 'keep' or 'replace'"),
]

STEPS: list[Refusal] = [
    *SHARED,
    ({"key": None}, "key", "None is not a text; give 1 to 200 characters"),
    ({"offset": None}, "offset", "step 'k' needs an offset or an instant `at`, one of them"),
    ({"at": NOW}, "offset", "step 'k' needs an offset or an instant `at`, one of them"),
    ({"offset": -60}, "offset", "-60 is not a timedelta; give one"),
    ({"offset": None, "at": NAIVE}, "at", "has no offset; give it one"),
    ({"late": "never"}, "late", "must be 'skip', 'run' or 'grace'"),
    ({"late": "grace"}, "grace", "late='grace' and a positive grace go together"),
    ({"grace": HOUR}, "grace", "late='grace' and a positive grace go together"),
    ({"late": "grace", "grace": 60}, "grace", "60 is not a timedelta; give one"),
    ({"expires_after": timedelta(0)}, "expires_after", "must be positive"),
    ({"expires_after": HOUR, "expires_at": NOW}, "expires_at", "give expires_after or expires_at, not both"),
]


@pytest.mark.parametrize(
    ("record", "good", "refusals"),
    [
        (Queue, {"name": "mail"}, QUEUES),
        (Enqueue, {"kind": "office.ring", "key": "k"}, JOBS),
        (Step, {"kind": "office.ring", "key": "k", "offset": HOUR}, STEPS),
    ],
    ids=["Queue", "Enqueue", "Step"],
)
def test_every_refusal_names_its_field_and_the_remedy(
    record: Any, good: dict[str, Any], refusals: list[Refusal], subtests: pytest.Subtests
) -> None:
    assert record(**good)
    for change, field, text in refusals:
        with subtests.test(change=str(change)):
            with pytest.raises(InvalidInput) as refusal:
                record(**{**good, **change})
            assert refusal.value.field == field
            assert str(refusal.value).startswith(f"{field}: ")
            assert text in str(refusal.value)
            assert isinstance(refusal.value, NaiveInstant) == ("has no offset" in text)


def test_a_long_value_is_not_shown_whole() -> None:
    with pytest.raises(InvalidInput) as refusal:
        Enqueue(kind="x" * 10_000)
    assert len(str(refusal.value)) < 200


def test_records_do_not_change() -> None:
    queue, asked = Queue(name="mail"), Enqueue(kind="office.ring")
    with pytest.raises(FrozenInstanceError):
        queue.burst = 9  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        asked.priority = 9  # type: ignore[misc]


@pytest.mark.parametrize(
    "value", [None, NOW, FIRST + datetime.resolution, LAST - datetime.resolution], ids=str
)
def test_instants_that_are_fine(value: datetime | None) -> None:
    check_instant("due_at", value)


@pytest.mark.parametrize("value", [None, "a", "ä" * 200, "🕐", "a b\n"])
def test_names_that_are_fine(value: str | None) -> None:
    check_name("subject", value)


def test_the_expiry_is_compared_in_utc() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    early = datetime(2027, 10, 31, 2, 30, tzinfo=berlin)
    late = datetime(2027, 10, 31, 2, 10, tzinfo=berlin, fold=1)
    assert Enqueue(kind="office.ring", due_at=early, expires_at=late).expires_at == late
    with pytest.raises(InvalidInput, match="expires_at: must be after due_at"):
        Enqueue(kind="office.ring", due_at=late, expires_at=early)


def test_a_step_is_due_at_an_offset_or_at_an_instant() -> None:
    before = Step(key="k", kind="office.ring", offset=-HOUR, expires_after=2 * HOUR)
    assert before.due_at(NOW) == NOW - HOUR
    assert before.expiry(NOW - HOUR) == NOW + HOUR
    fixed = Step(key="k", kind="office.ring", at=NOW, expires_at=NOW + HOUR)
    assert fixed.due_at(None) == fixed.due_at(NOW + HOUR) == NOW
    assert fixed.expiry(NOW) == NOW + HOUR
    assert Step(key="k", kind="office.ring", at=NOW).expiry(NOW) is None


def test_the_instants_of_a_step_are_counted_and_told_in_utc() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    anchor = datetime(2027, 3, 28, 3, 30, tzinfo=berlin)
    due_at = Step(key="k", kind="office.ring", offset=-HOUR).due_at(anchor)
    assert (due_at, due_at.tzinfo) == (datetime(2027, 3, 28, 0, 30, tzinfo=UTC), UTC)
    twice = datetime(2027, 10, 31, 2, 30, tzinfo=berlin, fold=1)
    step = Step(key="k", kind="office.ring", at=twice, expires_at=twice)
    assert step.due_at(None) == step.expiry(NOW) == datetime(2027, 10, 31, 1, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("step", "anchor", "text"),
    [
        (
            Step(key="k", kind="office.ring", offset=HOUR),
            None,
            "anchor: step 'k' has an offset but the agenda has no anchor; give one",
        ),
        (
            Step(key="k", kind="office.ring", offset=timedelta.max),
            NOW,
            "offset: step 'k': leads out of the years 1 to 9999; make it smaller",
        ),
        (
            Step(key="k", kind="office.ring", offset=HOUR, expires_after=timedelta.max),
            NOW,
            "expires_after: step 'k': leads out of the years 1 to 9999; make it smaller",
        ),
    ],
)
def test_a_step_that_is_never_due_is_refused(step: Step, anchor: datetime | None, text: str) -> None:
    with pytest.raises(InvalidInput, match=text):
        step.expiry(step.due_at(anchor))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"mode": "fast"}, "mode: 'fast' is not plain, transactional or external"),
        (
            {"mode": "transactional", "run": ring_at_once},
            "run: a transactional handler must be `async def`",
        ),
        ({"on_uncertain": "ignore"}, "on_uncertain: must be 'retry' or 'dead'"),
        ({"mode": "plain", "destination": "smtp"}, "destination: only an external handler has one"),
    ],
)
def test_a_handler_that_cannot_be_run_as_declared_is_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        Handler(**{"run": ring, **options})


@pytest.mark.parametrize("timeout", [timedelta(0), timedelta(days=2)])
def test_a_time_out_has_bounds(timeout: timedelta) -> None:
    with pytest.raises(InvalidInput, match=r"timeout: must be between 0.001 and 86400"):
        Handler(run=ring, timeout=timeout)


def test_a_registry_knows_what_its_apps_bring() -> None:
    booking = App(name="booking", handlers={"booking.ring": ring_at_once}, queues=[Queue(name="mail")])
    office = App(name="office", handlers={"office.ring": Handler(run=ring, queue="mail")})
    registry = Registry([booking, office])
    assert registry.handler("office.ring") == Handler(run=ring, queue="mail")
    assert registry.handler("booking.ring") == Handler(run=ring_at_once, mode="external")
    assert (registry.handler("office.ring").is_async, registry.handler("booking.ring").is_async) == (
        True,
        False,
    )
    assert set(registry.queues) == {"default", "mail"}
    with pytest.raises(UnknownKind, match=r"no handler is registered for 'office\.open'; load the app"):
        registry.handler("office.open")


@pytest.mark.parametrize(
    ("apps", "error", "text"),
    [
        (
            [App(name="a", handlers={"a.b": ring}), App(name="c", handlers={"a.b": ring})],
            ConfigurationError,
            "app 'c': the handler 'a.b' is already brought by another app; rename one",
        ),
        (
            [App(name="a", queues=[Queue(name="q")]), App(name="c", queues=[Queue(name="q")])],
            ConfigurationError,
            "app 'c': the queue 'q' is already brought",
        ),
        (
            [App(name="a", handlers={"a.b": Handler(run=ring, queue="q")})],
            UnknownQueue,
            "queue: 'q' of the handler for 'a.b' was not declared; add it to an App",
        ),
        ([App(name="a", handlers={"ring": ring})], InvalidInput, "kind: 'ring' is not of the form app.verb"),
    ],
)
def test_apps_that_do_not_fit_together_are_refused(
    apps: list[App], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        Registry(apps)


async def test_only_a_transactional_handler_has_a_transaction() -> None:
    unused: Any = None
    job = Job(
        id=UUID(int=1),
        tenant="default",
        kind="office.ring",
        queue="mail",
        payload={},
        due_at=NOW,
        attempt=1,
        started_at=NOW,
        bell=unused,
        destinations=unused,
    )
    with pytest.raises(NoTransaction, match=r"only a transactional handler has job\.tx; declare"):
        _ = job.tx
    assert await job.heartbeat()
    job.is_cancel_requested = True
    assert not await job.heartbeat()


def test_a_registry_of_some_queues_has_their_handlers_alone() -> None:
    app = App(
        name="office",
        handlers={"office.ring": ring, "office.post": Handler(run=ring, queue="mail")},
        queues=[Queue(name="mail"), Queue(name="slow")],
    )
    registry = Registry([app])
    assert set(registry.only(["mail"]).handlers) == {"office.post"}
    assert set(registry.only(["mail", "default"]).handlers) == {"office.ring", "office.post"}
    assert set(registry.only(["slow"]).queues) == set(registry.queues)
    with pytest.raises(
        ConfigurationError, match="there is no queue 'male'; give some of default, mail, slow"
    ):
        registry.only(["mail", "male"])


def test_a_refusal_is_false_and_says_why_in_a_few_words() -> None:
    assert not Refused("she has left")
    assert Refused("w" * 200).why == "w" * 200
    for why in ("", "w" * 201, "a\x00b", None):
        with pytest.raises(InvalidInput, match="why: "):
            Refused(why)  # type: ignore[arg-type]
