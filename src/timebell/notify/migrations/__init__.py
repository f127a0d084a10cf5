"""The numbered migrations of notify."""

from timebell.db.migrate import Slice

NOTIFY = Slice(name="notify", schema="timebell_notify", package=__name__)
