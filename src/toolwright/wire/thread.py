"""Threads on the wire: their shapes, and their JSON (API §3)."""

from datetime import datetime
from typing import Annotated, Literal

from toolwright.core.json_value import JSONObject
from toolwright.core.threads.compaction import Cause
from toolwright.core.threads.compaction import Compaction as CompactionRow
from toolwright.core.threads.run import Side
from toolwright.core.threads.thread import Thread as ThreadRow
from toolwright.wire.shape import Absent, Shape, spelt


class Thread(Shape, title="ThreadShape"):
    """A thread; `running` while a run is open in it, `terminated` permanently; `activeAgentId` answers since a handoff.

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
    """Return a thread; `status` is `running` while a run is open in it, and `terminated` once none can be any more.

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
    """Render a thread for its parent."""
    return {**thread_json(thread), "reference": thread.id, "childStatus": thread.child_status}


class Compaction(Shape, title="CompactionShape"):
    """The parts of a conversation that are omitted from then on, and the text sent in their place.

    Messages at positions up to `cut` are omitted, except for those `kept` and pinned ones; `text` is sent in their
    place. Its part `summary`, up to the position `covers`, was written by `model`, by the instruction of that
    `version`; `omitted` messages are omitted without one. Long tool results at positions up to `cleared` are sent as
    references, all up to `bare` without their beginning. `side` and `within` name another conversation than the
    top-level one.
    """

    number: int
    side: Absent[Side] = None
    within: Annotated[Absent[str], spelt("parentCallId")] = None
    cause: Cause
    cut: int
    cleared: int
    bare: int
    kept: tuple[int, ...] = ()
    text: str
    summary: str | None
    covers: int
    omitted: int
    model: Annotated[str | None, spelt("modelId")] = None
    version: int = 1
    cost: float | None = None
    budget: int | None = None
    edited_by: str | None = None
    run_id: str | None = None
    step: Annotated[int | None, spelt("stepNumber")] = None
    created_at: datetime


def compaction_json(row: CompactionRow) -> JSONObject:
    """`{number, side?, parentCallId?, cause, cut, cleared, bare, kept, text, summary, covers, omitted, modelId,
    version, cost, budget, editedBy, runId, stepNumber, createdAt}`.
    """
    which: JSONObject = {"side": row.side} if row.side else {}
    if row.within:
        which["parentCallId"] = row.within
    return {
        "number": row.number,
        **which,
        "cause": row.cause,
        "cut": row.cut,
        "cleared": row.cleared,
        "bare": row.bare,
        "kept": [*row.kept],
        "text": row.text,
        "summary": row.summary,
        "covers": row.covers,
        "omitted": row.omitted,
        "modelId": row.model,
        "version": row.version,
        "cost": row.cost,
        "budget": row.budget,
        "editedBy": row.edited_by,
        "runId": row.run_id,
        "stepNumber": row.step if row.run_id is not None else None,
        "createdAt": row.created_at.isoformat(),
    }
