"""The inboxes of agents."""

from typing import Annotated

from fastapi import Query

from toolwright.web.answers.answer import Answer, answer, listed
from toolwright.web.answers.shapes import answers
from toolwright.web.callers import Service
from toolwright.web.requests.fields import Id, Limit, Offset, Words
from toolwright.web.routes.router import noun
from toolwright.web.serving import AtWork
from toolwright.web.shapes.agents import InboxEventAnswer, InboxEventList
from toolwright.wire.inbox import inbox_json

router = noun("/api/agents/{agent_id}/inbox", "agents")

ThreadId = Annotated[
    Words | None, Query(alias="threadId", description="Another thread of the agent than its home thread.")
]


@router.get("", responses=answers(InboxEventList, "The events.", errors=(404,)))
async def list_inbox(
    _: Service,
    runtime: AtWork,
    agent_id: Id,
    thread_id: ThreadId = None,
    limit: Limit = 50,
    offset: Offset = 0,
) -> Answer:
    """What came to the agent's inbox, the oldest first; what is `failed` waits until it is retried."""
    found = await runtime.inboxes.list(agent_id, thread_id, limit, offset)
    return listed("events", found, inbox_json)


@router.post(
    "/{event_id}/retry", responses=answers(InboxEventAnswer, "The event, pending.", errors=(404, 409))
)
async def retry_event(
    _: Service, runtime: AtWork, agent_id: Id, event_id: Id, thread_id: ThreadId = None
) -> Answer:
    """Try a failed event again, as if it were new."""
    event = await runtime.inboxes.retry(agent_id, event_id, thread_id)
    return answer({"event": inbox_json(event)})
