"""Spaces."""

from toolwright.web.console.visit import Visit
from toolwright.web.console.widgets import heading, link, prose


async def draw_list(visit: Visit) -> None:
    heading("Spaces")
    for space in await visit.runtime.spaces.list(50):
        link(space.name or space.id, f"/spaces/{space.id}")
    link("x", "/spaces/x")


async def draw_room(visit: Visit, space_id: str) -> None:
    space = await visit.permits.space(visit.caller, space_id)
    heading(space.name or space.id)
    prose("<script>alert(1)</script> see https://example.org/x?a=1. ok\n```py\nprint(1)\n```\nend {{ 7*7 }}")
    link("back", "/")
