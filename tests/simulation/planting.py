"""How a bug is planted, so that the run can tell whether anybody came by it.

The product changes, and the place where a bug was planted may be passed no more, or ask something else. Then nothing is
caught, or something is for another reason; neither says anything about the invariants. So each place is counted, and
only what can be counted is planted: a function, what a function answers, or the text of a statement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any
from unittest.mock import patch


class Spot:
    """A place in the product that has a bug while a run lasts, and how often the bug made a difference there."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0


Planted = AbstractContextManager[Sequence[Spot]]
Planting = Callable[[], Planted]


@contextmanager
def instead(
    owner: Any, name: str, other: Callable[..., Any], *, where: Callable[..., bool] = lambda *_, **__: True
) -> Iterator[Sequence[Spot]]:
    """Another function in the place of one; of those calls alone `where` something is true, if that is given."""
    spot, original = _spot(owner, name), getattr(owner, name)
    assert iscoroutinefunction(original) == iscoroutinefunction(other), f"{spot.name} is awaited otherwise"

    def chosen(*facts: Any, **more: Any) -> Any:
        if not where(*facts, **more):
            return original(*facts, **more)
        spot.count += 1
        return other(*facts, **more)

    with patch.object(owner, name, _like(original, chosen)):
        yield [spot]


@contextmanager
def answering(owner: Any, name: str, change: Callable[..., Any]) -> Iterator[Sequence[Spot]]:
    """A function that answers something else: `change` is given its answer, and what it was called with. What is equal
    to the true answer was no bug."""
    spot, original = _spot(owner, name), getattr(owner, name)

    def changed(answer: Any, *facts: Any, **more: Any) -> Any:
        other = change(answer, *facts, **more)
        spot.count += bool(other != answer)
        return other

    async def later(*facts: Any, **more: Any) -> Any:
        return changed(await original(*facts, **more), *facts, **more)

    def at_once(*facts: Any, **more: Any) -> Any:
        return changed(original(*facts, **more), *facts, **more)

    with patch.object(owner, name, wraps(original)(later if iscoroutinefunction(original) else at_once)):
        yield [spot]


@contextmanager
def answering_in(module: Any, kind: str, name: str, change: Callable[..., Any]) -> Iterator[Sequence[Spot]]:
    """The same for the method of a class where one module uses it, while others have the class as it is."""
    own = type(kind, (getattr(module, kind),), {"__module__": module.__name__})
    with patch.object(module, kind, own), answering(own, name, change) as spots:
        yield spots


@contextmanager
def several(*plantings: Planted) -> Iterator[Sequence[Spot]]:
    with ExitStack() as stack:
        yield [spot for planting in plantings for spot in stack.enter_context(planting)]


def _spot(owner: Any, name: str) -> Spot:
    module = getattr(owner, "__module__", None)
    return Spot(".".join(filter(None, [module, owner.__name__, name])))


def _like(original: Callable[..., Any], chosen: Callable[..., Any]) -> Callable[..., Any]:
    """Whoever looks at a function sees whether it is to be awaited."""
    if not iscoroutinefunction(original):
        return wraps(original)(chosen)

    @wraps(original)
    async def awaited(*facts: Any, **more: Any) -> Any:
        return await chosen(*facts, **more)

    return awaited
