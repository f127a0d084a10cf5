"""Every error that Timebell raises on purpose.

    TimebellError
    ├── ConfigurationError        a setting is missing, contradictory or out of range
    ├── InvalidInput              an argument is refused; nothing was written
    │   ├── InvalidTemplate       a template that cannot be read, or that speaks of what it does not declare
    │   ├── NaiveInstant          a datetime without an offset
    │   ├── PayloadTooLarge       a payload over the limit
    │   ├── RecurrenceError       a recurrence that is forbidden, undefined, too much work or never due
    │   ├── UnknownKind           no handler is registered for the kind
    │   ├── UnknownQueue          no queue of that name was declared
    │   ├── UnknownTimezone       no timezone of that name is in the pinned data
    │   ├── UnsafeUrl             a URL that leads, or may lead, inside
    │   └── UnverifiedReport      a provider's report whose signature, time or form was refused
    ├── KeyConflict               the key already stands for something else
    ├── NoTransaction             a verb was called outside an open transaction
    ├── NotFound                  no such job, queue or agenda for this tenant
    ├── OldTimezoneData           plans were made with newer timezone data than this process has
    ├── RevisionConflict          what is to be changed was changed by somebody else meanwhile
    ├── DatabaseError             PostgreSQL cannot be used as it is
    │   ├── EmbeddedServerError   the embedded server cannot start, stop or be reached
    │   │   └── DataFolderInUse   another process already runs on the data folder
    │   ├── DatabaseUnavailable   no answer within the deadline
    │   └── SchemaMismatch        the schema is older or newer than this code
    │       └── MigrationError    a migration failed, or was changed after it was applied
    ├── TooManyAtOnce             a tenant has as much of this under way as one may have
    ├── PortInUse                 the port for HTTP cannot be had
    └── WrongTenant               a transaction of one tenant was asked for while answering another

A message names the field and the remedy. An error raised without a message says its docstring.
"""

from __future__ import annotations

import inspect


class TimebellError(Exception):
    """Something went wrong in Timebell."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or inspect.getdoc(type(self)))


class ConfigurationError(TimebellError):
    """A setting is missing or wrong; `timebell config` shows each one and where it came from."""


class InvalidInput(TimebellError):
    """An argument was refused and nothing was written."""

    def __init__(self, message: str | None = None, *, field: str | None = None) -> None:
        super().__init__(f"{field}: {message}" if field and message else message)
        self.field = field


class InvalidTemplate(InvalidInput):
    """A template cannot be read, speaks of what it does not declare, or may not be changed; nothing was saved."""


class NaiveInstant(InvalidInput):
    """A datetime has no offset; give it one, for example `datetime.now(timezone.utc)`."""


class PayloadTooLarge(InvalidInput):
    """The payload is over the limit; store the data yourself and pass its id."""


class RecurrenceError(InvalidInput):
    """A recurrence was refused: `part` is what is wrong with it, `reason` is why, `remedy` is what to write instead."""

    def __init__(self, *, part: str, reason: str, remedy: str, field: str = "recurrence") -> None:
        refusal = f"{reason}; {remedy}"
        super().__init__(refusal if part == field else f"{part}: {refusal}", field=field)
        self.part = part
        self.reason = reason
        self.remedy = remedy


class UnknownKind(InvalidInput):
    """No handler is registered for this kind; add it to an App that this process loads."""


class UnknownQueue(InvalidInput):
    """No queue of this name was declared; add `Queue(name=...)` to an App, or the queue to the settings."""


class UnknownTimezone(InvalidInput):
    """No timezone of this name is in the pinned data; give an IANA name, for example `Europe/Berlin`."""


class UnsafeUrl(InvalidInput):
    """A URL leads, or may lead, inside; give one of a public host, with https and a port that is allowed."""


class UnverifiedReport(InvalidInput):
    """A provider's report was refused and nothing was read from it; check the secret and the clock of both sides."""


class OldTimezoneData(TimebellError):
    """Plans were made with newer timezone data than this process has; upgrade the package `tzdata` here."""


class KeyConflict(TimebellError):
    """The key already stands for something else; use another key or pass `on_conflict`."""


class RevisionConflict(TimebellError):
    """It was changed by somebody else meanwhile; read it again and decide anew."""


class NoTransaction(TimebellError):
    """The verbs take part in a transaction; open one with `bell.transaction()` or begin one before `bell.join()`."""


class NotFound(TimebellError):
    """Nothing of that name exists for this tenant."""


class DatabaseError(TimebellError):
    """PostgreSQL cannot be used as it is."""


class EmbeddedServerError(DatabaseError):
    """The embedded PostgreSQL server cannot be started, stopped or reached."""


class DataFolderInUse(EmbeddedServerError):
    """Another process already runs on this data folder; stop it first or choose another with `--data`."""


class DatabaseUnavailable(DatabaseError):
    """PostgreSQL did not answer within the deadline."""


class SchemaMismatch(DatabaseError):
    """The database's schema does not fit this version; run `timebell migrate` or install the matching version."""


class MigrationError(SchemaMismatch):
    """A migration failed or was changed after it had been applied."""


class TooManyAtOnce(TimebellError):
    """As many of these are under way for this tenant as one tenant may have; wait for one to end and try again."""


class PortInUse(TimebellError):
    """The port for HTTP cannot be had; stop what uses it, or choose another with `--port`."""


class WrongTenant(TimebellError):
    """A transaction of one tenant was asked for while a request of another is answered; nothing was written."""
