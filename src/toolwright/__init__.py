"""Toolwright: a tool is declared once, anything may carry it out, and no result is ever lost."""

from typing import TYPE_CHECKING, Any

from toolwright.core.agents.agent import Agent, Side
from toolwright.core.agents.prompt import Prompt
from toolwright.core.env.variable import Variable
from toolwright.core.errors import ToolwrightError
from toolwright.core.results.content import Attachment, AttachmentRef, ImageContent, TextContent, ToolContent
from toolwright.core.results.result import ToolResult
from toolwright.core.schemas.meta import Call
from toolwright.core.state.state import ThreadState
from toolwright.core.tools.compose import compose
from toolwright.core.tools.registry import Registry
from toolwright.core.tools.relations import SubagentToolConfig, SubpromptConfig
from toolwright.core.tools.tenvs_needed import Secret
from toolwright.core.tools.tool import Tool, tool
from toolwright.core.tools.toolset import Toolset

if TYPE_CHECKING:
    from toolwright.wiring.app import App
    from toolwright.wiring.settings import Settings

__all__ = [
    "Agent",
    "App",
    "Attachment",
    "AttachmentRef",
    "Call",
    "ImageContent",
    "Prompt",
    "Registry",
    "Secret",
    "Settings",
    "Side",
    "SubagentToolConfig",
    "SubpromptConfig",
    "TextContent",
    "ThreadState",
    "Tool",
    "ToolContent",
    "ToolResult",
    "Toolset",
    "ToolwrightError",
    "Variable",
    "compose",
    "tool",
]

_LAZY = {
    "App": "toolwright.wiring.app",
    "Settings": "toolwright.wiring.settings",
    "errors": "toolwright.core.errors",
    "testing": "toolwright.testing",
}


def __getattr__(name: str) -> Any:  # whatever the module has under that name
    """The parts that need more than the core are imported when they are first asked for."""
    if name not in _LAZY:
        raise AttributeError(f"module 'toolwright' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - only on this rare way

    module = import_module(_LAZY[name])
    return module if name in ("errors", "testing") else getattr(module, name)
