"""The numbered migrations of the HTTP surface."""

from timebell.db.migrate import Slice

WEB = Slice(name="web", schema="timebell_web", package=__name__)
