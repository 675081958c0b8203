"""Routes of event streams of threads, runs and spaces, and of the tokens that open them."""

from typing import Annotated, Any

from fastapi import Depends, Header, Query
from fastapi.responses import StreamingResponse

from toolwright.core.agents.agent import entity_id_of
from toolwright.core.json_value import JSONObject
from toolwright.core.threads.event import Topic
from toolwright.web.answers import ApiResponse, Names, Responses, answer, answers, failures
from toolwright.web.dependencies import AnyCaller, StreamingService, StreamReader
from toolwright.web.requests.query import EventId, Id, StorableText
from toolwright.web.routes.router import noun
from toolwright.web.serving import ServingDep
from toolwright.web.streams import EventStream
from toolwright.wire.server import StreamToken

router = noun("/api", "streams")

_EVENTS: dict[str, Any] = {  # part of an OpenAPI document
    "description": "Server-sent events without end: `connected`, then the events as they occur.",
    "content": {"text/event-stream": {"schema": {"type": "string"}}},
}
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


@router.get("/threads/{thread_id}/stream", response_class=StreamingResponse, responses=_ANSWERS)
async def stream_thread(
    caller: StreamReader, serving: ServingDep, after: After, thread_id: Id
) -> EventStream:
    """Stream the events of a thread."""
    await serving.permits.thread(caller, thread_id)
    thread = await serving.runtime.threads.get(thread_id)
    ids = _ids(entity_id_of(thread.agent), threadId=thread_id)
    return EventStream(serving, caller, Topic(kind="thread", id=thread_id), after, ids)


@router.get("/runs/{run_id}/stream", response_class=StreamingResponse, responses=_ANSWERS)
async def stream_run(caller: StreamReader, serving: ServingDep, after: After, run_id: Id) -> EventStream:
    """Stream the events of a run. The stream continues after the run has finished."""
    await serving.permits.run(caller, run_id)
    run = await serving.runtime.runs.get(run_id)
    ids = _ids(entity_id_of(run.agent), threadId=run.thread_id, runId=run_id)
    return EventStream(serving, caller, Topic(kind="run", id=run_id), after, ids)


@router.get("/spaces/{space_id}/stream", response_class=StreamingResponse, responses=_ANSWERS)
async def stream_space(caller: StreamReader, serving: ServingDep, after: After, space_id: Id) -> EventStream:
    """Stream the events of a space."""
    await serving.permits.space(caller, space_id)
    ids = _ids(None, spaceId=space_id, smartSpaceId=space_id)
    return EventStream(serving, caller, Topic(kind="space", id=space_id), after, ids)


@router.get("/sse", response_class=StreamingResponse, responses={200: _EVENTS} | failures())
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


@router.get("/tools/stream", response_class=StreamingResponse, responses={200: _EVENTS} | failures())
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
    return EventStream(serving, caller, topic, None, {}, lambda _, __: offers.following(names))


def _ids(entity_id: str | None, **ids: str) -> JSONObject:
    result: JSONObject = {**ids}
    return result if entity_id is None else result | {"agentEntityId": entity_id}


tokens_router = noun("/api/stream-tokens", "streams")


@tokens_router.post("", responses=answers(StreamToken, "The token."))
async def create_stream_token(caller: AnyCaller, serving: ServingDep) -> ApiResponse:
    """Create a token that opens one stream within a minute, as `?token=`, with the caller's rights."""
    token, expires_at = serving.tokens.issue(caller)
    return answer({"token": token, "expiresAt": expires_at.isoformat()})
