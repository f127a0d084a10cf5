"""The wall between tenants, second line: a connection that was opened for one tenant sees that tenant's rows alone.

Row-level security asks `timebell.tenant` at every row. Whoever answers for a tenant says so once, with `walled_to`, and
every transaction that is begun meanwhile, by whatever code, is that tenant's. Without it nothing is seen at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from timebell.errors import WrongTenant

_tenant: ContextVar[str] = ContextVar("timebell_tenant", default="")
_digest: ContextVar[str] = ContextVar("timebell_key_digest", default="")
_seconds: ContextVar[float | None] = ContextVar("timebell_statement_seconds", default=None)


@contextmanager
def walled_to(tenant: str) -> Iterator[None]:
    token = _tenant.set(tenant)
    try:
        yield
    finally:
        _tenant.reset(token)


def walled_tenant() -> str:
    """Whose rows are seen; empty where nobody has said so."""
    return _tenant.get()


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Let no statement of the transactions that are begun here take longer."""
    token = _seconds.set(seconds)
    try:
        yield
    finally:
        _seconds.reset(token)


@contextmanager
def showing_key(digest: bytes) -> Iterator[None]:
    """Show the one API key with this digest, whosever it is: until it is found, nobody knows the tenant."""
    token = _digest.set(digest.hex())
    try:
        yield
    finally:
        _digest.reset(token)


def check_wall(tenant: str) -> None:
    """Refuse a transaction for another tenant than the one that is answered for: the wall would hide its rows, and
    whoever asks for it has mixed up two requests."""
    walled = _tenant.get()
    if tenant != walled:
        raise WrongTenant(
            f"tenant: {tenant[:100]!r} is asked for, and what is answered here is of {walled[:100]!r}; open the "
            "transaction inside `walled_to` of its own tenant"
        )


def begin_walled() -> str:
    """What a transaction behind the wall begins with. `SET LOCAL` ends with it, also behind a pooler.

    A statement there is planned with figures about all tenants, and sees the rows of one. Where one of two tenants has
    nearly everything, the planner would read a table from end to end for the other; an index that leads to its rows is
    always there.
    """
    seconds = _seconds.get()
    limit = "" if seconds is None else f"; SET LOCAL statement_timeout = {max(1, round(seconds * 1000))}"
    return (
        f"BEGIN; SET LOCAL timebell.tenant = {_quoted(_tenant.get())};"
        f" SET LOCAL timebell.key_digest = {_quoted(_digest.get())}; SET LOCAL enable_seqscan = off{limit}"
    )


def _quoted(text: str) -> str:
    doubled = text.replace("'", "''").replace("\\", "\\\\")
    return f"E'{doubled}'"


def move_wall(tenant: str) -> str:
    """What a transaction goes on with for another tenant; only whoever administers tenants may ask for it."""
    return f"SET LOCAL timebell.tenant = {_quoted(tenant)}"
