"""A thread: one running conversation of an agent."""

from datetime import datetime

from toolwright.core.json_value import JSONObject
from toolwright.core.value import value


@value
class Thread:
    """A thread as the journal keeps it.

    `run_id` names the run that is open in it, if any. `epoch` is raised by whoever takes the thread, `seq`
    counts its messages, `ev` its events and `posted` what was ever put into its inbox. `begun` says whether the
    open run has read its inbox: what comes then is for the run `next_run_id`. `space_id` is the active space.
    """

    id: str
    agent: str
    user_id: str | None = None
    parent_id: str | None = None
    name: str | None = None
    tags: tuple[str, ...] = ()
    arguments: JSONObject | None = None
    run_id: str | None = None
    epoch: int = 0
    seq: int = 0
    ev: int = 0
    posted: int = 0
    begun: bool = False
    next_run_id: str | None = None
    space_id: str | None = None
    created_at: datetime
