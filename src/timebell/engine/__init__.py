"""The loops that pay what is owed."""

from timebell.engine.engine import Engine

__all__ = ["Engine"]
