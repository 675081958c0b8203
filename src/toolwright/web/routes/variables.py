"""Requests for values: what a parked run, or a child that cannot begin yet, waits for (S0 §6).

`/threads/…` without `/api` leads here too: so S0 spells it.
"""

from typing import Annotated, cast

from fastapi import Depends

from toolwright.core.env.env import EnvInput
from toolwright.core.json_value import JSON, JSONObject
from toolwright.web.answers import Answer, ErrorShape, answer, answers
from toolwright.web.dependencies import Known
from toolwright.web.requests.body import NewEnv, described, reads
from toolwright.web.requests.query import Id
from toolwright.web.routes.router import noun
from toolwright.web.serving import Here
from toolwright.wire.call import VariablesAnswered, VariablesRequest, required_json

router = noun("/api/threads", "variables")


class VariablesMissing(ErrorShape):
    """The names that are still missing."""

    missing: list[str]


@router.get(
    "/{thread_id}/variables/{request_id}",
    responses=answers(VariablesRequest, "What is asked for.", errors=(404,)),
)
async def get_variables(caller: Known, serving: Here, thread_id: Id, request_id: Id) -> Answer:
    """The requested variables, and those that are still missing."""
    await serving.permits.request(caller, thread_id, request_id)
    wanted = await serving.runtime.requests.get(thread_id, request_id)
    missing: list[JSON] = [*wanted.missing]
    return answer(
        {
            "requestId": wanted.request_id,
            "agentName": wanted.agent_name,
            "required": required_json(wanted.required),
            "missing": missing,
        }
    )


@router.post(
    "/{thread_id}/variables/{request_id}",
    responses=answers(
        VariablesAnswered, "All is there: the run goes on, or the child begins.", 200, (404, 409, 413)
    )
    | {422: {"model": VariablesMissing, "description": "The values are kept, but others are still missing."}},
    openapi_extra=described(NewEnv),
)
async def give_variables(
    caller: Known,
    serving: Here,
    thread_id: Id,
    request_id: Id,
    new: Annotated[NewEnv, Depends(reads(NewEnv))],
) -> Answer:
    """Give values that were asked for, and no others; plain text is of the type that was asked for."""
    await serving.permits.request(caller, thread_id, request_id)
    env = cast("EnvInput", new.env)  # read where it is answered
    done = await serving.runtime.requests.answer(thread_id, request_id, env)
    body: JSONObject = {"requestId": done.request_id, "status": "success"}
    if done.child_thread_id is not None:
        body["childThreadId"] = done.child_thread_id
    return answer(body)
