"""The error tree.

ToolwrightError
├── DefinitionError      a tool, prompt, agent or app is declared wrongly (raised where it is declared)
├── InvalidJSON          a value or a text is not JSON
├── InvalidRequest       a caller's input is faulty; `details` name the paths
├── NotFound             the thing is not there, or not the caller's
├── MethodNotAllowed     the route exists, its method does not
├── AlreadyOver          the run or call has ended before
│   ├── RunOver
│   ├── CallResolved
│   └── CallCancelled
├── CallExpired          a pending call's time is over
├── Forbidden            the caller may not do this
├── Unauthorized         no key or token, or a wrong one
├── TooLarge             a body is over its limit
├── ModelError           a model provider refused or failed
│   ├── ModelUnavailable     rate limit, overload, network: worth another try
│   └── ModelRefused         bad key, bad request: trying again does not help
├── StoreError           the journal could not be read or written
├── Unwritable           the journal cannot hold this, now or later
├── CannotServe          the server cannot listen where it was told to
└── MissingExtra         an optional dependency is not installed

Each class has a stable `code`; its docstring is the message it has when none is given.
"""

from typing import ClassVar


class ToolwrightError(Exception):
    """Something went wrong."""

    code: ClassVar[str] = "error"

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip().split("\n")[0])

    @property
    def message(self) -> str:
        """The sentence that says what is wrong and what to do."""
        return str(self.args[0])


class DefinitionError(ToolwrightError):
    """This definition is not valid."""

    code = "invalid_definition"


class InvalidJSON(ToolwrightError):
    """This is not valid JSON."""

    code = "invalid_json"


class InvalidRequest(ToolwrightError):
    """The request is not valid."""

    code = "invalid_request"

    def __init__(self, message: str | None = None, details: list[dict[str, str]] | None = None) -> None:
        super().__init__(message)
        self.details = details or []


class NotFound(ToolwrightError):
    """Not found."""

    code = "not_found"


class MethodNotAllowed(ToolwrightError):
    """Method not allowed"""

    code = "method_not_allowed"


class AlreadyOver(ToolwrightError):
    """This is already over."""

    code = "already_over"


class RunOver(AlreadyOver):
    """The run is already over."""

    code = "run_over"


class CallResolved(AlreadyOver):
    """Tool call already resolved"""

    code = "call_resolved"


class CallCancelled(AlreadyOver):
    """Tool call cancelled"""

    code = "call_cancelled"


class CallExpired(ToolwrightError):
    """Tool call expired"""

    code = "call_expired"


class Forbidden(ToolwrightError):
    """This is not allowed for you."""

    code = "forbidden"


class Unauthorized(ToolwrightError):
    """A valid key is needed: send it as the header x-secret-key."""

    code = "unauthorized"


class TooLarge(ToolwrightError):
    """The body is too large."""

    code = "too_large"


class ModelError(ToolwrightError):
    """The model did not answer."""

    code = "model_error"


class ModelUnavailable(ModelError):
    """The model's provider is unavailable at the moment."""

    code = "model_unavailable"

    def __init__(self, message: str | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ModelRefused(ModelError):
    """The model's provider refused the request."""

    code = "model_refused"


class StoreError(ToolwrightError):
    """The journal is unavailable at the moment."""

    code = "store_unavailable"


class CannotServe(ToolwrightError):
    """The server cannot listen here."""

    code = "cannot_serve"


class Unwritable(ToolwrightError):
    """The journal cannot hold this."""

    code = "unwritable"


class MissingExtra(ToolwrightError):
    """An optional dependency is not installed."""

    code = "missing_extra"
