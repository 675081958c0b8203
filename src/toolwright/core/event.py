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
    """An event of a thread. `n` is its number there; a live event (a delta, progress) has none."""

    thread_id: str
    run_id: str | None
    agent: str
    type: str
    payload: JSONObject
    at: datetime
    n: int | None = None


@value
class Topic:
    """What a follower follows: all of a thread, or one run."""

    kind: Literal["thread", "run"]
    id: str
