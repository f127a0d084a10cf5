"""Meetings that people propose to each other, and that nobody misses or books twice."""

from timebell.apps.meetings.app import APP

__all__ = ["APP"]
