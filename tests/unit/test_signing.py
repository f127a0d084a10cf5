"""What we signed is read as we said it, and nothing else is."""

from __future__ import annotations

import pytest

from timebell.rules.signing import Signer

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
