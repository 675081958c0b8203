"""The error tree.

ToolwrightError
├── DefinitionError      a tool, prompt, agent or app is declared wrongly (raised where it is declared)
│   └── InvalidConfiguration a configuration as JSON is invalid; `details` name the paths
├── InvalidJSON          a value or a text is not JSON
├── InvalidRequest       a caller's input is invalid; `details` name the paths
│   ├── TenvsRequired         a thread would miss tenvs that its tools need
│   └── VariablesRequired     a request for values is not answered whole; `missing` names the rest
├── CannotSeal           a secret was given where there are no keys to encrypt it
├── CannotUnseal         a secret cannot be read with the keys that there are
├── NotFound             the thing is not there, or not the caller's
├── MethodNotAllowed     the route exists, its method does not
├── AlreadyOver          the run or call has ended before
│   ├── RunOver
│   ├── ThreadTerminated     nobody answers in the thread any more
│   ├── CallResolved
│   └── CallCancelled
├── CallClaimed          another worker has a call
├── RunFailed            a run that was waited for has failed, or was cancelled; `result` is what it came to
├── NotFailed            an inbox event is tried again, but has not failed
├── AlreadyThere         something else has this name
├── NoRoom               there are as many of these as there may be
├── CallExpired          a pending call's time is over
├── Forbidden            the caller may not do this
├── Unauthorized         no key or token, or a wrong one
├── TooLarge             a body is over its limit
├── TooSlow              a body does not come
├── ModelError           a model provider refused or failed
│   ├── ModelUnavailable     rate limit, overload, network: worth another try
│   └── ModelRefused         bad key, bad request: trying again does not help
│       └── ContextTooLong       the request is longer than the model takes; `limit` and `asked` in tokens
├── Overloaded           the server holds as much as it may: worth another try
├── KeysUnavailable      the keys of people's tokens could not be fetched
├── StoreError           the journal could not be read or written
├── Reset                the place to resume a stream from is gone; `after` is a new one
├── Unreachable          a client did not reach the server: nothing was sent
│   └── AnswerLost           the request was sent, but no answer came: its effect is unknown
├── ServerFailed         the server has met a fault of its own
├── BadAnswer            a server's answer is not what a client can read
├── Unwritable           the journal cannot hold this, now or later
├── CannotServe          the server cannot listen where it was told to
└── MissingExtra         an optional dependency is not installed

Each class has a stable `code`; its docstring is the message it has when none is given.
"""

from typing import Any, ClassVar


class ToolwrightError(Exception):
    """Something went wrong."""

    code: ClassVar[str] = "error"

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip().split("\n")[0])

    @property
    def message(self) -> str:
        """The message: what is wrong and what to do."""
        return str(self.args[0])


class DefinitionError(ToolwrightError):
    """This definition is not valid."""

    code = "invalid_definition"


class InvalidConfiguration(DefinitionError):
    """This configuration is not valid."""

    code = "invalid_configuration"

    def __init__(self, message: str | None = None, details: list[dict[str, str]] | None = None) -> None:
        super().__init__(message)
        self.details = details or []


class InvalidJSON(ToolwrightError):
    """This is not valid JSON."""

    code = "invalid_json"


class InvalidRequest(ToolwrightError):
    """The request is not valid."""

    code = "invalid_request"

    def __init__(self, message: str | None = None, details: list[dict[str, str]] | None = None) -> None:
        super().__init__(message)
        self.details = details or []


class TenvsRequired(InvalidRequest):
    """The thread does not bring the tenvs that its tools need."""

    code = "tenvs_required"

    def __init__(self, message: str, missing: list[str], invalid: list[dict[str, str]]) -> None:
        super().__init__(message)
        self.missing = missing
        self.invalid = invalid


class VariablesRequired(InvalidRequest):
    """Values are still missing."""

    code = "variables_required"

    def __init__(self, message: str, missing: list[str]) -> None:
        super().__init__(message)
        self.missing = missing


class CannotSeal(ToolwrightError):
    """Secrets cannot be kept here: set TOOLWRIGHT_ENCRYPTION_KEYS (make one with `toolwright keys new`)."""

    code = "no_encryption_keys"


class CannotUnseal(ToolwrightError):
    """A secret cannot be read with these encryption keys: list the key that it was stored with too."""

    code = "wrong_encryption_keys"


class NotFound(ToolwrightError):
    """Not found."""

    code = "not_found"


class MethodNotAllowed(ToolwrightError):
    """Method not allowed"""

    code = "method_not_allowed"


class AlreadyOver(ToolwrightError):
    """This has already finished."""

    code = "already_over"


class RunOver(AlreadyOver):
    """The run has already finished."""

    code = "run_over"


class ThreadTerminated(AlreadyOver):
    """The thread is terminated, so no agent answers in it."""

    code = "terminated"


class CallResolved(AlreadyOver):
    """Tool call already resolved"""

    code = "call_resolved"


class CallCancelled(AlreadyOver):
    """Tool call cancelled"""

    code = "call_cancelled"


class CallClaimed(ToolwrightError):
    """Tool call already claimed"""

    code = "call_claimed"


