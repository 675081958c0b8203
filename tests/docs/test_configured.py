"""Agents as JSON: the JSON of the guide is valid, and guide and reference cover every field."""

import json
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from pydantic.alias_generators import to_camel

import toolwright as tw
from tests.docs.test_guides import ROOT
from toolwright import testing
from toolwright.core.agents.config import AgentForm, AppToolForm, LoopForm, ModelForm, SystemForm, ToolOptions
from toolwright.core.forms import EnvVarForm
from toolwright.core.mcp.config import McpForm, McpServerForm, McpToolForm
from toolwright.core.tools.config import FIELDS
from toolwright.wiring.config import AgentEntry, ConfigApp, ConfigFile, EntityEntry, SpaceEntry

pytestmark = pytest.mark.anyio

GUIDE = (ROOT / "docs" / "guides" / "configure-agents.md").read_text(encoding="utf-8")
REFERENCE = (ROOT / "docs" / "reference" / "agent-json.md").read_text(encoding="utf-8")
FORMS = (
    AgentForm,
    SystemForm,
    ModelForm,
    LoopForm,
    AppToolForm,
    ToolOptions,
    EnvVarForm,
    McpForm,
    McpServerForm,
    McpToolForm,
    ConfigFile,
    AgentEntry,
    EntityEntry,
    SpaceEntry,
)


def block(title: str) -> str:
    [found] = re.findall(rf'```json title="{title}"\n(.*?)```', GUIDE, re.DOTALL)
    return found


def unnamed(fields: Iterable[str]) -> list[str]:
    """Return the names that neither page contains within backticks or quotes."""
    return [each for each in fields if not re.search(rf"[`\"{{ .]{each}[`\",}}: ]", GUIDE + REFERENCE)]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_every_field_of_a_form_is_in_the_guide(form: type) -> None:
    assert unnamed(to_camel(name) for name in form.model_fields) == []  # type: ignore[attr-defined]  # a model of pydantic's


def test_every_field_of_a_tool_is_in_the_guide() -> None:
    assert unnamed(FIELDS) == []


async def test_its_file_is_served_as_it_stands(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(block("config.json"), encoding="utf-8")
    async with testing.runtime(ConfigApp(tmp_path / "config.json")) as rt:
        [agent] = await rt.agents.list()
        assert agent.name == "host"
        [space] = await rt.spaces.list()
        assert space.name == "Trip to Tokyo"
        members = {each.entity_id for each in await rt.spaces.members(space.id)}
        assert {each.id for each in await rt.entities.list()} >= members
        assert len(members) == 2


async def test_its_choice_of_the_apps_tools_is_taken() -> None:
    @tw.tool
    def word_count(text: str) -> int:
        """Count the words of a text."""
        return len(text.split())

    @tw.tool(variables=[tw.Variable("API_KEY", type="secret")])
    def search(query: str) -> str:
        """Search."""
        return query

    async with testing.runtime(tw.App(agents=[], tools=[word_count, search])) as rt:
        await rt.agents.save("scout", {"tools": json.loads(block("tools"))})
        assert [agent.name for agent in await rt.agents.list()] == ["scout"]
