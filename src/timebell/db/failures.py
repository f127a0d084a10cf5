"""Errors that asyncpg raises when a database fails, sorted by whether the statement is to blame."""

from __future__ import annotations

import asyncpg

# The connection is gone or was never had; nothing is wrong with the statement.
CONNECTION_ERRORS = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # what asyncpg raises on a connection that broke in the middle of something
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
)
# The same again may well be done: others were in the way.
PASSING_ERRORS = (
    *CONNECTION_ERRORS,
    asyncpg.ObjectNotInPrerequisiteStateError,  # a lock that was not had, a database that lets nobody in
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
)
# A statement took longer than it may.
SLOW_ERRORS = (asyncpg.QueryCanceledError,)
# The database refused a statement; what was before its savepoint still stands.
REFUSED_ERRORS = (asyncpg.PostgresError,)
DATABASE_ERRORS = (*CONNECTION_ERRORS, asyncpg.PostgresError)
