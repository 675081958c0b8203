"""Routes of tool calls that wait for a person or an external worker, and of requests for missing variables.

The routes of variables work at `/threads/…` without `/api` too, as in S0.
"""

from functools import partial
from typing import Annotated, Any, Literal, cast

from fastapi import Query
from pydantic import BeforeValidator, Field, JsonValue, model_validator

from toolwright.core.concurrency import in_thread_if_large
from toolwright.core.env.env import EnvInput
from toolwright.core.errors import InvalidRequest
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.limits import MAX_NAME, PageLimit
from toolwright.core.results import ToolResult
from toolwright.core.threads.call import Call as CallRow
from toolwright.core.threads.call import CallStatus
from toolwright.runtime.children.requests import FulfilledRequest, RequestStatus
from toolwright.runtime.pending.pending import LEASES
from toolwright.web.answers import ErrorShape, ListShape, failures
from toolwright.web.dependencies import AnyCaller, Service, ServingDep
from toolwright.web.requests import (
    Id,
    Limit,
    NewEnv,
    Offset,
    Reference,
    RequestBody,
    SpaceId,
    StorableText,
)
from toolwright.web.route import noun
from toolwright.wire.call import (
    Call,
    VariablesAnswered,
    VariablesRequest,
    agent_entity_id,
)
from toolwright.wire.rendering import Itself
from toolwright.wire.shape import Shape

router = noun("/api", "calls")
OPEN: tuple[CallStatus, ...] = ("waiting", "pending")


class CallAnswer(Shape):
    """One tool call."""

    call: Itself[Call]


class CallList(ListShape):
    """Calls, oldest first."""

    calls: list[Call]


class SubmittedResult(Shape):
    """Confirmation of a submitted result."""

    success: Literal[True]
    agent_entity_id: str | None


def _apart(values: list[str] | None) -> list[str] | None:
    return None if values is None else [part for each in values for part in each.split(",")]


Statuses = Annotated[
    list[CallStatus] | None,
    BeforeValidator(_apart),
    Query(description="One or more statuses, also separated by commas. The default is waiting and pending."),
]


class Submission(RequestBody):
    """The result of a call (any JSON value), or the message of its failure."""

    call_id: Reference
    result: JsonValue = None
    error: StorableText | None = None

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, body: Any) -> Any:  # the body as sent
        if not body.get("callId"):
            raise _required("callId")
        if "result" not in body and "error" not in body:
            raise _required("result")
        return body

    @property
    def outcome(self) -> JSON | ToolResult:
        """Result of the call. Raises `InvalidRequest`."""
        if "error" not in self.model_fields_set:
            return self.result
        if "result" in self.model_fields_set or self.error is None:
            raise InvalidRequest(
                "Send either a result, or an error as text.",
                [{"path": "error", "message": "must be text, and not combined with a result"}],
            )
        return ToolResult.fail(self.error)


class ClaimRequest(RequestBody):
    """The worker that claims a call, and its lease in milliseconds."""

    worker: Annotated[StorableText, Field(min_length=1, max_length=MAX_NAME, pattern=r"\S")]
    lease_ms: Annotated[int, Field(ge=round(LEASES[0] * 1000), le=round(LEASES[1] * 1000))]


@router.get("/calls", response_description="The calls.")
async def list_calls(
    caller: AnyCaller,
    serving: ServingDep,
    status: Statuses = None,
    run_id: Annotated[StorableText | None, Query(alias="runId")] = None,
    agent_id: Annotated[
        StorableText | None, Query(alias="agentId", description="An agent's name or id.")
    ] = None,
    space_id: SpaceId = None,
    limit: Limit = PageLimit(50),
    offset: Offset = 0,
) -> Annotated[JSONObject, CallList]:
    """List tool calls, oldest first; by default the open ones.

    A person sees the calls of their threads, and visible calls in spaces of which they are a member. Results are whole
    as long as they have at most 4 MiB together. Further ones are cut as for the model and have `resultTruncated`.
    """
    calls = await serving.runtime.calls.list(
        status=status or OPEN,
        run_id=run_id,
        agent=agent_id,
        space_id=space_id,
        sees=caller.sight,
        limit=limit,
        offset=offset,
    )
    return await in_thread_if_large([call.result for call in calls], CallList.of, calls)


