"""Other frameworks' tools: theirs for ours, and ours for theirs, by modules that are loaded when they are asked for."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Literal, TypeAlias

from toolwright.core.errors import MissingExtra

Framework: TypeAlias = Literal["pydantic_ai", "openai_agents", "langchain"]
_FRAMEWORKS: Mapping[Framework, tuple[str, str]] = {
    "pydantic_ai": ("pydantic-ai", "pydantic-ai"),
    "openai_agents": ("the OpenAI Agents SDK", "openai-agents"),
    "langchain": ("LangChain", "langchain"),
}
"""What people call them, and the extra that installs what they need."""


def adapter(framework: Framework, function: Literal["native_tools", "tool_of"]) -> Callable[..., Any]:
    """A function of the framework's adapter, found by its name: the core imports no adapter.

    `native_tools(toolset, state)` are the framework's tools that call ours, `tool_of(native, …)` is ours that calls
    theirs. Raises `MissingExtra`.
    """
    try:
        return getattr(import_module(f"toolwright.adapters.frameworks.{framework}"), function)
    except ImportError as error:
        called, extra = _FRAMEWORKS[framework]
        raise MissingExtra(f"Tools of {called} need an extra: install toolwright[{extra}].") from error
