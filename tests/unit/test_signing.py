"""What we signed is read as we said it, and nothing else is."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.shape.tree import PACKAGE
from timebell.config import Settings
from timebell.rules.signing import Signer, signer_of

SECRET = "s" * 32
SIGNER = Signer(SECRET, "greetings")
SIGNED = SIGNER.sign(b"good morning")


def test_what_was_signed_is_read() -> None:
    assert SIGNER.read(SIGNED) == b"good morning"
    assert Signer(SECRET, "greetings").read(SIGNED) == b"good morning"


@pytest.mark.parametrize("other", [Signer(SECRET, "farewells"), Signer("t" * 32, "greetings")])
def test_another_purpose_or_secret_reads_nothing(other: Signer) -> None:
    assert other.read(SIGNED) is None


@pytest.mark.parametrize(
    "changed",
    ["", ".", "a", SIGNED + "=", SIGNED[:-1], SIGNED.upper(), "x" + SIGNED, SIGNED.replace(".", ""), "ä.ö"],
)
def test_a_letter_more_or_less_is_nothing_of_ours(changed: str) -> None:
    assert SIGNER.read(changed) is None


def test_there_is_one_way_of_writing_it() -> None:
    """The last letter has bits to spare, which a lenient reader would pass over."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    beside = SIGNED[:-1] + alphabet[alphabet.index(SIGNED[-1]) + 1]
    assert SIGNER.read(beside) is None


def test_while_a_secret_is_exchanged_the_new_one_signs_and_both_are_believed() -> None:
    uses: Counter[str] = Counter()
    signer = Signer("n" * 32, "greetings", previous=["o" * 32, SECRET], uses=uses)
    assert signer.read(SIGNED) == b"good morning"
    assert uses == {"greetings": 1}, "one can see that somebody still has it"
    new = signer.sign(b"good evening")
    assert signer.read(new) == b"good evening"
    assert uses == {"greetings": 1}
    assert SIGNER.read(new) is None
    assert Signer("n" * 32, "greetings").read(new) == b"good evening"
    assert Signer("n" * 32, "farewells", previous=[SECRET]).read(SIGNED) is None


def test_a_signer_is_made_of_the_settings() -> None:
    assert signer_of(Settings(previous_secret_keys=(SECRET,)), "greetings") is None
    signer = signer_of(Settings(secret_key="n" * 32, previous_secret_keys=(SECRET,)), "greetings")
    assert signer is not None
    assert signer.read(SIGNED) == b"good morning"


def test_whoever_signs_believes_the_secrets_of_before() -> None:
    """Who made a signer of one secret would forget the others when it is exchanged."""
    makers = [
        path.name
        for path in PACKAGE.rglob("*.py")
        if re.search(r"\bSigner\(", path.read_text(encoding="utf-8"))
    ]
    assert makers == ["signing.py"]
