"""Other frameworks' tools: theirs for ours, and ours for theirs, by modules that are loaded when they are asked for."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Literal, TypeAlias

from toolwright.core.checks import brief_value
from toolwright.core.errors import DefinitionError, missing_extra

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
        raise missing_extra(f"A tool of {called}", extra, error) from error


_TAKEN_BY: Mapping[str, str] = {
    "langchain_core": "from_langchain",
    "pydantic_ai": "from_pydantic_ai",
    "agents": "from_openai_agents",
}


def check_foreign(value: object) -> None:
    """Raise `DefinitionError` for a tool of another framework: it names what makes a tool of ours of it."""
    modules = [each.__module__.partition(".")[0] for each in type(value).__mro__]
    way = next((_TAKEN_BY[module] for module in modules if module in _TAKEN_BY), None)
    if way is not None:
        name = brief_value(getattr(value, "name", type(value).__name__))
        raise DefinitionError(f"The tool {name} is another framework's: put tw.Tool.{way}(…) of it there.")
