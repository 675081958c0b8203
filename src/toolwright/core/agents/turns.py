"""Turns of sides after a step: the turn goes on or is over, the other side speaks, the run ends."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from toolwright.core.agents.active import ActiveAgent
from toolwright.core.json_value import JSON
from toolwright.core.threads.message import Message
from toolwright.core.threads.run import Run, Side, StopReason
from toolwright.core.value import changed

SideEnd: TypeAlias = Literal["end_turn", "stop_tool"]
OTHER: dict[Side, Side] = {"side_a": "side_b", "side_b": "side_a"}


@dataclass(frozen=True, slots=True)
class CallSummary:
    """A call of a step that is over: its tool, the JSON text of its arguments, and whether it went well."""

    name: str
    arguments: str
    succeeded: bool


def after_text(active: ActiveAgent, run: Run) -> tuple[Run, StopReason | None]:
    """The model has answered with a text and no calls: the run as it is then, and why it ends, if it does."""
    if not active.stops.stop_on_response:
        return run, None
    return side_over(active, run, "end_turn")


def after_calls(active: ActiveAgent, run: Run, made: Sequence[CallSummary]) -> tuple[Run, StopReason | None]:
    """The run and its stop reason once all calls of a step are answered."""
    stops = active.stops
    if not stops.ending:
        return run, None
    done = {each.name: each for each in made if each.succeeded}
    reasons: list[tuple[str | None, StopReason]] = [
        (stops.session_fail, "session_fail"),
        (stops.session_stop, "session_stop"),
        (stops.stop_tool, "stop_tool"),
    ]
    for name, reason in reasons:
        if name is None or name not in done:
            continue
        answer, has_answer = answer_in(done[name].arguments, stops.stop_tool_response_property)
        if has_answer:
            run = changed(run, output=answer)
        return side_over(active, run, "stop_tool") if reason == "stop_tool" else (run, reason)
    return run, None


def side_over(active: ActiveAgent, run: Run, reason: SideEnd) -> tuple[Run, StopReason | None]:
    """The turn of a side is over: of an agent with two sides the other one speaks, unless that was the last turn."""
    if active.agent.type == "ai_human":
        return run, reason
    run = changed(run, side=OTHER[run.side], turn=run.turn + 1)
    most = active.agent.max_session_turns
    return run, reason if most is not None and run.turn >= 2 * most else None


def answer_in(arguments: str, property_: str | None) -> tuple[JSON, bool]:
    """Answer of a call that ends a turn: that property of its arguments; and whether it has it."""
    if property_ is None:
        return None, False
    parsed = json.loads(arguments or "{}")  # of a call that went well, and so an object
    return parsed.get(property_), property_ in parsed


def steps_of(speaker: str | None, messages: Sequence[Message], run: Run, side: Side | None = None) -> int:
    """Number of steps that prompt has made in the run, on that side if one is named."""
    if speaker is None:
        return run.step_count
    own = [m for m in messages if m.run_id == run.id and m.role == "assistant" and m.by == speaker]
    before_the_first = {0}  # no model has spoken then
    return len({m.step for m in own if side in (None, m.side)} - before_the_first)
