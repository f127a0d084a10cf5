"""Every operation of the OpenAPI document, asked with what the document allows and with what it does not, alone and
with the ids that earlier answers gave: no fault of ours, no answer that the document does not tell of, and no content
that is not as it says."""

from __future__ import annotations

import asyncio
import re
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, TypeVar

import httpx2
import pytest
import pytest_asyncio
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.transport import Response
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.web.support import Site, open_site
from timebell import App, Dead, Job, Outcome
from timebell.clock import SandboxClock
from timebell.kernel import Queue
from timebell.testing.database import TestDatabase

CHECKS: list[Any] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
ADDRESS = "http://bell.test"
PARTS = ("method", "url", "headers", "params", "data", "json", "files", "cookies")
START = datetime(2027, 3, 1, tzinfo=UTC)
SOMEBODY = re.compile(r"01[0-9a-f]{6}-[0-9a-f]{4}-7[0-9a-f-]+")
# What somebody is told who may not ask at all.
TURNED_AWAY = ("unauthenticated", "scope_missing", "actor_required", "actor_unknown")
_ANSWER_SECONDS = 30.0
# One request in so many comes without a key, and one in so many is as simple as the document shows it.
_KEYLESS_EVERY = 20
_SIMPLE_EVERY = 2

Case = schemathesis.Case[Any]
Schema = Any
Answered = TypeVar("Answered")


async def ring(job: Job) -> None:
    """Done."""


async def fail(job: Job) -> Outcome:
    return Dead("as asked")


OFFICE = App(
    name="office",
    handlers={"office.ring": ring, "office.fail": fail},
    queues=[Queue(name="mail", rate=5)],
)


@pytest_asyncio.fixture
async def sandbox(database_url: TestDatabase) -> AsyncIterator[Site]:
    """Time passes where it is asked to, so that there are deliveries, inbox entries and dead jobs to ask about."""
    async with open_site(database_url, clock=SandboxClock(START), apps=(OFFICE,)) as site:
        yield site