class RunFailed(ToolwrightError):
    """The run failed."""

    code = "run_failed"

    def __init__(
        self, message: str | None = None, result: Any = None
    ) -> None:  # a RunResult, which stands above
        super().__init__(message)
        self.result = result

    @property
    def error_code(self) -> str | None:
        """The code of the run's own error, or `cancelled`."""
        return getattr(self.result, "error_code", None)


class ThreadBusy(ToolwrightError):
    """A run is in progress in this thread or in a child thread."""

    code = "thread_busy"


class NotFailed(ToolwrightError):
    """Only what has failed can be retried."""

    code = "not_failed"


class AlreadyExists(ToolwrightError):
    """This is there already."""

    code = "already_there"


class NoRoom(ToolwrightError):
    """The maximum number of these is reached."""

    code = "max_instances"


class CallExpired(ToolwrightError):
    """Tool call expired"""

    code = "call_expired"


class Forbidden(ToolwrightError):
    """This is not allowed for you."""

    code = "forbidden"


class Unauthorized(ToolwrightError):
    """A valid key is needed: x-secret-key, or x-public-key with a bearer token."""

    code = "unauthorized"


class TooLarge(ToolwrightError):
    """The body is too large."""

    code = "too_large"


class TooSlow(ToolwrightError):
    """The body came too slowly, or not at all."""

    code = "too_slow"


class SolutionError(ToolwrightError):
    """A composed request was not solved; `run_id` is its run, `thread_id` its thread (S1)."""

    code = "solution"

    def __init__(self, message: str | None = None, run_id: str = "", thread_id: str = "") -> None:
        super().__init__(message)
        self.run_id = run_id
        self.thread_id = thread_id


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
    """The model's provider refused the request.

    `of_content` is True if it refused what the request holds (HTTP 400, 413, 422), so that another one may pass, and
    not the key, the model's name or the account.
    """

    code = "model_refused"

    def __init__(self, message: str | None = None, *, of_content: bool = False) -> None:
        super().__init__(message)
        self.of_content = of_content


class ContextTooLong(ModelRefused):
    """The request is longer than the model can take.

    `limit` is the most tokens that the provider says it takes, `asked` the tokens that it counted, often with the room
    for the answer. `answer` is that room where the provider says it, a part of the other two. Each is None if the
    provider does not say.
    """

    code = "context_too_long"

    def __init__(
        self,
        message: str | None = None,
        limit: int | None = None,
        asked: int | None = None,
        answer: int | None = None,
    ) -> None:
        super().__init__(message, of_content=True)
        self.limit = _count(limit)
        self.asked = _count(asked)
        self.answer = _count(answer)


def _count(tokens: object) -> int | None:
    """Return the number of tokens, or None if the value is not one: custom models can set any value."""
    return tokens if isinstance(tokens, int) and not isinstance(tokens, bool) and tokens > 0 else None


class Overloaded(ToolwrightError):
    """The server holds too much that clients have not read, or not sent whole. Try again later."""

    code = "overloaded"


class KeysUnavailable(ToolwrightError):
    """The keys that tokens are signed with cannot be fetched at the moment."""

    code = "keys_unavailable"


class StoreError(ToolwrightError):
    """The journal is unavailable at the moment."""

    code = "store_unavailable"

    def __init__(self, message: str | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Reset(ToolwrightError):
    """The place to resume from is not in the journal any more."""

    code = "reset"

    def __init__(self, message: str | None = None, after: int | None = None) -> None:
        super().__init__(message)
        self.after = after


class Unreachable(ToolwrightError):
    """The server cannot be reached."""

    code = "unreachable"

    def __init__(self, message: str | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class AnswerLost(Unreachable):
    """The connection was lost before the answer came; whether the request took effect is unknown."""

    code = "answer_lost"


class ServerFailed(ToolwrightError):
    """Internal server error"""

    code = "internal"


class BadAnswer(ToolwrightError):
    """The server's answer is not what this client can read."""

    code = "bad_answer"


class CannotServe(ToolwrightError):
    """The server cannot listen here."""

    code = "cannot_serve"


class Unwritable(ToolwrightError):
    """The journal cannot hold this."""

    code = "unwritable"


class RowBroken(ToolwrightError):
    """A row of the journal cannot be read; `toolwright doctor` names all that cannot."""

    code = "row_broken"


class MissingExtra(ToolwrightError):
    """An optional dependency is not installed."""

    code = "missing_extra"


DISTRIBUTION = "toolwright-agents"
"""The name under which this package is installed; it is imported as `toolwright`."""
REFERENCE = "docs/reference/errors.md"
"""The page that explains each `code`: its cause and its remedy."""


def missing_extra(what: str, extra: str, error: Exception) -> MissingExtra:
    """Return the error that `what` needs an extra, with the package whose import has failed with `error`."""
    package = (getattr(error, "name", None) or "an optional package").partition(".")[0]
    return MissingExtra(f"{what} needs {package}, which is not installed: {install(extra)}.")


def install(extra: str) -> str:
    """Return the command that installs an extra of this distribution."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"