@router.get("/calls/{call_id}", response_description="The call.", responses=failures(404))
async def get_call(caller: AnyCaller, serving: ServingDep, call_id: Id) -> Annotated[JSONObject, CallAnswer]:
    """Get a tool call of any status, with its whole result if that has at most 4 MiB.

    A person sees the calls of their threads, and visible calls in spaces of which they are a member. A longer result is
    cut as for the model and has `resultTruncated`; the whole is in the last of its `attachments`, a file of its thread,
    unless it was larger than a file can be.
    """
    call = await serving.permits.call(caller, call_id)
    return await in_thread_if_large(call.result, CallAnswer.of, call)


@router.post(
    "/runs/{run_id}/tool-results",
    response_description="The result was accepted.",
    responses=failures(404, 409, 410, 413),
)
async def submit_result(
    caller: AnyCaller, serving: ServingDep, run_id: Id, submission: Submission
) -> Annotated[JSONObject, SubmittedResult]:
    """Submit the result of an open call. Each call accepts one result.

    A call that waits for an approval is answered with `{approved, args?, reason?}` as its result.
    """
    runtime = serving.runtime
    may = partial(serving.permits.answer, caller)
    await runtime.calls.submit(run_id, submission.call_id, submission.outcome, may, by=caller.through("http"))
    call = await runtime.calls.row(submission.call_id)
    return {"success": True, "agentEntityId": agent_entity_id(call)}


@router.post(
    "/calls/{call_id}/cancel", response_description="The cancelled call.", responses=failures(404, 409)
)
async def cancel_call(caller: Service, serving: ServingDep, call_id: Id) -> Annotated[CallRow, CallAnswer]:
    """Cancel an open call. Its agent receives the error `Tool call cancelled`."""
    return await serving.runtime.calls.cancel(call_id, by=caller.through("http"))


@router.post(
    "/calls/{call_id}/claim",
    response_description="The call, claimed until the lease expires.",
    responses=failures(404, 409, 410, 413),
)
async def claim_call(
    _: Service, serving: ServingDep, call_id: Id, claim: ClaimRequest
) -> Annotated[CallRow, CallAnswer]:
    """Claim an open call for a worker before executing it. The same request by the same worker renews the lease.

    After the lease has expired, other workers can claim the call only if its tool is read-only or idempotent.
    """
    return await serving.runtime.calls.claim(call_id, claim.worker, claim.lease_ms / 1000)


def _required(path: str) -> InvalidRequest:
    return InvalidRequest(f"{path} is required", [{"path": path, "message": "is required"}])


variables_router = noun("/api/threads", "variables")


class VariablesMissing(ErrorShape):
    """The names that are still missing."""

    missing: list[str]


@variables_router.get(
    "/{thread_id}/variables/{request_id}",
    response_description="The requested variables.",
    responses=failures(404),
)
async def get_variables(
    caller: AnyCaller, serving: ServingDep, thread_id: Id, request_id: Id
) -> Annotated[RequestStatus, VariablesRequest]:
    """Get the requested variables, and those that are still missing."""
    await serving.permits.request(caller, thread_id, request_id)
    return await serving.runtime.requests.get(thread_id, request_id)


@variables_router.post(
    "/{thread_id}/variables/{request_id}",
    response_description="Nothing is missing: the run continues, or the child starts.",
    responses=failures(404, 409, 413)
    | {
        422: {
            "model": VariablesMissing,
            "description": "The values were saved, but others are still missing.",
        }
    },
)
async def give_variables(
    caller: AnyCaller, serving: ServingDep, thread_id: Id, request_id: Id, new: NewEnv
) -> Annotated[FulfilledRequest, VariablesAnswered]:
    """Set requested variables; other names are rejected. Plain text gets the requested type."""
    await serving.permits.request(caller, thread_id, request_id)
    env = cast("EnvInput", new.env)  # read by the route
    return await serving.runtime.requests.answer(thread_id, request_id, env, by=caller.through("http"))
