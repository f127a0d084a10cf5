"""`Call`: one request on its way through, as the function that answers it sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from timebell.kernel import Timebell, Transaction
from timebell.kernel.insights import Insights
from timebell.notify import Notify
from timebell.web.access.access import Caller
from timebell.web.operation.problems import FieldError, Problem

if TYPE_CHECKING:
    from timebell.web.operation.surface import Surface


@dataclass(slots=True, kw_only=True)
class Call:
    """Who calls, for whom, about what. `transaction` is there while a route other than GET runs, and `raw` is what was
    sent to it, byte by byte. Of what is done where it `is_dry_run` nothing is kept."""

    surface: Surface
    caller: Caller
    path: Mapping[str, Any]
    headers: Mapping[str, str]
    correlation_id: str
    actor: UUID | None = None
    transaction: Transaction | None = None
    has_compared: bool = False
    raw: bytes = b""
    is_dry_run: bool = False

    @property
    def bell(self) -> Timebell:
        return self.surface.bell

    @property
    def notify(self) -> Notify:
        return self.surface.notify

    @property
    def insights(self) -> Insights:
        return self.surface.insights

    @property
    def tenant(self) -> str:
        return self.caller.tenant

    @property
    def tx(self) -> Transaction:
        assert self.transaction is not None, "a route that only reads has no transaction"
        return self.transaction

    @property
    def person(self) -> UUID:
        """The recipient that the call is made for; a route that `acts_for` one has it."""
        assert self.actor is not None, "the route acts for nobody"
        return self.actor

    @property
    def by(self) -> str:
        """Who did it, for the audit trail."""
        return self.caller.name if self.actor is None else f"recipient:{self.actor}"

    @property
    def base_url(self) -> str:
        """Where this server is for whoever is given an address of it: as it is set, or as this request found it."""
        public_url = self.bell.settings.public_url
        return (public_url or f"http://{self.headers.get('host', '127.0.0.1')}").rstrip("/")

    def check_kind(self, kind: str, pointer: str = "/kind") -> None:
        """Refuse jobs of a kind that the app of that kind keeps from this tenant."""
        refusal = self.bell.registry.refusal(kind, self.tenant)
        if refusal is not None:
            error = FieldError(pointer=pointer, code="kind_refused", message=refusal)
            raise Problem(403, "kind_refused", f"{pointer[1:].replace('/', '.')}: {refusal}", errors=[error])

    @property
    def if_revision(self) -> int | None:
        """The revision that the caller means to change, from `If-Match`; None where any will do."""
        self.has_compared = True
        given = self.headers.get("if-match")
        if given is None or given.strip() == "*":
            return None
        digits = given.strip().removeprefix("W/").strip('"').removeprefix("rev-")
        if not (digits.isdecimal() and len(digits) < 10):
            raise Problem(
                400, "revision_invalid", 'if-match: give the ETag of what you read, such as "rev-7"'
            )
        return int(digits)

    def check_revision(self, revision: int) -> None:
        """Refuse to change what somebody else has changed since the caller read it."""
        wanted = self.if_revision
        if wanted is not None and wanted != revision:
            raise Problem(
                412,
                "revision_conflict",
                f"if-match: it is at revision {revision} by now; read it again and decide anew",
                headers={"etag": etag_of(revision)},
            )

    def check_compared(self) -> None:
        """Refuse where the caller named a revision that nobody has asked for: it would be changed regardless of it."""
        if not self.has_compared and self.if_revision is not None:
            raise Problem(
                412, "revision_conflict", "if-match: this has no revision to compare; leave the header out"
            )


def etag_of(revision: int) -> str:
    return f'"rev-{revision}"'
