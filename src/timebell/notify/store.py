"""The base class of the stores of notify: one method for each file in `sql/`, of the same name."""

from __future__ import annotations

from timebell.db.queries import load_queries
from timebell.kernel.statements import Statements


class NotifyStore(Statements):
    """Runs statements of notify, each in the session of the transaction that it is part of."""

    queries = load_queries("timebell.notify.sql")
