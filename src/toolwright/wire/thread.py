"""Threads on the wire: shapes and JSON (API §3)."""

from datetime import datetime
from typing import Annotated, Literal

from toolwright.core.threads.compaction import Cause
from toolwright.core.threads.compaction import Compaction as CompactionRow
from toolwright.core.threads.run import Side
from toolwright.wire.rendering import Absent, From
from toolwright.wire.shape import Shape, wire_name


class Thread(Shape, title="ThreadShape"):
    """A thread: `running` while a run is open in it, `terminated` permanently. `activeAgentId` is set by a handoff.

    `agent` is the id of the thread's agent, `active_agent` the id of the agent that answers since a handoff. `created`
    is present in the answer to a request that has found or created the thread by its `key`.
    """

    id: str
    agent: Annotated[str, wire_name("agentId")]
    active_agent: Annotated[str | None, wire_name("activeAgentId")] = None
    parent_id: Annotated[str | None, wire_name("parentThreadId")] = None
    name: str | None = None
    user_id: str | None = None
    tags: tuple[str, ...] = ()
    key: Absent[str] = None
    created: Absent[bool] = None
    status: Literal["running", "idle", "terminated"]
    created_at: datetime


class Child(Thread, title="ChildShape"):
    """A child thread. `reference` is its name for the parent."""

    reference: Annotated[str, From("id")]
    child_status: Literal["running", "idle", "terminated", "failed"]


def _side(row: CompactionRow) -> str | None:
    return row.side or None


def _call_id(row: CompactionRow) -> str | None:
    return row.within or None


def _step_of_run(row: CompactionRow) -> int | None:
    return None if row.run_id is None else row.step


class Compaction(Shape, title="CompactionShape"):
    """The parts of a conversation that are omitted from then on, and the text sent in their place.

    Messages at positions up to `cut` are omitted, except for `kept` and pinned messages; `text` is sent in their place.
    Its part `summary`, up to the position `covers`, was written by `model`, by the instruction of that `version`;
    `omitted` messages are omitted without a summary. Long tool results at positions up to `cleared` are sent as
    references. References up to `bare` do not include the beginning of the result. `side` and `within` are set for a
    conversation other than the top-level one.
    """

    number: int
    side: Annotated[Absent[Side], From(_side)] = None
    within: Annotated[Absent[str], From(_call_id), wire_name("parentCallId")] = None
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
    step: Annotated[int | None, From(_step_of_run), wire_name("stepNumber")] = None
    created_at: datetime
