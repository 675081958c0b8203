"""Threads on the wire: shapes and JSON (API §3)."""

from datetime import datetime
from typing import Annotated, Literal

from toolwright.core.json_value import JSONObject
from toolwright.core.threads.compaction import Cause
from toolwright.core.threads.compaction import Compaction as CompactionRow
from toolwright.core.threads.run import Side
from toolwright.core.threads.thread import Thread as ThreadRow
from toolwright.wire.shape import Absent, Shape, wire_name


class Thread(Shape, title="ThreadShape"):
    """A thread: `running` while a run is open in it, `terminated` permanently. `activeAgentId` is set by a handoff.

    `agent` is the id of the thread's agent, `active_agent` the id of the agent that answers since a handoff.
    """

    id: str
    agent: Annotated[str, wire_name("agentId")]
    active_agent: Annotated[str | None, wire_name("activeAgentId")] = None
    parent_id: Annotated[str | None, wire_name("parentThreadId")] = None
    name: str | None = None
    user_id: str | None = None
    tags: tuple[str, ...] = ()
    status: Literal["running", "idle", "terminated"]
    created_at: datetime


def thread_json(thread: ThreadRow) -> JSONObject:
    """Render a thread. `status` is `running` while a run is open in it, and `terminated` if no run can start in it.

    `activeAgentId` is the agent that answers since a handoff, or null without a handoff.
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
    """A child thread. `reference` is its name for the parent."""

    reference: str
    child_status: Literal["running", "idle", "terminated", "failed"]


def child_json(thread: ThreadRow) -> JSONObject:
    """Render a thread for its parent."""
    return {**thread_json(thread), "reference": thread.id, "childStatus": thread.child_status}


class Compaction(Shape, title="CompactionShape"):
    """The parts of a conversation that are omitted from then on, and the text sent in their place.

    Messages at positions up to `cut` are omitted, except for `kept` and pinned messages; `text` is sent in their place.
    Its part `summary`, up to the position `covers`, was written by `model`, by the instruction of that `version`;
    `omitted` messages are omitted without a summary. Long tool results at positions up to `cleared` are sent as
    references. References up to `bare` do not include the beginning of the result. `side` and `within` are set for a
    conversation other than the top-level one.
    """

    number: int
    side: Absent[Side] = None
    within: Annotated[Absent[str], wire_name("parentCallId")] = None
    cause: Cause
    cut: int
    cleared: int
    bare: int
    kept: tuple[int, ...] = ()
    text: str
    summary: str | None
    covers: int
    omitted: int
    model: Annotated[str | None, wire_name("modelId")] = None
    version: int = 1
    cost: float | None = None
    budget: int | None = None
    edited_by: str | None = None
    run_id: str | None = None
    step: Annotated[int | None, wire_name("stepNumber")] = None
    created_at: datetime


def compaction_json(row: CompactionRow) -> JSONObject:
    """Render `{number, side?, parentCallId?, cause, cut, cleared, bare, kept, text, summary, covers, omitted, modelId,
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
