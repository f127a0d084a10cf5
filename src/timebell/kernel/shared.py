"""Singletons: what a process makes once, by whoever asks for it first, and then it is there for all."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from timebell.kernel.bell import Timebell

_Made = TypeVar("_Made")


class Shared:
    """What stands on one bell is made once for that; what does not, once for all bells of the process."""

    def __init__(self, bell: Timebell, beside: Shared | None = None) -> None:
        self._bell = bell
        self._here: dict[Any, Any] = {}
        self._everywhere: dict[Any, Any] = {} if beside is None else beside._everywhere

    def one(self, make: Callable[[Timebell], _Made]) -> _Made:
        """The one that stands on this bell, such as `bell.shared.one(Notify)`."""
        if make not in self._here:
            self._here[make] = make(self._bell)
        made: _Made = self._here[make]
        return made

    def everywhere(self, make: Callable[[], _Made]) -> _Made:
        """The one that all bells of the process have."""
        if make not in self._everywhere:
            self._everywhere[make] = make()
        made: _Made = self._everywhere[make]
        return made
