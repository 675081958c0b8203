"""Effects on MCP server tasks, tool definitions and nested calls made for a server, on the in-memory tables."""

from toolwright.adapters.store.engine.outcome import EffectResult, GuardFailed, numbered
from toolwright.adapters.store.memory.tables import Tables
from toolwright.core.journal.mcp_effects import (
    AcceptMcpTool,
    AddNestedCall,
    DropMcpTask,
    HoldMcpTool,
    McpEffect,
    PinMcpTool,
    SetMcpTask,
    UnholdMcpTool,
)
from toolwright.core.journal.units import Unit
from toolwright.core.threads.call import is_over
from toolwright.core.value import changed


def perform_mcp(effect: McpEffect, unit: Unit, tables: Tables, done: EffectResult) -> None:
    """Perform one effect."""
    match effect:
        case SetMcpTask(task=task):
            tables.mcp_tasks[task.call_id] = task
        case DropMcpTask():
            tables.mcp_tasks.pop(effect.call_id, None)
        case PinMcpTool(definition=definition):
            key = (definition.agent_id, definition.server, definition.tool)
            tables.mcp_definitions.setdefault(key, definition)
        case AddNestedCall():
            _ask(effect, unit, tables, done)
        case _:
            _change_definition(effect, tables)


def _change_definition(effect: HoldMcpTool | AcceptMcpTool | UnholdMcpTool, tables: Tables) -> None:
    key = (effect.agent_id, effect.server, effect.tool)
    stored = tables.mcp_definitions.get(key)
    if isinstance(effect, AcceptMcpTool) and (stored is None or stored.held != effect.held):
        raise GuardFailed("mcp_tool")
    if stored is None:
        return
    new = changed(stored, held=None, definition=None, updated_at=effect.at)
    match effect:
        case HoldMcpTool():
            if effect.held in (stored.digest, stored.held):
                return
            new = changed(new, held=effect.held, definition=effect.definition)
        case AcceptMcpTool():
            new = changed(new, digest=effect.held)
        case UnholdMcpTool():
            if stored.held is None:
                return
    tables.mcp_definitions[key] = new


def _ask(effect: AddNestedCall, unit: Unit, tables: Tables, done: EffectResult) -> None:
    call, thread = effect.call, tables.thread(effect.call.thread_id)
    parent = None if call.parent_id is None else tables.calls.get(call.parent_id)
    if parent is None or parent.thread_id != call.thread_id or is_over(parent.status):
        raise GuardFailed("call")
    if call.id in tables.calls:
        raise GuardFailed("call")
    tables.calls[call.id] = call
    tables.calls_of[call.run_id, call.step].append(call.id)
    tables.calls_in[call.thread_id].append(call.id)
    if effect.events:
        thread.ev += len(effect.events)
        events = numbered(effect.events, thread.ev, unit, call.thread_id, call.run_id, thread.born.agent)
        thread.events.append(events)
        done.events += events
