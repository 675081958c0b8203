"""Events: what a follower of a thread, a run or a space sees happen."""

from datetime import datetime
from typing import Literal, TypeAlias, get_args

from toolwright.core.json_value import JSONObject
from toolwright.core.value import value

EventType: TypeAlias = Literal[
    "run.queued", "run.started", "run.waiting", "run.completed", "run.failed", "run.cancelled", "run.skipped",
    "step.started", "step.done", "variables.required", "subagent.created", "subagent.finished",
    "message", "message.delta", "message_updated", "message_deleted", "reaction_added", "reaction_removed",
    "tool.started", "tool.streaming", "tool.progress", "tool.done", "tool.error", "tool.call",
    "agent.active", "agent.inactive", "space.message", "space.message.streaming", "space.message.aborted",
    "space.deleted", "member_added", "member_removed", "connected", "reset",
]  # fmt: skip
"""The types of the events that the runtime makes, and of a stream's words about itself."""
BUILT_IN: frozenset[str] = frozenset(get_args(EventType))


@value
class EventDraft:
    """An event before its unit is committed, when it has no number yet."""

    type: str
    payload: JSONObject


@value
class Event:
    """An event of a thread, or of a space. `n` is its number; a live event (a delta, progress) has none.

    Events of a thread are numbered by thread, those of all spaces together. `agent` is the id of the agent that it
    comes from; in a space it may come from nobody's run.
    """

    thread_id: str | None
    run_id: str | None
    agent: str | None
    type: str
    payload: JSONObject
    at: datetime
    n: int | None = None
    space_id: str | None = None


@value
class Topic:
    """The topic of a follower: all of a thread, one run, one space, or all spaces (whose id is empty).

    `tools` are the calls on offer to outside workers, which are no events of the journal.
    """

    kind: Literal["thread", "run", "space", "spaces", "tools"]
    id: str
