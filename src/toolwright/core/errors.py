"""The error tree.

ToolwrightError
├── DefinitionError      the declaration of a tool, prompt, agent or app is invalid
│   └── InvalidConfiguration the configuration of an agent as JSON is invalid; `details` name the paths
├── InvalidJSON          a value or a text is not JSON
├── InvalidRequest       the caller's input is invalid; `details` name the paths
│   ├── TenvsRequired         a thread does not have the tenvs that its tools require
│   └── VariablesRequired     variables of a request still have no value; `missing` has their names
├── CannotSeal           there is no key to encrypt a secret
├── CannotUnseal         none of the keys decrypts a secret
├── NotFound             the item does not exist, or belongs to another user
├── MethodNotAllowed     the route exists, the method does not
├── AlreadyOver          the run or call has ended
│   ├── RunOver
│   ├── ThreadTerminated     no run can start in the thread
│   ├── CallResolved
│   └── CallCancelled
├── CallClaimed          another worker has claimed the call
├── DefinitionChanged    the tool has changed since the call asked for its approval; the call asks again
├── RunFailed            an awaited run has failed or was cancelled; `result` is its result
├── NotFailed            only failed inbox events can be retried
├── AlreadyExists        another item has this name
├── NoRoom               the maximum number of these items is reached
├── CallExpired          the time for a call's result has passed
├── Forbidden            the caller does not have the permission
├── Unauthorized         the key or token is missing or invalid
├── TooLarge             the body exceeds its limit
├── TooSlow              the body did not arrive in time
├── ModelError           the model returned no usable answer
│   ├── ModelUnavailable     rate limit, overload, network: retry later
│   └── ModelRefused         invalid key or request: a retry does not help
│       └── ContextTooLong       the request exceeds the model's context; `limit` and `asked` are in tokens
├── FunctionFailed       a function that an agent's instructions or tools depend on has failed
├── Overloaded           the server's buffers are full: retry later
├── TooManyRequests      the caller has used their share: retry later
├── KeysUnavailable      the public keys of people's tokens cannot be fetched
├── StoreError           the journal cannot be read or written
├── Reset                the events after the resume position were deleted; `after` is a new position
├── Unreachable          the client cannot reach the server: nothing was sent
│   └── AnswerLost           the request was sent, but no answer arrived: its effect is unknown
├── HookFailed           a hook of the app failed, and with it its run
├── ServerFailed         an error inside the server
├── BadAnswer            the client cannot read the server's answer
├── Unwritable           the journal cannot store the value, now or later
├── CannotServe          the server cannot listen on the address
└── MissingExtra         an optional dependency is not installed

Each class has a stable `code`. Its docstring is the default message.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

DISTRIBUTION = "toolwright-agents"
"""The name of the installed distribution; the package is imported as `toolwright`."""


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
    """The thread does not have the tenvs that its tools require."""

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
    """Secrets cannot be stored without a key: set TOOLWRIGHT_ENCRYPTION_KEYS (`toolwright keys new` prints one)."""

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


class DefinitionChanged(ToolwrightError):
    """The tool has changed since the call asked for its approval. Look at the call again, then answer it."""

    code = "definition_changed"


class RunFailed(ToolwrightError):
    """The run failed."""

    code = "run_failed"

    # a RunResult, whose module imports this one
    def __init__(self, message: str | None = None, result: Any = None) -> None:
        super().__init__(message)
        self.result = result

    @property
    def error_code(self) -> str | None:
        """The code of the run's own error, or `cancelled`."""
        return getattr(self.result, "error_code", None)


class ThreadBusy(ToolwrightError):
    """A run is in progress in this thread or in a child thread."""

    code = "thread_busy"


class OtherDeps(ToolwrightError):
    """The run in progress, which the message would join, has other deps."""

    code = "other_deps"


class NotFailed(ToolwrightError):
    """Only what has failed can be retried."""

    code = "not_failed"


class AlreadyExists(ToolwrightError):
    """This already exists."""

    code = "already_there"


class NoRoom(ToolwrightError):
    """The maximum number of these is reached."""

    code = "max_instances"


class CallExpired(ToolwrightError):
    """Tool call expired"""

    code = "call_expired"


class Forbidden(ToolwrightError):
    """You do not have the permission for this."""

    code = "forbidden"


class Unauthorized(ToolwrightError):
    """A valid key is needed: x-secret-key, or x-public-key with a bearer token."""

    code = "unauthorized"


class TooLarge(ToolwrightError):
    """The body is too large."""

    code = "too_large"


class TooSlow(ToolwrightError):
    """The body did not arrive in time."""

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

    `of_content` is True if the provider refused the content of the request (HTTP 400, 413, 422), and not the key, the
    model's name or the account. Another request can then succeed. `message_id` is the message that it named, or None.
    """

    code = "model_refused"

    def __init__(
        self, message: str | None = None, *, of_content: bool = False, message_id: str | None = None
    ) -> None:
        super().__init__(message)
        self.of_content = of_content
        self.message_id = message_id


class ContextTooLong(ModelRefused):
    """The request is longer than the model can take.

    `limit` is the provider's maximum number of tokens. `asked` is the number that it counted, often including the
    tokens reserved for the answer, and `answer` is the number reserved. Each is None if the provider does not report
    it.
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


class FunctionFailed(ToolwrightError):
    """A function that the agent depends on has failed."""

    code = "function_failed"


class Overloaded(ToolwrightError):
    """The server's buffers for slow clients are full. Try again later."""

    code = "overloaded"


class TooManyRequests(ToolwrightError):
    """Too many requests of one caller. Nothing was done. Try again later."""

    code = "too_many_requests"

    def __init__(self, message: str | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


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
    """The events after the resume position were deleted. Read the current state again."""

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
    """The connection was lost before the answer arrived; whether the request took effect is unknown."""

    code = "answer_lost"


class HookFailed(ToolwrightError):
    """A hook of the app failed."""

    code = "hook_failed"

    def __init__(self, message: str | None = None, rows: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.rows = rows  # the verdicts up to this failure, a value of `core/hooks.py`


class ServerFailed(ToolwrightError):
    """Internal server error"""

    code = "internal"


class BadAnswer(ToolwrightError):
    """This client cannot read the server's answer."""

    code = "bad_answer"


class CannotServe(ToolwrightError):
    """The server cannot listen here."""

    code = "cannot_serve"


class Unwritable(ToolwrightError):
    """The journal cannot store this value."""

    code = "unwritable"


class RowBroken(ToolwrightError):
    """A row of the journal cannot be read. Run `toolwright doctor`, which names the broken rows."""

    code = "row_broken"


class MissingExtra(ToolwrightError):
    """An optional dependency is not installed."""

    code = "missing_extra"


def missing_extra(what: str, extra: str, error: Exception) -> MissingExtra:
    """Return the error that `what` requires an extra. It names the package whose import failed with `error`."""
    package = (getattr(error, "name", None) or "an optional package").partition(".")[0]
    return MissingExtra(f"{what} needs {package}, which is not installed: {install(extra)}.")


def install(extra: str) -> str:
    """Return the command that installs an extra of this distribution."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"
