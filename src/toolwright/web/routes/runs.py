"""Routes of runs, and of event streams of threads, runs and spaces, with the tokens that open them."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import Depends, Header, Query
from fastapi.responses import StreamingResponse
from pydantic import Field

from toolwright.core.agents.agent import entity_id_of
from toolwright.core.json_value import JSONObject
from toolwright.core.limits import ALL_ROWS, PageLimit, ended_early
from toolwright.core.threads.compaction import SentPrompt as SentPromptRow
from toolwright.core.threads.event import Topic
from toolwright.core.threads.run import Run as RunRow
from toolwright.core.threads.run import RunStatus
from toolwright.web.answers import (
    ListShape,
    Names,
    Responses,
    failures,
    shown,
)
from toolwright.web.auth.permits import reads_system_text
from toolwright.web.dependencies import AnyCaller, Service, ServingDep, StreamingService, StreamReader
from toolwright.web.requests import EventId, Id, Limit, Offset, StorableText
from toolwright.web.route import noun
from toolwright.web.streams import EventStream
from toolwright.wire.event import Event
from toolwright.wire.rendering import Absent, Itself
from toolwright.wire.run import (
    ListedRun,
    Run,
    RunProgress,
    SentPrompt,
    run_with_steps,
    shown_prompt,
)
from toolwright.wire.server import StreamToken
from toolwright.wire.shape import Shape

router = noun("/api/runs", "runs")
_EVENTS: dict[str, Any] = {  # part of an OpenAPI document
    "description": "Server-sent events without end: `connected`, then the events as they occur.",
    "content": {"text/event-stream": {"schema": {"type": "string"}}},
}


class RunAnswer(Shape):
    """One run."""

    run: Itself[ListedRun]


class FullRunAnswer(Shape):
    """A run with all of its fields, or only the fields that the caller may see."""

    run: Run | RunProgress
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


@router.get("", response_description="The runs.")
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
) -> Annotated[Sequence[RunRow], RunList]:
    """List runs, newest first, without their steps."""
    return await serving.runtime.runs.list(
        status=status, agent=agent_id, thread_id=thread_id, limit=limit, offset=offset
    )


@router.get("/{run_id}", response_description="The run.", responses=failures(404))
async def get_run(caller: AnyCaller, serving: ServingDep, run_id: Id) -> Annotated[JSONObject, FullRunAnswer]:
    """Get a run with its steps and their messages."""
    run, sight = await serving.permits.visible_run(caller, run_id)
    if sight == "status":
        return {"run": RunProgress.of(run)}
    steps = await serving.runtime.runs.steps(run_id, PageLimit(ALL_ROWS))
    messages = await serving.runtime.runs.messages(run_id, PageLimit(ALL_ROWS))
    more: JSONObject = {"more": True} if ended_early(steps) or ended_early(messages) else {}
    verdicts = await serving.runtime.runs.verdicts(run_id)
    whole = reads_system_text(caller)
    return {"run": run_with_steps(run, steps, messages, verdicts, for_service=whole), **more}


@router.get("/{run_id}/prompts", response_description="The prompts that were sent.", responses=failures(404))
async def list_prompts(
    caller: AnyCaller, serving: ServingDep, run_id: Id, limit: Limit = PageLimit(20), offset: Offset = 0
) -> Annotated[Sequence[SentPromptRow], PromptList]:
    """List the requests sent to models at each step of the run, in order, rebuilt from the journal."""
    await serving.permits.run(caller, run_id)
    prompts = await serving.runtime.sent_prompts.of_run(run_id, limit, offset)
    whole, message = reads_system_text(caller), caller.presentation.message
    return shown(prompts, lambda each: shown_prompt(each, message, include_contents=whole))


@router.get("/{run_id}/events", response_description="The events.", responses=failures(404))
async def list_run_events(
    caller: AnyCaller,
    serving: ServingDep,
    run_id: Id,
    after: Annotated[EventId, Query(description="Only events after the one with this id.")] = "0",
    limit: Limit = PageLimit(500),
    offset: Offset = 0,
) -> Annotated[JSONObject, EventList]:
    """List the run's recorded events, in order."""
    await serving.permits.run(caller, run_id)
    run = await serving.runtime.runs.get(run_id)
    events = await serving.runtime.events.list(Topic(kind="run", id=run_id), int(after), limit, offset)
    return EventList.of(shown(events, caller.presentation.event), agent_entity_id=entity_id_of(run.agent))


@router.post(
    "/{run_id}/cancel",
    response_description="The run, which is being cancelled.",
    responses=failures(404, 409),
)
async def cancel_run(caller: AnyCaller, serving: ServingDep, run_id: Id) -> Annotated[RunRow, RunAnswer]:
    """Cancel the run."""
    await serving.permits.run(caller, run_id)
    return await serving.runtime.runs.cancel(run_id, by=caller.through("http"))


