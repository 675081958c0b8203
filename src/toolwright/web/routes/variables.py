"""Routes of requests for variables that a suspended run or a deferred child needs (S0 §6).

`/threads/…` without `/api` works too, as in S0.
"""

from typing import Annotated, cast

from fastapi import Depends

from toolwright.core.env.env import EnvInput
from toolwright.core.json_value import JSON, JSONObject
from toolwright.web.answers import ApiResponse, ErrorShape, answer, answers
from toolwright.web.dependencies import AnyCaller
from toolwright.web.requests.body import NewEnv, described, reads
from toolwright.web.requests.query import Id
from toolwright.web.routes.router import noun
from toolwright.web.serving import ServingDep
from toolwright.wire.call import VariablesAnswered, VariablesRequest, required_json

router = noun("/api/threads", "variables")


class VariablesMissing(ErrorShape):
    """The names that are still missing."""

    missing: list[str]


@router.get(
    "/{thread_id}/variables/{request_id}",
    responses=answers(VariablesRequest, "The requested variables.", errors=(404,)),
)
async def get_variables(caller: AnyCaller, serving: ServingDep, thread_id: Id, request_id: Id) -> ApiResponse:
    """Get the requested variables, and those that are still missing."""
    await serving.permits.request(caller, thread_id, request_id)
    request = await serving.runtime.requests.get(thread_id, request_id)
    missing: list[JSON] = [*request.missing]
    return answer(
        {
            "requestId": request.request_id,
            "agentName": request.agent_name,
            "required": required_json(request.required),
            "missing": missing,
        }
    )


@router.post(
    "/{thread_id}/variables/{request_id}",
    responses=answers(
        VariablesAnswered, "Nothing is missing: the run continues, or the child starts.", 200, (404, 409, 413)
    )
    | {
        422: {
            "model": VariablesMissing,
            "description": "The values were saved, but others are still missing.",
        }
    },
    openapi_extra=described(NewEnv),
)
async def give_variables(
    caller: AnyCaller,
    serving: ServingDep,
    thread_id: Id,
    request_id: Id,
    new: Annotated[NewEnv, Depends(reads(NewEnv))],
) -> ApiResponse:
    """Set requested variables; other names are rejected. Plain text gets the requested type."""
    await serving.permits.request(caller, thread_id, request_id)
    env = cast("EnvInput", new.env)  # read by the route
    done = await serving.runtime.requests.answer(thread_id, request_id, env)
    body: JSONObject = {"requestId": done.request_id, "status": "success"}
    if done.child_thread_id is not None:
        body["childThreadId"] = done.child_thread_id
    return answer(body)
