"""Reminders: what a person wants to be reminded of, once or again, and the tasks that come of it."""

from timebell.apps.reminders.app import APP

__all__ = ["APP"]
