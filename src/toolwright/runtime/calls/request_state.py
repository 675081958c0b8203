"""State of a request in a run: the values that the references of calls read, and where results are written (S1)."""

import json
from collections.abc import Callable, Sequence
from functools import partial

from toolwright.core.errors import InvalidJSON, InvalidRequest
from toolwright.core.journal.child_effects import SetValue
from toolwright.core.json_value import JSON, JSONObject
from toolwright.core.results import ToolResult
from toolwright.core.schemas.meta import called_instance, read_recorded_call
from toolwright.core.schemas.state_paths import (
    OutputPath,
    may_refer,
    read_value_key,
    resolve_references,
    value_key,
    written,
)
from toolwright.core.state.checks import encoded_value
from toolwright.core.text import sentence
from toolwright.core.threads.call import Call
from toolwright.core.tools.tool import Tool
from toolwright.core.value import changed
from toolwright.runtime.context.commit import Changes
from toolwright.runtime.context.context import RunContext


def resolver(
    context: RunContext, changes: Changes, call: Call
) -> Callable[[Tool, JSONObject], JSONObject] | None:
    """Return a function that resolves the references in a call's arguments after the changes, or None without state."""
    if context.values is None or not may_refer(call.arguments):
        return None
    return partial(_resolved, context, changes)


def _resolved(context: RunContext, changes: Changes, tool: Tool, arguments: JSONObject) -> JSONObject:
    instance = None if tool.meta is None else called_instance(tool.meta, arguments)
    own_arguments = {name: each for name, each in arguments.items() if not name.startswith("_")}
    state = state_of(context, changes, instance)
    return {**arguments, **resolve_references(own_arguments, state, context.input_of(instance))}


def write_output(context: RunContext, changes: Changes, call: Call, result: ToolResult) -> ToolResult:
    """Write a successful result to the call's output path, if it has one.

    Return the result, or an error result that names the path if it cannot be written there.
    """
    tool = context.active.by_name.get(call.name)
    if tool is None or tool.meta is None:
        return result
    recorded_call, where = read_recorded_call(tool.name, tool.meta, call.arguments), "the state"
    value = result.result if changes.whole is None else changes.whole.get(call.id, result.result)
    try:
        place = recorded_call.output_path
        if place is not None:
            where = place.spelling
            _put(changes, _effect(context, changes, place, recorded_call.instance, value))
        return result
    except (InvalidRequest, InvalidJSON) as error:
        text = f"Tool {tool.name!r} itself succeeded, but its result cannot be written to {where}: {error.message}"
        failure = ToolResult.fail(sentence(text), error_code="state_write")
        return changed(failure, attachments=result.attachments)


def written_size(before: Sequence[object], changes: Changes) -> int:
    """Return the size, in characters of JSON, of the value written since the effects `before`, or 0."""
    if changes.effects is before:
        return 0
    last = changes.effects[-1]
    return len(last.value) if isinstance(last, SetValue) and last.value is not None else 0


def _put(changes: Changes, effect: SetValue) -> None:
    """Replace the effect on the same value in the changes, because a unit writes no row twice."""
    others = [each for each in changes.effects if not (isinstance(each, SetValue) and each.key == effect.key)]
    changes.effects = (*others, effect)


def _effect(
    context: RunContext, changes: Changes, place: OutputPath, instance: str | None, value: JSON
) -> SetValue:
    """Return the new value of the path's first name."""
    name = place.path[0]
    key = value_key(name, instance)
    if key in context.unwritten:
        raise InvalidRequest(
            f"The handler that makes this call has itself set {name!r}, and that value is not yet committed."
        )
    state = state_of(context, changes, instance, key)
    after = written({name: state[name]} if name in state else {}, place, value)
    text = encoded_value(place.spelling, after[name])
    return SetValue(thread_id=context.thread.id, key=key, value="null" if text is None else text)


def state_of(
    context: RunContext, changes: Changes, instance: str | None, key: str | None = None
) -> JSONObject:
    """Return an instance's state after the changes; with a `key`, only that value is read from them."""
    assert context.values is not None, "they are there in a run with schema tools"
    values = {**context.values.get(instance, {})}
    for effect in changes.effects:
        if not isinstance(effect, SetValue) or key not in (None, effect.key):
            continue
        name, owner = read_value_key(effect.key)
        if owner == instance and effect.value is None:
            values.pop(name, None)
        elif owner == instance and effect.value is not None:
            values[name] = json.loads(effect.value)
    return {**context.base_state(instance), **values}
