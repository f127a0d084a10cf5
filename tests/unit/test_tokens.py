"""Tokens: what they say, how long, and that nobody else can make one."""

from __future__ import annotations

import time
from uuid import UUID

import pytest

from timebell.config import Settings
from timebell.errors import InvalidInput
from timebell.web.access.tokens import Tokens
from timebell.web.operation.problems import Problem

PERSON = UUID("01890a5d-ac96-774b-bcce-b302099a8057")
SECRET = "s" * 32


@pytest.fixture
def tokens() -> Tokens:
    return Tokens(Settings(secret_key=SECRET))


def test_a_token_is_read_by_every_node_with_the_same_secret(tokens: Tokens) -> None:
    made, expires_at = tokens.make("recipient", tenant="acme", recipient=PERSON, seconds=60)
    read = Tokens(Settings(secret_key=SECRET)).read("recipient", made)
    assert read is not None
    assert (read.tenant, read.recipient, read.expires_at) == ("acme", PERSON, expires_at)
    caller = tokens.caller(made, is_stream=False)
    assert caller is not None
    assert (caller.tenant, caller.recipient, caller.scope) == ("acme", PERSON, "write")
    assert Tokens(Settings(secret_key="t" * 32)).read("recipient", made) is None
    assert Tokens(Settings()).read("recipient", made) is None


def test_a_token_ends(tokens: Tokens, monkeypatch: pytest.MonkeyPatch) -> None:
    made, expires_at = tokens.make("stream", tenant="acme", recipient=None, seconds=60)
    assert tokens.read("stream", made) is not None
    monkeypatch.setattr(time, "time", expires_at.timestamp)
    with pytest.raises(Problem, match="has ended") as refused:
        tokens.read("stream", made)
    assert (refused.value.status, refused.value.code) == (401, "token_expired")


def test_a_token_is_for_one_purpose(tokens: Tokens) -> None:
    made, _ = tokens.make("stream", tenant="acme", recipient=PERSON, seconds=60)
    assert tokens.read("recipient", made) is None
    assert tokens.read("recipient", made.replace("tbs_", "tbr_", 1)) is None
    assert tokens.caller(made, is_stream=False) is None
    opened = tokens.caller(made, is_stream=True)
    assert opened is not None
    assert (opened.scope, opened.recipient) == ("read", PERSON)


def test_a_changed_token_is_none(tokens: Tokens) -> None:
    made, _ = tokens.make("recipient", tenant="acme", recipient=PERSON, seconds=60)
    other, _ = tokens.make("recipient", tenant="other", recipient=PERSON, seconds=60)
    body, signature = made.split(".")
    wrong = [
        body,
        f"{body}.",
        f".{signature}",
        "tbr_",
        f"{other.split('.')[0]}.{signature}",
        made[:-2],
        made + "A",
    ]
    wrong += ["tbr_ü.x", "tbr_" + "x" * 2_000, f"{body[:-1]}.{signature}", f"{made}\n"]
    for each in wrong:
        assert tokens.read("recipient", each) is None, each


def test_tokens_are_short_lived_and_need_a_secret(tokens: Tokens) -> None:
    for purpose, seconds in (("recipient", 24 * 3600 + 1), ("stream", 601), ("stream", 0)):
        with pytest.raises(InvalidInput, match="seconds"):
            tokens.make(purpose, tenant="acme", recipient=PERSON, seconds=seconds)  # type: ignore[arg-type]
    with pytest.raises(Problem, match="secret_key"):
        Tokens(Settings()).make("stream", tenant="acme", recipient=None, seconds=60)


def test_a_token_outlives_the_exchange_of_the_secret() -> None:
    made, _ = Tokens(Settings(secret_key=SECRET)).make("stream", tenant="acme", recipient=None, seconds=60)
    assert Tokens(Settings(secret_key="n" * 32)).read("stream", made) is None
    after = Tokens(Settings(secret_key="n" * 32, previous_secret_keys=(SECRET,)))
    assert after.read("stream", made) is not None
