"""Toolwright: a tool is declared once, anything may execute it, and no result is ever lost."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if sys.version_info < (3, 11):  # noqa: UP036 - a checkout on the path is imported by any Python
    version = ".".join(map(str, sys.version_info[:2]))
    raise ImportError(f"Toolwright needs Python 3.11 or later, and this is Python {version}.")

if TYPE_CHECKING:
    from toolwright import hooks as hooks
    from toolwright import testing as testing
    from toolwright.core import errors as errors
    from toolwright.core import model as model
    from toolwright.core import ports as ports
    from toolwright.core.agents.agent import Agent, Side
    from toolwright.core.agents.prompt import Context, Prompt
    from toolwright.core.agents.run_result import (
        CallDone,
        CallProgress,
        CallStarted,
        CallWaiting,
        ReasoningDelta,
        RunDone,
        RunEvent,
        RunResult,
        StepDone,
        TextDelta,
        TextReset,
    )
    from toolwright.core.dependencies.depends import Depends
    from toolwright.core.dependencies.dynamic import Dynamic
    from toolwright.core.env.env import Variable
    from toolwright.core.errors import ToolwrightError
    from toolwright.core.hooks import (
        AfterCall,
        AfterModel,
        AfterRun,
        Ask,
        BeforeCall,
        BeforeModel,
        BeforeRun,
        Deny,
        Hooks,
        ModelRetry,
        Reject,
        Replace,
    )
    from toolwright.core.requests.speaker import Solution
    from toolwright.core.results import (
        Attachment,
        AttachmentRef,
        ImageContent,
        TextContent,
        ToolContent,
        ToolResult,
    )
    from toolwright.core.schemas.meta import Call
    from toolwright.core.state.state import Elicited, ThreadState
    from toolwright.core.threads.event import Topic
    from toolwright.core.threads.message import Message
    from toolwright.core.threads.run import Run
    from toolwright.core.threads.thread import Thread
    from toolwright.core.tools.approval import Approval
    from toolwright.core.tools.compose import compose
    from toolwright.core.tools.openapi import OpenAPITools, openapi
    from toolwright.core.tools.registry import Registry
    from toolwright.core.tools.relations import SubagentToolConfig, SubpromptConfig
    from toolwright.core.tools.tenvs_needed import Secret
    from toolwright.core.tools.tool import Tool, tool
    from toolwright.core.tools.tool_ui import ShownCall, Submit, ToolUI, tool_ui
    from toolwright.core.tools.toolset import Toolset
    from toolwright.runtime.runtime import Runtime
    from toolwright.wiring.agent_runs import AgentStream, run, run_sync, stream
    from toolwright.wiring.app import App
    from toolwright.wiring.gateway import gateway
    from toolwright.wiring.settings import Settings

__all__ = [
    "AfterCall",
    "AfterModel",
    "AfterRun",
    "Agent",
    "AgentStream",
    "App",
    "Approval",
    "Ask",
    "Attachment",
    "AttachmentRef",
    "BeforeCall",
    "BeforeModel",
    "BeforeRun",
    "Call",
    "CallDone",
    "CallProgress",
    "CallStarted",
    "CallWaiting",
    "Context",
    "Deny",
    "Depends",
    "Dynamic",
    "Elicited",
    "Hooks",
    "ImageContent",
    "Message",
    "ModelRetry",
    "OpenAPITools",
    "Prompt",
    "ReasoningDelta",
    "Registry",
    "Reject",
    "Replace",
    "Run",
    "RunDone",
    "RunEvent",
    "RunResult",
    "Runtime",
    "Secret",
    "Settings",
    "ShownCall",
    "Side",
    "Solution",
    "StepDone",
    "SubagentToolConfig",
    "Submit",
    "SubpromptConfig",
    "TextContent",
    "TextDelta",
    "TextReset",
    "Thread",
    "ThreadState",
    "Tool",
    "ToolContent",
    "ToolResult",
    "ToolUI",
    "Toolset",
    "ToolwrightError",
    "Topic",
    "Variable",
    "compose",
    "gateway",
    "openapi",
    "run",
    "run_sync",
    "stream",
    "tool",
    "tool_ui",
]

_MODULES = {
    "AfterCall": "core.hooks",
    "AfterModel": "core.hooks",
    "AfterRun": "core.hooks",
    "Agent": "core.agents.agent",
    "AgentStream": "wiring.agent_runs",
    "App": "wiring.app",
    "Approval": "core.tools.approval",
    "Ask": "core.hooks",
    "Attachment": "core.results",
    "AttachmentRef": "core.results",
    "BeforeCall": "core.hooks",
    "BeforeModel": "core.hooks",
    "BeforeRun": "core.hooks",
    "Call": "core.schemas.meta",
    "CallDone": "core.agents.run_result",
    "CallProgress": "core.agents.run_result",
    "CallStarted": "core.agents.run_result",
    "CallWaiting": "core.agents.run_result",
    "Context": "core.agents.prompt",
    "Deny": "core.hooks",
    "Depends": "core.dependencies.depends",
    "Dynamic": "core.dependencies.dynamic",
    "Elicited": "core.state.state",
    "Hooks": "core.hooks",
    "ImageContent": "core.results",
    "Message": "core.threads.message",
    "ModelRetry": "core.hooks",
    "OpenAPITools": "core.tools.openapi",
    "Prompt": "core.agents.prompt",
    "ReasoningDelta": "core.agents.run_result",
    "Registry": "core.tools.registry",
    "Reject": "core.hooks",
    "Replace": "core.hooks",
    "Run": "core.threads.run",
    "RunDone": "core.agents.run_result",
    "RunEvent": "core.agents.run_result",
    "RunResult": "core.agents.run_result",
    "Runtime": "runtime.runtime",
    "Secret": "core.tools.tenvs_needed",
    "Settings": "wiring.settings",
    "ShownCall": "core.tools.tool_ui",
    "Side": "core.agents.agent",
    "Solution": "core.requests.speaker",
    "StepDone": "core.agents.run_result",
    "SubagentToolConfig": "core.tools.relations",
    "Submit": "core.tools.tool_ui",
    "SubpromptConfig": "core.tools.relations",
    "TextContent": "core.results",
    "TextDelta": "core.agents.run_result",
    "TextReset": "core.agents.run_result",
    "Thread": "core.threads.thread",
    "ThreadState": "core.state.state",
    "Tool": "core.tools.tool",
    "ToolContent": "core.results",
    "ToolResult": "core.results",
    "ToolUI": "core.tools.tool_ui",
    "Toolset": "core.tools.toolset",
    "ToolwrightError": "core.errors",
    "Topic": "core.threads.event",
    "Variable": "core.env.env",
    "compose": "core.tools.compose",
    "gateway": "wiring.gateway",
    "openapi": "core.tools.openapi",
    "run": "wiring.agent_runs",
    "run_sync": "wiring.agent_runs",
    "stream": "wiring.agent_runs",
    "tool": "core.tools.tool",
    "tool_ui": "core.tools.tool_ui",
}
"""Modules of the public names, below this package."""
_NAMESPACES = {
    "errors": "core.errors",
    "hooks": "hooks",
    "model": "core.model",
    "ports": "core.ports",
    "testing": "testing",
}
"""Modules that are public names themselves."""


if not TYPE_CHECKING:  # otherwise no type checker would report a misspelt name

    def __getattr__(name: str) -> Any:  # whatever the module has under that name
        """Import a public name when it is first used, so that a client, for example, does not load the tools."""
        if name in _MODULES:
            exported = getattr(import_module(f"toolwright.{_MODULES[name]}"), name)
        elif name in _NAMESPACES:
            exported = import_module(f"toolwright.{_NAMESPACES[name]}")
        else:
            raise AttributeError(f"module 'toolwright' has no attribute {name!r}")
        globals()[name] = exported
        return exported


def __dir__() -> list[str]:
    """Return all public names, including those not imported yet."""
    return sorted({*globals(), *__all__, *_NAMESPACES})