@router.post("/{run_id}/retry", response_description="The run, queued again.", responses=failures(404, 409))
async def retry_run(caller: AnyCaller, serving: ServingDep, run_id: Id) -> Annotated[RunRow, RunAnswer]:
    """Continue a failed run from its last step."""
    await serving.permits.run(caller, run_id)
    return await serving.runtime.runs.retry(run_id, by=caller.through("http"))


streams_router = noun("/api", "streams")

_ANSWERS: Responses = {200: _EVENTS} | failures(404)


async def _resume_after(
    last_event_id: Annotated[
        EventId | None, Header(description="Id of the last event that was read.")
    ] = None,
    after: Annotated[
        EventId | None, Query(description="Id of the last event that was read; 0 is the beginning.")
    ] = None,
) -> int | None:
    """Return the event number to resume after, or None to start now.

    The header takes precedence, because a browser that reconnects repeats the query.
    """
    place = after if last_event_id is None else last_event_id
    return None if place is None else int(place)


After = Annotated[int | None, Depends(_resume_after)]


@streams_router.get("/threads/{thread_id}/stream", response_class=StreamingResponse, responses=_ANSWERS)
async def stream_thread(
    caller: StreamReader, serving: ServingDep, after: After, thread_id: Id
) -> EventStream:
    """Stream the events of a thread."""
    await serving.permits.thread(caller, thread_id)
    thread = await serving.runtime.threads.get(thread_id)
    ids = _ids(entity_id_of(thread.agent), threadId=thread_id)
    return EventStream(serving, caller, Topic(kind="thread", id=thread_id), after, ids)


@streams_router.get("/runs/{run_id}/stream", response_class=StreamingResponse, responses=_ANSWERS)
async def stream_run(caller: StreamReader, serving: ServingDep, after: After, run_id: Id) -> EventStream:
    """Stream the events of a run. The stream continues after the run has finished."""
    await serving.permits.run(caller, run_id)
    run = await serving.runtime.runs.get(run_id)
    ids = _ids(entity_id_of(run.agent), threadId=run.thread_id, runId=run_id)
    return EventStream(serving, caller, Topic(kind="run", id=run_id), after, ids)


@streams_router.get("/spaces/{space_id}/stream", response_class=StreamingResponse, responses=_ANSWERS)
async def stream_space(caller: StreamReader, serving: ServingDep, after: After, space_id: Id) -> EventStream:
    """Stream the events of a space."""
    await serving.permits.space(caller, space_id)
    ids = _ids(None, spaceId=space_id, smartSpaceId=space_id)
    return EventStream(serving, caller, Topic(kind="space", id=space_id), after, ids)


@streams_router.get("/sse", response_class=StreamingResponse, responses={200: _EVENTS} | failures())
async def stream_spaces(
    caller: StreamReader,
    serving: ServingDep,
    after: After,
    names: Annotated[
        Names, Query(description="`s4` for channels: `message_created`, `agent_typing`, `agent_done`.")
    ] = "s3",
) -> EventStream:
    """Stream the events of all spaces. A person sees the events of their own spaces and of public spaces."""
    return EventStream(serving, caller, Topic(kind="spaces", id=""), after, {}, names=names)


@streams_router.get("/tools/stream", response_class=StreamingResponse, responses={200: _EVENTS} | failures())
async def stream_tools(
    caller: StreamingService,
    serving: ServingDep,
    tools: Annotated[
        list[StorableText] | None, Query(description="Names of tools, also separated by commas.")
    ] = None,
) -> EventStream:
    """Stream calls for external workers: all open, unclaimed calls, then new ones. Claim a call before executing it."""
    names = [name for each in tools or () for name in each.split(",") if name] or None
    offers = serving.runtime.offers
    topic = Topic(kind="tools", id="")
    return EventStream(serving, caller, topic, None, {}, lambda _, __, ___: offers.following(names))


def _ids(entity_id: str | None, **ids: str) -> JSONObject:
    result: JSONObject = {**ids}
    return result if entity_id is None else result | {"agentEntityId": entity_id}


tokens_router = noun("/api/stream-tokens", "streams")


@tokens_router.post("", response_description="The token.")
async def create_stream_token(caller: AnyCaller, serving: ServingDep) -> Annotated[JSONObject, StreamToken]:
    """Create a token that opens one stream within a minute, as `?token=`, with the caller's rights."""
    token, expires_at = await serving.tokens.issue(caller)
    return {"token": token, "expiresAt": expires_at.isoformat()}
