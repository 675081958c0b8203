"""Effects on MCP server tasks, tool definitions and nested calls made for a server, as programs."""

from toolwright.adapters.store.engine.codecs import Params, long_text_or_none, micros, text_or_none
from toolwright.adapters.store.engine.outcome import EffectResult, numbered
from toolwright.adapters.store.engine.program import Op
from toolwright.adapters.store.programs.parts import Steps, insert_events
from toolwright.adapters.store.sql.calls import CALLS
from toolwright.adapters.store.sql.mcp import MCP_DEFINITIONS, MCP_TASKS
from toolwright.adapters.store.sql.statements import Statements
from toolwright.core.journal.mcp_effects import (
    AcceptMcpTool,
    AddNestedCall,
    DropMcpTask,
    HoldMcpTool,
    McpEffect,
    McpToolEffect,
    PinMcpTool,
    SetMcpTask,
    UnholdMcpTool,
)
from toolwright.core.journal.units import Unit


def perform_mcp(effect: McpEffect, unit: Unit, sql: Statements, done: EffectResult) -> Steps:
    """Perform one effect."""
    match effect:
        case SetMcpTask(task=task):
            yield Op(sql.mcp.put_task, MCP_TASKS.params(task))
        case DropMcpTask():
            yield Op(sql.mcp.drop_task, {"call_id": effect.call_id})
        case PinMcpTool(definition=definition):
            yield Op(sql.mcp.pin, MCP_DEFINITIONS.params(definition))
        case HoldMcpTool():
            text = long_text_or_none(effect.definition)
            yield Op(sql.mcp.hold, {**_tool_params(effect), "offered": effect.held, "said": text})
        case AcceptMcpTool():
            yield Op(sql.mcp.accept, {**_tool_params(effect), "offered": effect.held}, "mcp_tool")
        case UnholdMcpTool():
            yield Op(sql.mcp.unhold, _tool_params(effect))
        case AddNestedCall():
            yield from _ask(effect, unit, sql, done)


def _tool_params(effect: McpToolEffect) -> Params:
    params: Params = {"server": text_or_none(effect.server), "tool": text_or_none(effect.tool)}
    return {**params, "agent_id": effect.agent_id, "at": micros(effect.at)}


def _ask(effect: AddNestedCall, unit: Unit, sql: Statements, done: EffectResult) -> Steps:
    """Create a nested call. Locks the thread's row, as does a unit that ends the parent call."""
    call = effect.call
    touched: Params = {"thread_id": call.thread_id, "more": len(effect.events)}
    [(ev, agent)] = yield Op(sql.touch, touched, "thread")
    yield Op(sql.hold_call, {"call_id": call.parent_id, "thread_id": call.thread_id}, "call")
    yield Op(sql.insert_call_once, CALLS.params(call), "call")
    if effect.events:
        events = numbered(effect.events, ev, unit, call.thread_id, call.run_id, agent)
        yield insert_events(events, sql)
        done.events += events
