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
    """What a composed request came to.

    `output` fits the output schema, an instance if the output was declared as a type; None if the steps that it may
    make did not suffice, `stop_reason` is `max_steps` then. `calls` are those of all steps, in order, with their
    results. `state` is the state at the end, `states` that of each instance. `steps` counts the model's answers.
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
