"""One tool: what it takes, what it needs, and a form to call it."""

from toolwright.core.tools.tool import Tool
from toolwright.web.console.browsing import check_service, folded
from toolwright.web.console.tools.finding import find_tool, hints
from toolwright.web.console.tools.parameters import parameter_table
from toolwright.web.console.tools.trial import Trial
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import badge, box, heading, link, prose, words


async def draw_app_tool(visit: Visit, name: str) -> None:
    """A tool of the app."""
    check_service(visit)
    _draw(visit, await find_tool(visit, visit.query.get("name", name), None), None)


async def draw_agent_tool(visit: Visit, agent_id: str, name: str) -> None:
    """A tool as one agent has it."""
    check_service(visit)
    agent = await visit.runtime.agents.get(agent_id)
    tool = await find_tool(visit, visit.query.get("name", name), agent.id)
    with box("p", "small under"):
        link(agent.name, f"/agents/{agent.id}")
    _draw(visit, tool, agent.id)


def _draw(visit: Visit, tool: Tool, agent_id: str | None) -> None:
    with box("div", "head"):
        heading(tool.name)
        hints(tool)
    prose(tool.description)
    with box("section", "section stack"):
        words("Parameters", "h2")
        parameter_table(tool.offered)
        folded(visit, "Schema as JSON", tool.offered)
    _needs(tool)
    if tool.latent:
        words("The model itself carries this tool out: there is nothing to call.", "p", "note section")
    else:
        Trial(visit, tool, agent_id).draw()


def _needs(tool: Tool) -> None:
    if tool.variables:
        with box("section", "section stack"):
            words("Variables", "h2")
            with box("dl", "facts card"):
                for each in tool.variables:
                    with box("dt"), box("span", "row"):
                        words(each.name, "span", "mono")
                        if each.type == "secret":
                            badge("secret")
                        if each.required:
                            badge("required")
                    words(each.description or "–", "dd")
    if tool.tenvs is not None:
        with box("section", "section stack"):
            words("Tenvs", "h2")
            words("What a thread must bring.", "p", "quiet small")
            parameter_table(tool.tenvs.model_json_schema())
