"""Scripted twins: in its test, a page's program gets `twins/PAGE.yaml` instead of every provider's model."""

from pathlib import Path

from toolwright.adapters.models import scripted
from toolwright.adapters.models.providers import model as provider

TWINS = Path(__file__).with_name("twins")


def play(page: str) -> None:
    """Answer from the page's script in this process, whichever provider's model is named."""
    script = TWINS / f"{page}.yaml"

    def twin(name: str) -> scripted.ScriptedModel:
        del name
        return scripted.ScriptedModel.from_yaml(script)

    provider.PydanticAIModel = twin  # pyright: ignore[reportAttributeAccessIssue]
