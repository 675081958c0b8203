"""Our tools that are passed to the frameworks."""

from pydantic import BaseModel, Field

import toolwright as tw

DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


class Place(BaseModel):
    """A place."""

    name: str
    rooms: int = Field(ge=1)


@tw.tool(read_only=True)
async def book(state: tw.ThreadState, place: Place, nights: list[int]) -> dict[str, object]:
    """Book a place."""
    return {"place": place.name, "nights": nights, "thread": state.thread_id}


@tw.tool
def fails(why: str) -> str:
    """Fail."""
    raise ValueError(f"It fails: {why}")


@tw.tool
async def draw() -> tw.ToolResult:
    """Draw a dot."""
    return tw.ToolResult.ok("A dot.", (tw.Attachment(name="dot.png", mime_type="image/png", data=DOT),))


TOOLS = tw.Toolset([book, fails, draw])
GOOD = {"place": {"name": "Inn", "rooms": 2}, "nights": [1, 2]}
BAD = {"place": {"name": "Inn", "rooms": 0}, "nights": ["one"]}
