"""Scripted twins: in its test, a page's program gets `twins/PAGE.yaml` instead of every provider's model."""

import os
from pathlib import Path

from toolwright.adapters.models import scripted
from toolwright.adapters.models.providers import model as provider
from toolwright.adapters.models.script_file import read_turns

TWINS = Path(__file__).with_name("twins")


def play(page: str) -> None:
    """Answer from the page's script in this process, whichever provider's model is named."""
    script = TWINS / f"{page}.yaml"

    def twin(name: object) -> scripted.ScriptedModel:
        named = name.partition(":")[2] if isinstance(name, str) else "scripted"
        return scripted.ScriptedModel(read_turns(script), name=named)

    provider.PydanticAIModel = twin  # pyright: ignore[reportAttributeAccessIssue]
    provider.FallbackModels = twin  # pyright: ignore[reportAttributeAccessIssue]
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):  # pydantic-ai's own model objects need one
        os.environ.setdefault(name, "sk-twin")
