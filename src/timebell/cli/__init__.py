"""The command line."""

from timebell.cli.program import main

__all__ = ["main"]
