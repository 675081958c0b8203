"""MCP servers of an agent: how they are, their tools, what is wrong, what waits to be accepted."""

from functools import partial
from typing import Final

from toolwright.core.agents.agent import Agent
from toolwright.core.mcp.records import McpDefinition
from toolwright.core.mcp.servers import McpServerState
from toolwright.core.text import brief, quantity
from toolwright.web.console.browsing import folded
from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import action, badge, box, words

_KINDS: Final = {"ready": "good", "connecting": "busy", "down": "bad"}
MOST_SHOWN: Final = 100  # tools of one server


class Servers:
    """The servers are asked once the rest of the page is there: one that is down takes its time."""

    def __init__(self, visit: Visit, agent: Agent) -> None:
        self._visit = visit
        self._agent = agent

    def draw(self) -> None:
        """Draw them as soon as they have answered."""
        with box("section", "section"):
            words("MCP servers", "h2")
            self._place = box("div", "stack section")
            with self._place:
                words("Asking …", "p", "quiet")
        self._visit.view.run(self._show())

    async def _show(self) -> None:
        states = await self._visit.runtime.mcp.of(self._agent.id)
        withheld = await self._visit.runtime.mcp.withheld(self._agent.id)
        self._place.clear()
        with self._place:
            for fault in withheld[:MOST_SHOWN]:
                about = "The tools" if fault.tool is None else f"The tool {fault.tool}"
                words(brief(f"{about}: {fault.message}", 600), "p", "error")
            if not states:
                words("None.", "p", "quiet")
            for state in states:
                self._server(state)

    def _server(self, state: McpServerState) -> None:
        with box("div", "card stack"):
            with box("div", "row"):
                words(state.name, "span", "title")
                badge(state.status, _KINDS[state.status])
                words(f"{state.transport} {state.protocol or ''}", "span", "quiet small")
            for fault in state.faults[:MOST_SHOWN]:
                about = f"{fault.tool}: " if fault.tool else ""
                words(brief(f"{about}{fault.message}", 600), "p", "error")
            for held in state.held[:MOST_SHOWN]:
                self._held(state, held)
            words(quantity(len(state.tools), "tool"), "p", "quiet small")
            with box("div", "row"):
                for tool in state.tools[:MOST_SHOWN]:
                    words(tool.name, "span", "mono")
            if state.prompts:
                words(quantity(len(state.prompts), "prompt"), "p", "quiet small")
                with box("div", "row"):
                    for prompt in state.prompts[:MOST_SHOWN]:
                        arguments = ", ".join([each.name for each in prompt.arguments])
                        words(brief(f"{prompt.name}({arguments})", 600), "span", "mono")

    def _held(self, state: McpServerState, held: McpDefinition) -> None:
        with box("div", "note stack"):
            words(f"{held.tool} has changed since it was called first, and is held back.", "p")
            folded(self._visit, "What the server says of it now", held.definition)
            with box("div", "row"):
                action("Accept", partial(self._accept, state.name, held.tool))

    async def _accept(self, server: str, tool: str) -> None:
        async def go() -> None:
            await self._visit.runtime.mcp.accept(self._agent.id, server, tool)
            await self._show()

        await self._visit.act(go(), "Accepted.")
