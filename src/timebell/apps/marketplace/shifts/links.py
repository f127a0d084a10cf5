"""Links to one timesheet for one person, short enough for a text message."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from timebell.apps.marketplace.shifts.models import Shift
from timebell.kernel import Timebell
from timebell.rules.signing import signer_of

PATH: Final = "/t/"
# Long after whatever it is about has been decided.
_LIFETIME: Final = timedelta(days=7)
_PURPOSE: Final = "timebell marketplace timesheet v1"
_TOKEN_MAX: Final = 600
_SECONDS_BYTES: Final = 5
_HEAD: Final = 16 + 16 + _SECONDS_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class TimesheetLink:
    """What a link stands for: a person looks at a timesheet, and verifies it."""

    tenant: str
    time_log_id: UUID
    person: UUID
    expires_at: datetime


class TimesheetLinks:
    """Makes the links and reads them. They are stateless: what became of the timesheet says whether one is of use."""

    def __init__(self, bell: Timebell) -> None:
        settings = bell.settings
        self._signer = signer_of(settings, _PURPOSE, bell.tallies.previous_keys)
        self._public_url = settings.public_url
        # Without providers here, another process of the same database may still have some.
        is_alone = bool(settings.demo) or settings.database_url is None
        if self._public_url is None and settings.is_demo and is_alone:
            # Nothing leaves, so whoever reads the messages sits in front of the server.
            self._public_url = f"http://127.0.0.1:{settings.port}"

    @property
    def can_read(self) -> bool:
        return self._signer is not None

    def url(self, shift: Shift, person: UUID) -> str:
        """Where the timesheet is verified. Where the settings do not say how to sign, or where the server is, it is the
        path alone, since the message has to go all the same."""
        begin = (self._public_url or "").rstrip("/")
        if self._signer is None or shift.clock_out_time is None:
            return f"{begin}/api/marketplace/time-logs/{shift.id}"
        expires_at = int((shift.clock_out_time + _LIFETIME).timestamp())
        body = b"".join(
            (
                shift.id.bytes,
                person.bytes,
                expires_at.to_bytes(_SECONDS_BYTES, "big"),
                shift.tenant.encode("utf-8"),
            )
        )
        return f"{begin}{PATH}{self._signer.sign(body)}"

    def read(self, token: str) -> TimesheetLink | None:
        """None where it is not one that we made."""
        body = None if self._signer is None or len(token) > _TOKEN_MAX else self._signer.read(token)
        if body is None:
            return None
        return TimesheetLink(
            tenant=body[_HEAD:].decode("utf-8"),
            time_log_id=UUID(bytes=body[:16]),
            person=UUID(bytes=body[16:32]),
            expires_at=datetime.fromtimestamp(int.from_bytes(body[32:_HEAD], "big"), tz=UTC),
        )
