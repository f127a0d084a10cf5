"""A marketplace of workers: bookings, shifts, weekly payments, and a ledger in which every cent is somewhere."""

from timebell.apps.marketplace.app import APP

__all__ = ["APP"]
