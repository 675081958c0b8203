"""The one place that knows HTTP status codes: which error of the core is answered with which."""

from collections.abc import Mapping

from toolwright.core import errors
from toolwright.core.threads.call import ForbiddenMove

INTERNAL = 500

STATUSES: Mapping[type[errors.ToolwrightError], int] = {
    errors.DefinitionError: 400,
    errors.InvalidJSON: 400,
    errors.InvalidRequest: 400,
    errors.VariablesLacking: 422,
    errors.CannotSeal: 400,
    errors.CannotUnseal: INTERNAL,
    errors.Unauthorized: 401,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.MethodNotAllowed: 405,
    errors.TooSlow: 408,
    errors.AlreadyOver: 409,
    errors.Reset: 410,
    errors.ServerFailed: INTERNAL,
    errors.BadAnswer: 502,
    errors.Unreachable: 503,
    errors.CallClaimed: 409,
    errors.NotFailed: 409,
    errors.AlreadyThere: 409,
    errors.NoRoom: 409,
    errors.CallExpired: 410,
    errors.TooLarge: 413,
    errors.CannotServe: INTERNAL,
    errors.MissingExtra: INTERNAL,
    errors.Unwritable: INTERNAL,
    ForbiddenMove: INTERNAL,
    errors.ModelError: 502,
    errors.ModelUnavailable: 503,
    errors.KeysUnavailable: 503,
    errors.StoreError: 503,
    errors.RowBroken: 503,  # without a Retry-After: somebody must mend it
}
"""A class that is not listed has the status of the nearest class above it."""


def status_of(error: type[errors.ToolwrightError]) -> int:
    """The status of an error's class."""
    for each in error.__mro__:
        if each in STATUSES:
            return STATUSES[each]
    return INTERNAL
