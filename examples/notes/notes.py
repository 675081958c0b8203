"""An MCP server on stdio that stores notes and asks before it deletes one. Uses the official SDK, not Toolwright."""

from typing import Annotated

from mcp.server.mcpserver import Elicit, ElicitationResult, MCPServer, Resolve
from mcp_types import ToolAnnotations
from pydantic import BaseModel

server = MCPServer("notes")
kept: dict[str, str] = {"tea": "The green one is in the second drawer."}


class Consent(BaseModel):
    """The answer to a deletion."""

    sure: bool


def consent(topic: str) -> Elicit[Consent]:
    """Ask whether the note can be deleted."""
    return Elicit(f"Delete the note on {topic}?", Consent)


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def find_note(topic: str) -> str:
    """Find a note by its topic."""
    return kept.get(topic, f"There is no note on {topic}. There are: {', '.join(kept) or 'none'}.")


@server.tool(annotations=ToolAnnotations(idempotent_hint=True))
def write_note(topic: str, text: str) -> str:
    """Write a note, replacing one on the same topic."""
    kept[topic] = text
    return f"Noted: {topic}."


@server.tool(annotations=ToolAnnotations(destructive_hint=True))
def delete_note(topic: str, answer: Annotated[ElicitationResult[Consent], Resolve(consent)]) -> str:
    """Delete a note after the user has agreed."""
    if answer.action != "accept" or not answer.data.sure:
        return f"The note on {topic} stays."
    kept.pop(topic, None)
    return f"The note on {topic} is gone."


if __name__ == "__main__":
    server.run()
