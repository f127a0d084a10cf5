"""The kernel's numbered migrations."""

from timebell.db.migrate import Slice

KERNEL = Slice(name="kernel", schema="timebell", package=__name__)
