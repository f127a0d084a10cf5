"""Which keys a topic exchange's binding means: `*` stands for one word, and `#` for any number of them."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=4_096)
def matches(binding: str, key: str) -> bool:
    """Word by word, and never longer than both have words, however many `#` there are."""
    wanted, words = _words(binding), _words(key)
    # Whether the words of the binding that were looked at so far mean the first so many words of the key.
    reached = [True] + [False] * len(words)
    for part in wanted:
        if part == "#":
            for place in range(len(words)):
                reached[place + 1] = reached[place + 1] or reached[place]
        else:
            reached = [False] + [
                before and part in ("*", word) for before, word in zip(reached, words, strict=False)
            ]
    return reached[-1]


def _words(text: str) -> list[str]:
    """No text has no word, and not one that is empty."""
    return text.split(".") if text else []
