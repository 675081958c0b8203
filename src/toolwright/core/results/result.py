"""Results of a tool's executor, and the marker of results that are submitted later."""

from typing import Literal, TypeAlias

from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.results.content import Attachment, AttachmentRef
from toolwright.core.value import value


@value
class ToolResult:
    """The outcome of one tool call (S2 §4). A tool's failure is data, never an exception.

    `result` is text or a JSON value. `stack` is recorded and never sent to a model. `error_code` and `error_data`
    describe an error in machine-readable form.
    """

    status: Literal["success", "error"]
    result: JSON = None
    error: str | None = None
    stack: str | None = None
    attachments: tuple[Attachment | AttachmentRef, ...] = ()
    error_code: str | None = None
    error_data: JSONObject | None = None

    @classmethod
    def ok(
        cls, result: JSON = None, attachments: tuple[Attachment | AttachmentRef, ...] = ()
    ) -> "ToolResult":
        """Return a success."""
        return cls(status="success", result=result, attachments=attachments)

    @classmethod
    def fail(
        cls,
        error: str,
        *,
        stack: str | None = None,
        error_code: str | None = None,
        error_data: JSONObject | None = None,
    ) -> "ToolResult":
        """Return a failure, with a message that the model can act on."""
        return cls(status="error", error=error, stack=stack, error_code=error_code, error_data=error_data)


@value
class RemoteTask:
    """A task that an MCP server executes, by its id at the server. It is polled after `poll` seconds.

    The server keeps it for `kept` seconds. `output` is the schema of its structured result, `place` the digest of the
    server's location, `session` the id of the HTTP session in which it was created.
    """

    id: str
    server: str
    output: JSONObject | None = None
    place: str | None = None
    session: str | None = None
    poll: float | None = None
    kept: float | None = None


@value
class Pending:
    """A result that is submitted later, under the call's id.

    `wait` is how many seconds the run waits for it inline. None answers the model immediately with `{"status":
    "pending"}`, and the result arrives in the inbox (S3 `isAsync`). `expires_in` is the number of seconds in which a
    submission is accepted. `task` is the MCP server's task for the call, from which the result is fetched.
    """

    wait: float | None = None
    expires_in: float | None = None
    task: RemoteTask | None = None


Outcome: TypeAlias = ToolResult | Pending

CALL_CANCELLED = ToolResult.fail("Tool call cancelled")
"""Result of an open call that was cancelled, or whose result has no reader."""
