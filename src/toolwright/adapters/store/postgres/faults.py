"""What an error of asyncpg means for the one who met it."""

import asyncpg

from toolwright.core.errors import StoreError, Unwritable
from toolwright.core.text import sentence

FAULTS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
RETRIED = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError, asyncpg.TooManyConnectionsError)
_LOST = (
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,  # an administrator, or the server itself, ended the session
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,  # TimeoutError among them
)


def is_lost(error: BaseException) -> bool:
    """Whether the connection is gone, and with it the knowledge of what became of a COMMIT."""
    if isinstance(error, asyncpg.QueryCanceledError):  # an OperatorInterventionError that leaves the session
        return False
    return isinstance(error, _LOST) and not isinstance(error, ValueError)  # ValueError: unfit parameters


def store_error(error: BaseException) -> StoreError | Unwritable:
    """The error as callers know it: the database is unavailable, or it cannot hold what it was given."""
    refusal: StoreError | Unwritable
    if isinstance(error, asyncpg.IntegrityConstraintViolationError | asyncpg.DataError):
        refusal = Unwritable(sentence(f"The journal cannot hold this: {error}"))
        refusal.__cause__ = error
        return refusal
    refusal = StoreError(
        sentence(f"The journal on Postgres cannot be used: {str(error) or type(error).__name__}")
    )
    refusal.__cause__ = error
    return refusal