class Visitor:
    """Asks as an admin for a person, and keeps count of what came of it.

    Hypothesis is not async: it runs in a thread, and has this loop ask.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._loop = asyncio.get_running_loop()
        self._key = self._key_id = self._person = ""
        self._known: dict[str, deque[str]] = {}
        self._turns: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()

    async def come(self) -> None:
        """With a key and a person of its own, and with others once one of them was taken away."""
        site = self._site
        async with site.bell.transaction() as tx:
            made = await site.surface.keys.create(tx, name="visitor", scope="admin")
        self._key, self._key_id = made.secret, str(made.key.id)
        self._person = (await site.post("/v1/recipients", {"name": "Ada"}, key=self._key)).json()["id"]
        # Something of each kind is there that is asked for by its id, and an inbox is its person's alone.
        for path in ("/v1/inbox", "/api/notifications"):
            self._known.pop(path, None)
        for method, path, more in (
            ("PUT", "/v1/templates/{key}", {}),
            ("POST", "/v1/notifications", {"due_at": None, "channels": ["inbox"]}),
            ("POST", "/v1/notifications", {}),
            ("POST", "/v1/schedules", {}),
            ("POST", "/v1/jobs", {"kind": "office.fail", "delay": None}),
            ("POST", "/v1/clock/advance", {}),
        ):
            [route] = [route for route in site.routes if (route.method, route.path) == (method, path)]
            body = self._sendable({**(route.example or {}), **more})
            response = await site.ask(method, path.format(key="order.shipped"), key=self._key, json=body)
            assert response.is_success, f"{path}: {response.text}"

    def ask(self, case: Case) -> Response:
        """What is answered to a case, which is looked at too."""
        self.asked["at all"] += 1
        if case.meta is not None and case.meta.generation.mode is GenerationMode.POSITIVE:
            self._simplify(case)
        is_keyless = self.asked["at all"] % _KEYLESS_EVERY == 0
        response = self._answer(case, is_keyless=is_keyless)
        case.validate_response(response, checks=CHECKS)
        self._count(case, response, is_keyless=is_keyless)
        if response.is_success and case.method == "DELETE":
            if {self._key_id, self._person} & {*case.path_parameters.values()}:
                self._wait_for(self.come())
        elif response.is_success and "json" in response.headers.get("content-type", ""):
            self._learn(case.path, response.json())
        return Response.from_any(response)

    def _simplify(self, case: Case) -> None:
        """What nobody guesses, such as the name of a kind, stands in the example, and a list that was not filtered has
        something in it. Time passes only as far as the example has it: the end of all days is long in coming."""
        self._turns[case.operation.label] += 1
        turn = self._turns[case.operation.label]
        if turn % _SIMPLE_EVERY == 0 and case.path != "/v1/clock/advance":
            return
        # A link leads nowhere from a list that was empty, and who is given no id makes one up.
        known = self._known.get(case.path.partition("/{id}")[0], ())
        if "id" in case.path_parameters and known and case.path_parameters["id"] not in known:
            case.path_parameters["id"] = known[turn % len(known)]
        content = case.operation.definition.raw.get("requestBody", {}).get("content", {})
        example = content.get("application/json", {}).get("example")
        if example is not None:
            case.body = self._sendable(example)
        elif case.method == "GET":
            needed = {each.name for each in case.operation.query if each.is_required}
            case.query = {name: value for name, value in case.query.items() if name in needed}
        # Hardly any revision that is made up is the one that is there.
        case.headers.pop("If-Match", None)

    def _learn(self, path: str, content: Any) -> None:
        for each in content.get("data", [content]):
            if isinstance(each, dict) and "id" in each:
                self._known.setdefault(path, deque(maxlen=20)).append(each["id"])

    def _sendable(self, example: Any) -> Any:
        """The example with somebody in it who is there."""
        if isinstance(example, dict):
            return {name: self._sendable(value) for name, value in example.items()}
        if isinstance(example, list):
            return [self._sendable(value) for value in example]
        return self._person if isinstance(example, str) and SOMEBODY.fullmatch(example) else example

    def _answer(self, case: Case, *, is_keyless: bool) -> httpx2.Response:
        kwargs = case.as_transport_kwargs(base_url=ADDRESS)
        prepared = requests.Request(**{name: kwargs[name] for name in kwargs.keys() & {*PARTS}}).prepare()
        # The headers that were made up are none that open a door; two of a name would be one too many.
        own = {"authorization": f"Bearer {self._key}", "timebell-actor": self._person}
        headers: dict[str, Any] = {
            name: value for name, value in prepared.headers.items() if name.lower() not in own
        }
        assert isinstance(prepared.body, bytes | str | None)
        request = self._site.client.request(
            str(prepared.method),
            str(prepared.url),
            content=prepared.body,
            headers=headers if is_keyless else {**headers, **own},
        )
        return self._wait_for(request)

    def _wait_for(self, answer: Coroutine[Any, Any, Answered]) -> Answered:
        return asyncio.run_coroutine_threadsafe(answer, self._loop).result(_ANSWER_SECONDS)

    def _count(self, case: Case, response: httpx2.Response, *, is_keyless: bool) -> None:
        if is_keyless:
            is_open = case.operation.definition.raw.get("security") == []
            assert is_open or not response.is_success, f"{case.method} {case.path} needs no key"
            return
        self.asked["with a key"] += 1
        if any(f'"{code}"' in response.text for code in TURNED_AWAY):
            self.asked["turned away"] += 1
        if "id}" in case.path:
            self.asked["by id"] += 1
            self.asked["by id, answered"] += response.is_success


def sparing(examples: int, **more: Any) -> settings:
    return settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        **more,
    )


def ask_each(schema: Schema, ask: Callable[[Case], Response], *, examples: int) -> None:
    """Every operation by itself."""
    for found in schema.get_all_operations():
        operation = found.ok()
        for mode in modes(operation.definition.raw):

            @sparing(examples)
            @given(case=operation.as_strategy(generation_mode=mode))
            def one(case: Case) -> None:
                ask(case)

            try:
                one()
            except Unsatisfiable:
                # Nothing that is sent to this one can be wrong.
                assert mode is GenerationMode.NEGATIVE, operation.label


def modes(operation: dict[str, Any]) -> list[GenerationMode]:
    """Where no more is sent than a word in the path, nothing can be wrong, and looking for it takes long."""
    places = {
        (each["in"], each["schema"].get("type"), *constraints(each))
        for each in operation.get("parameters", ())
    }
    is_free = places <= {("path", "string")} and "requestBody" not in operation
    return [GenerationMode.POSITIVE] if is_free else [GenerationMode.POSITIVE, GenerationMode.NEGATIVE]


def constraints(parameter: dict[str, Any]) -> set[str]:
    return {*parameter["schema"]} - {"type", "title", "description", "examples"}


def ask_in_chains(schema: Schema, ask: Callable[[Case], Response], *, chains: int) -> None:
    """One after the other, with what the answers before gave, along the links of the document and such as follow from
    the names of fields."""

    class Chain(schema.as_state_machine()):  # type: ignore[misc]
        def call(self, case: Case, **kwargs: Any) -> Response:
            return ask(case)

        def validate_response(self, response: Response, case: Case, **kwargs: Any) -> None:
            """It was looked at when it came."""

    # Each is a run of its own: of a second one in the same run Hypothesis expects the answers of the first. The first
    # of a run is the simplest there is, and the other is as chance has it.
    for number in range(chains):
        seed(number)(Chain).run(settings=sparing(2, stateful_step_count=30))


async def ask_all(
    site: Site, *, examples: int, chains: int, begin: tuple[str, ...] = ("/",), answered: float = 0.3
) -> Visitor:
    """The operations whose paths begin so. Of those that name an id in a chain a share is `answered`, if it leads
    anywhere."""
    visitor = Visitor(site)
    await visitor.come()
    document = (await site.get("/openapi.json", key=None)).json()
    document["paths"] = {path: each for path, each in document["paths"].items() if path.startswith(begin)}
    # A stream has no end, so those are asked elsewhere.
    schema: Schema = schemathesis.openapi.from_dict(document).exclude(path_regex="stream$")
    await asyncio.to_thread(ask_each, schema, visitor.ask, examples=examples)
    alone = visitor.asked.copy()
    await asyncio.to_thread(ask_in_chains, schema, visitor.ask, chains=chains)
    asked = visitor.asked
    assert asked["turned away"] < 0.02 * asked["with a key"], asked
    in_chains = asked - alone
    assert in_chains["by id, answered"] > answered * in_chains["by id"] > 0, in_chains
    return visitor


async def test_a_few_requests_to_each(sandbox: Site) -> None:
    # Of so few a smaller share may be answered by chance.
    visitor = await ask_all(sandbox, examples=1, chains=2, answered=0.1)
    assert visitor.asked["at all"] > len(sandbox.routes)


@pytest.mark.slow
async def test_many_requests_to_each(sandbox: Site) -> None:
    visitor = await ask_all(sandbox, examples=60, chains=60)
    assert visitor.asked["at all"] > 20 * len(sandbox.routes)
