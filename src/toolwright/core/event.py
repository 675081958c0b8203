"""Events: what a follower of a thread, a run or a space sees happen."""

from datetime import datetime
from typing import Literal

from toolwright.core.json_value import JSONObject
from toolwright.core.value import value


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
    """What a follower follows: all of a thread, one run, one space, or all spaces (whose id is empty).

    `tools` are the calls on offer to outside workers, which are no events of the journal.
    """

    kind: Literal["thread", "run", "space", "spaces", "tools"]
    id: str
