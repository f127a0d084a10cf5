"""Sequences: what people are told before, during and after a booking, or about any other subject, as data."""

from timebell.apps.sequences.app import APP

__all__ = ["APP"]
