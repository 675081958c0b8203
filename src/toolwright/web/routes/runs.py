"""Routes of runs and their events."""

from typing import Annotated, Literal

from fastapi import Query
from pydantic import Field

from toolwright.core.agents.agent import entity_id_of
from toolwright.core.broken_rows import Rows, broken_rows, ended_early
from toolwright.core.json_value import JSONObject
from toolwright.core.limits import ALL_ROWS, PageLimit
from toolwright.core.threads.event import Topic
from toolwright.core.threads.run import RunStatus
from toolwright.web.answers import ApiResponse, ListShape, answer, answers, broken_json, listed
from toolwright.web.auth.permits import reads_system_text
from toolwright.web.dependencies import AnyCaller, Service
from toolwright.web.requests.query import EventId, Id, Limit, Offset, StorableText
from toolwright.web.routes.router import noun
from toolwright.web.serving import ServingDep
from toolwright.wire.event import Event, event_json
from toolwright.wire.run import (
    ListedRun,
    Run,
    RunProgress,
    SentPrompt,
    run_json,
    run_status_json,
    run_with_steps,
    sent_prompt_json,
)
from toolwright.wire.shape import Absent, BrokenItem, Shape

router = noun("/api/runs", "runs")


class RunAnswer(Shape):
    """One run."""

    run: ListedRun


class FullRunAnswer(Shape):
    """A run with all of its fields, or only the fields that the caller may see."""

    run: Run | RunProgress
    broken: Absent[list[BrokenItem]] = None
    more: Absent[Literal[True]] = Field(
        None,
        description="Some large messages are omitted: `GET /api/threads/:id/messages?runId=` has them.",
    )


class RunList(ListShape):
    """Runs, newest first."""

    runs: list[ListedRun]


class PromptList(ListShape):
    """Requests sent to models, in order."""

    prompts: list[SentPrompt]


class EventList(ListShape):
    """Recorded events, in order."""

    events: list[Event]


@router.get("", responses=answers(RunList, "The runs."))
async def list_runs(
    _: Service,
    serving: ServingDep,
    status: Annotated[RunStatus | None, Query()] = None,
    agent_id: Annotated[
        StorableText | None, Query(alias="agentId", description="An agent's name or id.")
    ] = None,
    thread_id: Annotated[StorableText | None, Query(alias="threadId")] = None,
    limit: Limit = PageLimit(50),
    offset: Offset = 0,
) -> ApiResponse:
    """List runs, newest first, without their steps."""
    runs = await serving.runtime.runs.list(
        status=status, agent=agent_id, thread_id=thread_id, limit=limit, offset=offset
    )
    return listed("runs", runs, run_json)


@router.get("/{run_id}", responses=answers(FullRunAnswer, "The run.", errors=(404,)))
async def get_run(caller: AnyCaller, serving: ServingDep, run_id: Id) -> ApiResponse:
    """Get a run with its steps and their messages."""
    run, sight = await serving.permits.visible_run(caller, run_id)
    if sight == "status":
        return answer({"run": run_status_json(run)})
    steps = await serving.runtime.runs.steps(run_id, PageLimit(ALL_ROWS))
    messages = await serving.runtime.runs.messages(run_id, PageLimit(ALL_ROWS))
    broken = Rows((), [*broken_rows(steps), *broken_rows(messages)])
    more: JSONObject = {"more": True} if ended_early(steps) or ended_early(messages) else {}
    return answer({"run": run_with_steps(run, steps, messages), **broken_json(broken), **more})


@router.get("/{run_id}/prompts", responses=answers(PromptList, "The prompts that were sent.", errors=(404,)))
async def list_prompts(
    caller: AnyCaller, serving: ServingDep, run_id: Id, limit: Limit = PageLimit(20), offset: Offset = 0
) -> ApiResponse:
    """List the requests sent to models at each step of the run, in order, rebuilt from the journal."""
    await serving.permits.run(caller, run_id)
    prompts = await serving.runtime.sent_prompts.of_run(run_id, limit, offset)
    whole, message = reads_system_text(caller), caller.presentation.message
    return listed("prompts", prompts, lambda each: sent_prompt_json(each, message, include_contents=whole))


@router.get("/{run_id}/events", responses=answers(EventList, "The events.", errors=(404,)))
async def list_run_events(
    caller: AnyCaller,
    serving: ServingDep,
    run_id: Id,
    after: Annotated[EventId, Query(description="Only events after the one with this id.")] = "0",
    limit: Limit = PageLimit(500),
    offset: Offset = 0,
) -> ApiResponse:
    """List the run's recorded events, in order."""
    await serving.permits.run(caller, run_id)
    run = await serving.runtime.runs.get(run_id)
    events = await serving.runtime.events.list(Topic(kind="run", id=run_id), int(after), limit, offset)
    entity_id = entity_id_of(run.agent)
    present = caller.presentation.event
    return listed("events", events, lambda event: event_json(present(event), entity_id))


@router.post(
    "/{run_id}/cancel", responses=answers(RunAnswer, "The run, which is being cancelled.", errors=(404, 409))
)
async def cancel_run(caller: AnyCaller, serving: ServingDep, run_id: Id) -> ApiResponse:
    """Cancel the run."""
    await serving.permits.run(caller, run_id)
    return answer({"run": run_json(await serving.runtime.runs.cancel(run_id))})


@router.post("/{run_id}/retry", responses=answers(RunAnswer, "The run, queued again.", errors=(404, 409)))
async def retry_run(caller: AnyCaller, serving: ServingDep, run_id: Id) -> ApiResponse:
    """Continue a failed run from its last step."""
    await serving.permits.run(caller, run_id)
    return answer({"run": run_json(await serving.runtime.runs.retry(run_id))})
