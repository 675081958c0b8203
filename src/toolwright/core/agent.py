"""Agents, their sides and their prompts: definitions, nothing that runs."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from toolwright.core.errors import DefinitionError
from toolwright.core.model import Model, ToolChoice
from toolwright.core.tool import Tool


@dataclass(frozen=True, slots=True)
class Prompt:
    """System text, a model and the tools it may call.

    `model` is a name such as `openai:gpt-5`, a model object (ours or pydantic-ai's), or None for the one in the
    settings. `tools` are tools, or names of the app's tools.
    """

    name: str
    prompt: str = ""
    model: str | Model | object | None = None
    tools: Sequence[Tool | str] = ()
    tool_choice: ToolChoice = "auto"

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise DefinitionError("A prompt needs a name.")
        if not _is_model(self.model):
            raise DefinitionError(
                f"Prompt {self.name!r}: model must be a name such as 'openai:gpt-5' or a model object, "
                f"not {self.model!r}."
            )
        if not isinstance(self.prompt, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # user input
            raise DefinitionError(f"Prompt {self.name!r}: prompt must be text, not {self.prompt!r}.")
        if self.tool_choice not in get_args(ToolChoice):
            raise DefinitionError(f"Prompt {self.name!r}: tool_choice must be one of {get_args(ToolChoice)}.")
        if isinstance(self.tools, str | Tool):
            raise DefinitionError(f"Prompt {self.name!r}: tools must be a list.")


@dataclass(frozen=True, slots=True)
class Side:
    """One side of an agent: the prompt that speaks, by name or itself, and the most steps of one run."""

    prompt: str | Prompt
    label: str | None = None
    max_steps: int | None = None

    def __post_init__(self) -> None:
        if self.max_steps is not None and self.max_steps < 1:
            raise DefinitionError(f"max_steps must be 1 or more, not {self.max_steps!r}.")


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent: who answers in a thread. `side_a` is a side, or a prompt (by name or itself) as its only part."""

    name: str
    side_a: Side | Prompt | str
    type: Literal["ai_human"] = "ai_human"
    description: str = ""

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise DefinitionError("An agent needs a name.")

    @property
    def id(self) -> str:
        """The agent's id: derived from its name, the same in every process."""
        return f"agt_{_digest(self.name)}"

    @property
    def entity_id(self) -> str:
        """The id of the agent as a member of spaces."""
        return f"ent_{_digest(self.name)}"

    @property
    def side(self) -> Side:
        """`side_a`, always as a side."""
        return self.side_a if isinstance(self.side_a, Side) else Side(self.side_a)


def _is_model(model: object) -> bool:
    if model is None or isinstance(model, str):
        return True
    speaks = hasattr(model, "respond") or hasattr(model, "request_stream")  # ours, or pydantic-ai's
    return speaks and not isinstance(model, type)


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:20]
