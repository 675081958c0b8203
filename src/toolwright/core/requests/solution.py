"""Solutions of composed requests (S1)."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.schemas.meta import Call
from toolwright.core.threads.run import StopReason, Usage
from toolwright.core.value import value


@value
class Solution:
    """The result of a composed request.

    `output` matches the output schema, and is an instance if a type was given. It is None if `max_steps` was
    reached; `stop_reason` is then `max_steps`. `calls` are the calls of all steps, in order, with their results.
    `state` is the final state, `states` the state of each instance. `steps` counts the model's answers.
    """

    output: Any  # an instance of whatever was declared
    calls: tuple[Call, ...] = ()
    state: JSONObject = field(default_factory=dict[str, JSON])
    states: Mapping[str, JSONObject] = field(default_factory=dict[str, JSONObject])
    steps: int = 0
    usage: Usage = field(default_factory=Usage)
    stop_reason: StopReason | None = None
    run_id: str = ""
    thread_id: str = ""
