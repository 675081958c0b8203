"""Threads on the wire: their shapes, and their JSON (API §3)."""

from datetime import datetime
from typing import Annotated, Literal

from toolwright.core.json_value import JSONObject
from toolwright.core.threads.thread import Thread as ThreadRow
from toolwright.wire.shape import Shape, spelt


class Thread(Shape, title="ThreadShape"):
    """A thread; `running` while a run is open in it, `terminated` for good; `activeAgentId` answers since a handoff.

    `agent` is the agent's id, `active_agent` that of the agent which answers since it was handed over.
    """

    id: str
    agent: Annotated[str, spelt("agentId")]
    active_agent: Annotated[str | None, spelt("activeAgentId")] = None
    parent_id: Annotated[str | None, spelt("parentThreadId")] = None
    name: str | None = None
    user_id: str | None = None
    tags: tuple[str, ...] = ()
    status: Literal["running", "idle", "terminated"]
    created_at: datetime


def thread_json(thread: ThreadRow) -> JSONObject:
    """A thread; `status` is `running` while a run is open in it, and `terminated` once none can be any more.

    `activeAgentId` is the agent that answers since it was handed over, null while that is its own.
    """
    return {
        "id": thread.id,
        "agentId": thread.agent,
        "activeAgentId": thread.active_agent,
        "parentThreadId": thread.parent_id,
        "name": thread.name,
        "userId": thread.user_id,
        "tags": list(thread.tags),
        "status": thread.status,
        "createdAt": thread.created_at.isoformat(),
    }


class Child(Thread, title="ChildShape"):
    """A thread that another one has made; `reference` is what that one calls it by."""

    reference: str
    child_status: Literal["running", "idle", "terminated", "failed"]


def child_json(thread: ThreadRow) -> JSONObject:
    """A thread as its parent knows it."""
    return {**thread_json(thread), "reference": thread.id, "childStatus": thread.child_status}
